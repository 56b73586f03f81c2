"""A trainer of `functions.py`: says each batch, behind its state, and goes on from there when it is started again, or when the
processes of its loader are gone.

    function_trainer.py STATE

A line per batch: epoch, the position behind it, digest; "again" and why, where the loader was made anew.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from function_pipeline import digest, pipeline

import carya


def train(path: Path) -> None:
    state = json.loads(path.read_text()) if path.exists() else None
    while True:
        with carya.Loader(pipeline(), threads=2, slots=6, **({} if state is None else {"state": state})) as loader:
            try:
                while True:
                    for batch in loader:
                        state = loader.state_dict()
                        written = path.with_suffix(".new")
                        written.write_text(json.dumps(state))
                        os.replace(written, path)
                        time.sleep(0.005)  # a step: batches lie ready, and cores are left for what is tried
                        print(batch.epoch, batch.position, digest(batch), flush=True)
            except carya.WorkerDied as error:
                print("again", str(error).splitlines()[0], flush=True)
                state = loader.state_dict()


if __name__ == "__main__":
    train(Path(sys.argv[1]))
