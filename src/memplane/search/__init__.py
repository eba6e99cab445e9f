"""Text to ranked ids: words, scores, and an index that yields candidates."""
