"""Replays and measurements: drives the real commands as child processes and reports.

May import `upstream`, `state`, `wire` and `telemetry`; never `proxy`, which it starts as a user would.
"""
