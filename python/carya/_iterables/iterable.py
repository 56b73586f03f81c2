"""`carya.iterable`: a source of shards, each with an iterator of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._pipeline.pipeline import Pipeline
from .spec import checked_iterable


def iterable(
    fn: Callable[..., Iterable[Any]],
    *,
    shards: int,
    lengths: int | Sequence[int] | None = None,
    samples: int | None = None,
    window: int = 1024,
    names: str | Sequence[str] | None = None,
    version: object = None,
    seed_globals: bool = True,
) -> Pipeline:
    """Samples that can only be iterated: `fn(shard)` gives an iterator, a generator or a list of those of shard 0 to `shards` - 1.

    Samples are what they are for `carya.dataset`, and so are `names` and `seed_globals`. They are taken from the shards in turn,
    one of each; which sample of which shard is at a position is a closed form of the shards' lengths, so that batch sizes, ranks,
    worker processes that die, and resumes at any step and world size change nothing, and a state stays some hundred bytes.
    `batch.records` numbers sample o of shard s as o * shards + s.

    How long the shards are, an iterator cannot say:
    lengths: how many samples of each shard are taken (one number: of every shard). A shard that has fewer is an error; what one
        has beyond them is never asked for.
    samples: nothing is counted, and a shard that ends begins anew, so that iterators may be endless: an epoch has this many
        samples and goes on where the one before it was. `filter` has to be in `fn` then, and `mix` refuses it.
    neither: each shard is read once before the first batch, and the counts are kept in the cache folder. `len(pipeline)` raises,
        `len(loader)` knows.
    The number of samples must depend on nothing but the shard; give a `version` that changes with the data.

    Each shard is read by one worker process, so give some shards for each process of all ranks: 64 are a good number, and it
    must not change within a run. Where a function makes whole batches (`collate=`, `map_batches`, `pad_sequences` without `to`)
    every process reads all shards and leaves out what others make.

    A stream that goes on somewhere (a resume, a worker that died, `set_epoch`) calls `fn` anew and passes over the samples before
    that place, which costs as much as reading them: `stats()["workers"]["skipped"]` counts them. It costs nothing where `fn` has
    a parameter `start` (the sample to begin with: `fn(shard, start=n)`; not with `samples`), and at most 1,024 samples where what
    it returns has `state_dict` and `load_state_dict`: states that JSON can hold are kept in the cache folder. With a parameter `epoch` it is told the
    epoch (with `samples`: how often the shard has ended). `random`, `numpy.random` and torch's generator are seeded before `fn`
    is called and before each sample.

    `.shuffle(seed)` gives the shards another order of turns in each epoch and permutes each `window` of neighbouring samples, by
    a pure function of seed, epoch and position. Samples further apart than that are not mixed: store them mixed, or let `fn` read its
    files in an order of the epoch's. Workers hold up to `window` samples together; how many bytes that is, is the samples' to say.

    What an iterator raises stands in place of the sample; a generator is over behind it. Errors: InvalidArgument that names the
    parameter; when the stream is opened those of `fn`, InvalidArgument (a shard that ends early, nothing in any shard).

    >>> import carya
    >>> def tens(shard):
    ...     yield from range(10 * shard, 10 * shard + shard + 2)
    >>> p = carya.iterable(tens, shards=3).batch(4)
    >>> with carya.Loader(p, threads=1, epochs=1) as loader:
    ...     [batch["value"].tolist() for batch in loader], len(loader)
    ([[0, 10, 20, 1], [11, 21, 12, 22], [23]], 3)
    """
    return Pipeline._of_dataset(checked_iterable(fn, shards, lengths, samples, window, names, seed_globals, version))
