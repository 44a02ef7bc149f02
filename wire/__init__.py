"""The words on the wire, pure: splitting of bodies, items, events, errors and SSE framing.

Imports nothing of the project; knows neither sockets nor loops.
"""
