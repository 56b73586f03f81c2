"""What a user of another library writes by its names, told in Carya's: options of loaders, operations, datasets."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec

from .._errors import InvalidArgument, invalid
from .._options import letters, nearest

Options = ParamSpec("Options")

_NO_WORKERS = "leave it out: no worker process is started, and random numbers are keyed by seed="

# Options that loaders of torch, tf.data, DALI and Grain have, and what does the same here.
_ELSEWHERE = {
    "batch_sampler": "give rank= and world_size= for the part of this process; the order is pipeline.shuffle(seed=...)",
    **dict.fromkeys(("ca", "cert", "insecure", "key", "server_name", "token"), "give it in remote_tls={...}, beside remote="),
    "batch_size": "give it to the pipeline: pipeline.batch(batch_size)",
    "collate_fn": "give it to the pipeline: pipeline.batch(n, collate=fn)",
    "dataset": "give the pipeline first, without a name: Loader(carya.dataset(dataset).batch(n))",
    "device_id": 'give device="cuda:0" to carya.torch.Loader',
    "drop_last": "give it to the pipeline: pipeline.batch(n, drop_last=True)",
    "drop_remainder": "give it to the pipeline: pipeline.batch(n, drop_last=True)",
    "epoch": "call loader.set_epoch(epoch) before the `for`",
    "generator": "give seed=, or the seed of pipeline.shuffle(seed=...)",
    "in_order": "leave it out: batches always come in the order of the stream",
    **dict.fromkeys(("map_batch", "map_batches"), "give it to the pipeline: pipeline.batch(n).map_batch(fn) or .map_batches(fn)"),
    "multiprocessing_context": _NO_WORKERS,
    **dict.fromkeys(("job_name", "name"), "give job=, the name that a daemon shows"),
    "num_epochs": "give epochs=",
    "num_replicas": "give world_size=",
    "num_shards": "give world_size=",
    "num_threads": "give threads=",
    "num_workers": 'give threads=, CPU threads of this process ("auto": the cores that are allowed)',
    "persistent_workers": _NO_WORKERS,
    "pin_memory_device": "give device= to carya.torch.Loader",
    "prefetch": "give slots=, the batches of memory to work ahead in, and read_ahead=, bytes",
    "prefetch_factor": "give slots=, the batches of memory to work ahead in, and read_ahead=, bytes",
    "sampler": "give the pipeline an order, pipeline.shuffle(seed=...) or .subset(indices); ranks share it by rank= and "
    "world_size=",
    "shard_id": "give rank=",
    "shard_index": "give rank=",
    "shuffle": "give it to the pipeline: pipeline.shuffle(seed=...)",
    "timeout": "give io_timeout=, the seconds that a failing read is tried again",
    "transform": "give the pipeline operations, as .random_resized_crop(224), or .map(fn)",
    "worker_init_fn": _NO_WORKERS,
}  # fmt: skip

# Options of one kind of loader only.
_OF_OTHERS = {
    "device": "carya.torch.Loader",
    "device_backend": "carya.torch.Loader",
    "pin_memory": "carya.torch.Loader",
    "sharding": "carya.jax.Loader",
}

# Operations that other libraries have, by their letters alone.
_OPERATIONS_ELSEWHERE = {
    **dict.fromkeys(
        ("apply", "transform", "lambda"),
        ".map(fn), a Python function of single samples, or .batch(n).map_batches(fn), of whole batches",
    ),
    "collate": ".batch(n, collate=fn), which makes a batch of a list of samples",
    **dict.fromkeys(("totensor", "toimage"), '.to_dtype("float32", scale=True).to_layout("CHW")'),
    "prefetch": "Loader(slots=), the batches of memory to work ahead in",
    "repeat": "Loader(epochs=), or another `for` over the loader: each is the next epoch",
    "shard": "Loader(rank=, world_size=)",
    "skip": ".subset(range(n, len(pipeline)))",
    "cache": 'Loader(cache="auto"), which keeps samples for later epochs',
    **dict.fromkeys(("concat", "concatenate", "interleave", "zip"), "carya.mix([one, another])"),
}


def named_options(
    init: Callable[Concatenate[Any, Options], None],
) -> Callable[Concatenate[Any, Options], None]:
    """The `__init__` of a loader, that answers options which it does not have with Carya's name for them. TypeError."""

    @functools.wraps(init)
    def checked(self: Any, /, *given: Options.args, **options: Options.kwargs) -> None:
        if len(given) > 1:
            raise TypeError(
                f"Loader: got {given[1]!r} behind the pipeline; give options by name, as Loader(pipeline, threads=4), and "
                "the batch size to pipeline.batch(n)"
            )
        known = inspect.signature(init).parameters if options else {}
        unknown = [name for name in options if name not in known]
        if unknown:
            own = inspect.signature(type(self).__init__).parameters
            told = [_told(name, options[name], {*known, *own} - {"self", "options"}) for name in unknown]
            raise TypeError("Loader: " + "; ".join(told))
        init(self, *given, **options)

    return checked


def _told(name: str, value: object, known: Iterable[str]) -> str:
    shown = repr(value)
    got = f"got {name}={shown if len(shown) <= 60 else shown[:60] + '...'}"
    if name in _ELSEWHERE:
        return f"{got}; {_ELSEWHERE[name]}"
    if name in _OF_OTHERS:
        return f"{got}; give it to {_OF_OTHERS[name]}"
    near = nearest(name, known)
    return f"{got}, which is no option; give {near + '=' if near else 'one of help(carya.Loader)'}"


def no_operation(kind: type, name: str) -> AttributeError:
    """What to raise for an attribute that a pipeline or a chain of operations has not."""
    if name.startswith("_"):
        return AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
    told = _OPERATIONS_ELSEWHERE.get(letters(name))
    if told is None:
        near = nearest(name, (known for known in dir(kind) if not known.startswith("_")))
        told = f".{near}" if near else "another"
    return AttributeError(
        f"carya.{kind.__name__}: got .{name}, which is no operation; give {told}; help(carya.Pipeline) and the "
        "reference of operations (docs/reference/ops.md) list all"
    )


def not_a_pipeline(given: object) -> InvalidArgument:
    """What to raise where a pipeline is wanted and something else was given: how to make one of it."""
    wanted = (
        "a pipeline: carya.image_folder(path), files, webdataset, tfrecord, mds, arrow, hf_dataset, arrays or dataset, "
        "then operations and .batch(n)"
    )
    if isinstance(given, str | os.PathLike):
        wanted = (
            f"a pipeline of it: carya.image_folder({os.fspath(given)!r}).decode_image().resize((224, 224)).batch(32)"
        )
    elif isinstance(given, Mapping) or type(given).__module__ == "numpy":
        arrays = "..." if isinstance(given, Mapping) else '{"x": ...}'
        wanted = f"a pipeline of the arrays: carya.arrays({arrays}).batch(32)"
    elif hasattr(given, "__getitem__") or hasattr(given, "__iter__"):
        wanted = "a pipeline of it: carya.dataset(it).batch(32), if it has __len__ and __getitem__"
        shown = type(given).__name__
        return InvalidArgument(f"Loader: pipeline: got an object of type {shown}; give {wanted}")
    return invalid("Loader: pipeline", given, wanted)
