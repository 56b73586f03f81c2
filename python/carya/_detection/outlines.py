"""The pixels of objects, from outlines and run lengths as COCO writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid

Array = np.ndarray[Any, Any]
SIDE_MAX = 1 << 15  # of a picture
_PIXELS_MAX = 1 << 28
_FINE = 5  # outlines are walked on a grid that is five times as fine as the pixels; Source: pycocotools
_FAR = 1 << 16  # pixels; an outline may lie beyond the picture
_STEPS_MAX = 1 << 25  # of one outline on the fine grid


def checked_size(where: str, height: Any, width: Any) -> tuple[int, int]:
    """Errors: InvalidArgument that names `where` (sides that are no integers of 1 to SIDE_MAX, too many pixels)."""
    sound = all(type(side) is int and 1 <= side <= SIDE_MAX for side in (height, width))
    if not sound or height * width > _PIXELS_MAX:
        raise invalid(
            where, (height, width), f"a height and a width of 1 to {SIDE_MAX}, and at most {_PIXELS_MAX} pixels"
        )
    return height, width


def object_mask(where: str, given: Any, height: int, width: int) -> Array:
    """The pixels of a "segmentation" of COCO: (height, width) bool.

    Outlines (a list of lists x, y, x, y, ...) are joined; run lengths go down the columns, as a list of numbers or as a text.
    Errors: InvalidArgument that names `where` (an outline of fewer than three corners, numbers that are not finite, run lengths that
    are not of this picture). Reference: pycocotools.mask; exact.
    """
    if isinstance(given, Mapping):
        size = given.get("size")
        if not isinstance(size, Sequence) or isinstance(size, str | bytes) or list(size) != [height, width]:
            raise invalid(f"{where}: size", size, f"that of the picture, {[height, width]}")
        return runs_mask(f"{where}: counts", run_lengths(f"{where}: counts", given.get("counts")), height, width)
    if not isinstance(given, list) or not given:
        raise invalid(where, given, "a list of outlines, or run lengths with their size")
    mask: Array = np.zeros((width, height), np.bool_).T  # columns one behind the other, as those of each outline
    for outline in given:
        mask |= outline_mask(where, outline, height, width)
    return mask


def outline_mask(where: str, given: Any, height: int, width: int) -> Array:
    """The pixels inside of one outline x, y, x, y, ..., by the rule of even and odd: (height, width) bool."""
    try:
        corners = np.array(given, np.float64)
    except (TypeError, ValueError, OverflowError):
        corners = np.zeros(0)
    if corners.ndim != 1 or len(corners) < 6 or len(corners) % 2 or not (np.abs(corners) < _FAR).all():
        raise invalid(where, given, "outlines of three corners x, y or more, of finite numbers")
    fine = (_FINE * corners.reshape(-1, 2) + 0.5).astype(np.int64)  # towards zero, as a cast of C
    if np.abs(fine - np.roll(fine, -1, axis=0)).sum() > _STEPS_MAX:
        raise invalid(where, f"{len(fine)} corners", f"outlines of at most {_STEPS_MAX // _FINE} pixels around")
    x, y = _walked(fine)
    # Where the walk enters another column of the fine grid; of those, the ones in the middle of a column of pixels.
    steps = np.flatnonzero(x[1:] != x[:-1]) + 1
    column = np.where(x[steps] < x[steps - 1], x[steps], x[steps] - 1)
    column = (column + 0.5) / _FINE - 0.5
    row = np.minimum(y[steps], y[steps - 1])
    row = np.ceil(np.clip((row + 0.5) / _FINE - 0.5, 0, height)).astype(np.int64)
    taken = (column == np.floor(column)) & (column >= 0) & (column <= width - 1)
    # Each is a place, down the columns, from which pixels are inside where they were outside, and the other way round. A closed
    # outline has an even number of them in each column, so that nothing is inside before the first and behind the last.
    turns = column[taken].astype(np.int64) * height + row[taken]
    mask = np.zeros((width, height), np.bool_)
    if len(turns):
        first, last = turns.min() // height, min(turns.max() // height + 1, width)
        counts = np.bincount(turns - first * height, minlength=(last - first) * height)[: (last - first) * height]
        odd = np.cumsum(counts, dtype=np.uint8) & 1  # a sum that is cut off to 8 bits stays odd or even
        mask[first:last] = odd.reshape(-1, height)
    inside: Array = mask.T
    return inside


def _walked(corners: Array) -> tuple[Array, Array]:
    """Each point of the closed outline, one step along the longer side of each edge at a time."""
    begin, end = corners, np.roll(corners, -1, axis=0)
    across = np.abs(end - begin)
    steps = across.max(axis=1)
    wide = across[:, 0] >= across[:, 1]
    # An edge is walked upwards along its longer side and then turned round, so that both directions give the same points.
    turned = np.where(wide, begin[:, 0] > end[:, 0], begin[:, 1] > end[:, 1])
    low, high = np.where(turned[:, None], end, begin), np.where(turned[:, None], begin, end)
    counts = steps + 1
    edge = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts)
    place = np.where(turned[edge], steps[edge] - place, place)
    longer, shorter = np.where(wide, 0, 1), np.where(wide, 1, 0)
    at = np.arange(len(counts))
    rise = high[at, shorter] - low[at, shorter]
    slope = np.divide(rise, steps, out=np.zeros(len(steps)), where=steps > 0)
    along = low[at, longer][edge] + place
    aside = (low[at, shorter][edge] + slope[edge] * place + 0.5).astype(np.int64)
    return np.where(wide[edge], along, aside), np.where(wide[edge], aside, along)


def run_lengths(where: str, given: Any) -> Array:
    """Run lengths of pixels outside and inside by turns, as int64: of a list, or of COCO's text.

    In the text each number is in digits of six bits, "0" for 0, the lowest five first; 32 says that another digit follows, 16 of
    the last one that it is negative. From the fourth number on it is the difference to the one two places before.
    Errors: InvalidArgument that names `where` (other characters, a number that is cut off or of more than 64 bits).
    """
    if isinstance(given, list):
        if not all(type(one) is int and 0 <= one <= _PIXELS_MAX for one in given):
            raise invalid(where, given, "integers of 0 or more")
        return np.array(given, np.int64)
    if not isinstance(given, str):
        raise invalid(where, given, "a list of run lengths, or a text of COCO")
    lengths: list[int] = []
    value, shift = 0, 0
    for character in given:
        digit = ord(character) - 48
        if not 0 <= digit < 64 or shift > 30:
            raise invalid(where, given, "a text of COCO's run lengths")
        value |= (digit & 31) << shift
        shift += 5
        if not digit & 32:
            value -= (1 << shift) if digit & 16 else 0
            lengths.append(value + (lengths[-2] if len(lengths) > 2 else 0))
            value, shift = 0, 0
    if shift or not all(0 <= one <= _PIXELS_MAX for one in lengths):
        raise invalid(where, given, "a text of COCO's run lengths")
    return np.array(lengths, np.int64)


def runs_mask(where: str, lengths: Array, height: int, width: int) -> Array:
    """The pixels of run lengths down the columns: (height, width) bool. Errors: InvalidArgument (another sum)."""
    if lengths.sum() != height * width:
        raise InvalidArgument(f"{where}: they are {lengths.sum()} pixels; give those of the picture, {height * width}")
    inside = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    mask: Array = inside.reshape(width, height).T
    return mask
