"""A job of a sweep, as a process of its own: `python sweep_trainer.py TASK`, or `trained(task)` in this one."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import Any

from streams import numbers

import carya


def opened(task: dict[str, Any], **options: Any) -> carya.Loader:
    """Tried again where the daemon is killed at that moment: only a loader that was there once waits by itself."""
    for _ in range(300):
        with contextlib.suppress(carya.Closed, carya.NotFound):
            return carya.Loader(
                numbers(400, batch_size=task["batch_size"]), seed=task["seed"], epochs=task["epochs"], **options
            )
        time.sleep(0.1)
    raise TimeoutError("no daemon for 30 s")


def trained(task: dict[str, Any], **options: Any) -> list[list[int]]:
    """The records of all batches. `breaks`: of an epoch, the number of its batches after which it is left; `resumes_at`: so
    many batches in all, after which the loader is made anew from its state; `keeps`: how many of the last batches it keeps."""
    seen: list[list[int]] = []
    kept: list[carya.Batch] = []
    state: dict[str, Any] | None = None
    epoch = 0
    while epoch < task["epochs"]:
        with opened(task, **options) as loader:
            if state is not None:
                loader.load_state_dict(state)
                state = None
            while epoch < task["epochs"] and state is None:
                for step, batch in enumerate(loader, 1):
                    assert (batch["x"] == batch.records).all(), "rows of another batch"
                    seen.append(batch.records.tolist())
                    kept = [*kept, batch][-task["keeps"] :] if task["keeps"] else []
                    time.sleep(task["step_s"])
                    if len(seen) == task["resumes_at"]:
                        state = loader.state_dict()
                        break
                    if step == task["breaks"].get(str(epoch)):
                        epoch += 1
                        break
                else:
                    epoch += 1
    return seen


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    records = trained(asked, daemon=asked["socket"], share=tuple(asked["share"]))
    print(json.dumps(records), flush=True)
