#!/usr/bin/env python3
"""The daemon beside embedded mode; attaching, waking, idling.

The bench itself is python/carya/_bench/daemon.py, so that `carya bench daemon` works from the wheel too.
"""

from carya._bench import main

if __name__ == "__main__":
    main("daemon")
