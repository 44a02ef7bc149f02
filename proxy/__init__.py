"""The sidecar: reads a client's turn, matches it, plans, sends, relays, commits.

May import `state`, `wire` and `telemetry`; never `upstream`. The composition root `proxy.cli` alone may import
everything.
"""
