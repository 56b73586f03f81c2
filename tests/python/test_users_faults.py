"""Kills among three users of one daemon: each sees the batches of a lone run, and nothing is left behind."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from daemons import until
from host_user import User
from test_users import ALICE, BOB, MALLORY, NUMBERS, running, user

import carya

LONG = bool(os.environ.get("CARYA_LONG"))
KILLS = 500 if LONG else 14
STEPS = 20  # of a turn

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become other users")

# Some batches of a loader, which is made from the state where there is none yet.
TURN = """
if loader is None:
    for _ in range(300):
        try:
            loader = carya.Loader(
                streams.numbers(400, batch_size=4), daemon=os.environ["CARYA_DAEMON_SOCKET"], job="work", state=state
            )
            break
        except (carya.Closed, carya.NotFound, carya.Timeout):
            time.sleep(0.1)  # only a loader that was there once waits by itself
    batches = (batch for epoch in iter(lambda: loader, None) for batch in epoch)
taken = []
for _ in range(steps):
    taken.append(next(batches).records.tolist())
    time.sleep(0.002)
result = taken, loader.state_dict()
"""


class Training:
    """A user's, which goes on from its last state when it was killed."""

    def __init__(self, one: User) -> None:
        self.user = one
        self._loader: dict[str, Any] = {"loader": None, "state": None}
        self.seen = 0

    def begin_turn(self) -> None:
        self.user.ask(TURN, steps=STEPS, **self._loader)

    def end_turn(self, wanted: list[list[int]]) -> None:
        taken, self._state = self.user.answer()
        assert taken == wanted[self.seen : self.seen + STEPS], f"user {self.user.uid}, batch {self.seen}"
        self.seen += STEPS
        self._loader = {}

    def kill(self) -> None:
        self.user.restart()
        self._loader = {"loader": None, "state": self._state if self.seen else None}


def test_kills_among_three_users_change_no_batch_and_leave_nothing() -> None:
    seed = int(os.environ.get("CARYA_SEED", "0")) or random.randrange(1, 1 << 30)
    print(f"CARYA_SEED={seed}")
    draw = random.Random(seed)
    with carya.Loader(NUMBERS, daemon="embedded") as loader:
        wanted = [batch.records.tolist() for _ in range(200 if LONG else 10) for batch in loader]
    kills = {"trainer": 0, "daemon": 0, "daemon of all": 0}
    with running("", "--idle-exit", "0.5", "--linger", "0") as host, ExitStack() as users:
        trainings = [Training(users.enter_context(user(host, uid))) for uid in (ALICE, BOB, MALLORY)]
        while sum(kills.values()) < KILLS:
            for training in trainings:
                training.begin_turn()
            time.sleep(draw.uniform(0, 0.15))
            event, one = draw.random(), draw.choice(trainings)
            if event < 0.35:
                one.kill()
                kills["trainer"] += 1
            elif event < 0.75:
                if (pid := host.daemons().get(one.user.uid)) is not None:
                    os.kill(pid, signal.SIGKILL)
                    kills["daemon"] += 1
            elif event < 0.9:
                host.process.kill()
                host.process.wait(60)
                time.sleep(draw.uniform(0, 0.2))
                host.start()
                kills["daemon of all"] += 1
            elif (pid := host.daemons().get(one.user.uid)) is not None:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(draw.uniform(0, 0.2))
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            for training in trainings:
                if training is one and event < 0.35:
                    training.begin_turn()
                training.end_turn(wanted)
        print(kills, [training.seen for training in trainings])
        for training in trainings:
            training.user.do("loader.close()")
        until(lambda: not host.daemons(), 60)
        until(lambda: not os.listdir(Path(host.socket).parent / "users"), 60)
        assert host.process.poll() is None
