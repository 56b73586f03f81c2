"""Plan files: the order of a pipeline's operations, kept (loader/plan/PLAN.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _core
from ._dataset import cache_dir
from ._errors import InvalidArgument, IoError, NotFound, Permission, invalid
from ._options import REORDERS

if TYPE_CHECKING:
    from ._pipeline import Pipeline

_BYTES_MAX = 4 << 20


def plan_text(pipeline: Pipeline, order: Sequence[int] = (), reorder: str = "exact") -> str:
    """The text of a plan file for `pipeline`: the order (none: in which a loader of this `reorder` begins here and now),
    and why.

    >>> import carya
    >>> p = carya.image_folder("photos").decode_image().color_jitter(0.4).random_crop(224).batch(8)
    >>> for step in json.loads(plan_text(p))["order"]:
    ...     print(step)
    {'index': 0, 'op': 'decode_image'}
    {'index': 2, 'op': 'random_crop'}
    {'index': 1, 'op': 'color_jitter'}
    """
    from datetime import datetime, timezone

    order = pipeline.native.fixed_order(reorder) or order
    sense = reorder if order else "exact"
    report: dict[str, Any] = json.loads(pipeline.native.explain(cache_dir(), list(order), sense))
    bound: dict[str, Any] = json.loads(pipeline.native.freeze_plan(reorder=sense, order=report["indices"]))
    kept = ("us", "declared_us", "proven", "assumed", "ops", "sizes")
    plan = {
        **bound,
        "chosen_by": {key: _rounded(report[key]) for key in kept},
        "machine": _machine(),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "made_by": f"carya {_core.version}",
    }
    return _readable(plan)


def read_plan(path: Any, native: _core.Pipeline, reorder: str) -> tuple[str, list[int]]:
    """`reorder` and the order of the plan file at `path`, checked against the pipeline.

    Errors: NotFound, Permission, IoError; InvalidArgument that names what differs, or when the file allows more than
    `reorder` does.
    """
    if not isinstance(path, str | os.PathLike):
        raise invalid("Loader: plan", path, "the path of a file that `carya plan freeze` wrote, or None")
    text = read_frozen(path, "plan", "carya plan freeze PIPELINE -o PLAN")
    try:
        sense, order = native.read_plan(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"plan: {str(path)!r}: {str(error).removeprefix('plan: ')}") from None
    if REORDERS.index(sense) > REORDERS.index(reorder):
        raise InvalidArgument(
            f'plan: {str(path)!r} was made under reorder="{sense}", which reorder="{reorder}" does not allow; '
            f'give Loader(plan=..., reorder="{sense}"), or freeze it again'
        )
    return sense, order


def read_frozen(path: str | os.PathLike[str], subject: str, command: str) -> bytes:
    """What `command` wrote. Errors: NotFound, Permission, IoError, InvalidArgument (too long)."""
    try:
        with open(path, "rb") as file:
            text = file.read(_BYTES_MAX + 1)
    except FileNotFoundError:
        raise NotFound(f"{subject}: no file {str(path)!r}; make one: {command}") from None
    except PermissionError:
        raise Permission(
            f"{subject}: {str(path)!r} cannot be read by this user; give this user the right to read it"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = getattr(error, "strerror", None) or error
        raise IoError(f"{subject}: {str(path)!r}: {reason}; give a file that `{command}` wrote") from None
    if len(text) > _BYTES_MAX:
        raise InvalidArgument(f"{subject}: {str(path)!r} has over {_BYTES_MAX} B; give a file that `{command}` wrote")
    return text


def _machine() -> dict[str, Any]:
    facts = _core.doctor()
    return {"cpu": _cpu_name(), "simd": facts["simd"], "cores": facts["allowed_cores"]}


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else os.uname().machine


def _rounded(value: Any) -> Any:
    """For a person: thousandths."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 3) if isinstance(value, float) else value


def _readable(document: Mapping[str, Any]) -> str:
    """One key a line, and one element of a list a line: a diff of two plans shows what changed."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n  " + ",\n  ".join(json.dumps(item) for item in value) + "\n ]"
        else:
            text = json.dumps(value)
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
