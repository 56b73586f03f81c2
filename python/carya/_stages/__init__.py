"""What a user's Python functions and datasets are in a pipeline."""
