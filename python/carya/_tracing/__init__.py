"""Traces: what a stream does over time, in files that Perfetto opens."""
