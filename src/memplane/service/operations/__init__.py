"""The rows of the table of operations, one module for each group."""
