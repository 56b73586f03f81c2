"""The processes that run a user's Python functions."""
