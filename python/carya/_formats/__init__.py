"""Sources over kept libraries: records by index, read in worker processes."""
