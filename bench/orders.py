#!/usr/bin/env python3
"""The order that the optimizer chooses beside the best of a measured sweep. Ceiling: the best legal order.

The bench itself is python/carya/_bench/orders.py, so that `carya bench orders` works from the wheel too.
"""

from carya._bench import main

if __name__ == "__main__":
    main("orders")
