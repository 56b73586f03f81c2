"""Sources that can only be iterated: shards, each with an iterator of samples."""
