"""Logs, metrics and traces: one record per turn, no content.

May import `wire`; neither `proxy`, `upstream` nor `state`.
"""
