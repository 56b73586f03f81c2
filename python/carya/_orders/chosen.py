"""Which records a native stream goes through, and how often, as its document says it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .draws import Draws
    from .repeated import Repeats

Array = np.ndarray[Any, Any]


def with_records(document: str, kept: Array | None, draws: Draws | Repeats | None) -> tuple[str, dict[str, Array]]:
    """The document of a pipeline whose streams go through these records, and the numbers that go beside it, by name.

    `kept`: the records that filters keep, rising; None: all. `draws`: how they come; None: each once.

    >>> text, numbers = with_records("{}", np.array([1, 4]), None)
    >>> json.loads(text)["records"]["kept"]["count"], numbers
    (2, {':kept': array([1, 4], dtype=uint64)})
    """
    records: dict[str, Any] = {}
    numbers: dict[str, Array] = {}
    if kept is not None:
        numbers[":kept"] = np.ascontiguousarray(kept, np.uint64)
        records["kept"] = {"count": len(kept), "fingerprint": fingerprint(numbers[":kept"])}
    if draws is not None:
        described, beside = draws.described()
        records |= described
        numbers |= beside
    return (json.dumps(json.loads(document) | {"records": records}) if records else document), numbers


def fingerprint(numbers: Array) -> str:
    """32 hexadecimal digits of the bytes: what tells records, sizes or weights apart from others."""
    return hashlib.blake2b(numbers.tobytes(), digest_size=16).hexdigest()
