#!/usr/bin/env python3
"""Does each user of one daemon for all have the processor by their weight, however many jobs they run?

A real `caryad --all-users`, as root, and a trainer process for each user, whose jobs take all they can get: photos, blur and
small arrays. Ceiling: a user's part of the processor time of all users' daemons is the weight's, within 5 % over 10 s; the
exit status is 1 where it is not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/python"))

from fair_shares import cpu_s  # noqa: E402
from host_user import User  # noqa: E402
from test_users import Host, running  # noqa: E402

from carya._bench.photos import find_photos, warm  # noqa: E402
from carya._bench.report import Options  # noqa: E402

WITHIN = 0.05
FIRST_UID = 61_101
USERS = ((1.0, 1), (3.0, 1), (2.0, 4))  # weight, jobs

# The jobs of one user, each in a thread of the trainer.
TRAIN = """
import threading
import fair_shares
def take(loader):
    while True:
        for _ in loader:
            pass
for number in range(jobs):
    kind = fair_shares.KINDS[number % len(fair_shares.KINDS)]
    loader = carya.Loader(
        fair_shares.pipeline(kind, photos), daemon=os.environ["CARYA_DAEMON_SOCKET"], job=f"job-{number}", slots=8
    )
    threading.Thread(target=take, args=(loader,), daemon=True).start()
"""


def had(host: Host) -> dict[int, float]:
    return {uid: cpu_s(pid) for uid, pid in host.daemons().items() if uid >= FIRST_UID}


def play(users: tuple[tuple[float, int], ...], seconds: float, photos: list[str]) -> list[dict[str, object]]:
    weights = {FIRST_UID + number: weight for number, (weight, _) in enumerate(users)}
    tables = "".join(f"[user.{uid}]\nweight = {weight}\n" for uid, weight in weights.items())
    with running("[users]\n" + tables) as host, ExitStack() as stack:
        if "weights of users are not kept" in host.log():
            sys.exit("this process may make no cgroups of the controller cpu: " + host.log())
        folder = host.folder / "photos"
        folder.mkdir(mode=0o755)
        given = []
        for path in photos:  # where every user may look
            given.append(shutil.copy(path, folder))
            Path(given[-1]).chmod(0o644)
        for uid, (_, jobs) in zip(weights, users, strict=True):
            home = host.folder / str(uid)
            home.mkdir(mode=0o700)
            os.chown(home, uid, uid)
            one = stack.enter_context(User(uid, (), host.socket, str(home), (str(ROOT / "bench/fair_shares.py"),)))
            one.do(TRAIN, jobs=jobs, photos=given)
        time.sleep(2)
        before = had(host)
        time.sleep(seconds)
        after = had(host)
    taken = {uid: after[uid] - before[uid] for uid in weights}
    rows = []
    for uid, (weight, jobs) in zip(weights, users, strict=True):
        part, wanted = taken[uid] / sum(taken.values()), weight / sum(weights.values())
        rows.append({"weight": weight, "jobs": jobs, "part": part, "wanted": wanted, "of_wanted": part / wanted})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="one second of one round: does it run?")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("left out: needs root, to become other users")
        return 0
    if arguments.smoke:
        arguments.seconds, arguments.rounds = 1.0, 1
    with tempfile.TemporaryDirectory() as scratch:
        photos = find_photos(Options(smoke=arguments.smoke), Path(scratch))[:200]
        warm(photos)
        rounds = [play(USERS, arguments.seconds, photos) for _ in range(arguments.rounds)]
    rows = [row for rows in rounds for row in rows]
    for row in rows:
        print(
            f"weight {row['weight']:g}, {row['jobs']} jobs: {row['part']:.3f} of the processor, "
            f"{row['of_wanted']:.3f} of its part"
        )
    worst = max(abs(float(str(row["of_wanted"])) - 1) for row in rows)
    print(f"worst: {worst:.3f} off; at most {WITHIN}")
    print(json.dumps({"bench": "user_shares", "rows": rows, "worst": worst}))
    return int(worst > WITHIN and not arguments.smoke)


if __name__ == "__main__":
    sys.exit(main())
