"""Samples as trees: dicts, tuples, named tuples and dataclasses become named leaves, and back."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import InvalidArgument

Array = np.ndarray[Any, Any]
_PLAIN = frozenset((np.ndarray, int, float, bool, str, bytes, list))
_CANNOT_CHANGE = frozenset((int, float, bool, complex, str, bytes, type(None)))
# The name of the one leaf of a sample that has no names.
VALUE = "value"
# A leaf is () ; a branch is what to call with the children, and its children by name.
Shape = tuple[Any, ...]


def flatten(sample: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
    """The leaves of a sample by name; what lies inside of something is named "outer.inner".

    `names` are those of the elements of a tuple, or of the only value. Lists are values, not branches.

    >>> flatten({"x": 1, "box": (2, 3)})
    {'x': 1, 'box.0': 2, 'box.1': 3}
    >>> flatten(("a", 7), names=("text", "label"))
    {'text': 'a', 'label': 7}
    """
    if names is not None:
        sample = with_names(sample, names)
    if type(sample) is dict:
        for name, value in sample.items():
            if type(name) is not str or (type(value) not in _PLAIN and _is_branch(value)):
                break
        else:
            return sample
    leaves: dict[str, Any] = {}
    _collect(sample, "", leaves)
    return leaves


def with_names(sample: Any, names: Sequence[str]) -> dict[str, Any]:
    """A dict of the elements of a tuple, of one value, or of some of a mapping. Errors: InvalidArgument."""
    if isinstance(sample, tuple | list) and len(sample) == len(names):
        return dict(zip(names, sample, strict=True))
    if len(names) == 1 and not isinstance(sample, tuple | Mapping):
        return {names[0]: sample}
    if isinstance(sample, Mapping) and set(names) <= sample.keys():
        return {name: sample[name] for name in names}
    what = f"{type(sample).__name__} of {len(sample)}" if isinstance(sample, tuple | list | Mapping) else type(sample)
    raise InvalidArgument(
        f"dataset: names: the dataset gives a {what}, and there are {len(names)} names {tuple(names)}; give one name for "
        "each element of its tuple"
    )


def _is_branch(value: Any) -> bool:
    return isinstance(value, tuple | Mapping) or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def _children(branch: Any) -> list[tuple[str, Any]]:
    if isinstance(branch, Mapping):
        return [(str(name), value) for name, value in branch.items()]
    fields = getattr(branch, "_fields", None)
    if isinstance(branch, tuple):
        named = fields if isinstance(fields, tuple) else map(str, range(len(branch)))
        return list(zip(named, branch, strict=True))
    return [(field.name, getattr(branch, field.name)) for field in dataclasses.fields(branch)]


def _collect(value: Any, name: str, leaves: dict[str, Any]) -> None:
    if not _is_branch(value):
        leaves[name or VALUE] = value
        return
    for child, inside in _children(value):
        path = f"{name}.{child}" if name else child
        if path in leaves:
            raise InvalidArgument(f"dataset: two values of a sample have the name {path!r}; rename one of them")
        _collect(inside, path, leaves)


def shape_of(sample: Any) -> Shape:
    """How `flatten` took a sample apart, so that `rebuild` can put values of its leaves together again."""
    if not _is_branch(sample):
        return ()
    names, inside = zip(*_children(sample), strict=True) if _children(sample) else ((), ())
    if isinstance(sample, Mapping):
        kind: Any = "dict"
        names = tuple(sample)
    elif hasattr(sample, "_fields") or not isinstance(sample, tuple):
        kind = type(sample)
    else:
        kind = "tuple"
    return kind, names, tuple(map(shape_of, inside))


def mappings(sample: Any) -> list[str]:
    """Names of the classes of mappings in it that are no plain dicts, which is what `rebuild` makes of them."""
    if not _is_branch(sample):
        return []
    mine = [type(sample).__name__] if isinstance(sample, Mapping) and type(sample) is not dict else []
    return mine + [name for _, value in _children(sample) for name in mappings(value)]


def rebuild(shape: Shape, leaves: Any) -> Any:
    """A tree of `shape` over an iterator of leaves in the order of `flatten`. Plain tuples become lists, as torch has it."""
    if not shape:
        return next(leaves)
    kind, names, inside = shape
    values = [rebuild(child, leaves) for child in inside]
    if kind == "dict":
        return dict(zip(names, values, strict=True))
    if kind == "tuple":
        return values
    return kind(*values) if hasattr(kind, "_fields") else kind(**dict(zip(names, values, strict=True)))


def as_leaf(value: Any) -> Any:
    """A number, array or tensor as an array of the dtype that it has; anything else as it is.

    Python's numbers are int64, float64, complex128 and bool, as torch's `default_collate` has them.

    >>> as_leaf(3).dtype, as_leaf([0.5, 1.5]).shape, as_leaf("text")
    (dtype('int64'), (2,), 'text')
    """
    kind = type(value)
    if isinstance(value, np.ndarray):
        return value if not value.dtype.hasobject else value.tolist()
    if kind is int or kind is bool or kind is float or kind is complex or isinstance(value, np.generic):
        try:
            array = np.asarray(value)
        except OverflowError:
            return value
        return array if not array.dtype.hasobject else value
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        return _tensor(value)
    if isinstance(value, list):
        return _listed(value)
    if hasattr(value, "__array__") and hasattr(value, "dtype") and hasattr(value, "shape"):
        return np.asarray(value)  # jax and its like; a picture of PIL has no dtype and stays one
    return value


def _tensor(value: Any) -> Any:
    try:
        return value.detach().cpu().numpy()
    except (TypeError, RuntimeError):  # bfloat16, sparse, quantized
        raise InvalidArgument(
            f"dataset: a tensor of {value.dtype} has no numpy form; return tensor.float() or another plain dtype"
        ) from None


def _listed(value: list[Any]) -> Any:
    if not value or not all(isinstance(item, bool | int | float | np.generic | list) for item in value):
        return value
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):  # of several lengths
        return value
    return array if array.dtype.kind in "biufc" else value


def own(given: list[Any], lends: bool = False) -> Any:
    """`given[0]`, which a function may now write into: arrays, tensors, dicts and lists that somebody else holds too are copies.

    Who else holds them: a dataset that is a list or keeps what it has made, a sample beside this one that has the same array. What a
    function wrote there would be in what the next call gets, in the processes where the same one makes both. References are counted,
    so that what is this sample's alone is not copied: only `given`, which is the caller's alone, may hold the sample for the caller.
    Arrays that refuse to be written, and objects of other classes, stay as they are. `lends`: arrays that others hold become views
    that refuse it, which cost nothing, in place of copies.

    >>> kept = {"x": np.zeros(1), "y": (1, [2])}
    >>> mine = own([kept])
    >>> mine["x"] += 1
    >>> mine["y"][1].append(3)
    >>> kept
    {'x': array([0.]), 'y': (1, [2])}
    """
    _own_children(given, range(len(given)), False, lends)
    return given[0]


def _own_children(branch: Any, keys: Iterable[Any], shared: bool, lends: bool, spare: int = 0) -> None:
    """Put copies in the places of those that others hold. `shared`: others hold all of it, since they hold what `branch` is a copy
    of. `spare`: references to each of them beside that of `branch` that are no one else's."""
    for key in keys:
        value = branch[key]
        if type(value) in _CANNOT_CHANGE:
            continue
        held = shared or sys.getrefcount(value) > _ALONE + spare
        if isinstance(value, np.ndarray):
            if value.flags.writeable and (held or _is_part(value)):
                branch[key] = _lent(value) if lends else value.copy(order="K")
        elif isinstance(value, dict):
            if held:
                branch[key] = value = copy.copy(value)
            _own_children(value, list(value), held, lends)
        elif type(value) is list:
            if held:
                branch[key] = value = value.copy()
            # Of numbers there may be thousands, and they are alike.
            if value and not (type(value[0]) in _CANNOT_CHANGE and type(value[-1]) in _CANNOT_CHANGE):
                _own_children(value, range(len(value)), held, lends)
        elif isinstance(value, tuple):
            inside = list(value)
            _own_children(inside, range(len(inside)), held, lends, 1)
            if any(one is not former for one, former in zip(inside, value, strict=True)):
                branch[key] = tuple(inside) if type(value) is tuple else type(value)._make(inside)  # type: ignore[attr-defined]
        elif hasattr(value, "untyped_storage"):  # a tensor
            if held or _is_lent(value):
                branch[key] = value.clone()
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            if held:
                branch[key] = value = copy.copy(value)
            fields = dict(_children(value))
            _own_children(fields, list(fields), held, lends, 1)
            for name, one in fields.items():
                if one is not getattr(value, name):
                    object.__setattr__(value, name, one)


def _lent(array: Array) -> Array:
    view: Array = array.view()
    view.flags.writeable = False
    return view


def _is_part(array: Array) -> bool:
    """Whether others may hold the memory that the array lies in."""
    base = array.base
    if base is None:
        return False
    if sys.getrefcount(base) > _ALONE:
        return True
    return _is_part(base) if isinstance(base, np.ndarray) else hasattr(base, "untyped_storage") and _is_lent(base)


def _is_lent(tensor: Any) -> bool:
    """Whether others may hold the memory of the tensor: it is a view of another one, or the memory is an array's."""
    return bool(tensor._is_view()) or not tensor.untyped_storage().resizable()


def _references(branch: list[Any]) -> int:
    """How many there are to what nobody holds but `branch`, as they are counted above."""
    value = branch[0]
    return sys.getrefcount(value)


_ALONE = _references([np.zeros(1)])
