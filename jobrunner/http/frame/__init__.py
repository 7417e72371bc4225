"""The frame of every request: sockets, limits, auth, bodies, problems, the document."""
