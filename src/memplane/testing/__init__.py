"""Conformance suites, shipped for those who write another store or backend.

A suite is a class of tests. Subclass it in your own test module and provide the fixture it names.
It needs pytest and pytest-asyncio, which memplane itself does not install.
"""
