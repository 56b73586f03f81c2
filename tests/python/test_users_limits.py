"""What caryad.toml allows a user: each limit is kept, for that user alone, whatever groups the user's processes have."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from daemons import until
from host_user import Refused, User
from test_users import ALICE, BOB, GROUP, JOB, MALLORY, Host, data, records_of_numbers, running, user
from workers import Worker
from workers import running as running_worker

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become other users")

# A job that takes all it can get, by a thread of its user's process.
TRAIN = """
import threading
pipeline = carya.image_folder(folder).shuffle(seed=3).decode_image().resize((96, 96)).batch(4)
loader = carya.Loader(
    pipeline, daemon=os.environ["CARYA_DAEMON_SOCKET"], job="train", threads=2, remote=workers, placement="remote:2"
)
with carya.Loader(
    pipeline, daemon=os.environ["CARYA_DAEMON_SOCKET"], job="keep", cache={"memory": "64MB"}, epochs=2
) as keep:
    for _ in range(2):
        for batch in keep:
            pass
    kept = keep.stats()["cache"]["bytes"]
def train():
    while True:
        for batch in loader:
            pass
threading.Thread(target=train, daemon=True).start()
"""
SEEN = """
place, daemon = loader.placement(), json.loads(_core.daemon_status(os.environ["CARYA_DAEMON_SOCKET"]))
result = {
    "threads": loader.stats()["threads"], "workers": (place.get("running") or {}).get("workers"),
    "used": sum(worker["chunks"] > 0 for worker in place["workers"]), "descriptors": daemon["descriptors_limit"],
    "kept": kept,
}
"""
LARGE = """
rows = carya.arrays({"x": __import__("numpy").zeros((64, 1 << 20), "uint8")}).batch(16)
with carya.Loader(rows, daemon=os.environ["CARYA_DAEMON_SOCKET"], job="large", slots=2) as large:
    result = len(next(iter(large))["x"])
"""
LIMITS = f"""
[remote]
worker_price = 0.5
[user.{MALLORY}]
descriptors = 300
limits.cores = 1
limits.shared_memory = "64MiB"
cache.memory = "100KB"
remote.max_workers = 1
[user.{BOB}]
remote.max_cost_per_hour = 0.4
"""


def test_each_limit_is_kept_for_the_user_whom_the_file_names(photos: Path) -> None:
    with ExitStack() as stack:
        workers = [stack.enter_context(running_worker()) for _ in range(2)]
        host = stack.enter_context(running(LIMITS))
        users = {uid: stack.enter_context(user(host, uid)) for uid in (ALICE, BOB, MALLORY)}
        for one in users.values():
            begin(one, host, photos, workers)
        seen: dict[int, dict[str, Any]] = {}

        def has_settled() -> bool:
            seen.update({uid: one.do(SEEN) for uid, one in users.items()})
            return seen[ALICE]["used"] == 2 and seen[MALLORY]["used"] > 0

        until(has_settled, 60)
        assert {uid: one["workers"] for uid, one in seen.items()} == {ALICE: 2, BOB: 0, MALLORY: 1}
        assert {uid: one["used"] for uid, one in seen.items()} == {ALICE: 2, BOB: 0, MALLORY: 1}
        assert seen[MALLORY]["threads"] == 1
        assert seen[ALICE]["threads"] == seen[BOB]["threads"] == min(2, len(os.sched_getaffinity(0)))
        assert 0 < seen[MALLORY]["kept"] <= 100_000 < seen[ALICE]["kept"] == seen[BOB]["kept"]
        assert seen[MALLORY]["descriptors"] == 300 < seen[ALICE]["descriptors"] == seen[BOB]["descriptors"]
        with pytest.raises(Refused, match=r"Exhausted: arrays: 64 MiB are more than the .* MiB of shared memory"):
            users[MALLORY].do(LARGE)
        assert users[BOB].do(LARGE) == 16


def begin(one: User, host: Host, photos: Path, workers: list[Worker]) -> None:
    folder = data(host, photos, f"photos-{one.uid}", one.uid, one.uid, 0o755)
    one.do(TRAIN, folder=str(folder), workers=[f"127.0.0.1:{worker.port}" for worker in workers])


def test_limits_hold_for_a_user_of_one_daemon_whatever_groups() -> None:
    limits = f"limits.jobs = 1\n[user.{BOB}]\nlimits.jobs = 1\n"
    with running(f"[user.{MALLORY}]\ndaemons = 1\n{limits}", "--idle-exit", "0.2") as host, ExitStack() as stack:
        first, second = (stack.enter_context(user(host, MALLORY, GROUP + number)) for number in range(2))
        bob, bob_of_group = (stack.enter_context(user(host, BOB, *groups)) for groups in ((), (GROUP,)))
        assert first.do(JOB, job="one") == records_of_numbers()[0]
        with pytest.raises(Refused, match=r"1 daemons of this user; .* \[users\] daemons of caryad.toml"):
            second.do(JOB, job="two")
        with pytest.raises(Refused, match=r"1 jobs of at most 1"):
            first.do(JOB.replace("loader", "another"), job="two")
        for one in (bob, bob_of_group):  # of whom nothing is said: each set of groups has the limits
            assert one.do(JOB, job="one") == records_of_numbers()[0]
        first.do("del batches; loader.close()")
        until(lambda: f" ended uid={MALLORY} " in host.log())
        assert second.do(JOB, job="two") == records_of_numbers()[0]


def test_a_reload_takes_over_how_many_daemons_a_user_may_have() -> None:
    with running("[users]\ndaemons = 1\n") as host, ExitStack() as stack:
        first, second = (stack.enter_context(user(host, ALICE, GROUP + number)) for number in range(2))
        first.do(JOB, job="one")
        with pytest.raises(Refused, match=r"1 daemons of this user"):
            second.do(JOB, job="two")
        host.config.write_text("[users]\ndaemons = 2\n")
        host.process.send_signal(signal.SIGHUP)
        until(lambda: " reloaded" in host.log())
        assert second.do(JOB, job="two") == records_of_numbers()[0]
