"""What providers' APIs call things: one module for each, and a table of them by path."""
