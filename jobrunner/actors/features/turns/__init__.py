"""Reasons of its own to wait in line: rates, keys, and limits that operators change."""
