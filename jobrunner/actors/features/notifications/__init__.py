"""Notifications on their way out: who sends them, in which lanes, signed with whose secret."""
