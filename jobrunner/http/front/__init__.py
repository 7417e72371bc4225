"""In front of the frame: submissions that wait for their turn as bytes, and prepared refusals."""
