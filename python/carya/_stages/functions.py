"""Python functions in a pipeline: `map`, `filter`, `flat_map`, `map_batches`, and what is like them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import InvalidArgument, invalid
from .._options import named_arguments

if TYPE_CHECKING:
    from typing_extensions import Self

    # Loaded by the first pipeline that has a function: a quarter of the time of `import carya`.
    from .mixing import Mixing
    from .stage import Stage


class Functions:
    """The part of a pipeline that runs functions in worker processes."""

    __slots__ = ()

    _ops: tuple[dict[str, Any], ...]
    _stages: tuple[Stage, ...]
    _batch: dict[str, Any] | None
    _maps: tuple[Callable[..., Any], ...]

    def _with(self, **changes: Any) -> Self:
        raise NotImplementedError

    def _check_no_mix(self, name: str) -> None:
        raise NotImplementedError

    @property
    def labels(self) -> np.ndarray[Any, Any]:
        raise NotImplementedError

    @named_arguments
    def map(
        self,
        fn: Callable[..., Any],
        *,
        fields: str | Sequence[str] | None = None,
        out: str | Sequence[str] | Mapping[str, tuple[Any, Sequence[int]]] | None = None,
        version: object = None,
        seed_globals: bool = True,
        elementwise: bool = False,
        deterministic: bool = False,
        shape_preserving: bool = False,
        commutes_with: str | Sequence[str] = (),
    ) -> Self:
        """Call `fn` on every sample, in worker processes; what it returns is the sample. Before `batch`.

        Without `fields` it gets the whole sample and returns a whole one: a dict of names, a tuple, a dataclass, one value. With
        `fields` it gets their values one by one, and what it returns (a tuple, where there are several) takes their places, or
        those that `out` names; the others stay. Values are numpy arrays, numbers, or any object; arrays that come from memory
        or a file are read-only. `out` may also map names to dtype and shape, which every sample is then checked for; else the
        first sample says what all have to be like.

        A parameter `rng` of `fn` gets a `numpy.random.Generator` that is keyed by seed, epoch and record: use it, and the
        stream does not depend on workers, ranks or restarts. `random`, `numpy.random` and torch's generator are seeded from the
        same key before each call, unless `seed_globals=False`.

        The code of `fn`, its defaults and what it closes over belong to the fingerprint that a state is checked for; `version`
        stands in place of them. Functions of modules are imported by the workers; lambdas and those of scripts and notebooks
        travel by value, with cloudpickle. An exception of `fn` is raised by the loader, with its type, the worker's traceback
        and the record; `Loader(on_error=)` may replace or mask such records.

        What is said of `fn` lets operations pass it, with the same bits: `elementwise` (each element or pixel of an array is computed
        from the one at its place, so that crops and flips run before it), `commutes_with` (names of operations that may change
        places with it: those that make arrays larger, as casts, run behind it, others before it), `shape_preserving` (arrays keep
        their shapes, which an operation of `commutes_with` with random numbers needs), `deterministic` (it draws nothing: no generator is
        seeded for it). `explain` and the start of a loader try it on samples, and refuse what is not so with a counter-example.

        >>> import carya, numpy as np
        >>> p = carya.arrays({"x": np.arange(4.0)}).map(np.square, fields="x").batch(4)
        >>> with carya.Loader(p, threads=1) as loader:
        ...     [batch["x"].tolist() for batch in loader]
        [[0.0, 1.0, 4.0, 9.0]]
        """
        self._check_before_batch("map")
        from .stage import checked_traits

        said = checked_traits(fn, elementwise, deterministic, shape_preserving, commutes_with)
        return self._append("map", fn, fields=fields, out=out, version=version, seed_globals=seed_globals, said=said)

    @named_arguments
    def label(
        self,
        fn: Callable[..., Any],
        *,
        fields: str | Sequence[str] | None = None,
        version: object = None,
        seed_globals: bool = True,
    ) -> Self:
        """What `fn` returns is the sample's field `label`; a label that is there is replaced, all else stays. Before `batch`.

        Samples are dicts. `fn` gets the sample, or with `fields` their values one by one. A label is a number, an array, a text
        or any object, as a field that `map` makes; `version`, `seed_globals` and a parameter `rng` as in `map`.

        >>> import carya, numpy as np
        >>> p = carya.dataset([{"name": "cat 1"}, {"name": "dog 7"}]).label(lambda name: len(name), fields="name").batch(2)
        >>> with carya.Loader(p, threads=1) as loader:
        ...     [batch["label"].tolist() for batch in loader]
        [[5, 5]]
        """
        from .mixing import Labelled, LabelledByNumbers
        from .stage import function_name, takes_rng

        self._check_before_batch("label")
        if fields is not None or not callable(fn):
            return self._append("map", fn, fields=fields, out="label", version=version, seed_globals=seed_globals)
        labelled = (LabelledByNumbers if takes_rng(fn) else Labelled)(fn)
        if version is not None:
            version = (function_name(fn), version)
        return self._append("map", labelled, version=version, seed_globals=seed_globals)

    def tokenize(self, tokenizer: Any, field: str = "text", *, out: str = "ids") -> Self:
        """Token ids of the text in `field`, int32 [n], as `out` in its place, in worker processes. Before `batch`.

        Samples are dicts, as those of `carya.text`, `jsonl`, `parquet` and `hf_dataset`; their other fields stay. `tokenizer`: a
        `carya.Tokenizer`, or what one is made of, such as the path of a tokenizer.json. Behind it `pack` makes rows
        of equal length, `pad_sequences` and `bucket_by_length` batches with little padding. The bytes of the tokenizer's file
        belong to the fingerprint that a state is checked for.

        >>> import carya
        >>> p = carya.text("corpus/*.txt").tokenize("gpt2/tokenizer.json").pack(1024, "ids").batch(8)  # doctest: +SKIP
        """
        from .._text.tokenizer import Tokenized, Tokenizer

        self._check_before_batch("tokenize")
        if not isinstance(tokenizer, Tokenizer):
            tokenizer = Tokenizer(tokenizer)
        for name, given in (("field", field), ("out", out)):
            if not isinstance(given, str) or not given:
                raise invalid(f"tokenize: {name}", given, "the name of a field")
        version = f"tokenize 1 {field} {out} {tokenizer.version}"
        return self._append("map", Tokenized(tokenizer, field, out), version=version, seed_globals=False)

    @named_arguments
    def filter(
        self,
        pred: Callable[..., Any],
        *,
        fields: str | Sequence[str] | None = None,
        version: object = None,
        seed_globals: bool = True,
    ) -> Self:
        """Only the records for which `pred(sample)` is true. Before `batch`.

        Which they are is found before the first batch, by calling `pred` once for every record, with what comes before it in the
        pipeline; the verdicts are kept in the cache folder. So length, order, ranks and resume are exact, and `pred` must depend
        on nothing but what it is given. Where operations on the records draw before it, such as `random_crop`, it is asked of what
        they draw in epoch 0 under the seed of the stream: all epochs have the same records, though it might be false for what
        later ones draw. Put it before them where it is not to depend on that. Functions with `rng`, and operations behind a
        function, may not draw before it. `fields`, `version` and `seed_globals` as in `map`.

        >>> import carya, numpy as np, operator
        >>> p = carya.arrays({"x": np.arange(6)}).filter(operator.truth, fields="x").batch(6)
        >>> with carya.Loader(p, threads=1) as loader:
        ...     [batch["x"].tolist() for batch in loader]
        [[1, 2, 3, 4, 5]]
        """
        self._check_asked_before("filter")
        return self._append("filter", pred, fields=fields, version=version, seed_globals=seed_globals)

    @named_arguments
    def flat_map(self, fn: Callable[..., Any], *, version: object = None, seed_globals: bool = True) -> Self:
        """Each record becomes the samples that `fn(sample)` returns as a list, or yields: none, one or many. Before `batch`.

        How many each record has is found before the first batch, by calling `fn` once for every record, and kept in the cache
        folder. So length, order, ranks and resume are exact, and the number must depend on nothing but the record; contents may
        draw (`rng` as in `map`). The samples of a record stand side by side in the order of records, which `shuffle` permutes;
        a process makes them with one call where it has the whole record, and calls `fn` again where a chunk ends within one.
        Functions and operations may follow; each sample has random numbers of its own. `batch.records` has its record.

        >>> import carya
        >>> p = carya.dataset([(1, 2), (), (3,)]).flat_map(list).batch(8)
        >>> with carya.Loader(p, threads=1) as loader:
        ...     [(batch["value"].tolist(), batch.records.tolist()) for batch in loader]
        [([1, 2, 3], [0, 0, 2])]
        """
        self._check_asked_before("flat_map", rng=True)
        return self._append("flat_map", fn, version=version, seed_globals=seed_globals)

    @named_arguments
    def bucket_by_length(
        self,
        length: str | Callable[[Any], int] | Sequence[int] | np.ndarray[Any, Any],
        *,
        window: int = 4096,
        group: int = 64,
    ) -> Self:
        """Put samples of like length next to each other, in groups of `group`, so that little of a batch is padding. Before `batch`.

        The order of records is cut into windows of `window`; each is sorted by length and cut into groups, and with `shuffle` the
        groups of a window are shuffled. All of it depends on seed, epoch and lengths only, on no batch size and no rank: states,
        ranks and resumes are as free as without it. Give a global batch size that `group` is a multiple of, or the other way round.

        `length`: the name of a field (its first side, or the length of a text), a function of a sample, or a number for each record,
        which saves the pass: otherwise it is found before the first batch, once for every record, and kept in the cache folder.
        Functions with `rng`, and operations behind a function, may not draw before it then; where operations on the records do, all
        epochs have the lengths that these draw in epoch 0 under the seed of the stream, which others are then near to.

        >>> import carya, numpy as np
        >>> p = carya.dataset([{"x": np.arange(n)} for n in (5, 1, 4, 2)]).bucket_by_length("x", window=4, group=2)
        >>> with carya.Loader(p.pad_sequences("x").batch(2), threads=1) as loader:
        ...     [batch["x_length"].tolist() for batch in loader]
        [[1, 2], [4, 5]]
        """
        from .regroup import checked_bucket
        from .stage import Stage

        one = checked_bucket(length, window, group)
        self._check_asked_before("bucket_by_length", rng=one.lengths is not None)
        return self._with(stages=(*self._stages, Stage("bucket_by_length", one, seed_globals=False)))

    @named_arguments
    def pack(
        self,
        length: int,
        fields: str | Sequence[str],
        *,
        lengths: Sequence[int] | np.ndarray[Any, Any] | None = None,
        value: float | Mapping[str, float] = 0,
        best_fit: int | None = None,
    ) -> Self:
        """Fill rows of `length` elements with samples, one behind the other; one that does not end in a row goes on in the next.

        A row has the packed `fields`, whose first sides are as long as each other (length, ...), and int32 (length,) `segment`: 1 for
        the first sample in it, 2 for the next, 0 for what is filled up with `value`, without `best_fit` at the end of the epoch only; and `position`:
        the place within its sample. Other fields are left out. With `shuffle` other samples share a row in each epoch. What is in
        a row depends on seed, epoch and lengths only, so that states, ranks and resumes are as free as without it.
        `value` by field, as {"labels": -100}, is 0 for those that it does not name.

        `best_fit`: rows of whole samples in place of that, from so many neighbouring ones (as 4096): the longest first, each to the row
        in which the least is left behind it. No sample is cut that fits into a row, and each row is filled up with `value`, a
        percent or so of it. Which samples share a row is then the same in each epoch, and with `shuffle` the rows come in another
        order. It takes 2 us per record in each process when the loader is made.

        `lengths`: of each record, which saves the pass: otherwise they are found before the first batch, once for every record, and
        kept in the cache folder. Operations on the records may draw what is in a sample before it, as `gain`, and no length, as
        `speed_perturb`; without `lengths`, functions with `rng` and operations behind a function may draw nothing. Functions may
        follow; their random numbers are keyed by epoch and row. `batch.records` has the first record of a row.
        Errors: InvalidArgument (parameters; what is before it draws).

        >>> import carya, numpy as np
        >>> p = carya.dataset([{"x": np.arange(n)} for n in (3, 2, 2)]).pack(4, "x", value=-1).batch(2)
        >>> with carya.Loader(p, threads=1) as loader:
        ...     [(batch["x"].tolist(), batch["segment"].tolist()) for batch in loader]
        [([[0, 1, 2, 0], [1, 0, 1, -1]], [[1, 1, 1, 2], [1, 2, 2, 0]])]
        """
        from .regroup import checked_pack
        from .stage import Stage

        one = checked_pack(length, fields, lengths, value, best_fit)
        self._check_asked_before("pack", rng=lengths is not None)
        if any(op["op"] == "speed_perturb" and len(set(op["factors"])) > 1 for op in self._ops):
            raise InvalidArgument(
                "pack: it comes after speed_perturb, by which a clip has another length in each epoch, and rows are planned once; give "
                "speed_perturb one factor, or batches by .pad_sequences(...) in place of .pack(...)"
            )
        return self._with(stages=(*self._stages, Stage("pack", one, seed_globals=False)))

    @named_arguments
    def weighted(
        self,
        weights: Sequence[float] | np.ndarray[Any, Any],
        *,
        samples: int | None = None,
        replacement: bool = True,
    ) -> Self:
        """Draw records by `weights`, a number of 0 or more for each record after the views. Before `batch`.

        With `replacement` each position of an epoch draws one of all records, which may come several times, each time with other random
        numbers of functions and operations behind it (those of `sample(i)` are of none of them). Without, each record comes once at
        most, those of larger weights earlier: of n samples that is what n draws one after the other would give. Weight 0 never comes.
        `samples`: of an epoch; None: as many as there are records, or, without replacement, as have a weight of more than 0.

        Which record is at a position depends on seed (of `shuffle` or `Loader(seed=)`), epoch and position, so that states, ranks
        and resumes are as free as without it. Filters leave out what they drop, and the weights of the others count. Without
        `replacement` everything runs in worker processes, as behind `carya.dataset`.
        Errors: InvalidArgument (weights, more samples than can be drawn; when a loader is made, another number of weights than records).
        Reference: torch's `WeightedRandomSampler`, which numbers otherwise.

        >>> import carya, numpy as np
        >>> p = carya.arrays({"x": np.arange(4)}).weighted([0, 1, 0, 3], samples=400).batch(400)
        >>> with carya.Loader(p, threads=1) as loader:
        ...     counts = np.bincount(next(iter(loader))["x"], minlength=4)
        >>> counts[[0, 2]].tolist(), bool(250 < counts[3] < 350)
        ([0, 0], True)
        """
        from .._orders.draws import checked_weighted

        return self._drawn("weighted", lambda: checked_weighted(weights, samples, replacement))

    @named_arguments
    def balanced(
        self,
        labels: Sequence[Any] | np.ndarray[Any, Any] | None = None,
        *,
        samples: int | None = None,
        replacement: bool = True,
    ) -> Self:
        """Draw records so that all classes are equally likely: `weighted` by one over the size of a record's class. Before `batch`.

        `labels`: the class of each record after the views, integers or names; by default the `labels` of the source. Without
        `replacement` small classes come early and are then used up: give `samples` of about the number of classes times the size of
        the smallest.

        >>> import carya, numpy as np
        >>> labels = np.array([0] * 90 + [1] * 10)
        >>> p = carya.arrays({"label": labels}).balanced(labels, samples=400).batch(400)
        >>> with carya.Loader(p, threads=1) as loader:
        ...     bool(150 < next(iter(loader))["label"].sum() < 250)
        True
        """
        from .._orders.draws import balanced_weights, checked_weighted

        if labels is None:
            labels = self.labels
        return self._drawn(
            "balanced", lambda: checked_weighted(balanced_weights(labels), samples, replacement, "balanced")
        )

    def repeated(self, times: int = 3, *, within: int | None = None, samples: int | None = None) -> Self:
        """Each record `times` times in an epoch, each time with other random numbers: repeated augmentation. Before `batch`.

        `within`: the positions in which a record comes all its times, a multiple of `times`: with the global batch size all of a
        record's samples are in one step, `within / times` positions apart, and so on different ranks where there are at least `times`.
        None: one behind the other. `samples`: of an epoch; None: as many as there are records, so that an epoch is as long as without
        and has a `times`-th of the records, others in each epoch behind a `shuffle`.

        Which record is at a position depends on seed, epoch and position, as without it. Filters leave out what they drop.
        Errors: InvalidArgument (parameters; when a loader is made, more samples than there are).
        Reference: Hoffer et al., "Augment your batch", 2020; the RASampler of DeiT and of torchvision's references, which deals positions
        to ranks one by one and leaves out what is behind a multiple of 256.

        >>> import carya, numpy as np
        >>> p = carya.arrays({"x": np.arange(4)}).repeated(2, within=4, samples=8).batch(8)
        >>> with carya.Loader(p, threads=1) as loader:
        ...     next(iter(loader))["x"].tolist()
        [0, 1, 0, 1, 2, 3, 2, 3]
        """
        from .._orders.repeated import checked_repeated

        return self._drawn("repeated", lambda: checked_repeated(times, within, samples))

    def _drawn(self, kind: str, checked: Callable[[], Any]) -> Self:
        self._check_asked_before(kind, rng=True)
        from .stage import Stage

        return self._with(stages=(*self._stages, Stage("weighted", checked(), seed_globals=False)))

    def _check_asked_before(self, kind: str, rng: bool = False) -> None:
        """Errors: InvalidArgument, where a stage that is asked before the first batch cannot stand."""
        self._check_before_batch(kind)
        self._check_no_mix(kind)
        drawn: Any = next((stage.fn for stage in self._stages if stage.kind == "weighted"), None)
        if kind != "filter" and drawn is not None:
            raise InvalidArgument(
                f"{kind}: it comes after {drawn.method}, whose epochs have other records each; put .map(fn) in place of it, or "
                f".{drawn.method}(...) only once"
            )
        from .regroup import REGROUPS

        former = [stage.kind for stage in self._stages if stage.kind in REGROUPS]
        if former:
            raise InvalidArgument(
                f"{kind}: it comes after {former[0]}, which says what is at a position; leave one of the two out"
                if kind in ("weighted", "balanced", "repeated")
                else f"{kind}: it comes after {former[0]}; call .{kind}(...) before it, and only one of those two kinds"
            )
        if not rng and any(stage.takes_rng for stage in self._stages):
            raise InvalidArgument(
                f"{kind}: it comes after random numbers (a function with rng, an operation), which differ from epoch to epoch; call "
                f".{kind}(...) before that one"
            )

    @named_arguments
    def pad_sequences(
        self,
        fields: str | Sequence[str],
        *,
        to: int | None = None,
        multiple_of: int = 1,
        value: float = 0,
        truncate: bool = False,
        dtype: Any = None,
    ) -> Self:
        """Bring arrays of several lengths to one: `to`, or else the longest of each batch, rounded up to `multiple_of`. Before `batch`.

        Shape: (n, ...) becomes (to, ...); the sides behind the first are equal in all samples. What is added is `value`. Beside
        each field the sample gets `<field>_length`, int64: how many elements are its own. With `to` batches have one shape and
        their rows are written in place; a sample that is longer is an error, or cut with `truncate`. Without it every rank pads
        its own part of a batch to the longest there, so that ranks may have other lengths.

        `dtype`: of the padded arrays, to which others are cast: floats are rounded to a dtype of floats, and any other number that
        would be another one is an error. None: that of the arrays that come; an empty list of Python, and a batch of which no row is
        valid, have that of the first sample that tells one.
        Errors: InvalidArgument (parameters; when a sample is made, a field without a first side, several dtypes, more than `to`).

        >>> import carya, numpy as np
        >>> p = carya.dataset([{"x": np.arange(n)} for n in (1, 3, 2)]).pad_sequences("x", multiple_of=4, value=-1).batch(3)
        >>> with carya.Loader(p, threads=1) as loader:
        ...     [(batch["x"].tolist(), batch["x_length"].tolist()) for batch in loader]
        [([[0, -1, -1, -1], [0, 1, 2, -1], [0, 1, -1, -1]], [1, 3, 2])]
        """
        self._check_before_batch("pad_sequences")
        from .padding import checked_pad
        from .stage import Stage

        one = Stage("pad_sequences", checked_pad(fields, to, multiple_of, value, truncate, dtype), seed_globals=False)
        return self._with(stages=(*self._stages, one))

    @property
    def _padded(self) -> tuple[str, ...]:
        """Fields that a batch pads as a whole."""
        if not self._stages:
            return ()
        from .padding import Pad

        return tuple(
            name for stage in self._stages if isinstance(stage.fn, Pad) and stage.whole for name in stage.fn.fields
        )

    @named_arguments
    def map_batches(self, fn: Callable[..., Any], *, version: object = None, seed_globals: bool = True) -> Self:
        """Call `fn(batch)` on every batch, in worker processes; what it returns is yielded. After `batch`.

        `batch` is a dict of arrays, one row per sample, or what `collate=` made. Unlike `map_batch`, which runs in the trainer's
        own thread, it runs ahead of the trainer, each batch in one process. A dict of arrays that it returns is a batch again;
        anything else is yielded as it is. `rng` as in `map`, keyed by epoch and the batch's first position.

        >>> import carya, numpy as np
        >>> p = carya.arrays({"x": np.arange(4)}).batch(2).map_batches(dict)
        >>> with carya.Loader(p, threads=1) as loader:
        ...     [batch["x"].tolist() for batch in loader]
        [[0, 1], [2, 3]]
        """
        if self._batch is None:
            raise InvalidArgument(
                "map_batches: comes before batch; call .batch(...) first, or .map(fn) for single samples"
            )
        if self._maps:
            raise InvalidArgument(
                "map_batches: it comes after map_batch, which runs in the trainer; call .map_batches(...) before .map_batch(...)"
            )
        return self._append("map_batches", fn, version=version, seed_globals=seed_globals)

    def one_hot(self, num_classes: int, *, label: str = "label", smoothing: float = 0.0) -> Self:
        """Class numbers as rows of `num_classes` float32, with label smoothing: 1 - s + s / n for the class, s / n elsewhere. After
        `batch`; runs in worker processes.

        Reference: `torch.nn.functional.one_hot`, and `label_smoothing` of `torch.nn.CrossEntropyLoss`.

        >>> import carya, numpy as np
        >>> p = carya.arrays({"label": np.array([1, 0])}).batch(2).one_hot(2, smoothing=0.5)
        >>> with carya.Loader(p, threads=1) as loader:
        ...     next(iter(loader))["label"].tolist()
        [[0.25, 0.75], [0.75, 0.25]]
        """
        from .mixing import checked_one_hot
        from .stage import Stage

        return self._append_to_batch(
            Stage("one_hot", checked_one_hot(num_classes, label, smoothing), seed_globals=False)
        )

    def mixup(
        self,
        alpha: float = 0.2,
        *,
        num_classes: int | None = None,
        p: float = 1.0,
        cutmix: float | None = None,
        switch: float = 0.5,
        group: int = 2,
        image: str = "image",
        label: str = "label",
    ) -> Self:
        """Mix each picture and its label with another one: lam * x + (1 - lam) * other, lam from Beta(alpha, alpha). After `batch`.

        The other one is the one before it in its group, the first's is the last: groups are `group` positions of the epoch, and each
        draws its own lam, or is left as it is with probability 1 - p. So the bits depend on no batch size and no rank, if the batch
        size per rank is a multiple of `group`; else it is an error. A last group of one sample is left as it is.

        `cutmix`: the alpha of `cutmix`, which a group gets in place of this with probability `switch`, as timm's `Mixup` and a random
        choice of the two of torchvision's have it.

        Pictures are floats, labels float rows, as of `one_hot`; with `num_classes` class numbers are made such rows.
        Runs in worker processes. Rows that `on_error="mask"` left empty are mixed as the zeros that they are: give "replace".
        Reference: torchvision's `v2.MixUp`, of which a group is the batch.

        >>> import carya, numpy as np
        >>> arrays = {"image": np.arange(2, dtype=np.float32).reshape(2, 1, 1, 1), "label": np.array([0, 1])}
        >>> with carya.Loader(carya.arrays(arrays).batch(2).mixup(1.0, num_classes=2), threads=1) as loader:
        ...     batch = next(iter(loader))
        >>> bool(np.allclose(batch["image"].reshape(2), batch["label"][:, 1]))
        True
        """
        from .mixing import also_cut, checked_mixing

        mixing = checked_mixing("mixup", alpha, p, group, image, label, num_classes)
        return self._mixed("mixup", mixing if cutmix is None else also_cut(mixing, cutmix, switch))

    def cutmix(
        self,
        alpha: float = 1.0,
        *,
        num_classes: int | None = None,
        p: float = 1.0,
        group: int = 2,
        image: str = "image",
        label: str = "label",
    ) -> Self:
        """Put a rectangle of another picture into each, and mix their labels by its area. After `batch`.

        Groups, `p`, labels and where it runs are as for `mixup`; pictures are of any dtype, (channels, height, width) or
        (height, width, channels). The rectangle is that of its group: its sides are sqrt(1 - lam) of the picture's, lam from
        Beta(alpha, alpha), about a point of the picture, and cut off at the edges. Reference: torchvision's `v2.CutMix`, of which a
        group is the batch.

        >>> import carya, numpy as np
        >>> arrays = {"image": np.arange(2, dtype=np.float32).repeat(64).reshape(2, 1, 8, 8), "label": np.array([0, 1])}
        >>> with carya.Loader(carya.arrays(arrays).batch(2).cutmix(num_classes=2), threads=1) as loader:
        ...     batch = next(iter(loader))
        >>> bool(np.allclose(batch["image"].mean((1, 2, 3)), batch["label"][:, 1]))
        True
        """
        from .mixing import checked_mixing

        return self._mixed("cutmix", checked_mixing("cutmix", alpha, p, group, image, label, num_classes))

    def mosaic(
        self,
        *,
        p: float = 1.0,
        min_kept: float = 0.1,
        image: str = "image",
        boxes: str = "boxes",
        rows: Sequence[str] = ("labels", "areas", "crowd", "object_ids", "difficult"),
    ) -> Self:
        """Put four pictures together into one of the same size, with their boxes. After `batch`, for pictures of one size.

        The picture itself is left and above of a point that is drawn in the middle half of each side, the next three of its group of
        four positions of the epoch are in the other quarters, each with the corner that lies at the point. Groups, `p` and where it
        runs are as for `mixup`. Boxes are cut off at their quarter; those with less than `min_kept` of their area are left out.
        `boxes` get four times the rows, and so do `rows`, the fields with one row for each box that there are; `boxes_count` says how
        many are filled. Masks and key points do not follow: a batch that has some, or other rows for its boxes, is refused.

        >>> import carya, numpy as np
        >>> arrays = {"image": np.arange(4, dtype=np.uint8).repeat(64).reshape(4, 1, 8, 8), "boxes": np.tile(np.float32([2, 2, 6, 6]), (4, 1, 1))}
        >>> chain = carya.arrays(arrays | {"boxes_count": np.ones(4, np.int32)}).batch(4).mosaic()
        >>> with carya.Loader(chain, threads=1) as loader:
        ...     batch = next(iter(loader))
        >>> batch["boxes"].shape, sorted(np.unique(batch["image"][0]).tolist())
        ((4, 4, 4), [0, 1, 2, 3])
        """
        from .mixing import checked_mosaic

        return self._mixed("mosaic", checked_mosaic(p, min_kept, image, boxes, rows))

    def _mixed(self, kind: str, mixing: Mixing) -> Self:
        from .stage import Stage

        if any(stage.kind == "budget" for stage in self._stages):
            raise InvalidArgument(
                f"{kind}: group: batches by tokens begin inside of groups of positions too; give .batch(...) a batch_size= in place of "
                "tokens="
            )
        occurrence = sum(stage.kind == kind for stage in self._stages)
        return self._append_to_batch(Stage(kind, mixing, seed_globals=False, takes_rng=True, occurrence=occurrence))

    def _append_to_batch(self, one: Stage) -> Self:
        """Behind the batch. Errors: InvalidArgument where there is none, or where it is in the trainer already."""
        if self._batch is None:
            raise InvalidArgument(f"{one.kind}: comes before batch; call .batch(...) first")
        if self._maps:
            raise InvalidArgument(
                f"{one.kind}: it comes after map_batch, which runs in the trainer; call .{one.kind}(...) before .map_batch(...)"
            )
        return self._with(stages=(*self._stages, one))

    def _check_before_batch(self, kind: str) -> None:
        if self._batch is not None:
            raise InvalidArgument(
                f"{kind}: comes after batch; call .{kind}(...) before .batch(...), or .map_batches(fn) for whole batches"
            )

    def _append_native(self, document: Mapping[str, Any], random: bool) -> Self:
        """An operation behind a function: run together with those right before it."""
        from .native import NativeOps
        from .stage import Stage

        stages, last = self._stages, self._stages[-1] if self._stages else None
        if last is not None and isinstance(last.fn, NativeOps):
            ops, random, stages = last.fn.also(document), random or last.takes_rng, stages[:-1]
        else:
            ops = NativeOps((document,), sum(stage.kind == "native" for stage in stages))
        one = Stage("native", ops, seed_globals=False, takes_rng=random)
        return self._with(stages=(*stages, one))

    def _append(self, kind: str, fn: Callable[..., Any], **options: Any) -> Self:
        from .stage import made

        occurrence = sum(stage.kind == kind for stage in self._stages)
        return self._with(stages=(*self._stages, made(kind, fn, occurrence=occurrence, **options)))
