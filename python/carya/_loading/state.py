"""The state of a stream: a small dict that says where it is and of what it is (DESIGN section 4)."""

from __future__ import annotations

import logging
import operator
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._errors import Error, InvalidArgument, invalid
from .._options import WHOLE_MAX

VERSION = 1
_KEYS = ("version", "dataset", "pipeline", "seed", "global_size", "epoch", "position")
# Keys of states of other loaders, whose users come with them, and what those are.
_OTHERS = (
    ({"indices", "generators"}, "of a carya.torch.DataLoader with num_workers=0; give it one made with num_workers=0"),
    ({"workers", "next"}, "of a carya.torch.DataLoader over an iterable dataset; give it one over the same dataset"),
    ({"_snapshot"}, "of torchdata's StatefulDataLoader, {}"),
    ({"_num_yielded"}, "of torchdata's StatefulDataLoader, {}"),
)
OTHERWISE = ", or accept another stream with load_state_dict(state, strict=False)"
_NOT_OURS = "whose order is another one; begin with the next whole epoch, which set_epoch(e) chooses, and save states from there on"
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


def plain(state: Any) -> Any:
    """The state with numbers and strings of Python's in place of numpy's and jax's, which some checkpoints give back."""
    return {key: _plain(value) for key, value in state.items()} if isinstance(state, dict) else state


def _plain(value: Any) -> Any:
    if type(value) in (int, str, bool):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):  # also one of no dimension
        return value.tolist()
    try:
        return operator.index(value)
    except TypeError:
        return value


def foreign(state: Any) -> str:
    """What loader a state is of that is none of this kind, and what to do; "" where it is not known."""
    for keys, of in _OTHERS:
        if isinstance(state, dict) and keys <= state.keys():
            return f"load_state_dict: the state is {of.format(_NOT_OURS)}"
    if isinstance(state, dict) and state.keys() >= set(_KEYS):
        return "load_state_dict: the state is of a carya.Loader, or of a DataLoader with worker processes; give it one of those"
    return ""


def check(
    state: Any,
    mine: dict[str, Any],
    pipeline: _core.Pipeline,
    reorder: str,
    on_error: str,
    count: int,
    strict: bool,
    otherwise: str = OTHERWISE,
) -> Place:
    """The place that `state` names, after comparing it with this loader's own stamp.

    Errors: InvalidArgument that says what differs and what to do. Another global batch size is allowed, and logged.
    `strict=False` accepts another pipeline, dataset or seed as long as the position exists here. `otherwise`: how a user gives that.
    """
    state = plain(state)
    if not isinstance(state, dict) or any(key not in state for key in _KEYS):
        if of := foreign(state):
            raise InvalidArgument(of)
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
            f"load_state_dict: {'; '.join(differences)}; build the loader as it was when the state was saved{otherwise}"
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
        found.append(
            f"the seed differs (state {state['seed']}, here {mine['seed']}; it is that of .shuffle(seed=), of Loader(seed=), or of "
            "torch.manual_seed or generator= of a DataLoader)"
        )
    return found


def _order_difference(theirs: list[int], ours: list[int], pipeline: _core.Pipeline, reorder: str) -> str:
    labels = pipeline.op_labels()

    def shown(order: list[int]) -> str:
        return " > ".join(labels[op] if op < len(labels) else str(op) for op in order[:64]) if order else "as declared"

    why = _refusal(pipeline, reorder, theirs)
    hint = f"here it cannot run: {why}" if why else "give the state when the loader is made: Loader(..., state=state)"
    return f"the order of operations differs (state {shown(theirs)}, here {shown(ours)}; {hint})"
