"""The rows of children and of batches."""
