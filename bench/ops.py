#!/usr/bin/env python3
"""What each operation on pictures costs beside other libraries. Ceiling: copying the picture.

The bench itself is python/carya/_bench/ops.py, so that `carya bench ops` works from the wheel too.
"""

from carya._bench import main

if __name__ == "__main__":
    main("ops")
