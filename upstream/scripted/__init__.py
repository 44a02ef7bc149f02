"""An upstream that plays given answers, shows given faults, and rebuilds the context of every turn.

It serves tests, `deltawire replay` and whoever wants to see how a client takes a fault. May import `state` and `wire`.
"""

from upstream.scripted.answers import answer, events_of, function_call, message, reasoning, response_object
from upstream.scripted.check import Mismatch, check_context, compare, difference
from upstream.scripted.connection import Connection
from upstream.scripted.script import Accept, Play, Script
from upstream.scripted.server import Call, Reply, ScriptedUpstream
from upstream.scripted.turn import ContextItem, Turn

__all__ = [
    "Accept",
    "Call",
    "Connection",
    "ContextItem",
    "Mismatch",
    "Play",
    "Reply",
    "Script",
    "ScriptedUpstream",
    "Turn",
    "answer",
    "check_context",
    "compare",
    "difference",
    "events_of",
    "function_call",
    "message",
    "reasoning",
    "response_object",
]
