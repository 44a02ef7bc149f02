"""Who may ask, for what, and how much: keys, model lists, limits of requests and tokens."""
