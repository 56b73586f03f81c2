#!/usr/bin/env python3
"""Import to first batch, listing and reopening a large folder. Ceiling: 120 ms, 15 s, 0.3 s.

The bench itself is python/carya/_bench/start.py, so that `carya bench start` works from the wheel too.
"""

from carya._bench import main

if __name__ == "__main__":
    main("start")
