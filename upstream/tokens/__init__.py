"""Vocabularies: text into token ids and back, offline, the same ids as the models were trained on.

They know nothing of items, requests or templates.
"""
