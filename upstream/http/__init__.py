"""Requests over HTTP: one handler per path, and responses in the background."""
