#!/usr/bin/env python3
"""MNIST-like samples. Ceiling: 2 million samples per second and core.

The bench itself is python/carya/_bench/rows.py, so that `carya bench small` works from the wheel too.
"""

from carya._bench import main

if __name__ == "__main__":
    main("small")
