"""What may be called: one file a feature, with its handlers and its entries of the table."""
