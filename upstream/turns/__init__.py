"""One turn: its request read and admitted, run by an engine, and written as events."""
