"""The state of a stream: a small dict that says where it is and of what it is (DESIGN section 4)."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from .. import _core
from .._errors import Error, InvalidArgument, invalid
from .._options import WHOLE_MAX

VERSION = 1
_KEYS = ("version", "dataset", "pipeline", "seed", "global_size", "epoch", "position")
_log = logging.getLogger("carya")


class Place(NamedTuple):
    """Where the stream goes on: the next position of an epoch."""

    epoch: int
    position: int


def stamp(
    pipeline: _core.Pipeline, order: list[int], dataset: str, on_error: str, seed: int, global_size: int
) -> dict[str, Any]:
    """What all states of one loader share. `order` is that of the operations where it gives other bits than declared."""
    shared = {
        "version": VERSION,
        "dataset": dataset,
        "pipeline": pipeline.fingerprint(on_error, order),
        "seed": seed,
        "global_size": global_size,
    }
    return {**shared, "order": order} if order else shared


def choose_order(pipeline: _core.Pipeline, reorder: str, state: Any, kept: list[int] | None) -> list[int]:
    """The order with other bits that a new loader runs; empty for the declared bits. A state's where it can be run.

    `kept`: the order of a plan file under `reorder`; a state's other one is left for check() to refuse.
    """
    if kept is not None:
        return [] if not _refusal(pipeline, "exact", kept) else kept
    own = pipeline.fixed_order(reorder)
    order: Any = state.get("order", []) if isinstance(state, dict) else None
    if not _is_order(order) or _refusal(pipeline, reorder, order):
        return own
    if own and not order:
        _log.warning(
            "restored a state whose operations run as declared, and so do these: reorder=%r is for a new run", reorder
        )
    return list(order)


def _is_order(order: Any) -> bool:
    return isinstance(order, list) and all(type(op) is int and 0 <= op < WHOLE_MAX for op in order)


def _refusal(pipeline: _core.Pipeline, reorder: str, order: list[int]) -> str:
    """Why a state's order cannot be run here; "" when it can."""
    if not order:
        return ""
    try:
        pipeline.check_order(order, reorder)
    except Error as error:
        return str(error)
    return ""


def check(
    state: Any, mine: dict[str, Any], pipeline: _core.Pipeline, reorder: str, on_error: str, count: int, strict: bool
) -> Place:
    """The place that `state` names, after comparing it with this loader's own stamp.

    Errors: InvalidArgument that says what differs and what to do. Another global batch size is allowed, and logged.
    `strict=False` accepts another pipeline, dataset or seed as long as the position exists here.
    """
    if not isinstance(state, dict) or any(key not in state for key in _KEYS):
        missing = [key for key in _KEYS if not isinstance(state, dict) or key not in state]
        raise invalid("load_state_dict: state", state, f"what state_dict() returned (missing: {', '.join(missing)})")
    if state["version"] != VERSION or isinstance(state["version"], bool):
        raise invalid("load_state_dict: version", state["version"], f"a state of version {VERSION}")
    for key in ("epoch", "position", "global_size", "seed"):
        highest = 2**64 - 1 if key == "seed" else WHOLE_MAX
        if not isinstance(state[key], int) or isinstance(state[key], bool) or not 0 <= state[key] <= highest:
            raise invalid(f"load_state_dict: {key}", state[key], f"an integer of 0 to {highest}")
    if state["position"] > count:
        raise invalid("load_state_dict: position", state["position"], f"a position within the {count} records here")
    if not _is_order(state.get("order", [])):
        raise invalid("load_state_dict: order", state["order"], "a list of the operations' numbers")
    differences = _differences(state, mine, pipeline, reorder, on_error)
    if differences and strict:
        raise InvalidArgument(
            f"load_state_dict: {'; '.join(differences)}; build the loader as it was when the state was saved, "
            "or accept another stream with load_state_dict(state, strict=False)"
        )
    for difference in differences:
        _log.warning("load_state_dict(strict=False): %s", difference)
    if state["global_size"] != mine["global_size"]:
        _log.warning(
            "restored a state of global batch size %d into one of %d: steps after position %d have the new size",
            state["global_size"],
            mine["global_size"],
            state["position"],
        )
    return Place(state["epoch"], state["position"])


def _differences(
    state: dict[str, Any], mine: dict[str, Any], pipeline: _core.Pipeline, reorder: str, on_error: str
) -> list[str]:
    found = []
    order = state.get("order", [])
    ours = pipeline.fingerprint(on_error, order)
    if state["dataset"] != mine["dataset"]:
        found.append(
            f"the dataset differs (state {str(state['dataset'])[:12]}, here {mine['dataset'][:12]}: "
            "files, sizes, labels or views were changed)"
        )
    if state["pipeline"] != ours:
        others = [policy for policy in ("raise", "replace", "mask") if policy != on_error]
        matching = [policy for policy in others if pipeline.fingerprint(policy, order) == state["pipeline"]]
        if matching:
            found.append(f"on_error differs (state {matching[0]!r}, here {on_error!r})")
        else:
            found.append(
                f"the pipeline differs (state {str(state['pipeline'])[:12]}, here {ours[:12]}: "
                "ops, parameters or codec versions were changed)"
            )
    elif order != mine.get("order", []):
        found.append(_order_difference(order, mine.get("order", []), pipeline, reorder))
    if state["seed"] != mine["seed"]:
        found.append(f"the seed differs (state {state['seed']}, here {mine['seed']})")
    return found


def _order_difference(theirs: list[int], ours: list[int], pipeline: _core.Pipeline, reorder: str) -> str:
    labels = pipeline.op_labels()

    def shown(order: list[int]) -> str:
        return " > ".join(labels[op] if op < len(labels) else str(op) for op in order[:64]) if order else "as declared"

    why = _refusal(pipeline, reorder, theirs)
    hint = f"here it cannot run: {why}" if why else "give the state when the loader is made: Loader(..., state=state)"
    return f"the order of operations differs (state {shown(theirs)}, here {shown(ours)}; {hint})"
