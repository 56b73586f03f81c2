"""Ranges of objects that are read one by one, fetched many at a time."""

from __future__ import annotations

import io
import itertools
from collections import Counter, deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from typing import Any

from .objects import GAP_MAX, ListedObject, all_at_once, asking, stop_of_thread

Place = tuple[int, int, int]  # the number of an object, where a range begins and where it ends
_Block = tuple[int, int]  # the number of an object, and that of a block in it

_AT_ONCE_MAX = 8 << 20  # bytes that are fetched together; a range that is longer comes alone
_REQUEST_MAX = 2 << 20  # bytes of one of the requests for them: more of them come at the same time
BLOCK = 256 << 10
_BLOCKS_MAX = 64  # kept by a process
# What is wanted of a block, also before, for which it is read as a whole: so many ranges, or bytes in a few. Measured
# (bench/store_records.py): with a few alone, a shuffled epoch of lines of 100 B out of 190 blocks read 200 times their bytes.
_WANTED, _WANTED_BYTES, _A_FEW = 16, BLOCK // 8, 4
_FIRST = 64 << 10  # of an object that is read from its beginning on: enough to see what it is
_STREAMED = 2 << 20  # bytes of its other requests
_RUN_MAX = 16  # blocks that are read together, where each such run began at the end of the last one


class Fetched:
    """What is read next is told by `expect`; the first range that is not here brings those along that come next.

    Ranges near each other are one request, and up to 16 requests are under way. A block of which several ranges are wanted is read
    as a whole, and the last 64 are kept: so an order that stays in one part of the objects for a while takes a request for each
    block, and one that is all over them a request for each range. Memory: 24 MiB, and a range. Threads: one. It travels to other
    processes without what it has.
    """

    def __init__(self, files: Sequence[Any]) -> None:
        """`files`: by number. Ranges of those that are `ListedObject` are asked for."""
        self._objects: list[ListedObject] = list(files)
        self._forget()

    def _forget(self) -> None:
        self._coming = Counter[Place]()  # what was told, and how often
        self._turns: dict[Place, int] = {}  # in `_coming`
        self._left = Counter[Place]()  # how often each of them is still to be read
        self._ready: dict[Place, bytes] = {}  # what came along and is still to be read
        self._blocks: dict[_Block, bytes] = {}  # the one that was read last behind the others
        self._wanted: dict[_Block, tuple[int, int]] = {}  # of the last others: how many ranges were, and their bytes
        self._end: _Block = (-1, -1)  # behind the last run of blocks: it is next where reads follow each other
        self._run = 1

    def __getstate__(self) -> dict[str, Any]:
        return {"_objects": self._objects}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def expect(self, places: Sequence[Place]) -> None:
        """The ranges that are read next, in about this order, each as often as it is named. Nothing is fetched before one of them is
        read."""
        self._coming, self._left = Counter(places), Counter(places)
        self._turns = {place: turn for turn, place in enumerate(self._coming)}
        self._ready = {place: data for place, data in self._ready.items() if place in self._turns}

    def read(self, place: Place) -> bytes:
        """Errors: those of `ListedObject.read`, also of the ranges that come next."""
        data = self._ready.get(place)
        if data is None:
            data = self._of_blocks(place)
        if data is None:
            self._fetch(place)
            data = self._ready[place]
        if self._left[place]:
            self._left[place] -= 1
        if not self._left[place] or self._held() > _AT_ONCE_MAX:
            self._ready.pop(place, None)
        return data

    def _held(self) -> int:
        return sum(map(len, self._ready.values()))

    def _of_blocks(self, place: Place) -> bytes | None:
        """What lies in blocks that are here."""
        _, begin, end = place
        parts = []
        for block in _blocks_of(place):
            data = self._blocks.pop(block, None)
            if data is None:
                return None
            self._blocks[block] = data
            at = block[1] * BLOCK
            parts.append(data[max(begin - at, 0) : end - at])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _fetch(self, place: Place) -> None:
        """Into `_ready`: the range, and those that come next."""
        turn = self._turns.get(place)
        if turn is not None and not self._left[place]:  # all is read once more, as where a batch failed as a whole
            self._left = Counter(self._coming)
        wanted, size = [place], self._held() + place[2] - place[1]
        for one in itertools.islice(self._coming, turn + 1, None) if turn is not None else ():
            if self._left[one] and one not in self._ready:
                size += one[2] - one[1]
                if size > _AT_ONCE_MAX:
                    break
                wanted.append(one)
        blocks = self._worth_it(wanted)
        inside = [one for one in wanted if all(block in blocks or block in self._blocks for block in _blocks_of(one))]
        alone = sorted(set(wanted).difference(inside))
        runs, joined = self._runs(blocks), joined_ranges(alone, _REQUEST_MAX)
        found = self._asked([*runs, *joined])
        for (number, begin, end), data in zip(runs, found, strict=False):
            for at in range(begin, end, BLOCK):
                self._blocks[number, at // BLOCK] = data[at - begin : at - begin + BLOCK]
        at = 0
        for (number, begin, end), data in zip(joined, found[len(runs) :], strict=True):
            while at < len(alone) and (alone[at][0], alone[at][2]) <= (number, end):
                one = alone[at]
                self._ready[one] = data[one[1] - begin : one[2] - begin]
                at += 1
        for one in inside:
            there = self._of_blocks(one)
            assert there is not None
            self._ready[one] = there
        while len(self._blocks) > _BLOCKS_MAX:
            self._blocks.pop(next(iter(self._blocks)))

    def _worth_it(self, wanted: Sequence[Place]) -> set[_Block]:
        """The blocks that are read as a whole, of those that are not here."""
        found = set()
        for place in wanted:
            if place[2] - place[1] > BLOCK:
                continue
            for block in _blocks_of(place):
                if block not in self._blocks:
                    count, size = self._wanted.pop(block, (0, 0))
                    self._wanted[block] = count, size = count + 1, size + place[2] - place[1]
                    if count >= _WANTED or (count >= _A_FEW and size >= _WANTED_BYTES) or block == self._end:
                        found.add(block)
        for block in found:
            del self._wanted[block]
        while len(self._wanted) > _BLOCKS_MAX:
            self._wanted.pop(next(iter(self._wanted)))
        return found

    def _runs(self, blocks: set[_Block]) -> list[Place]:
        """Requests for blocks; for more of them where reads follow each other."""
        listed = sorted(blocks)
        if listed:
            self._run = min(2 * self._run, _RUN_MAX) if listed[0] == self._end else 1
            number, last = listed[-1]
            behind = -(-self._objects[number].size // BLOCK)
            ahead = listed[0][1] + self._run if listed[0][0] == number else 0  # not of the next object
            listed += [(number, block) for block in range(last + 1, min(ahead, behind))]
            self._end = number, listed[-1][1] + 1
        runs: list[Place] = []
        for number, block in listed:
            begin, end = block * BLOCK, min((block + 1) * BLOCK, self._objects[number].size)
            if runs and runs[-1][0] == number and runs[-1][2] == begin and end - runs[-1][1] <= _REQUEST_MAX:
                runs[-1] = number, runs[-1][1], end
            else:
                runs.append((number, begin, end))
        return runs

    def _asked(self, places: Sequence[Place]) -> list[bytes]:
        def ask(place: Place) -> bytes:
            return self._objects[place[0]].read(place[1], place[2] - place[1])

        return all_at_once(ask, places) if len(places) > 1 else [ask(place) for place in places]


class Streamed(io.RawIOBase):
    """An object from its beginning to its end, some requests ahead of who reads it; for as long as the thread that opened it goes on.

    `first`: what `first_of` gives. Memory: 2 MiB for each of `ahead`.
    """

    def __init__(self, listed: ListedObject, first: bytes, ahead: int) -> None:
        self._blocks = _blocks_in_turn(listed, first, ahead)
        self._block = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._block:
            self._block = memoryview(next(self._blocks, b""))
        out = memoryview(buffer).cast("B")
        size = min(len(out), len(self._block))
        out[:size] = self._block[:size]
        self._block = self._block[size:]
        return size

    def close(self) -> None:
        self._blocks.close()
        super().close()


def first_of(listed: ListedObject) -> bytes:
    """The beginning of an object. Errors: as of `ListedObject.read`."""
    return listed.read(0, min(_FIRST, listed.size)) if listed.size else b""


def _blocks_in_turn(listed: ListedObject, first: bytes, ahead: int) -> Generator[bytes, None, None]:
    yield first
    if len(first) == listed.size:
        return
    stop = stop_of_thread()
    coming = deque[Future[bytes]]()
    with asking(ahead) as threads:
        for begin in range(len(first), listed.size, _STREAMED):
            coming.append(threads.submit(listed.read, begin, min(_STREAMED, listed.size - begin), stop))
            if len(coming) == ahead:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


def _blocks_of(place: Place) -> list[_Block]:
    number, begin, end = place
    return [(number, block) for block in range(begin // BLOCK, max(begin, end - 1) // BLOCK + 1)]


def joined_ranges(places: Sequence[Place], most: int) -> list[Place]:
    """Requests for ranges, which are sorted: one of at most `most` bytes for those near each other.

    >>> joined_ranges([(0, 0, 10), (0, 70, 90), (0, 900_000, 900_001), (1, 0, 10)], 1 << 20)
    [(0, 0, 90), (0, 900000, 900001), (1, 0, 10)]
    """
    joined: list[Place] = []
    for number, begin, end in places:
        if joined and joined[-1][0] == number and begin - joined[-1][2] <= GAP_MAX:
            first, last = joined[-1][1], max(joined[-1][2], end)
            if last - first <= most or last == joined[-1][2]:
                joined[-1] = number, first, last
                continue
        joined.append((number, begin, end))
    return joined
