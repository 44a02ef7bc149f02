"""Adapters between the server and what really generates, one file of I/O each beside the pure files it decides by.

They know `upstream.engine` and the items of a conversation, never events, transports or lanes.
"""
