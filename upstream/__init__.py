"""The shipped server and its engines, and the scripted upstream that tests and users run clients against.

May import `state`, `wire` and `telemetry`; never `proxy`.
"""
