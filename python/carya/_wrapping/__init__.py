"""Other libraries' loaders behind a thread and a bounded queue, measured (README.md)."""
