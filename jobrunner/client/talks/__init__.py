"""The conversations, by what they are about; each is a function of what the caller wants."""
