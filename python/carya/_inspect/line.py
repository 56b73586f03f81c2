"""The line of Python that opens a dataset, with the fields that hold pictures and labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._records.opening import Opened

if TYPE_CHECKING:
    from .survey import Field

_PICTURES = {"jpeg", "png"}  # what `decode_image` decodes
_LABELS = ("label", "labels", "class", "class_id", "target", "cls", "y")
_TENSORS_MAX = 6


def python_line(opened: Opened, fields: Sequence[Field]) -> str:
    """As a user would write it: `carya.mds("train", image="image", label="label")`."""
    kind, path = opened.records.kind, opened.path
    options: dict[str, Any] = {}
    if kind == "webdataset":
        options = _of_tars(fields)
    elif kind in ("tfrecord", "mds", "arrow", "hf_dataset", "parquet"):
        options = _of_columns(kind, fields)
    elif kind == "array_record" and [field.name for field in fields] != ["record"]:
        options = {"record": "example"}
    elif kind == "csv" and re.search(r"\.tsv(\.(gz|zst|bz2|xz))?$", path):
        options = {"delimiter": "\t"}
    given = "".join(f", {name}={_quoted(value)}" for name, value in options.items())
    return f"carya.{kind}({_quoted(path)}{given})"


def _of_tars(fields: Sequence[Field]) -> dict[str, Any]:
    names = [field.name for field in fields]
    pictures = [field.name for field in fields if field.dtype in _PICTURES]
    usual = [name for name in pictures if name in ("jpg", "jpeg", "png")]
    options: dict[str, Any] = {}
    if not usual:
        others = pictures or [field.name for field in fields if field.name != "cls"]
        options["fields"] = {"image" if pictures else name: [name] for name in others[: 1 if pictures else None]}
    if "cls" not in names:
        options["label"] = None
    return options


def _of_columns(kind: str, fields: Sequence[Field]) -> dict[str, Any]:
    pictures = [field for field in fields if set(field.dtype.split(" or ")) <= _PICTURES]
    options: dict[str, Any] = {}
    if pictures:
        name = pictures[0].name
        inside = kind in ("arrow", "hf_dataset", "parquet") and name.endswith(".bytes")
        options["image"] = name.removesuffix(".bytes") if inside else name
        label = _label(fields)
        if label:
            options["label"] = label
        return options
    if kind == "parquet":
        return {}
    if [field.name for field in fields] == ["record"] and kind == "tfrecord":
        return {"record": "record"}
    tensors = {}
    for field in fields[:_TENSORS_MAX]:
        sides = re.fullmatch(r"\((\d+(?:, \d+)*)?,?\)", field.shape)
        if re.fullmatch(r"(u?int|float)\d+", field.dtype) and sides:
            tensors[_plain(field.name)] = (field.name, field.dtype, tuple(map(int, re.findall(r"\d+", field.shape))))
    if tensors:
        return {"tensors": tensors}
    if kind == "tfrecord":
        return {"record": "record"}
    texts = [field.name for field in fields if field.dtype in ("text", "bytes")]
    return {"encoded": {_plain(name): name for name in texts}} if texts else {}


def _label(fields: Sequence[Field]) -> str:
    """The field that is called like a label, of one integer."""
    numbers = [field.name for field in fields if re.fullmatch(r"u?int\d+|bool", field.dtype) and field.shape == "()"]
    for wanted in _LABELS:
        found = [name for name in numbers if re.split(r"[/.]", name)[-1].lower() == wanted]
        if found:
            return found[0]
    return ""


def _plain(name: str) -> str:
    """The name of a field that a feature's or a column's could be."""
    return re.sub(r"\W", "_", name)


def _quoted(value: Any) -> str:
    if isinstance(value, str) and value.isprintable():
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)}: {_quoted(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(_quoted, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    return '"\\t"' if value == "\t" else repr(value)
