"""The chain a user writes, and its source (README.md)."""
