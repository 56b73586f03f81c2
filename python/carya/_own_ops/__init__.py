"""Operations of a user's own, compiled from C++ (README.md)."""
