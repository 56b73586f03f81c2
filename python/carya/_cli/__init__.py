"""The command `carya` (README.md)."""
