"""Why a pipeline runs as it does (README.md)."""
