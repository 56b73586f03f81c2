"""One caryad for all users of a host: each has a process with just their rights, and nothing of the others'.

As root, with three users who are none of this machine's accounts; one of them attacks (tests/ENVIRONMENT.md).
"""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import commands
import daemons
import pytest
from daemons import until
from host_user import Refused, User
from PIL import Image
from streams import epoch_digest, numbers
from test_metrics import families, samples
from test_prometheus import program

import carya
from carya import _core, _programs

# Numbers of their own for each process of tests: cgroups go by user, and all of them lie in one folder.
_FIRST = 61_000 + 100 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
ALICE, BOB, MALLORY = _FIRST + 1, _FIRST + 2, _FIRST + 3
GROUP = _FIRST + 10  # of alice's and bob's common data

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become other users")


class Host:
    """A daemon of all users, in a folder that all of them may look through."""

    def __init__(self, folder: Path, config: str, *arguments: str) -> None:
        self.folder = folder
        self.socket = str(folder / "run" / "caryad.sock")
        self.config = folder / "caryad.toml"
        self.config.write_text(config)
        self._arguments = arguments
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        command = [_programs.program(), "--all-users", "--socket", self.socket, "--config", str(self.config)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([*command, *self._arguments], cwd="/", stderr=log)
        until(lambda: f"pid={self.process.pid} for all users" in self.log() or self.process.poll() is not None)

    def stop(self) -> None:
        """It and all that it started."""
        self.process.terminate()
        self.process.wait(60)
        for pid in self.daemons().values():
            os.kill(pid, signal.SIGKILL)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def daemons(self) -> dict[int, int]:
        """The processes of users' daemons, the newest of each by user."""
        found = {}
        for line in self.log().splitlines():
            if " started uid=" in line:
                uid, pid = (int(word.partition("=")[2]) for word in line.split(" started ")[1].split())
                try:
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if self.socket.encode() in command:
                    found[uid] = pid
        return found


@contextmanager
def running(config: str = "", *arguments: str) -> Iterator[Host]:
    folder = Path(tempfile.mkdtemp(prefix="caryad-"))
    folder.chmod(0o755)
    host = Host(folder, config, *arguments)
    try:
        yield host
    finally:
        host.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def host() -> Iterator[Host]:
    with running() as host:
        yield host


@contextmanager
def user(host: Host, uid: int, *groups: int) -> Iterator[User]:
    """With a home that is theirs alone."""
    home = host.folder / f"home-{uid}"
    home.mkdir(mode=0o700, exist_ok=True)
    os.chown(home, uid, uid)
    with User(uid, groups, host.socket, str(home)) as one:
        yield one


def data(host: Host, photos: Path, name: str, owner: int, group: int, mode: int) -> Path:
    """The photos, for whom the mode says."""
    folder = host.folder / name
    shutil.copytree(photos, folder)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, owner, group)
        path.chmod(mode if path.is_dir() else mode & 0o666)
    return folder


EPOCH = """
pipeline = carya.image_folder(folder).shuffle(seed=3).decode_image().center_crop(48).batch(4)
result = streams.epoch_digest(pipeline, daemon=os.environ["CARYA_DAEMON_SOCKET"])
"""
JOB = """
loader = carya.Loader(streams.numbers(400, batch_size=4), daemon=os.environ["CARYA_DAEMON_SOCKET"], job=job)
batches = iter(loader)
result = next(batches).records.tolist()
"""
REST = "result = [batch.records.tolist() for batch in batches]"
NUMBERS = numbers(400, batch_size=4)


def records_of_numbers() -> list[list[int]]:
    with carya.Loader(NUMBERS, daemon="embedded") as loader:
        return [batch.records.tolist() for batch in loader]


def test_each_user_has_a_daemon_with_just_their_rights(host: Host, photos: Path) -> None:
    common = data(host, photos, "common", ALICE, GROUP, 0o750)
    wanted = epoch_digest(
        carya.image_folder(common).shuffle(seed=3).decode_image().center_crop(48).batch(4), daemon="embedded"
    )
    with user(host, ALICE, GROUP) as alice, user(host, BOB, GROUP, GROUP + 1) as bob:
        assert alice.do(EPOCH, folder=str(common)) == wanted
        assert bob.do(EPOCH, folder=str(common)) == wanted, "by the group"
        daemons = host.daemons()
        assert set(daemons) == {ALICE, BOB}
        for uid, groups in ((ALICE, [GROUP]), (BOB, [GROUP, GROUP + 1])):
            facts = dict(
                line.split(":", 1)
                for line in Path(f"/proc/{daemons[uid]}/status").read_text().splitlines()
                if ":" in line
            )
            assert facts["Uid"].split() == [str(uid)] * 4
            assert facts["Gid"].split() == [str(uid)] * 4
            assert sorted(map(int, facts["Groups"].split())) == groups
            assert int(facts["NoNewPrivs"]) == 1
            outside = {os.readlink(f"/proc/{daemons[uid]}/fd/{fd}") for fd in (0, 1, 2)}
            assert outside == {"/dev/null"}, "no stream is shared with other users"
            assert int(facts["CapEff"], 16) == int(facts["CapPrm"], 16) == 0
            assert Path(f"/proc/{daemons[uid]}/comm").read_text() == "caryad\n"


def test_what_a_user_may_not_read_their_daemon_does_not_read(host: Host, photos: Path) -> None:
    private = data(host, photos, "private", ALICE, ALICE, 0o700)
    common = data(host, photos, "common", ALICE, GROUP, 0o750)
    with user(host, ALICE, GROUP) as alice, user(host, MALLORY) as mallory:
        alice.do(EPOCH, folder=str(private))
        for folder in (private, common):
            with pytest.raises(Refused, match=r"Permission.*" + folder.name):
                mallory.do(EPOCH, folder=str(folder))
    with user(host, MALLORY, GROUP) as mallory:  # another set of groups is another daemon, at the same time
        mallory.do(EPOCH, folder=str(common))
        with pytest.raises(Refused, match=r"Permission.*private"):
            mallory.do(EPOCH, folder=str(private))


def test_a_user_sees_and_stops_their_own_jobs_only_and_root_those_of_all(host: Host) -> None:
    with user(host, ALICE) as alice, user(host, BOB) as bob:
        first = alice.do(JOB, job="work")
        assert bob.do(JOB, job="work") == first, "names of jobs are each user's own"
        jobs = 'result = [job["job"] for job in json.loads(_core.daemon_status(os.environ["CARYA_DAEMON_SOCKET"]))["jobs"]]'
        alice.do(
            'other = carya.Loader(streams.numbers(4, batch_size=2), daemon=os.environ["CARYA_DAEMON_SOCKET"], job="x")'
        )
        assert sorted(alice.do(jobs)) == ["work", "x"]
        assert bob.do(jobs) == ["work"]
        with pytest.raises(Refused, match=r"job x: not here"):
            bob.do('_core.daemon_stop_job(os.environ["CARYA_DAEMON_SOCKET"], "x")')
        bob.do('_core.daemon_stop_job(os.environ["CARYA_DAEMON_SOCKET"], "work")')
        assert alice.do(REST) == records_of_numbers()[1:]
        folder = Path(host.socket).parent / "users"
        for uid, names in ((ALICE, ["work", "x"]), (BOB, [])):
            status = json.loads(_core.daemon_status(str(folder / f"{uid}.sock")))
            assert sorted(job["job"] for job in status["jobs"]) == names
        with pytest.raises(Refused, match=r"PermissionError"):
            bob.do("os.listdir(folder)", folder=str(folder))
        own = folder / f"{ALICE}.sock"
        with pytest.raises(Refused):
            bob.do("_core.daemon_status(path)", path=str(own))
        folder.chmod(0o755)
        own.chmod(0o666)
        with pytest.raises(Refused, match=rf"user {BOB} is not served here"):
            bob.do("_core.daemon_status(path)", path=str(own))


def test_status_of_all_users_is_for_root(host: Host) -> None:
    with user(host, ALICE) as alice, user(host, BOB) as bob:
        alice.do(JOB, job="hers")
        bob.do(JOB, job="his")
        shown = commands.run("status", "--all-users", "--socket", host.socket)
        assert re.search(rf"user {ALICE} -.*job hers.*user {BOB} -.*job his", shown, re.DOTALL)
        users = json.loads(commands.run("status", "--all-users", "--socket", host.socket, "--json"))["users"]
        assert [one["user"] for one in users] == [str(ALICE), str(BOB)]
        with pytest.raises(Refused, match=r"Permission: .*users is root's; run it as root"):
            alice.do("commands.show_all_users(path, True)", path=host.socket)
        os.kill(host.daemons()[ALICE], signal.SIGSTOP)
        shown = commands.run("status", "--all-users", "--socket", host.socket)
        assert re.search(rf"user {ALICE} -.*no answer.*user {BOB} -.*job his", shown, re.DOTALL)
        os.kill(host.daemons()[ALICE], signal.SIGCONT)
        for command in ("status", "top"):
            assert "`carya status --all-users` shows theirs" in commands.run(command, "--socket", host.socket, code=1)
    with daemons.running() as alone:
        assert "is no service for all users" in commands.run("status", "--all-users", "--socket", alone.socket, code=1)


def test_top_shows_the_daemons_of_all_users_and_waits_for_none(host: Host) -> None:
    with user(host, ALICE) as alice, user(host, BOB) as bob:
        alice.do(JOB, job="hers")
        bob.do(JOB, job="his")
        once = commands.run("top", "--once", "--all-users", "--socket", host.socket)
        assert re.search(rf"user {ALICE} -.*job hers.*user {BOB} -.*job his", once, re.DOTALL)
        page = commands.run("top", "--web", "--once", "--all-users", "--socket", host.socket)
        assert re.search(rf"user {ALICE}<.*>hers, rank 0.*user {BOB}<.*>his, rank 0", page, re.DOTALL)
        keyboard, terminal = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "carya", "top", "--all-users", "--socket", host.socket],
            stdin=terminal, stdout=terminal, stderr=terminal, env={**os.environ, "COLUMNS": "160", "LINES": "50", "TERM": "xterm"},
        ) as child:  # fmt: skip
            screen = b""

            def shows(word: bytes) -> bool:
                nonlocal screen
                if select.select([keyboard], [], [], 0.1)[0]:
                    screen += os.read(keyboard, 65536)
                return word in screen

            until(lambda: shows(b"job his"))
            os.kill(host.daemons()[ALICE], signal.SIGSTOP)
            until(lambda: shows(b"no answer now"))
            assert b"job hers" in screen, "what it said last"
            screen = b""
            until(lambda: shows(b"job his"))
            os.kill(host.daemons()[ALICE], signal.SIGCONT)
            os.write(keyboard, b"q")
            until(lambda: shows(b"\0 never") or child.poll() is not None)
            assert child.returncode == 0
        os.close(keyboard)
        os.close(terminal)


def page_of(host: Host, path: str = "/metrics") -> tuple[int, str]:
    found = re.search(r"metrics address=(\S+):(\d+)", host.log())
    assert found, host.log()
    connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=300)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_one_page_has_the_figures_of_all_users() -> None:
    with running("", "--metrics", "127.0.0.1:0") as host, user(host, ALICE) as alice, user(host, BOB, GROUP) as bob:
        assert families(page_of(host)[1])["carya_user_up"] == "gauge", "before there is a user"
        alice.do(JOB, job="work")
        bob.do(JOB, job='wo"rk')

        def rows(name: str) -> dict[str, float]:
            return samples(page_of(host)[1]).get(name, {})

        hers, his = f'user="{ALICE}",daemon="1"', f'user="{BOB}",daemon="1"'
        assert rows("carya_user_up") == {hers: 1, his: 1}
        assert set(rows("carya_batches_total")) == {
            f'{hers},carya_job="work",rank="0"',
            f'{his},carya_job="wo\\"rk",rank="0"',
        }
        assert set(rows("process_resident_memory_bytes")) == {hers, his}
        with user(host, BOB, GROUP + 1) as other:  # another daemon of the same user
            other.do(JOB, job="work")
            assert set(rows("carya_uptime_seconds")) == {hers, his, f'user="{BOB}",daemon="2"'}
        os.kill(host.daemons()[ALICE], signal.SIGSTOP)
        up = rows("carya_user_up")
        assert (up[hers], up[his]) == (0, 1)
        assert f'{his},carya_job="wo\\"rk",rank="0"' in rows("carya_batches_total")
        os.kill(host.daemons()[ALICE], signal.SIGCONT)
        until(lambda: rows("carya_user_up")[hers] == 1)
        assert page_of(host, "/readyz") == (200, "ready\n")
        assert page_of(host, "/healthz") == (200, "ok\n")
        assert page_of(host, "/other")[0] == 404
        assert alice.do(REST) == records_of_numbers()[1:]


def test_prometheus_reads_the_page_of_all_users() -> None:
    """By promtool's own reading of the text format."""
    promtool = program("promtool")
    with running("", "--metrics", "127.0.0.1:0") as host, user(host, ALICE) as alice, user(host, BOB) as bob:
        alice.do(JOB, job='a"b\\c\nd\x01é')
        bob.do(JOB, job="work")
        page = page_of(host)[1]
        assert page.count("carya_batches_total{") == 2
        done = subprocess.run(
            [promtool, "check", "metrics"], input=page, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_is_made_without_any_right_and_comes_again() -> None:
    with running("", "--metrics", "127.0.0.1:0") as host, user(host, ALICE) as alice:
        alice.do(JOB, job="work")

        def process() -> int:
            children = Path(f"/proc/{host.process.pid}/task/{host.process.pid}/children").read_text().split()
            return next((int(pid) for pid in children if "--page" in Path(f"/proc/{pid}/cmdline").read_text()), 0)

        page_of(host)
        first = process()
        facts = dict(
            line.split(":", 1) for line in Path(f"/proc/{first}/status").read_text().splitlines() if ":" in line
        )
        assert facts["Uid"].split() == facts["Gid"].split() == ["65534"] * 4
        assert facts["Groups"].split() == []
        assert int(facts["CapEff"], 16) == int(facts["CapPrm"], 16) == 0
        os.kill(first, signal.SIGKILL)
        assert page_of(host)[0] == 200, "whoever asks meanwhile waits"
        assert process() not in (0, first)


def test_a_user_has_so_many_daemons_and_not_one_more() -> None:
    """Four by other groups, and four that are ending while somebody holds their batches."""
    serving = "drain_seconds = 600\n[users]\nallow = "
    with running(serving + '["*"]\n') as host, ExitStack() as stack:
        clients = [stack.enter_context(user(host, ALICE, GROUP + number)) for number in range(5)]
        bob = stack.enter_context(user(host, BOB))

        def hold(client: User, name: str) -> None:
            client.do(
                f'{name} = carya.Loader(streams.numbers(400, batch_size=4), daemon=os.environ["CARYA_DAEMON_SOCKET"])\n'
                f"held_{name} = next(iter({name}))"
            )

        def serve(allow: str) -> None:
            host.config.write_text(f"{serving}{allow}\n")
            host.process.send_signal(signal.SIGHUP)

        def holds(client: User, name: str) -> bool:
            try:
                hold(client, name)
            except Refused as refused:  # the rules are not taken over yet
                if "is not served here" not in str(refused):
                    raise
                return False
            return True

        for client in clients[:4]:
            hold(client, "one")
        with pytest.raises(Refused, match=r"4 daemons of this user; end the jobs of one set of groups"):
            hold(clients[4], "one")
        serve(f'["{BOB}"]')
        until(lambda: host.log().count("no longer served") == 4)
        serve('["*"]')
        for client in clients[:4]:
            until(lambda client=client: holds(client, "two"))
        serve(f'["{BOB}"]')
        until(lambda: host.log().count("no longer served") == 8)
        serve('["*"]')
        assert host.log().count(f" started uid={ALICE} ") == 8
        with pytest.raises(Refused, match=r"8 daemons of this user"):
            until(lambda: holds(clients[4], "three"))
        assert bob.do(JOB, job="work") == records_of_numbers()[0], "nobody else is kept out"
        for client in clients[:4]:
            client.do("del held_one, held_two\none.close()\ntwo.close()")
        until(lambda: host.log().count(f" ended uid={ALICE} ") == 8)
        hold(clients[4], "three")


TOO_MUCH = """
pipeline = carya.files([photo]).decode_image().gaussian_blur(5).resize((8, 8)).batch(1)
large = carya.Loader(pipeline, daemon=os.environ["CARYA_DAEMON_SOCKET"], job="large", reorder="off", epochs=1)
result = len(list(large))
"""


def test_a_user_who_needs_more_memory_than_allowed_ends_alone_with_the_reason() -> None:
    config = f'[user.{MALLORY}]\nmemory = "96MiB"\nlimits.shared_memory = "4GiB"\n'
    with running(config) as host, user(host, ALICE) as alice, user(host, MALLORY) as mallory:
        if "are not kept" in host.log():
            pytest.skip("this process may make no cgroups of the controllers cpu and memory")
        photo = host.folder / "large.jpg"
        Image.new("RGB", (9000, 9000)).save(photo)  # 232 MiB in memory
        mallory.do("pass", photo=str(photo))
        alice.do(JOB, job="work")
        before = host.daemons()[ALICE]
        with pytest.raises(Refused, match=r"Exhausted: slots: .* MiB of memory are left for slots here"):
            mallory.do(
                'rows = carya.arrays({"x": __import__("numpy").zeros((16, 12 << 20), "uint8")})\n'
                'carya.Loader(rows.batch(4), daemon=os.environ["CARYA_DAEMON_SOCKET"], slots=4)'
            )
        with pytest.raises(
            Refused, match=rf"Exhausted: .*ended the daemon of user {MALLORY}, .*100663296 bytes.*caryad.toml allows"
        ):
            mallory.do(TOO_MUCH)
        assert f"killed for the memory of its user uid={MALLORY} limit=100663296" in host.log()
        assert alice.do(REST) == records_of_numbers()[1:]
        assert host.daemons()[ALICE] == before
        host.config.write_text(config.replace("96MiB", "2GiB"))
        host.process.send_signal(signal.SIGHUP)
        until(lambda: " reloaded" in host.log())

        def served() -> bool:
            try:
                assert mallory.do(TOO_MUCH) == 1
            except Refused:
                time.sleep(0.5)
                return False
            return True

        until(served)


def test_who_is_not_allowed_is_told_so_and_a_reload_changes_it() -> None:
    with (
        running(f'[users]\nallow = ["{ALICE}", "@{GROUP}"]\n') as host,
        user(host, ALICE) as alice,
        user(host, BOB, GROUP) as bob,
        user(host, MALLORY) as mallory,
    ):
        assert alice.do(JOB, job="a") == bob.do(JOB, job="a") == records_of_numbers()[0]
        with pytest.raises(Refused, match=rf"user {MALLORY} is not served here; .*allow of caryad.toml"):
            mallory.do(JOB, job="a")
        host.config.write_text(f'[users]\nallow = ["{BOB}", "{MALLORY}"]\n')
        host.process.send_signal(signal.SIGHUP)
        until(lambda: "no longer served" in host.log())
        assert mallory.do(JOB, job="a") == records_of_numbers()[0]
        assert bob.do(REST) == records_of_numbers()[1:]
        assert alice.do(REST) == records_of_numbers()[1:], "in its own process, since its daemon has ended"


def test_limits_and_weights_are_each_user_s() -> None:
    config = f"[users]\nweight = 2\ndescriptors = 500\n[user.{BOB}]\nweight = 0.5\nlimits.jobs = 1\n"
    with running(config) as host, user(host, ALICE) as alice, user(host, BOB) as bob:
        for job in ("one", "two"):
            alice.do(JOB.replace("loader", f"loader_{job}"), job=job)
        bob.do(JOB, job="one")
        with pytest.raises(Refused, match=r"1 jobs of at most 1"):
            bob.do(JOB.replace("loader", "loader_two"), job="two")
        daemons = host.daemons()
        for pid in daemons.values():
            limits = Path(f"/proc/{pid}/limits").read_text()
            assert next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3] == "500"
        if "weights of users are not kept" in host.log():
            pytest.skip("this process may make no cgroups of the controller cpu")
        weights = {uid: weight_of(pid) for uid, pid in daemons.items()}
        assert weights[ALICE] == pytest.approx(4 * weights[BOB], rel=0.01)
        host.config.write_text(config.replace("weight = 0.5", "weight = 8"))
        host.process.send_signal(signal.SIGHUP)
        until(lambda: weight_of(daemons[BOB]) == 4 * weight_of(daemons[ALICE]))


def weight_of(pid: int) -> int:
    """Of the cgroup that the process is in."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for _, controllers, path in lines:
        if "cpu" in controllers.split(","):
            return int(Path(f"/sys/fs/cgroup/cpu{path}/cpu.shares").read_text())
    (path,) = [path for _, controllers, path in lines if not controllers]
    return int(Path(f"/sys/fs/cgroup{path}/cpu.weight").read_text())


def test_a_killed_daemon_is_its_user_s_loss_and_no_batch_of_anybody(host: Host) -> None:
    with user(host, ALICE) as alice, user(host, BOB) as bob:
        for one in (alice, bob):
            one.do(JOB, job="work")
        before = host.daemons()
        os.kill(before[BOB], signal.SIGKILL)
        assert bob.do(REST) == records_of_numbers()[1:]
        assert alice.do(REST) == records_of_numbers()[1:]
        after = host.daemons()
        assert after[ALICE] == before[ALICE]
        assert after[BOB] != before[BOB]


def test_without_the_daemon_of_all_users_streams_go_on_and_its_successor_serves(host: Host) -> None:
    with user(host, ALICE) as alice, user(host, BOB) as bob:
        alice.do(JOB, job="work")
        before = host.daemons()[ALICE]
        host.process.kill()
        host.process.wait(60)
        assert alice.do("result = next(batches).records.tolist()") == records_of_numbers()[1]
        host.start()
        assert bob.do(JOB, job="work") == records_of_numbers()[0]
        assert alice.do("result = [batch.records.tolist() for batch in batches]") == records_of_numbers()[2:]
        assert alice.do('loader.close(); result = os.environ["CARYA_DAEMON_SOCKET"]') == host.socket
        until(
            lambda: not Path(f"/proc/{before}").exists() or Path(f"/proc/{before}/stat").read_text().split()[2] == "Z"
        )


def test_a_user_s_daemon_without_clients_ends_and_the_next_client_finds_another() -> None:
    with running("", "--idle-exit", "0.2") as host, user(host, ALICE) as alice:
        seen = set()
        for _ in range(3):
            assert alice.do(JOB, job="work") == records_of_numbers()[0]
            seen.add(host.daemons()[ALICE])  # while it has a client
            alice.do("del batches; loader.close()")
            until(lambda: ALICE not in host.daemons())
        assert len(seen) == 3
        assert "signal" not in host.log()


def test_a_daemon_that_is_about_to_end_loses_no_client() -> None:
    """Connections come at the very moments at which it ends."""
    with running("", "--idle-exit", "0.01") as host, user(host, ALICE) as alice:
        source = """
for pause in range(18):
    json.loads(_core.daemon_status(os.environ["CARYA_DAEMON_SOCKET"]))
    time.sleep(0.005 + pause / 2000)
result = "all were answered"
"""
        assert alice.do(source) == "all were answered"


ATTACKS = {
    "memory": 'open(f"/proc/{pid}/mem", "rb")',
    "descriptors": 'os.listdir(f"/proc/{pid}/fd")',
    "maps": 'open(f"/proc/{pid}/maps").read()',
    "signal": "os.kill(pid, 9)",
    "stop": "os.kill(pid, 19)",
    "priority": "os.setpriority(os.PRIO_PROCESS, pid, 19)",
    "rights of root": "os.setuid(0)",
    "cache": "os.listdir(cache)",
    "socket of root": "_core.daemon_status(own_socket)",
    "another socket in its place": "os.unlink(socket)",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attacker_gets_nothing_of_another_user(host: Host, attack: str) -> None:
    with user(host, ALICE) as alice, user(host, MALLORY) as mallory:
        alice.do(JOB, job="work")
        mallory.do(JOB, job="work")
        given = {
            "pid": host.daemons()[ALICE],
            "cache": str(host.folder / f"home-{ALICE}"),
            "own_socket": str(Path(host.socket).parent / "users" / f"{ALICE}.sock"),
            "socket": host.socket,
        }
        with pytest.raises(Refused, match=r"Permission"):
            mallory.do(ATTACKS[attack], **given)
        assert alice.do(REST) == records_of_numbers()[1:]


FLOODS = {
    "connections": """
held = []
while not os.path.exists(enough):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        one.connect(os.environ["CARYA_DAEMON_SOCKET"])
        held = held[-300:] + [one]
    except OSError:
        time.sleep(0.001)
""",
    "rubbish": """
while not os.path.exists(enough):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        one.connect(os.environ["CARYA_DAEMON_SOCKET"])
        one.send(os.urandom(300))
    except OSError:
        time.sleep(0.001)
""",
    "sockets that linger": """
import array
def lingering():
    listening = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(listening.getsockname())
    accepted = listening.accept()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\x01\\0\\0\\0\\x30\\x75\\0\\0")
    one.setblocking(False)
    try:
        while True:
            one.send(bytes(1 << 16))
    except OSError:
        return one, accepted
others = [lingering() for _ in range(5)]
os.kill(int(pid), signal.SIGSTOP)
while not os.path.exists(enough):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
        try:
            one.connect(os.environ["CARYA_DAEMON_SOCKET"])
            fd = lingering()[0] if len(others) < 20 else others[0][0]
            one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd.fileno()]))])
        except OSError:
            time.sleep(0.001)
os.kill(int(pid), signal.SIGKILL)
""",
    "a daemon that is stopped": """
os.kill(int(pid), signal.SIGSTOP)
held = []
while not os.path.exists(enough):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        one.connect(os.environ["CARYA_DAEMON_SOCKET"])
        held = held[-300:] + [one]
    except OSError:
        time.sleep(0.001)
os.kill(int(pid), signal.SIGKILL)
""",
    "a daemon that is killed again and again": """
while not os.path.exists(enough):
    try:
        os.kill(json.loads(_core.daemon_status(os.environ["CARYA_DAEMON_SOCKET"]))["pid"], signal.SIGKILL)
    except Exception:
        time.sleep(0.01)
""",
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_one_user_keeps_no_other_out(host: Host, flood: str) -> None:
    with user(host, ALICE) as alice, user(host, BOB) as bob, user(host, MALLORY) as mallory:
        alice.do(JOB, job="work")
        mallory.do(JOB, job="work")
        before = len(host.log())
        enough = host.folder / "enough"
        mallory.ask(FLOODS[flood], pid=host.daemons()[MALLORY], enough=str(enough))
        for count in range(2):
            time.sleep(0.2)
            assert bob.do(JOB.replace("loader", f"loader_{count}"), job=f"work {count}") == records_of_numbers()[0]
        assert alice.do(REST) == records_of_numbers()[1:]
        enough.touch()
        mallory.answer()
        assert host.process.poll() is None
        assert len(host.log()) - before < 20_000, "it fills the log"
        deadline = time.monotonic() + 60
        while True:  # and it is served again itself, where it was refused for its starts after a second or so
            try:
                assert mallory.do(JOB.replace("loader", "later"), job="later") == records_of_numbers()[0]
                break
            except Refused:
                assert time.monotonic() < deadline
                time.sleep(0.2)


def test_a_loader_without_a_daemon_of_its_own_finds_that_of_all_users(tmp_path: Path) -> None:
    """In a mount namespace, whose /run is empty."""
    source = """
import carya
from streams import numbers
with carya.Loader(numbers(8, batch_size=2)) as loader:
    print(loader.stats()["place"])
"""
    script = f"""
mount -t tmpfs tmpfs /run || exit 77
"{sys.executable}" -c '{source}'
printf '[users]\\nallow = ["root"]\\n' > "{tmp_path}/c.toml"
"{_programs.program()}" --all-users --socket /run/carya/caryad.sock --config "{tmp_path}/c.toml" 2> "{tmp_path}/log" &
until grep -q "for all users" "{tmp_path}/log"; do sleep 0.05; done
"{sys.executable}" -c '{source}'
CARYA_DAEMON_SOCKET="{tmp_path}/none" "{sys.executable}" -c '{source}'
printf '[users]\\nallow = ["*"]\\n' > "{tmp_path}/c.toml"
kill -HUP %1
until grep -q "no longer served" "{tmp_path}/log"; do sleep 0.05; done
"{sys.executable}" -c '{source}'
kill %1
"""
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("CARYA_DAEMON_SOCKET", None)
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip(f"no mount namespace: {done.stderr}")
    assert done.stdout.split() == ["embedded", "/run/carya/caryad.sock", "embedded", "embedded"], (
        "who is not served goes on"
    )


def test_it_is_root_s_unless_it_serves_its_own_user_only(tmp_path: Path) -> None:
    """Who is not root may try it, for themselves."""
    with running() as host, user(host, ALICE) as alice:
        own = str(host.folder / f"home-{ALICE}" / "run" / "caryad.sock")
        program = _programs.program()
        source = f"""
process = subprocess.Popen([{program!r}, "--all-users", "--socket", {own!r}], cwd="/", stderr=subprocess.PIPE, text=True)
while "ready" not in process.stderr.readline():
    pass
result = json.loads(_core.daemon_status({own!r}))["pid"] != process.pid
process.terminate()
process.wait(60)
"""
        if not os.access(program, os.X_OK) or any(not p.stat().st_mode & 0o001 for p in Path(program).parents):
            pytest.skip("the user cannot reach the program by its path")
        assert alice.do(source)


def test_what_is_not_for_users_is_in_no_help_and_not_beside_all_users() -> None:
    told = subprocess.run([_programs.program(), "--help"], capture_output=True, text=True, check=True).stdout
    assert "--all-users" in told
    assert not any(word in told for word in ("Excludes", "--handed", "--page"))
    for hidden in ("--handed", "--page"):
        done = subprocess.run(
            [_programs.program(), "--all-users", hidden], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, "--all-users excludes " + hidden in done.stderr) == (2, True)
