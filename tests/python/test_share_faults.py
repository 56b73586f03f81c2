"""Kills among trainers that share batches: whoever is left sees what a lone run sees, and nothing is left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from daemons import Daemon, running, until
from sweep_trainer import trained

LONG = bool(os.environ.get("CARYA_LONG"))
KILLS = 150 if LONG else 8


def drawn(draw: random.Random) -> dict[str, Any]:
    """What a trainer does. Few kinds, so that many share."""
    return {
        "share": ["sweep", draw.choice([1, 1, 2]) if LONG else 1],  # who waits for one that was killed waits a minute
        "epochs": 2,
        "batch_size": draw.choice([4, 4, 4, 5]),
        "seed": draw.choice([1, 1, 1, 2]),
        "breaks": {"0": draw.randrange(1, 60)} if draw.random() < 0.3 else {},
        "resumes_at": draw.randrange(1, 60) if draw.random() < 0.3 else 0,
        "keeps": draw.choice([0, 0, 1, 2]),
        "step_s": draw.choice([0.0, 0.002, 0.005, 0.02]),
    }


class Trainer:
    """A process that does such a task."""

    def __init__(self, task: dict[str, Any], daemon: Daemon) -> None:
        self.task = task
        self.pauses_until = 0.0
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "sweep_trainer.py"), json.dumps({**task, "socket": daemon.socket})],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ended(self) -> bool:
        return self._process.poll() is not None

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def check(self) -> None:
        """Its records are those of a lone run."""
        out, said = self._process.communicate(timeout=300)
        assert self._process.returncode == 0, f"{self.task}: {said}"
        assert json.loads(out) == trained({**self.task, "step_s": 0}, daemon="embedded"), self.task


def test_kills_pauses_breaks_and_late_comers_change_no_records_and_leave_nothing() -> None:
    seed = int(os.environ.get("CARYA_SEED", "0")) or random.randrange(1, 1 << 30)
    print(f"CARYA_SEED={seed}")
    draw = random.Random(seed)
    checked = kills = restarts = 0
    trainers: list[Trainer] = []
    with running("--linger", "0") as daemon:
        while kills < KILLS:
            while len(trainers) < 5:
                trainers.append(Trainer(drawn(draw), daemon))
            time.sleep(draw.uniform(0, 0.8))
            now = time.monotonic()
            for trainer in trainers:
                if 0 < trainer.pauses_until <= now:
                    trainer.pauses_until = 0
                    trainer.send(signal.SIGCONT)
            for trainer in [one for one in trainers if one.ended()]:
                trainers.remove(trainer)
                trainer.check()
                checked += 1
            event = draw.random()
            if event < 0.12:
                daemon.end()
                time.sleep(draw.uniform(0, 0.3))
                daemon.start()
                kills += 1
                restarts += 1
            elif trainers and event < 0.6:
                trainers.pop(draw.randrange(len(trainers))).kill()
                kills += 1
            elif trainers:
                paused = draw.choice(trainers)
                paused.send(signal.SIGSTOP)
                paused.pauses_until = now + draw.uniform(0.1, 8 if LONG else 0.5)
            assert daemon.process.poll() is None, "the daemon has ended"
        for trainer in trainers:
            trainer.send(signal.SIGCONT)
        for trainer in trainers:
            trainer.check()
            checked += 1
        print(f"{kills} kills, {restarts} of them of the daemon; {checked} trainers checked")
        assert checked > 0
        until(lambda: not daemon.status()["jobs"], 60)
        until(lambda: daemon.status()["shared_bytes"] == 0, 60)
        assert daemon.process.poll() is None
