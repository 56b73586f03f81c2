#!/usr/bin/env python3
"""Raw uint8 samples gathered into batches. Ceiling: memcpy of one core.

The bench itself is python/carya/_bench/rows.py, so that `carya bench raw` works from the wheel too.
"""

from carya._bench import main

if __name__ == "__main__":
    main("raw")
