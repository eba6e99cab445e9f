"""Claude Code: where it keeps its memory, and later its hooks and plugin."""
