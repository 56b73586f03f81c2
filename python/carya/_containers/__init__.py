"""Sources over files of records by readers of our own."""
