"""The logical chain a user writes: source, views, shuffle, ops, batch. Immutable; every call returns a new one."""

from __future__ import annotations

import contextlib
import json
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._errors import InvalidArgument, IoError, NotFound, Permission, Unsupported, invalid
from .._explain.explanation import Explanation
from .._explain.stream import add_stream
from .._options import REORDERS, SPLIT, Reorder, choice, integer, named_arguments
from .._stages.functions import Functions
from .arrays import array_memory, arrays_document, file_arrays
from .audio_ops import check_logarithm
from .batch_functions import function_name
from .dataset import attach_job, cache_dir, open_dataset
from .document import Document, dump, plain, shared_epochs
from .one_by_one import Delivered, after_taking, asked_by_torch, draws, frozen
from .ops import Ops, for_masks
from .order import OrderHints, described
from .warp_ops import check_units_of_boxes, warn_of_what_is_rarely_meant

if TYPE_CHECKING:
    from typing_extensions import Self

    # Loaded by the first pipeline that has a function or a dataset of the user's: a quarter of the time of `import carya`.
    from .._stages.mix import MixSpec
    from .._stages.native import Sounds
    from .._stages.source import DatasetSpec, Sharded
    from .._stages.spec import StreamSpec
    from .._stages.stage import Stage

Array = np.ndarray[Any, Any]

# Lists longer than this are left out of the document that each further call checks: they were checked when they came
# in, and a million paths need not be parsed again for every op.
_LONG_LIST = 1000


# A source without operations, to check the parameters of a batch by themselves.
_COUNTED: Document = {
    "type": "arrays",
    "count": 1,
    "arrays": {"x": {"dtype": "uint8", "shape": [], "fingerprint": "0" * 32}},
}


class _Source:
    """What a pipeline reads from: the document's source, and the memory of an `arrays` source beside it.

    With `dataset` the records are a user's; the source of the document then only counts them.
    """

    __slots__ = ("arrays", "dataset", "document", "names", "opened", "slim")

    def __init__(
        self,
        document: Document,
        arrays: dict[str, Array] | None = None,
        dataset: DatasetSpec | MixSpec | Sharded | None = None,
        names: Sequence[str] = (),
    ) -> None:
        self.document = document
        self.names = tuple(names)  # of the classes, where files are listed here and their document has numbers only
        self.arrays = arrays
        self.dataset = dataset
        self.slim = _slim_source(document)
        self.opened: dict[str, _core.Dataset] = {}  # views as JSON -> dataset; shared by the pipelines of this source

    @property
    def mix(self) -> MixSpec | None:
        """What it is a mix of, if it is one."""
        if self.dataset is None:
            return None
        from .._stages.mix import MixSpec

        return self.dataset if isinstance(self.dataset, MixSpec) else None

    @property
    def sharded(self) -> Sharded | None:
        """The shards of an iterable, if it is one."""
        if self.dataset is None:
            return None
        from .._stages.source import Sharded

        return self.dataset if isinstance(self.dataset, Sharded) else None


def _slim_source(document: Document) -> Document:
    paths = document.get("paths")
    if document.get("type") != "files" or not isinstance(paths, list) or len(paths) <= _LONG_LIST:
        return document
    labels = document.get("labels")
    extra = document.get("extra") or {}
    return {
        **document,
        "paths": paths[:1],
        "labels": labels[:1] if isinstance(labels, list) else labels,
        "extra": {name: column[:1] for name, column in extra.items()},
    }


def _slim_view(view: Document) -> Document:
    indices = view.get("indices")
    return {**view, "indices": indices[:1]} if isinstance(indices, list) and len(indices) > _LONG_LIST else view


class Pipeline(Functions, Ops):
    """A chain of operations over a dataset. Made by `carya.image_folder`, `files`, `webdataset`, `tfrecord`, `mds`,
    `arrow`, `parquet`, `arrays`, `dataset` and the like.

    Immutable: every method returns a new pipeline, and every parameter is checked at once.

    >>> import carya
    >>> print(carya.image_folder("photos").shuffle(seed=1).decode_image())
    image_folder("photos")
        -> image uint8 (?), label int64 ()
    shuffle(seed=1)
    decode_image(mode="RGB", apply_exif=False)
        -> image uint8 (?, ?, 3), label int64 ()
    """

    __slots__ = ("_batch", "_lists", "_maps", "_native", "_ops", "_shuffle", "_source", "_stages", "_taken", "_views")

    _source: _Source
    _views: tuple[Document, ...]
    _shuffle: Document | None
    _ops: tuple[Document, ...]
    _batch: Document | None
    _maps: tuple[Callable[..., Any], ...]
    _stages: tuple[Stage, ...]  # Python functions, which run after the operations
    _lists: tuple[str, ...]  # fields that a batch has as lists
    _native: Any  # the core's, or what stands for it; made when it is asked for
    _taken: int | None  # random samples asked for by index; None: what there is to say was said

    def __init__(self) -> None:
        made_by = (
            "image_folder, files, webdataset, tfrecord, mds, arrow, hf_dataset, parquet, jsonl, csv, npy, npz, hdf5, lmdb, "
            "array_record, litdata, video, beton, lance, arrays, dataset or Pipeline.from_json"
        )
        raise TypeError(f"carya.Pipeline is made by carya.{made_by}")

    @classmethod
    def _start(cls, document: Document, arrays: dict[str, Array] | None = None) -> Self:
        _core.Pipeline.parse(dump({"version": 1, "source": document}))  # the whole source, once
        return cls._make(_Source(document, arrays), (), None, (), None, ())

    @classmethod
    def _of_dataset(cls, spec: DatasetSpec | MixSpec | Sharded) -> Self:
        counted = {"index": np.zeros(spec.count, np.uint8)}  # of which no page is ever touched
        return cls._make(_Source(arrays_document(counted), counted, spec), (), None, (), None, ())

    @classmethod
    def _make(
        cls,
        source: _Source,
        views: tuple[Document, ...],
        shuffle: Document | None,
        ops: tuple[Document, ...],
        batch: Document | None,
        maps: tuple[Callable[..., Any], ...],
        stages: tuple[Stage, ...] = (),
        lists: tuple[str, ...] = (),
    ) -> Self:
        self = object.__new__(cls)
        for name, value in zip(
            ("_source", "_views", "_shuffle", "_ops", "_batch", "_maps", "_stages", "_lists", "_native", "_taken"),
            (source, views, shuffle, ops, batch, maps, stages, lists, None, 0),
            strict=True,
        ):
            object.__setattr__(self, name, value)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("carya.Pipeline is immutable: its methods return a new pipeline")

    def _with(self, **changes: Any) -> Self:
        """A copy with some parts replaced, checked by the native parser."""
        parts: dict[str, Any] = {
            "views": self._views,
            "shuffle": self._shuffle,
            "ops": self._ops,
            "batch": self._batch,
            "maps": self._maps,
            "stages": self._stages,
            "lists": self._lists,
        }
        parts.update(changes)
        made = self._make(self._source, **parts)
        text = dump(made._document(slim=True))
        native = _core.Pipeline.parse(text)
        if made._source.slim is made._source.document and not any(_slim_view(view) is not view for view in made._views):
            object.__setattr__(made, "_native", made._standing_for(native))
        return made

    @property
    def has_functions(self) -> bool:
        """Whether Python functions make its samples, in worker processes."""
        return bool(self._stages) or self._source.dataset is not None

    @property
    def map_style(self) -> Any:
        """The object with `__len__` and `__getitem__` whose samples it reads; None of a native source and of a mix."""
        spec = self._source.dataset
        if spec is None:
            return None
        from .._stages.source import DatasetSpec

        return spec.dataset if isinstance(spec, DatasetSpec) else None

    def _started_by(self, start: Callable[[int], None]) -> Self:
        """The same, whose worker processes call `start(number)` first; it is no part of what the pipeline is."""
        from .._stages.stage import Stage

        return self._with(stages=(*self._stages, Stage("start", start)))

    def _ordered_by(self, order: Callable[[int], Any]) -> Self:
        """The same, whose order in an epoch is what `order(epoch)` says in the trainer: see `JobSpec.order`."""
        from .._stages.stage import Stage

        return self._with(stages=(*self._stages, Stage("order", order)))

    @property
    def _order(self) -> Callable[[int], Any] | None:
        return next((stage.fn for stage in self._stages if stage.kind == "order"), None)

    @property
    def _own_steps(self) -> bool:
        """Whether the steps of each epoch are its own, so that nothing is begun before it is asked for."""
        return any(stage.kind in ("order", "budget") for stage in self._stages)

    @property
    def _makes_batches(self) -> bool:
        """Whether a function makes each batch as a whole, so that its fields are the function's to know."""
        return any(stage.whole for stage in self._stages)

    def _standing_for(self, native: _core.Pipeline) -> Any:
        if not self.has_functions:
            return native
        from .._stages.surrogate import FunctionPipeline
        from .._traits.moves import Orders

        orders = Orders(None if self._source.dataset is not None else native, self._stages)
        return FunctionPipeline(native, self._stages, self._source.dataset, self._batch, self._lists, orders)

    def _document(self, slim: bool = False) -> Document:
        return {
            "version": 1,
            "source": self._source.slim if slim else self._source.document,
            "views": [_slim_view(view) for view in self._views] if slim else list(self._views),
            "shuffle": self._shuffle,
            "ops": list(self._ops),
            "batch": None if self.has_functions else self._batch,  # its samples are the functions' to know
        }

    @property
    def native(self) -> Any:
        """The parsed pipeline of the native module, or what stands for it. For the loaders."""
        if self._native is None:
            object.__setattr__(self, "_native", self._standing_for(_core.Pipeline.parse(dump(self._document()))))
        return self._native

    @property
    def _native_part(self) -> _core.Pipeline:
        """The native part: source, views and the operations before the functions."""
        native: _core.Pipeline = self.native.native if self.has_functions else self.native
        return native

    # Views and order ------------------------------------------------------------------------------------------------

    @named_arguments
    def subset(self, indices: Sequence[int] | Array) -> Self:
        """Only these records, in this order; record i of the result is record `indices[i]`. Before `shuffle`.

        Errors: InvalidArgument (negative index here; past the end when the dataset is opened).

        >>> import carya, numpy as np
        >>> p = carya.arrays({"x": np.arange(5)}).subset([4, 0])
        >>> int(p[0]["x"]), len(p)
        (4, 2)
        """
        listed = plain(indices)
        if not isinstance(listed, list):
            raise invalid("subset: indices", indices, "a list, range or array of record numbers")
        return self._with_view("subset", {"view": "subset", "indices": listed})

    @named_arguments
    def take(self, count: int) -> Self:
        """The first `count` records (all, if there are fewer). Before `shuffle`.

        >>> import carya, numpy as np
        >>> len(carya.arrays({"x": np.arange(5)}).take(3))
        3
        """
        return self._with_view("take", {"view": "take", "count": plain(count)})

    @named_arguments
    def split(self, fraction: float, *, seed: int = 0) -> tuple[Self, Self]:
        """Two disjoint parts of the records, chosen at random by `seed`: `fraction` of them, and the rest.

        >>> import carya, numpy as np
        >>> train, val = carya.arrays({"x": np.arange(10)}).split(0.8, seed=1)
        >>> len(train), len(val)
        (8, 2)
        """
        given: Any = fraction
        if isinstance(given, list | tuple) or np.ndim(given):
            raise invalid("split: fraction", given, SPLIT.removeprefix("give "))
        view = {"view": "split", "fraction": plain(fraction), "seed": plain(seed)}
        return self._with_view("split", {**view, "part": 0}), self._with_view("split", {**view, "part": 1})

    def _check_no_mix(self, name: str) -> None:
        """Errors: InvalidArgument, for what would change which record has which position."""
        if self._source.mix is not None:
            raise InvalidArgument(
                f"{name}: a mix says itself which pipeline has which position; call .{name}(...) on its pipelines"
            )
        of = self._source.sharded
        if of is None or name == "shuffle" or (name == "filter" and not of.endless):
            return
        if name == "filter":
            raise InvalidArgument(
                "filter: an iterable with samples= counts nothing before the first batch, and a filter has to; filter inside of its "
                "function, which may leave samples out"
            )
        cure = "let its function give those that are wanted, and lengths= say how many of each shard"
        if name in ("weighted", "balanced", "repeated"):
            cure = "let its function give them as often as they are wanted, or mix several iterables by weights"
        from .._stages.regroup import REGROUPS

        if name in REGROUPS:
            cure = "do it inside of its function, which may yield what it makes of several samples, or several of one"
        raise InvalidArgument(f"{name}: the samples of an iterable have no index; {cure}")

    def _with_view(self, name: str, view: Document) -> Self:
        self._check_no_mix(name)
        if self._shuffle is not None or self._batch is not None:
            raise InvalidArgument(f"{name}: comes after shuffle or batch; call .{name}(...) before .shuffle(...)")
        try:
            return self._with(views=(*self._views, view))
        except InvalidArgument as error:
            raise InvalidArgument(f"{name}: {error}") from None

    @named_arguments
    def shuffle(self, seed: int = 0) -> Self:
        """A new order of the records in every epoch, by a keyed permutation that needs no memory.

        `seed` also keys the random numbers of the ops; `Loader(seed=)` overrides it. Same seed, same stream.

        >>> import carya, numpy as np
        >>> p = carya.arrays({"x": np.arange(6)}).shuffle(seed=3).batch(6)
        >>> with carya.Loader(p) as loader:
        ...     sorted(next(iter(loader))["x"].tolist())
        [0, 1, 2, 3, 4, 5]
        """
        self._check_no_mix("shuffle")
        if self._shuffle is not None:
            raise InvalidArgument("shuffle: the pipeline is shuffled already; call .shuffle(...) once")
        if seed is None:
            raise invalid(
                "shuffle: seed", None, "an integer of 0 or more; for another order in each run, draw one and note it"
            )
        if self._batch is not None:
            raise InvalidArgument("shuffle: comes after batch; call .shuffle(...) before .batch(...)")
        return self._with(shuffle={"seed": plain(seed)})

    @named_arguments
    def batch(
        self,
        batch_size: int | None = None,
        *,
        global_size: int | None = None,
        drop_last: bool = False,
        pad_last: bool = False,
        lists: str | Sequence[str] = (),
        collate: Callable[[list[Any]], Any] | None = None,
        tokens: int | None = None,
        length: str | Callable[[Any], int] | Sequence[int] | np.ndarray[Any, Any] | None = None,
        max_rows: int = 1024,
        padded: bool = True,
    ) -> Self:
        """Group records into batches: `batch_size` per rank, `global_size` over all ranks, or by `tokens`. `len(pipeline)` stays
        the number of records; `len(loader)` is that of batches.

        The last step of an epoch may have fewer records: `drop_last` drops it, `pad_last` keeps full shapes with
        `valid=False` in the rows that hold nothing, neither gives shorter arrays. No rank is ever without a row: where
        fewer records than ranks are left, each of the others repeats one of them, with `valid=False`.

        Of pipelines with Python functions or a dataset: `lists` names fields whose values differ in shape, of which the batch has a
        list; text and other objects are lists by themselves. `collate(samples)` makes the batch of the list of samples in place of
        all that, in a worker process, and what it returns is yielded: a dict of arrays or tensors, or anything else.

        `tokens`: each batch takes the next records in their order as long as rows times the longest of them (rounded up as
        `pad_sequences` does, if it pads the field; with `padded=False` the sum of lengths) stays within, and `max_rows`. `length` is as in
        `bucket_by_length`, whose lengths count where it comes before. Where a batch ends follows from order and lengths alone; in a step
        each rank has the next batch, and a state goes on at any world size and with another budget. `len(loader)` is of the present
        epoch, `drop_last` drops a last step in which a rank has no batch, `pad_last` gives each batch `max_rows` rows. Nothing is
        made ahead across epochs. A substitute of `on_error="replace"` has a length of its own.
        Errors: InvalidArgument (none or several sizes, below 1, both tails, an output whose shape is not known; when a loader is made, a
        record of more than `tokens`).

        >>> import carya, numpy as np
        >>> carya.arrays({"x": np.arange(5)}).batch()
        Traceback (most recent call last):
        ...
        carya.InvalidArgument: batch: batch_size: got None; give a number of records per rank, or global_size=
        """
        if self._batch is not None:
            raise InvalidArgument("batch: the pipeline has a batch already; call .batch(...) once")
        if batch_size is None and global_size is None and tokens is None:
            raise invalid("batch: batch_size", None, "a number of records per rank, or global_size=")
        if tokens is not None:
            from .._stages.regroup import with_budget

            self = with_budget(self, batch_size, global_size, tokens, length, max_rows, padded)
            batch_size = max_rows
        elif length is not None or max_rows != 1024 or not padded:
            name, value = (
                ("length", length) if length is not None else ("max_rows", max_rows) if padded else ("padded", padded)
            )
            raise invalid(f"batch: {name}", value, "tokens= beside it, the budget of a batch")
        stages = self._stages
        if collate is not None:
            from .._stages.stage import made

            stages = (*stages, made("collate", collate))
        names = (lists,) if isinstance(lists, str) else tuple(lists)
        functions = bool(stages) or self._source.dataset is not None
        if names and (collate is not None or not functions or not all(isinstance(name, str) for name in names)):
            raise invalid(
                "batch: lists", lists, "names of fields, of a pipeline with functions or a dataset, without collate="
            )
        if collate is not None and any(stage.kind == "pad_sequences" and stage.whole for stage in self._stages):
            raise invalid(
                "batch: collate", collate, "pad_sequences(..., to=...) before it, or let one of both form the batch"
            )
        names += self._padded
        for name, _, shape in [] if functions else self.outputs:
            if None in shape:
                if name in self._source.document.get("arrays", ()):
                    raise InvalidArgument(
                        f"batch: {name} has no fixed shape yet ({_shape(shape)} per sample); records have different numbers of "
                        "rows: add .boxes() behind .decode_image()"
                    )
                decoded = any(op["op"] == "decode_audio" for op in self._ops)
                if decoded or name == "audio":
                    raise InvalidArgument(
                        f"batch: {name} has no fixed shape yet ({_shape(shape)} per sample); "
                        f"{'' if decoded else 'decode it by .decode_audio(rate=16000), and '}give all clips one length: "
                        "add .crop_audio(seconds=...) or .pad_audio(seconds=...)"
                    )
                raise InvalidArgument(
                    f"batch: {name} has no fixed shape yet ({_shape(shape)} per sample); decode it and bring it to "
                    "one size first, for example by .resize((224, 224)) or .random_resized_crop(224)"
                )
        batch = {
            "batch_size": plain(batch_size),
            "global_size": plain(global_size),
            "drop_last": plain(drop_last),
            "pad_last": plain(pad_last),
        }
        if functions:
            _core.Pipeline.parse(dump({"version": 1, "source": _COUNTED, "batch": batch}))  # only the numbers
        if tokens is not None:
            batch["tokens"] = plain(tokens)
        return self._with(batch=batch, stages=stages, lists=names)

    def map_batch(self, fn: Callable[[Any], Any]) -> Self:
        """Call `fn(batch)` on every yielded batch, in the trainer's process; what it returns is yielded.

        After `batch`. A pipeline with Python functions cannot be written as JSON.

        >>> import carya, numpy as np
        >>> p = carya.arrays({"x": np.arange(4)}).batch(4).map_batch(lambda batch: batch["x"].sum())
        >>> with carya.Loader(p) as loader:
        ...     [int(total) for total in loader]
        [6]
        """
        if self._batch is None:
            raise InvalidArgument("map_batch: comes before batch; call .batch(...) first")
        if not callable(fn):
            raise invalid("map_batch: fn", fn, "a function of one batch")
        return self._with(maps=(*self._maps, fn))

    def barrier(self) -> Self:
        """No operation passes this place: what is written before it runs before what is written after it.

        It changes no bit of what is written; `keep_position=True` and `depends_on=[...]` of an operation hold single ones.

        >>> import carya
        >>> p = carya.image_folder("photos").decode_image().color_jitter(0.4).barrier().random_crop(224).batch(8)
        >>> p.explain()["order"]
        ['decode_image', 'color_jitter', 'random_crop']
        """
        if self._batch is not None:
            raise InvalidArgument("barrier: comes after batch; call .barrier() before .batch(...)")
        if self._stages:
            from .._stages.stage import held

            return self._with(stages=held(self._stages))
        if self.has_functions:
            return self  # operations on samples of a dataset run as they are written
        return self._with(ops=(*self._ops, {"op": "barrier"}))

    def reuse_augmentation(self, epochs: int | Mapping[int, int]) -> Self:
        """The operations before this place draw the same random numbers for a record in `epochs` epochs that follow each other.

        In epoch e they have the numbers of epoch e - e mod `epochs`; operations behind this place have those of e. So an augmentation
        comes back `epochs` times, and what is behind differs all the same. A schedule `{0: 5, 30: 2, 60: 1}` has groups of 5 epochs,
        from epoch 30 on of 2, and from 60 on each by itself. It is part of the stream: of its bits, its fingerprint, and states. What
        is before this place can be kept for so many epochs (`Loader(cache=)`). A substitute of `on_error="replace"` draws by its
        position too, which differs in each epoch. Once, before `batch`, and before the first Python function; with `epochs=1` it
        changes nothing.

        >>> import carya
        >>> p = carya.image_folder("photos").decode_image().resize((40, 40)).random_horizontal_flip().reuse_augmentation(epochs=3)
        >>> print(p.random_crop(32))
        image_folder("photos")
            -> image uint8 (?), label int64 ()
        decode_image(mode="RGB", apply_exif=False)
            -> image uint8 (?, ?, 3), label int64 ()
        resize(size=[40, 40], interpolation="bilinear", antialias=True)
            -> image uint8 (40, 40, 3), label int64 ()
        random_horizontal_flip(p=0.5)
        reuse_augmentation(epochs=3)
        random_crop(size=[32, 32], pad_if_needed=False, fill=[0], padding_mode="constant")
            -> image uint8 (32, 32, 3), label int64 ()
        """
        if self._batch is not None:
            raise InvalidArgument(
                "reuse_augmentation: comes after batch; call .reuse_augmentation(...) before .batch(...)"
            )
        # An order of records is no function.
        if self._source.dataset is not None or any(stage.kind != "weighted" for stage in self._stages):
            raise InvalidArgument(
                "reuse_augmentation: comes after a Python function, whose random numbers are its own; call it before the first one"
            )
        return self._with(ops=(*self._ops, {"op": "reuse_augmentation", "epochs": shared_epochs(epochs)}))

    def _with_op(self, op: str, order: OrderHints, **parameters: Any) -> Self:
        if self._batch is not None:
            called = "op" if op == "user" else op
            raise InvalidArgument(f"{called}: comes after batch; call .{called}(...) before .batch(...)")
        parameters = for_masks(parameters, self._source)
        document = described(op, parameters, order)
        warn_of_what_is_rarely_meant(op, parameters, self._all_ops(), self._source.document.get("extra") or ())
        if op == "boxes":
            check_units_of_boxes(parameters, self._source.arrays or {})
        if op == "mfcc":
            check_logarithm(parameters["fields"], self._ops_of_what_is_here())
        # An order of records is no function: operations behind it are still the first ones on a sample of a native source.
        if self._source.dataset is not None or any(stage.kind != "weighted" for stage in self._stages):
            if op in ("boxes", "sanitize_boxes", "random_iou_crop"):
                from .._stages.native import check_rows_of_boxes

                check_rows_of_boxes(document, self._stages, self._source.dataset is not None)
            return self._append_native(document, draws((document,)))
        made = self._with(ops=(*self._ops, document))
        if op == "normalize":
            self._check_normalize(parameters)
        return made

    def _check_normalize(self, parameters: Mapping[str, Any]) -> None:
        """Errors: InvalidArgument for what is allowed and never meant: twice, or means of 0..255 for values of 0..1."""
        fields = set(parameters["fields"] or ["image"])
        for op in self._ops:
            twice = fields & set(op.get("fields") or ["image"]) if op["op"] == "normalize" else None
            if twice:
                raise InvalidArgument(
                    f"normalize: {min(twice)} is normalized already; use one .normalize(...), "
                    "or .subtract_mean(...) and .scale(...) for what comes after it"
                )
        mean = parameters["mean"] if isinstance(parameters["mean"], list) else [parameters["mean"]]
        of_bytes = any(dtype == "uint8" for name, dtype, _ in self.outputs if name in fields)
        if of_bytes and max(mean) > 2:
            raise invalid(
                "normalize: mean", max(mean),
                f"it in units of 0..1, so {max(mean) / 255:.4g} in place of {max(mean)}, and std likewise (uint8 is divided "
                'by 255 first), or put .to_dtype("float32") before it, which keeps 0..255',
            )  # fmt: skip

    def _all_ops(self) -> list[Document]:
        """The operations, those behind functions too."""
        behind: list[Any] = [stage.fn for stage in self._stages if stage.kind == "native"]
        return [*self._ops, *(one for ops in behind for one in ops.documents)]

    def _ops_of_what_is_here(self) -> list[Document]:
        """The operations since the source, or since a function that may have made something else of the sample."""
        found = list(self._ops)
        for stage in self._stages:
            if stage.kind == "native":
                ops: Any = stage.fn
                found += ops.documents
            elif stage.kind not in ("filter", "weighted", "bucket_by_length"):
                found = []
        return found

    def _sounds(self) -> Sounds:
        """What is known of the sounds that its samples have."""
        from .._stages.native import fields_of_files, sounds_behind

        sounds = sounds_behind(self._all_ops(), fields_of_files(self._source.slim), {})
        if any(stage.kind == "map" for stage in self._stages):  # which may have made sounds of another rate
            return {name: {**sound, "rate": 0} for name, sound in sounds.items()}
        return sounds

    # Looking at it --------------------------------------------------------------------------------------------------

    @property
    def outputs(self) -> list[tuple[str, str, tuple[int | None, ...]]]:
        """(name, dtype, shape of one sample) after the last op; None in a shape is known only per sample.

        >>> import carya, numpy as np
        >>> carya.arrays({"x": np.zeros((5, 2), np.uint8)}).outputs
        [('x', 'uint8', (2,))]
        """
        if self.has_functions:  # of a first sample, made here; a dtype of None is an object
            leaves = self.sample(0)
            return [
                (n, str(v.dtype), v.shape) if isinstance(v, np.ndarray) else (n, "object", ())
                for n, v in leaves.items()
            ]
        found: list[tuple[str, str, tuple[int | None, ...]]] = self.native.outputs()
        return found

    def __repr__(self) -> str:
        lines: list[str] = []
        shown: list[_core.TensorFacts] = []
        for text, tensors in self.native.lines():
            lines.append(text)
            if tensors and tensors != shown:
                lines.append("    -> " + ", ".join(_facts(*tensor) for tensor in tensors))
                shown = tensors
        if self.has_functions and self._batch is not None:
            given = [f"{name}={value!r}" for name, value in self._batch.items() if value]
            after = [
                stage.label for stage in self._stages if stage.whole and stage.kind not in ("collate", "pad_sequences")
            ]
            lines = [line for line in lines if line not in after] + [f"batch({', '.join(given)})", *after]
        return "\n".join(lines + [f"map_batch({function_name(fn)})" for fn in self._maps])

    def to_json(self) -> str:
        """The pipeline document (transforms/FORMAT.md): canonical text, equal for equal pipelines.

        Errors: InvalidArgument naming the function when there is a `map_batch`.
        """
        if self._maps:
            raise InvalidArgument(
                f"to_json: map_batch({function_name(self._maps[0])}) is a Python function and has no JSON form; "
                "write the pipeline before .map_batch(...) and add the function after reading it"
            )
        text: str = self.native.to_json()
        return text

    @classmethod
    def from_json(cls, text: str | bytes, *, arrays: Mapping[str, Any] | None = None) -> Self:
        """The pipeline of a document. `arrays` hands over the memory of an `arrays` source. (A pickle of a pipeline brings its own.)

        Errors: InvalidArgument (the document is hostile until checked; unknown keys are named).

        >>> import carya
        >>> p = carya.image_folder("photos").decode_image().resize((8, 8)).batch(2)
        >>> carya.Pipeline.from_json(p.to_json()).to_json() == p.to_json()
        True
        """
        if not isinstance(text, str | bytes):
            raise invalid("from_json: text", text, "the text that to_json() wrote")
        try:
            native = _core.Pipeline.parse(text if isinstance(text, bytes) else text.encode())
        except UnicodeEncodeError:
            raise invalid("from_json: text", text, "the text that to_json() wrote, in UTF-8") from None
        document = json.loads(native.to_json())
        memory = None
        if arrays is not None:
            source = document["source"]
            if source["type"] == "files":
                memory, described = file_arrays(arrays, len(source["paths"]))
                given = {**source, "arrays": described}
            elif source["type"] == "ranges":
                memory = array_memory(arrays)
                given = {**source, **arrays_document(memory), "type": "ranges"}
            else:
                memory = array_memory(arrays)
                given = arrays_document(memory)
            if source != given:
                raise InvalidArgument(
                    "from_json: the arrays given are not those of the document (names, dtypes, shapes or bytes "
                    "differ); give the same arrays that the pipeline was written with"
                )
        return cls._make(
            _Source(document["source"], memory),
            tuple(document["views"]),
            document["shuffle"],
            tuple(document["ops"]),
            document["batch"],
            (),
        )

    def explain(
        self, reorder: Reorder = "exact", *, data: str | os.PathLike[str] | Pipeline | None = None
    ) -> Explanation:
        """In which order a loader with this `reorder` begins to run the operations, what each costs, and why.

        By what earlier loaders of these operations measured on this machine (`CARYA_CACHE_DIR`), where there were any. A dict
        that prints as a text and draws itself (`.svg()`). Keys: `declared`, `order` (names; "name#1" is the second so called);
        `indices` (the order by declared places); `declared_us`, `us` (CPU time of one sample by the cost model); `best` (the
        cheapest order by it: `order`, `indices`, `us`); `relaxed` (the same of what a loader with `reorder="relaxed"` would run,
        where that saves 5 % or more; else None); `proven` (no legal order is cheaper); `assumed` (operations that nobody
        measured here); `declared_ops`, `ops` (in either order: `op`, `text`, `us`, `bytes_in`, `bytes_out`, `fused` with the
        operation before, and of the cost its `source`, "measured", "shared" or "assumed", `samples`, `age_s`); `stages`
        (operations by pass); `sizes` (of a mean record); `measured` (orders that ran); `moves` (which `op` runs before which it
        `passes`, `saved_us`, `at_least`); `fusions`; `alternatives` (orders within 20 %: `order`, `us`, `loss`, `text`);
        `parallelism` (`threads`, `cores`); `stream` (as `Loader.explain()` says, of an earlier loader); `reorder`; `same_bits` (the order gives the bits of what is written);
        `difference`: where it does not, how far the results lie apart, measured over 32 records: `records`, `broken`
        (left out), `tensors` (by name: `mean` and `max` of the absolute difference in the tensor's units, `psnr` in dB, None
        when nothing differs). The records are those of `data`, a folder of photos or a pipeline whose source has the same
        fields; else the pipeline's own where they can be read; else `difference` is None.
        With Python functions: up to 8 samples are made here, functions and all, and tell what each function costs and whether what
        is said of it is so. They are rows of `ops`, and `functions` has of each: `name`, `us` (CPU) and `wall_us` of a sample,
        `share`, `samples`, `bytes_in`, `bytes_out`, what is `said`, `found` (by trait: `tried`, `against`, the counter-example),
        `moves` past it with `saved_us`, and what `could_pass` if it were elementwise. An operation has its `place`: "native" or "worker".
        Errors: InvalidArgument (more operations than the planner takes; `data` that does not fit), those of reading `data`;
        Unsupported, for `data` beside Python functions.

        >>> import carya, numpy as np
        >>> p = carya.image_folder("photos").decode_image().color_jitter(0.4, hue=0.1).random_crop(224).batch(8)
        >>> p.explain()["order"]
        ['decode_image', 'random_crop', 'color_jitter']
        >>> pictures = np.arange(4 * 64 * 64 * 3, dtype=np.uint8).reshape(4, 64, 64, 3)
        >>> p = carya.arrays({"image": pictures}).equalize().resize((16, 16)).batch(4)
        >>> report = p.explain("relaxed")
        >>> report["order"], report["same_bits"], report["difference"]["records"]
        (['resize', 'equalize'], False, 4)
        """
        sense = choice("reorder", reorder, REORDERS)
        if self.has_functions:
            return self._explained_functions(sense, data)
        order = self.native.fixed_order(sense)
        running = list(range(len(self.native.op_labels()))) if sense == "off" else order
        planned = sense if order or sense == "off" else "exact"
        report = Explanation(json.loads(self.native.explain(cache_dir(), running, planned)))
        report |= {"reorder": sense, "same_bits": not order, "difference": None}
        add_stream(report, None)
        if not order:
            return report
        from .difference import measure

        if data is not None:
            report["difference"] = measure(self._over(data), order)
        else:
            with contextlib.suppress(NotFound, Permission, IoError):
                report["difference"] = measure(self, order)
        return report

    def _explained_functions(self, sense: Reorder, data: object) -> Explanation:
        """With the costs of functions and what samples say of their traits. Errors: Unsupported."""
        from .._traits.moves import moved
        from .._traits.report import explained
        from .difference import measure_chains

        if data is not None:
            raise Unsupported(
                "explain: data: got it for a pipeline with Python functions; leave it out: its own records are taken"
            )
        spec = self._stream_spec(None)
        report = Explanation(explained(spec, sense, cache_dir()))
        # Filters have their say first: where nothing else is a function, native threads make the stream.
        native = spec.dataset is None and all(
            stage.kind in ("filter", "weighted") for stage in spec.stages if stage.kind != "native"
        )
        report["parallelism"]["kind"] = "thread" if native else "worker process"
        add_stream(report, None)
        if not report["same_bits"]:
            runs = moved(spec, sense)
            report["difference"] = measure_chains(spec.chain(spec.open()), runs.chain(runs.open()), spec.records)
        return report

    def _over(self, data: str | os.PathLike[str] | Pipeline) -> Pipeline:
        """The same operations over another source."""
        document = {"type": "image_folder", "path": os.fspath(data)} if not isinstance(data, Pipeline) else None
        source = data._source if isinstance(data, Pipeline) else _Source(document or {})
        views = data._views if isinstance(data, Pipeline) else ()
        made = self._make(source, views, self._shuffle, self._ops, self._batch, ())
        if [output[:2] for output in made.outputs] != [output[:2] for output in self.outputs]:
            raise invalid("explain: data", _facts(*made.outputs[0]), "a source with the fields of the pipeline's own")
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self._views, self._shuffle, self._ops, self._batch, self._maps, self._stages, self._lists)
        if self._source.dataset is not None:
            return _rebuild_dataset, (self._source.dataset, parts)
        return _rebuild, (self._source.document, self._source.arrays, parts, self._source.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pipeline):
            return NotImplemented
        return self._maps == other._maps and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self._key(), self._maps))

    def _key(self) -> tuple[Any, ...]:
        own = (
            (self.native.fingerprint("raise"), self._batch and tuple(self._batch.items())) if self.has_functions else ()
        )
        return (self._native_part.to_json(), *own)

    # Samples --------------------------------------------------------------------------------------------------------

    def open(self, *, verify: bool = False, threads: int = 0) -> _core.Dataset:
        """Open the source anew and apply the views. `verify` checks every file's size and time.

        Errors: NotFound, Permission, IoError, InvalidArgument.
        """
        key = dump({"source": {}, "views": list(self._views)})
        dataset = open_dataset(self._native_part, self._source.document, self._source.arrays, verify, threads)
        self._source.opened[key] = dataset
        return dataset

    def attach(self, daemon: _core.DaemonOptions, options: _core.JobOptions, defer_release: bool) -> _core.Job:
        """A job that a daemon makes, its memory sent along; with the progress of a long listing."""
        return attach_job(self.native, self._source.document, self._source.arrays, daemon, options, defer_release)

    @property
    def dataset(self) -> _core.Dataset:
        """The dataset with the views applied, opened once and then kept."""
        key = dump({"source": {}, "views": list(self._views)})
        return self._source.opened.get(key) or self.open()

    @property
    def class_names(self) -> list[str]:
        """Names of the classes; index = label. Empty when labels have no names, and behind `from_json` where files were listed by
        `audio_folder` or in a bucket."""
        return [*self._source.names] or self.dataset.class_names

    @property
    def labels(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The label of each record after the views, int64 of shape (records,): of the source, so that no record is read.

        -1 where a record has none, or one that is no integer. Errors: Unsupported of a source whose records have no label.
        """
        found = None if self._source.mix is not None else self.dataset.labels
        if found is None:
            raise Unsupported(
                "labels: records of this source have none that is known before they are read; give .balanced(labels) the class of each"
            )
        return found

    def address(self, index: int) -> dict[str, Any]:
        """Where record `index` is: path, member, offset, bytes, label."""
        return self.dataset.address(self._checked(index))

    def __len__(self) -> int:
        """Number of records, after the views; also after `batch`, where `len(loader)` is the number of steps.

        Errors: Unsupported of a pipeline with `filter`, `flat_map` or `pack`: a loader knows it, `len(loader)`, when it has asked.
        """
        of = self._source.sharded
        if of is not None and not of.known and not of.endless:
            raise Unsupported(
                "len: an iterable has no length until a loader has counted it; use len(loader), or give carya.iterable(..., lengths=)"
            )
        mix = self._source.mix
        if mix is not None and mix.filtered:
            raise Unsupported(
                f"len: how many samples .filter(...) of pipeline {mix.filtered[0]} keeps is known when a loader has asked; use len(loader)"
            )
        counting = [stage.kind for stage in self._stages if stage.kind in ("filter", "flat_map", "pack")]
        if counting:
            raise Unsupported(
                f"len: how many samples .{counting[0]}(...) makes is known when a loader has asked; use len(loader)"
            )
        drawn: Any = next((stage.fn for stage in self._stages if stage.kind == "weighted"), None)
        return self.dataset.count if drawn is None else int(drawn.positions(self.dataset.count))

    def __bool__(self) -> bool:
        """True, whatever its length: `if validation:` asks whether there is one, and lists no folder for it."""
        return True

    def __getitem__(self, index: int) -> dict[str, Array]:
        """One sample by record index, with its randomness for epoch 0. For looking at it; who trains with samples asks for
        `sample(i, epoch=epoch)`.

        Warns once when a pipeline of random operations is read through twice so, or by a worker of a torch DataLoader: the
        augmentation is that of epoch 0 each time. Errors: Unsupported, where a DataLoader itself asks.
        """
        if draws(self._ops):
            if asked_by_torch(1):
                raise frozen("DataLoader(pipeline, batch_size=None)")
            if self._taken is not None:
                object.__setattr__(self, "_taken", after_taking(self._taken, len(self)))
        return self.sample(index)

    def __getitems__(self, indices: Sequence[int]) -> Any:
        """What a torch DataLoader asks for. Errors: Unsupported where it would get the same augmentation in every epoch."""
        if isinstance(indices, Delivered):
            return indices.batch
        if draws(self._ops):
            raise frozen("DataLoader(pipeline)")
        return [self.sample(index) for index in indices]

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """The samples of epoch 0, as `pipeline[i]` gives them."""
        if self._source.sharded is not None:
            return self._in_turn(len(self))
        drawn = any(stage.kind == "weighted" for stage in self._stages)
        return (self[index] for index in range(self.dataset.count if drawn else len(self)))

    def _in_turn(self, count: int) -> Iterator[dict[str, Array]]:
        """Samples that have an order and no index."""
        spec = self._stream_spec(None)
        source: Any = spec.open()
        chain = spec.chain(source)
        for position in range(count):
            (record,), _ = source.rows(0, position, 1)
            yield chain.leaves(chain.sample(record, 0))

    def sample(self, index: int, *, epoch: int = 0, seed: int | None = None) -> dict[str, Array]:
        """Compute one sample exactly as a loader would deliver it in `epoch`. Arrays are its own memory.

        `index` is the number that `batch.records` shows. `seed`: None takes the pipeline's. Behind `flat_map` it is the first
        sample of the record, and behind `pack` a row of this record alone.
        Errors: IndexError, SampleError (the record is broken), IoError, NotFound.

        >>> import carya, numpy as np
        >>> carya.arrays({"x": np.arange(3) * 10}).sample(2, epoch=3)["x"].item()
        20
        """
        epoch = integer("sample: epoch", epoch, 0, "an integer of 0 to 2^62")
        if seed is not None:
            seed = integer("sample: seed", seed, 0, "an integer of 0 to 2^64 - 1, or None", 2**64 - 1)
        if not self.has_functions:
            return _core.sample(self.native, self.dataset, self._checked(index), epoch, seed)
        spec = self._stream_spec(seed)
        chain = spec.chain(spec.open())
        return chain.leaves(chain.sample(self._checked(index), epoch))

    def _stream_spec(self, seed: int | None) -> StreamSpec:
        """What processes that run the functions are told."""
        from .._stages.spec import StreamSpec

        source = self._source
        shuffled = (self._shuffle or {}).get("seed", 0)
        return StreamSpec(
            native=self._native_part.to_json(),
            order=[],
            cache_dir=cache_dir(),
            seed=int(shuffled) if seed is None else seed,
            shuffle=self._shuffle is not None,
            stages=tuple(stage for stage in self._stages if stage.kind != "order"),
            dataset=source.dataset,
            arrays=None if source.dataset is not None else source.arrays,
            count=self.dataset.count,
            lists=self._lists,
            workers=1,
            function_timeout=None,
            rss_max=None,
            has_ops=bool(self._ops),
            views=bool(self._views),
        )

    def _checked(self, index: int) -> int:
        try:
            number = operator.index(index)
        except TypeError:
            raise invalid("record", index, "one record number; several are .subset([...]) or .take(n)") from None
        of = self._source.sharded
        if of is not None:
            if not of.has(number):
                raise IndexError(f"record {number}: there is no {of.where(number)}; give sample * {of.shards} + shard")
            return number
        mix = self._source.mix
        count = sum(mix.mix.spans) if mix is not None else self.dataset.count
        if not -count <= number < count:
            raise IndexError(f"record {number} of {count}: give 0 to {count - 1}")
        return number % count


def _rebuild(
    document: Document, arrays: dict[str, Array] | None, parts: tuple[Any, ...], names: tuple[str, ...] = ()
) -> Pipeline:
    return Pipeline._make(_Source(document, arrays, names=names), *parts)


def _rebuild_dataset(spec: DatasetSpec | MixSpec | Sharded, parts: tuple[Any, ...]) -> Pipeline:
    return Pipeline._make(Pipeline._of_dataset(spec)._source, *parts)


def _facts(name: str, dtype: str, shape: tuple[int | None, ...]) -> str:
    return f"{name} {dtype} {_shape(shape)}"


def _shape(shape: tuple[int | None, ...]) -> str:
    return f"({', '.join('?' if side is None else str(side) for side in shape)})"
