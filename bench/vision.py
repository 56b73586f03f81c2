#!/usr/bin/env python3
"""Photos to batches beside the bound and, with --peers, beside other loaders. Ceiling: bench_limit.

The bench itself is python/carya/_bench/vision.py, so that `carya bench vision` works from the wheel too.
"""

from carya._bench import main

if __name__ == "__main__":
    main("vision")
