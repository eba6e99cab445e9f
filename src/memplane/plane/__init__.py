"""The plane: everything memplane does for an agent, in this process or in the one that owns it."""
