"""What is known of conversations: what is equal, and which head matches. Digests only, no content.

Pure but for its Redis part; may import `wire`, neither `proxy`, `upstream` nor `telemetry`.
"""
