"""What turns a pipeline into batches (README.md)."""
