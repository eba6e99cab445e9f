"""The table of operations, and the client that calls them in this process or in another."""
