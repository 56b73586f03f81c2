#!/usr/bin/env python3
"""Slot ready to tensors in Python's hands. Ceiling: 10 us, whatever the size; beside memcpy and a socket.

The bench itself is python/carya/_bench/handoff.py, so that `carya bench handoff` works from the wheel too.
"""

from carya._bench import main

if __name__ == "__main__":
    main("handoff")
