"""How a model is shown a conversation: items as runs of text and control tokens, a file for each family of models.

Pure. They know items and tools, never engines, vocabularies or transports.
"""
