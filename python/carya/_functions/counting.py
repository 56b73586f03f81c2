"""The pass over shards before the first batch: how many samples each has, and which of them filters keep."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._errors import InvalidArgument
from .._orders.chosen import fingerprint
from .._processes.transport import file_of
from .._stages.chain import Chain
from .._stages.source import Sharded, ShardEndedError
from .._stages.spec import StreamSpec
from .faults import Fault
from .faults import raised as raised_error

Array = np.ndarray[Any, Any]
_log = logging.getLogger("carya")


@dataclass
class Counted:
    """`lengths`: int64, samples of each shard. `kept`: bool, of each sample, one shard behind the other; None: all are."""

    lengths: Array
    kept: Array | None

    @property
    def digest(self) -> str:
        parts = [self.lengths] if self.kept is None else [self.lengths, self.kept.astype(np.int64)]
        return fingerprint(np.concatenate(parts))


def count_shards(
    spec: StreamSpec,
    ask: Callable[[list[tuple[Any, ...]]], list[Any]],
    tell: Callable[[tuple[Any, ...], int], None],
) -> Counted:
    """Looked up, or found by reading every shard once; then told to the workers.

    Errors: InvalidArgument, when nothing is left; the user's own, of a shard that cannot be begun.
    """
    of: Any = spec.dataset
    found, raised = counted(spec, ask)
    if not found.lengths.any():
        raise InvalidArgument(f"{of.label}: no shard has a sample; give a function that yields some")
    if found.kept is not None and not found.kept.any():
        raise InvalidArgument("filter: it keeps none of the samples; give a predicate that is true for some")
    kept = np.zeros(0, np.int64) if found.kept is None else found.kept.astype(np.int64)
    fd = file_of("shards", found.lengths, raised, kept)
    tell(("shards_are", len(found.lengths), len(raised), -1 if found.kept is None else len(kept)), fd)
    return found


def counted(
    spec: StreamSpec, ask: Callable[[list[tuple[Any, ...]]], list[Any]], part: int = -1
) -> tuple[Counted, Array]:
    """The same, told to nobody; and the records in whose places something was raised. `part`: its number in a mix.

    Errors: the user's own, of a shard that cannot be begun.
    """
    of: Any = spec.dataset
    found, raised = _known_before(spec, of.shards), np.zeros(0, np.int64)
    if found is None:
        answers = ask([("shard", shard, part) for shard in range(of.shards)])
        for shard, answer in enumerate(answers):
            if answer["fatal"] is not None:
                raise raised_error(answer["fatal"], f"shard {shard}")
        sizes = [answer["sizes"] for answer in answers]
        lengths = np.array([len(one) for one in sizes], np.int64)
        found = Counted(lengths, np.concatenate(sizes) > 0 if spec.filters else None)
        raised = np.array([fault.record for answer in answers for fault in answer["raised"]], np.int64)
        if not len(raised):  # else the next loader asks anew
            _keep(spec, found)
    return found, raised


def ask_shard(
    chain: Chain,
    of: Sharded,
    shard: int,
    at: Callable[[int], None],
    fault: Callable[[int, int, BaseException], Fault],
) -> dict[str, Any]:
    """In a worker: whether each sample of a shard is kept, to its end or to the length that it was given; and what was raised.

    `at(record)` is called before each. `fatal`: why it could not be read further, which says nothing about a sample.
    """
    kept, raised, fatal = bytearray(), [], None
    record = shard
    while fatal is None and (not of.known or of.has(record)):
        at(record)
        size = 1
        try:
            size = chain.size(record)
        except ShardEndedError:
            break
        except BaseException as error:  # also sys.exit
            raised.append(fault(0, record, error))
            fatal = raised[-1] if raised[-1].kind == "fatal" else None
        kept.append(size > 0)
        record += of.shards
    return {"sizes": np.frombuffer(kept, np.uint8), "raised": raised, "fatal": fatal}


def _known_before(spec: StreamSpec, shards: int) -> Counted | None:
    """What an earlier loader found; None when it was not of as many shards, or is damaged."""
    if not spec.survivors_path:
        return None
    import zipfile

    try:
        with np.load(spec.survivors_path, allow_pickle=False) as file:
            lengths = np.array(file["lengths"], np.int64)
            if lengths.shape != (shards,) or int(lengths.min()) < 0:
                return None
            kept = None
            if spec.filters:
                kept = np.unpackbits(file["verdicts"], count=int(lengths.sum())).astype(np.bool_)
            found = Counted(lengths, kept)
            return found if str(file["digest"]) == found.digest else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _keep(spec: StreamSpec, found: Counted) -> None:
    if not spec.survivors_path:
        return
    told = {} if found.kept is None else {"verdicts": np.packbits(found.kept)}
    write_kept(spec.survivors_path, lengths=found.lengths, digest=found.digest, **told)


def write_kept(path: str, **arrays: Any) -> None:
    """What a pass has found, for the next loader; a folder that cannot be written is logged."""
    import tempfile

    name = ""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), suffix=".npz", delete=False) as file:
            name = file.name
            np.savez(file, **arrays)
        os.replace(name, path)
    except OSError as error:
        _log.warning("what filters keep and sizes are not kept: %s; they are found anew by the next loader", error)
        with contextlib.suppress(OSError):
            os.unlink(name)
