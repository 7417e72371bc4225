"""What is true for every request, once: sockets, limits, auth, bodies, problems, the document."""
