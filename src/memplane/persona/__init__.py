"""One folder of markdown, the same on every machine."""
