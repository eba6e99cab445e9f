"""Versioned bytes behind a key, in a folder or in a blob container."""
