"""Requests to models and their replies: the providers' dialects, streams, messages, usage."""
