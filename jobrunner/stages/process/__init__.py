"""Stages in processes of their own: the host's side, the child's, the launcher and the wire."""
