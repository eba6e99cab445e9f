"""Between an agent and its provider: memory goes in, and what was said is recorded."""
