#!/usr/bin/env python3
"""What a sample costs beside a Python function in worker processes. Ceiling: the bare function; beside torch's DataLoader.

The bench itself is python/carya/_bench/functions.py, so that `carya bench functions` works from the wheel too.
"""

from carya._bench import main

if __name__ == "__main__":
    main("functions")
