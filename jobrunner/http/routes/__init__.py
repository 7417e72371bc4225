"""The routes: one file a feature, with its structs, its handlers and its endpoints."""
