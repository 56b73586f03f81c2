"""Native operations behind a function: run by the same plans as those of a stream, on what the function returned."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._errors import InvalidArgument, SampleError
from .tree import as_leaf, flatten

# Pictures may all have shapes of their own: plans of so many are kept.
_PLANS_MAX = 64


# What is known of decoded audio, by field: "rate" (0: each file's own), and where it is so "spectrum", "power" and "length", as the
# key "sound" of an array in transforms/FORMAT.md has them.
Sounds = Mapping[str, Mapping[str, Any]]
# What operations change of it.
_CHANGES: dict[str, Callable[[Mapping[str, Any], str], dict[str, Any]]] = {
    "crop_audio": lambda _, field: {"length": f"{field}_length"},
    "pad_audio": lambda _, field: {"length": f"{field}_length"},
    "resample": lambda document, _: {"rate": document["rate"]},
    "spectrogram": lambda document, _: {"spectrum": "bins", "power": document.get("power", 2)},
    "mel_spectrogram": lambda *_: {"spectrum": "bins", "power": 0},
    "log_mel": lambda document, _: {"spectrum": "frames" if document["kind"] == "kaldi" else "bins", "power": 0},
    "mel_scale": lambda *_: {"power": 0},
    "mfcc": lambda *_: {"power": 0},
}
_ON_SOUNDS = _CHANGES.keys() | {"gain", "time_shift", "speed_perturb", "trim_silence", "spec_augment", "time_stretch"}

# Stages that choose and order records, and leave samples as they are.
_ORDERS = ("filter", "weighted", "bucket_by_length")
RESIZES = frozenset(("resize", "random_shortest_size"))
# Operations that move pixels, and those that boxes follow where they stand behind `boxes` in one piece.
MOVES = RESIZES | {
    "random_resized_crop", "random_sized_crop", "random_crop", "center_crop", "crop", "pad", "random_horizontal_flip",
    "random_vertical_flip", "rotate", "random_rotation", "affine", "random_affine", "scale_jitter",
}  # fmt: skip
_MOVE_BOXES = MOVES | {"random_zoom_out", "random_iou_crop", "sanitize_boxes"}


def sounds_behind(documents: Sequence[Mapping[str, Any]], encoded: Sequence[str], before: Sounds) -> Sounds:
    """What is known of sounds behind operations. `encoded`: fields of the source that are bytes of files."""
    sounds = dict(before)
    for document in documents:
        fields = document.get("fields")
        if document["op"] == "decode_audio":
            sounds |= {field: {"rate": document.get("rate") or 0} for field in fields or encoded}
        elif (changed := _CHANGES.get(document["op"])) is not None:
            sounds |= {
                field: {**sounds[field], **changed(document, field)} for field in fields or [*sounds] if field in sounds
            }
    return sounds


def fields_of_files(source: Mapping[str, Any]) -> list[str]:
    """The fields of a source's document that are bytes of files."""
    kind = source.get("type")
    if kind in ("files", "image_folder"):
        return [source.get("field") or "image", *(source.get("extra") or ())]
    named = source.get("fields" if kind == "webdataset" else "encoded")
    return [*(named or ())]


class NativeOps:
    """Operations at one place of a chain. `documents`: theirs (transforms/FORMAT.md); `number`: of the place, from 0."""

    def __init__(self, documents: Sequence[Mapping[str, Any]], number: int) -> None:
        self.documents, self.number = tuple(documents), number

    @property
    def __name__(self) -> str:
        return "+".join(name_of(document) for document in self.documents if document["op"] != "part")

    def __call__(self, *_: Any) -> Any:
        raise TypeError("operations are run by NativeRunner")

    @property
    def decodes(self) -> bool:
        """Whether it takes a record's bytes, which are an array of numbers to those that run on what a function returned."""
        return any(
            document["op"] == "transcode" or str(document["op"]).startswith("decode_") for document in self.documents
        )

    @property
    def on_sounds(self) -> bool:
        """Whether one of them takes decoded audio."""
        return any(document["op"] in _ON_SOUNDS for document in self.documents)

    def also(self, document: Mapping[str, Any]) -> NativeOps:
        """With one more operation behind them."""
        return NativeOps((*self.documents, document), self.number)


def name_of(document: Mapping[str, Any]) -> str:
    """An operation's name as users know it: one of their own has theirs."""
    return str(document["name"] if document["op"] == "user" else document["op"])


def by_source(source: Any, stages: Sequence[Any]) -> dict[int, Any]:
    """Of native stages that have nothing but filters, samplers and operations before them, by number, a source that gives what they
    make, where they take what no array says: a filter gives a sample on as it is, so that the record's bytes are bytes behind it,
    its sounds are sounds, and its boxes are boxes."""
    found: dict[int, Any] = {}
    documents: list[Mapping[str, Any]] = []
    for number, stage in enumerate(stages):
        if isinstance(stage.fn, NativeOps):
            documents += [part_mark(stage.fn.number), *stage.fn.documents]
            before = source.names_of_ops | {document["op"] for document in documents}
            if stage.fn.decodes or not before.isdisjoint(("boxes", "decode_audio")):
                found[number] = source.behind(documents)
        elif stage.kind not in _ORDERS:
            break
    return found


def part_mark(number: int) -> dict[str, Any]:
    """The entry of a document behind which operations have the random numbers of a place behind a function."""
    return {"op": "part", "number": number}


class NativeRunner:
    """Runs them in this process. Threads: one.

    Their random numbers are keyed as all native ones, by op, epoch and record, under a seed of the place (`part_mark`): the same
    operation before and behind a function draws different numbers. Plans are made for the dtypes and shapes that come.
    """

    def __init__(self, ops: NativeOps, seed: int) -> None:
        self._documents, self._label = [part_mark(ops.number), *ops.documents], ops.__name__
        self._seed = seed
        names = [str(name) for document in ops.documents for name in _names(document)]
        # The first operation that would leave boxes behind, as the part does not say itself what is a box.
        moving = [name for name in names if name in _MOVE_BOXES] if "boxes" not in names else []
        self._moves = moving[0] if moving else None
        self._resizes = set(moving) <= {"resize"}  # boxes as shares of the sides stay right then
        self._boxes = next((document for document in ops.documents if document["op"] == "boxes"), None)
        self.sounds: Sounds = {}  # which of the arrays are decoded audio, where the operations take some
        self._plans: dict[tuple[Any, ...], _core.Part] = {}

    def __call__(self, value: Any, place: tuple[int, int, int]) -> dict[str, Any]:
        """A dict of what the operations make of the arrays and numbers in `value`; what has no native form stays as it is.

        Errors: InvalidArgument (the operation, what it was given), SampleError of a picture that is bad data.
        """
        named = flatten(value)
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        for name, inner in named.items():
            leaf = as_leaf(inner)
            if isinstance(leaf, np.ndarray) and _is_native(leaf):
                arrays[name] = leaf if leaf.flags.c_contiguous else leaf.copy()
        if self.sounds:
            self._check_sounds(named, arrays)
        without_objects = self._boxes is not None and _none_filled_up(self._boxes, named, arrays)
        if not arrays:
            raise InvalidArgument(
                f"{self._label}: the sample has no array, only {', '.join(named) or 'nothing'}; return one, such as a decoded picture"
            )
        if self._moves is not None:
            _check_boxes(self._moves, self._resizes, arrays)
        key = tuple([(name, array.dtype, array.shape) for name, array in arrays.items()])
        plan = self._plans.get(key)
        if plan is None:
            plan = self._planned(key, arrays, without_objects)
        epoch, record, occurrence = place
        made: dict[str, Any] = plan.compute(list(arrays.values()), record, epoch, occurrence)
        if len(arrays) - without_objects < len(named):
            made |= {name: inner for name, inner in named.items() if name not in arrays}
        return made

    def _check_sounds(self, named: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Errors: InvalidArgument, SampleError: a function has made something else of a sound."""
        for name, sound in self.sounds.items():
            given = as_leaf(named[name]) if name in named else None
            if not isinstance(given, np.ndarray) or given.dtype.kind != "f":
                continue
            if given.size == 0:
                raise SampleError(
                    f"{self._label}: {name}: it has no samples; leave such records out, or pad them before"
                )
            if name not in arrays or not _fits(sound, given):
                shape = "(bins, frames)" if sound.get("spectrum") else "(samples,), or of (channels, samples)"
                raise InvalidArgument(
                    f"{self._label}: {name}: got {given.dtype} {given.shape} of the function before it; return float32 of {shape}, as it came"
                )

    def _planned(
        self, key: tuple[Any, ...], arrays: Mapping[str, np.ndarray[Any, Any]], without_objects: bool
    ) -> _core.Part:
        described: dict[str, dict[str, Any]] = {
            name: {"dtype": str(array.dtype), "shape": list(array.shape), "fingerprint": "0" * 32}
            for name, array in arrays.items()
        }
        for name, sound in self.sounds.items():
            if name in arrays and _fits(sound, arrays[name]):
                described[name]["sound"] = dict(sound)
        source = {"type": "arrays", "count": 1, "arrays": described}
        documents: Any = self._documents
        if without_objects:
            documents = [{**one, "count": [_count_of(one)]} if one["op"] == "boxes" else one for one in documents]
        pipeline = _core.Pipeline.parse(json.dumps({"version": 1, "source": source, "ops": documents}))
        if len(self._plans) >= _PLANS_MAX:
            self._plans.clear()
        plan = self._plans[key] = _core.Part(pipeline, self._seed)
        return plan


def _names(document: Mapping[str, Any]) -> list[str]:
    return [document["op"], *(name for one in document.get("ops") or () for name in _names(one))]


def check_rows_of_boxes(document: Mapping[str, Any], stages: Sequence[Any], of_user: bool) -> None:
    """Errors: InvalidArgument, where objects would be left out and their labels would stay: behind a function nothing tells which
    fields have a row for each box. `document`: an operation to append; `of_user`: whether samples are Python's from the start on."""
    if not of_user and all(stage.kind in ("native", *_ORDERS) for stage in stages):
        return
    boxes: Any = document
    if document["op"] != "boxes":
        before = [one for stage in stages if stage.kind == "native" for one in stage.fn.documents]
        boxes = next((one for one in before if one["op"] == "boxes"), None)
    elif document["invalid"] != "drop" and not document["truncate"]:
        return
    if boxes is not None and boxes["rows"] is None:
        who = {"boxes": "truncate" if document.get("truncate") else "invalid"}.get(document["op"], document["op"])
        raise InvalidArgument(
            f"boxes: rows: got None behind a function, and {who} leaves objects out, while nothing tells which fields have a row for each "
            f'box; name them, as .boxes(max_objects=100, rows=("labels",)), or give rows=() where there are none'
        )


def _count_of(boxes: Mapping[str, Any]) -> str:
    return f"{boxes['field']}_count"


def _none_filled_up(
    boxes: Mapping[str, Any], named: Mapping[str, Any], arrays: dict[str, np.ndarray[Any, Any]]
) -> bool:
    """Whether a sample has no objects. Then it gets one that does not count, since arrays without elements have no native form."""
    found = as_leaf(named.get(boxes["field"]))
    if not isinstance(found, np.ndarray) or found.shape != (0, 4) or boxes["count"] or _count_of(boxes) in named:
        return False
    for name in (boxes["field"], *(boxes["rows"] or ()), *(boxes["key_points"] or ())):
        of = as_leaf(named.get(name))
        if isinstance(of, np.ndarray) and of.ndim and not len(of):
            filled = np.zeros((1, *of.shape[1:]), of.dtype)
            if _is_native(filled):
                arrays[name] = filled
    arrays[_count_of(boxes)] = np.zeros((), np.int64)
    return True


def _check_boxes(moves: str, resizes: bool, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Errors: InvalidArgument: boxes would stay where they are while the picture is moved."""
    for name, array in arrays.items():
        if f"{name}_count" in arrays and array.dtype == np.float32 and array.ndim == 2 and array.shape[1] == 4:
            if resizes and 0 <= array.min() <= array.max() <= 1:
                continue
            raise InvalidArgument(
                f"{moves}: {name} would not follow the picture behind a function or a mix; put .{moves}(...), and all others that move "
                "pixels, right behind .boxes(), or let the function leave the boxes out"
            )


def _fits(sound: Mapping[str, Any], array: np.ndarray[Any, Any]) -> bool:
    if sound.get("spectrum"):
        return array.dtype == np.float32 and array.ndim == 2
    return array.dtype in (np.float32, np.int16) and array.ndim in (1, 2)


def _is_native(array: np.ndarray[Any, Any]) -> bool:
    dtype = array.dtype
    return dtype.kind in "biuf" and dtype.isnative and dtype.itemsize <= 8 and array.ndim <= 8 and array.size > 0
