"""A worker that was started by exec, since its host could not be forked."""

from __future__ import annotations

import mmap
import os
import sys

from .._stages.randomness import make_global_random_lazy
from . import worker
from .opening import open_payload
from .processes import end_with_parent
from .start import channel_of


def main(link: int, dump: int, cells: int, number: int, host: int) -> None:
    """The worker in place `number`: until its host closes the link."""
    end_with_parent(host)
    for fd in (link, dump, cells):
        os.set_inheritable(fd, False)
    make_global_random_lazy()
    channel = channel_of(link)
    got = channel.receive()
    if got is None:
        return
    opened = open_payload(*got, dump)
    size = 8 * worker.CELLS
    mapped = mmap.mmap(cells, os.fstat(cells).st_size)
    own = memoryview(mapped)[number * size : (number + 1) * size].cast("q")
    spec = opened.spec if opened.source is not None else opened.again()
    worker.serve(channel, spec, opened.source or spec.open(), own, dump, number)
    sys.stdout.flush()
