"""Claude Code: where it keeps its memory, what it prints, how it is run; its hooks come later."""
