#!/usr/bin/env python3
"""cedar's and Pecan's pipelines beside what the seeds took, in turns. Ceiling: the other side times the bar of its row.

The bench itself is python/carya/_bench/seeds.py, so that `carya bench seeds` works from the wheel too.
"""

from carya._bench import main

if __name__ == "__main__":
    main("seeds")
