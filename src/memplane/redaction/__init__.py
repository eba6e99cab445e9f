"""Secrets out of text, before the text is written anywhere."""
