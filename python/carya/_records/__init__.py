"""Records of every format with all that they hold, one by one: for looking at them, and for writing them elsewhere."""
