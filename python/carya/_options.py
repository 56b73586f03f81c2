"""Reading what a user gave: "auto", sizes with units, names; arguments that a function does not have."""

from __future__ import annotations

import functools
import math
import numbers
import operator
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, get_args

import numpy as np

from ._errors import invalid

# In which sense operations may be exchanged; each allows what those before it do.
Reorder = Literal["off", "exact", "rounding", "relaxed"]
REORDERS: tuple[Reorder, ...] = get_args(Reorder)
INEXACT: tuple[Reorder, ...] = ("rounding", "relaxed")  # those that may give other bits
Choice = TypeVar("Choice", bound=str)
Options = ParamSpec("Options")
Result = TypeVar("Result")

# Arguments that functions of the same name have elsewhere.
_ARGUMENTS_ELSEWHERE = {
    "collate_fn": "give collate=",
    "drop_remainder": "give drop_last=",
    **dict.fromkeys(("num_workers", "num_parallel_calls"), "give threads= to the Loader"),
    **dict.fromkeys(("buffer_size", "reshuffle_each_iteration"), "leave it out: the whole of the data has a new order in each epoch"),
    "root": "give the path first, without a name",
    **dict.fromkeys(("transform", "target_transform"), "append operations, as .decode_image().random_resized_crop(224), or .map(fn)"),
    **dict.fromkeys(("loader", "is_valid_file"), "leave it out: files are told by their names, and read natively"),
}  # fmt: skip
SPLIT = "give the share of the first part: train, rest = pipeline.split(0.8, seed=1), and for a third part val, test = rest.split(0.5)"
# The same of one function, by its name; "" where an argument is lacking.
_OF_ONE = {
    **dict.fromkeys((("split", name) for name in ("", "lengths", "fractions", "ratios", "sizes", "train_size", "test_size")), SPLIT),
    **dict.fromkeys((("split", name) for name in ("random_state", "generator")), "give seed="),
    **dict.fromkeys((("npz", name) for name in ("fields", "columns", "names")), "give arrays="),
    **dict.fromkeys((("hdf5", name) for name in ("fields", "columns", "keys")), "give datasets="),
    **dict.fromkeys(((name, "fields") for name in ("csv", "jsonl", "parquet")), "give columns="),
    **dict.fromkeys(((name, "input_columns") for name in ("map", "filter")), "give fields="),
    **dict.fromkeys(((name, "num_proc") for name in ("map", "filter")), "give threads= to the Loader"),
    **dict.fromkeys(((name, "batched") for name in ("map", "filter")), "leave it out: a function of whole batches is .batch(n).map_batches(fn)"),
}  # fmt: skip

# What the engine counts with: 64 bits, with room to add.
WHOLE_MAX = 2**62

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}


def count_or_auto(name: str, value: Any, lowest: int, highest: int) -> int:
    """0 for "auto", else a count of `lowest` to `highest`."""
    if isinstance(value, str) and value == "auto":
        return 0
    return whole(name, value, lowest, f'a count of {lowest} to {highest}, or "auto"', highest)


def whole(name: str, value: Any, lowest: int, allowed: str, highest: int = WHOLE_MAX) -> int:
    """An option of the loader that is an integer of at least `lowest` and at most `highest`."""
    return integer(f"Loader: {name}", value, lowest, allowed, highest)


def integer(subject: str, value: Any, lowest: int, allowed: str, highest: int = WHOLE_MAX) -> int:
    """`value`, if it is an integer (also numpy's) of `lowest` to `highest`; `subject` names it in the error."""
    try:
        number = operator.index(value)
    except TypeError:  # also an array of several
        number = None
    if number is None or isinstance(value, bool) or not lowest <= number <= highest:
        raise invalid(subject, value, allowed)
    return number


def flag(name: str, value: Any) -> bool:
    """True or False, also numpy's."""
    if not isinstance(value, bool | np.bool_):
        raise invalid(f"Loader: {name}", value, "True or False")
    return bool(value)


def _as_float(value: Any) -> float:
    """A number, also numpy's; NaN for what is none."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        return float(value) if real else math.nan
    except OverflowError:  # an integer of hundreds of digits
        return math.inf if value > 0 else -math.inf


def seconds(name: str, value: Any) -> float:
    """Seconds of 0 or more; infinity is allowed."""
    number = _as_float(value)
    if not number >= 0:
        raise invalid(f"Loader: {name}", value, "seconds of 0 or more")
    return min(number, sys.float_info.max)


def real(name: str, value: Any, lowest: float, highest: float) -> float:
    """A number of `lowest` to `highest`.

    >>> real("weight", 2, 0.01, 100)
    2.0
    """
    number = _as_float(value)
    if not lowest <= number <= highest:
        raise invalid(f"Loader: {name}", value, f"a number of {lowest:g} to {highest:g}")
    return number


def byte_size(name: str, value: Any) -> int:
    """Bytes of 1000000, "64MB" or "64MiB".

    >>> byte_size("read_ahead", "64MB"), byte_size("read_ahead", "1 MiB")
    (64000000, 1048576)
    """
    allowed = 'a size of 1 byte or more such as "64MB", "64MiB" or a number of bytes'
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
        if not found or found.group(2).upper() not in _UNITS:
            raise invalid(f"Loader: {name}", value, allowed)
        size = float(found.group(1)) * _UNITS[found.group(2).upper()]
        if not 1 <= size <= WHOLE_MAX:
            raise invalid(f"Loader: {name}", value, allowed)
        value = int(size)
    return whole(name, value, 1, allowed)


def choice(name: str, value: Any, allowed: tuple[Choice, ...]) -> Choice:
    """One of `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise invalid(f"Loader: {name}", value, " or ".join(f'"{word}"' for word in allowed))
    return allowed[allowed.index(value)]


def decode_index_name(value: Any) -> str:
    """The native name of a choice of index.

    >>> decode_index_name("rows"), decode_index_name(8)
    ('rows', '8')
    """
    if isinstance(value, bool) or not isinstance(value, str | int) or value not in ("auto", "off", "rows", 8, 16):
        raise invalid("Loader: decode_index", value, '"auto", "off", "rows", 8 or 16')
    return str(value)


def cache_options(value: Any) -> dict[str, Any]:
    """The attributes of the native options for `cache=`.

    >>> cache_options({"memory": "20%", "after": "decode_image"})
    {'cache': 'on', 'cache_share': 0.2, 'cache_after': 'decode_image'}
    >>> cache_options({"memory": "4GB"}), cache_options("auto")
    ({'cache': 'on', 'cache_bytes': 4000000000}, {'cache': 'auto'})
    >>> cache_options({"memory": "4GB", "form": "coefficients"})
    {'cache': 'on', 'cache_bytes': 4000000000, 'cache_form': 'coefficients'}
    >>> cache_options({"disk": ("/nvme/carya", "500GB")})
    {'cache': 'on', 'cache_share': 0.0, 'cache_disk': ('/nvme/carya', 500000000000)}
    >>> cache_options({"disk": "500GB", "write_budget": "2TB/day"})
    {'cache': 'on', 'cache_share': 0.0, 'cache_disk': ('', 500000000000), 'cache_write_budget': 2000000000000}
    >>> cache_options({"place": "auto", "disk": ("/nvme/carya", "500GB")})
    {'cache': 'auto', 'cache_disk': ('/nvme/carya', 500000000000)}
    """
    if isinstance(value, str) and value in ("off", "auto"):
        return {"cache": value}
    tiers = {"memory", "disk", "shared"}
    known = {*tiers, "after", "form", "place", "write_budget"}
    if not isinstance(value, Mapping) or not tiers & set(value) or not set(value) <= known:
        raise invalid(
            "Loader: cache",
            value,
            '"off", "auto", {"memory": "20%"}, {"memory": "4GB", "after": "decode_image"}, '
            '{"memory": "4GB", "form": "coefficients"}, {"memory": "4GB", "form": "records"}, {"memory": "20%", "disk": ("/nvme/carya", "500GB")} '
            'or {"place": "auto", "disk": ("/nvme/carya", "500GB"), "write_budget": "2TB/day"}',
        )
    chosen = "place" in value and choice('cache: "place"', value["place"], ("auto",)) == "auto"
    options: dict[str, Any] = {"cache": "auto" if chosen else "on"}
    after = value.get("after", "")
    if chosen and after:
        raise invalid('Loader: cache: "after"', after, 'only one of "after" and "place"')
    if "memory" in value:
        options |= _cache_memory(value["memory"])
    elif not chosen:
        options["cache_share"] = 0.0
    for tier in ("disk", "shared"):
        if tier in value:
            options[f"cache_{tier}"] = _cache_folder(tier, value[tier])
    if "write_budget" in value:
        options["cache_write_budget"] = _cache_write_budget(value["write_budget"], value)
    if not isinstance(after, str):
        raise invalid('Loader: cache: "after"', after, 'the name of an operation, such as "decode_image"')
    if after:
        options["cache_after"] = after
    if "form" in value:
        forms = ("raw",) if after else ("raw", "coefficients", "records")
        options["cache_form"] = choice('cache: "form"', value["form"], forms)
    return options


def _cache_folder(tier: str, value: Any) -> tuple[str, int]:
    """The absolute folder of a tier and its capacity in bytes; a size alone: "", where who serves the loader keeps it."""
    name = f'cache: "{tier}"'
    if isinstance(value, int) or (isinstance(value, str) and value.strip()[:1].isdecimal()):
        return "", byte_size(name, value)
    pair = isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], str | os.PathLike)
    if not pair or not os.fspath(value[0]):
        raise invalid(
            f"Loader: {name}", value, 'a folder and a size, such as ("/nvme/carya", "500GB"), or a size alone'
        )
    return os.path.abspath(os.fspath(value[0])), byte_size(f'cache: "{tier}"', value[1])


def _cache_write_budget(budget: Any, given: Mapping[str, Any]) -> int:
    """Bytes a day."""
    if not {"disk", "shared"} & set(given):
        raise invalid('Loader: cache: "write_budget"', budget, '"disk" or "shared" beside it: memory does not wear out')
    if isinstance(budget, str):
        budget = re.sub(r"\s*/\s*day\s*$", "", budget)
    return byte_size('cache: "write_budget"', budget)


def _cache_memory(memory: Any) -> dict[str, Any]:
    options: dict[str, Any] = {}
    percent = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", memory) if isinstance(memory, str) else None
    if percent is None:
        options["cache_bytes"] = byte_size('cache: "memory"', memory)
    elif 0 < float(percent.group(1)) <= 90:
        options["cache_share"] = float(percent.group(1)) / 100
    else:
        raise invalid('Loader: cache: "memory"', memory, 'a share of more than 0% to "90%", or a size such as "4GB"')
    return options


def nearest(name: str, known: Iterable[str]) -> str:
    """The one of `known` that `name` was most likely meant to be; "" when none is.

    >>> nearest("RandomResizeCrop", ["random_crop", "random_resized_crop"])
    'random_resized_crop'
    """
    import difflib  # of mistakes only

    words = {letters(word): word for word in known}
    found = difflib.get_close_matches(letters(name), words, n=1, cutoff=0.7)
    return words[found[0]] if found else ""


def letters(name: str) -> str:
    """Of a name, however it is written.

    >>> letters("RandomCrop") == letters("random_crop")
    True
    """
    return name.lower().replace("_", "")


def named_arguments(function: Callable[Options, Result]) -> Callable[Options, Result]:
    """The function, that answers arguments which it does not have, or lacks, with Carya's name for them. TypeError."""
    code: Any = getattr(function, "__code__")  # noqa: B009
    most, defaults = code.co_argcount, getattr(function, "__defaults__", None) or ()
    known = code.co_varnames[: most + code.co_kwonlyargcount]
    needed = known[: most - len(defaults)]

    @functools.wraps(function)
    def checked(*given: Options.args, **options: Options.kwargs) -> Result:
        for name in options:
            if name not in known:
                raise unknown_argument(function.__name__, name, known)
        if len(given) > most:
            raise TypeError(_too_many(function.__name__, given, known, most))
        lacking = [name for name in needed[len(given) :] if name not in options]
        if lacking:
            told = _OF_ONE.get((function.__name__, "")) or f"give {lacking[0]}="
            raise TypeError(f"{function.__name__}() lacks {lacking[0]!r}; {told}")
        return function(*given, **options)

    return checked


def unknown_argument(function: str, name: str, known: Iterable[str]) -> TypeError:
    """As Python says it, with what may have been meant."""
    others = [one for one in known if one != "self"]
    told = _OF_ONE.get((function, name)) or _ARGUMENTS_ELSEWHERE.get(name)
    if told is None:
        near = nearest(name, others)
        told = f"give {near}=" if near else f"give one of {', '.join(others)}"
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}; {told}")


def _too_many(function: str, given: Sequence[Any], known: Sequence[str], most: int) -> str:
    """What to say of more arguments without a name than there are."""
    count = most - ("self" in known)
    shown = repr(given[most])
    shown = shown if len(shown) <= 60 else shown[:60] + "..."
    others = ", ".join(f"{name}=" for name in known[most:])
    told = _OF_ONE.get((function, "")) or (f"give it by name: {others}" if others else "leave it out")
    return f"{function}() takes {count} argument{'s' if count > 1 else ''} without a name, got {shown} behind; {told}"
