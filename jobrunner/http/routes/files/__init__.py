"""Files: on their way in, in one request or in pieces, and on their way out."""
