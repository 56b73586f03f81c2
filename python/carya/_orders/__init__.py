"""Which record stands at which position: pure functions."""
