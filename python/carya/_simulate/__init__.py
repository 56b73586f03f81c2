"""Scenarios of remote workers and their plots (README.md)."""
