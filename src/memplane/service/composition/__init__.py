"""The one place that chooses implementations. Nothing below it reads settings.

Each part is a module of its own, so that a command loads only what it puts together.
"""
