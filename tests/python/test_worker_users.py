"""Whose work a host brings to a worker: proven by a certificate, by a token, or only said (decision 043)."""

from __future__ import annotations

import json
import os
import ssl
from pathlib import Path
from typing import Any

import commands
import daemons
import pytest
import test_users
import workers
from chunk_client import Host
from daemons import until
from fleet_child import FACTS
from host_user import Refused
from streams import digest, epoch_digest
from test_users import ALICE, BOB, MALLORY, user
from workers import Worker, make_certificates

import carya

Address = tuple[str, int]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of ann and ben each, of a host of both, of one of all users, and of one that names none."""
    return make_certificates(tmp_path_factory.mktemp("ca"), "user=ann", "user=ben", "user=dan,ann", "user=*")


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return secret(tmp_path / "tokens", "ann:word of ann\nben:word of ben\nword of anybody\n")


def secret(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def secured(files: dict[str, str], *arguments: str) -> Any:
    tls = ("--cert", files["server.pem"], "--key", files["server.key"], "--ca", files["ca.pem"])
    return workers.running(*tls, *arguments)


def with_certificate(address: Address, files: dict[str, str], of: str) -> Host:
    context = ssl.create_default_context(cafile=files["ca.pem"])
    context.load_cert_chain(files[f"{of}.pem"], files[f"{of}.key"])
    return Host(address, context)


def told(host: Host, user: str | None, token: str = "") -> str:
    """Why it is refused; "" where it is not."""
    with host:
        kind, said = host.hello(token, FACTS, user)
        return "" if kind == "Welcome" else str(said["error"]["message"])


# --- certificates


def test_a_certificate_of_a_user_says_no_other(certificates: dict[str, str]) -> None:
    with secured(certificates) as worker:

        def come(of: str, user: str | None) -> str:
            return told(with_certificate(worker.address, certificates, of), user)

        for of, user in (("user-ann", "ann"), ("user-ann", None), ("user-dan", "ann"), ("user-any", "zoe")):
            assert come(of, user) == ""
            until(lambda user=user: f"user={user or 'ann'} proven=yes" in worker.log())
        for of, other in (("user-ann", "ben"), ("user-ben", "ann")):  # each claims the other's name
            own = of.removeprefix("user-")
            assert come(of, other) == (
                f"the client says that it is {other}, and its certificate speaks for {own}: give the certificate of "
                f'{other}, or "user": "{own}" in remote_tls, or in [remote] of caryad.toml'
            )
        assert "speaks for dan, ann" in come("user-dan", "ben")
        assert come("client", "ann") == ""
        until(lambda: "user=ann proven=no" in worker.log())
        assert "hosts prove no users" not in worker.log()
    with secured(certificates, "--proven-users") as worker:
        assert "carya:user:NAME, or a user's token" in told(
            with_certificate(worker.address, certificates, "client"), "ann"
        )
        assert told(with_certificate(worker.address, certificates, "user-ann"), "ann") == ""


def test_a_token_and_a_certificate_are_of_one_user(certificates: dict[str, str], tokens: Path) -> None:
    with secured(certificates, "--token-file", str(tokens)) as worker:

        def come(of: str, user: str, token: str) -> str:
            return told(with_certificate(worker.address, certificates, of), user, token)

        assert come("user-ann", "ann", "word of ann") == ""
        assert come("client", "ben", "word of ben") == ""
        assert come("user-ann", "ann", "") == "the client does not know the token"
        assert "token is that of ben, and its certificate speaks for ann" in come("user-ann", "ann", "word of ben")


# --- tokens


def test_a_token_of_a_user_says_no_other(tokens: Path) -> None:
    with workers.running("--token-file", str(tokens)) as worker:
        for user in ("ann", None):
            assert told(Host(worker.address), user, "word of ann") == ""
            until(lambda: "user=ann proven=yes" in worker.log())
        assert "says that it is ben, and its token speaks for ann: give the token of ben" in told(
            Host(worker.address), "ben", "word of ann"
        )
        assert "says that it is ann, and its token speaks for ben: give the token of ann" in told(
            Host(worker.address), "ann", "word of ben"
        )
        assert told(Host(worker.address), "ann", "word of anybody") == ""
        until(lambda: "user=ann proven=no" in worker.log())
        for wrong in ("", "word", "ann:word of ann"):
            assert told(Host(worker.address), "ann", wrong) == "the client does not know the token"
        assert "word of" not in worker.log()
        assert "hosts prove no users" not in worker.log()
    with workers.running("--token-file", str(tokens), "--proven-users") as worker:
        assert "does not prove whose work it brings" in told(Host(worker.address), "ann", "word of anybody")
        assert told(Host(worker.address), "ben", "word of ben") == ""


def test_a_worker_that_hosts_prove_nothing_says_so_once(tmp_path: Path) -> None:
    word = str(secret(tmp_path / "word", "word\n"))
    for arguments in ((), ("--token-file", word)):
        with workers.running(*arguments) as worker:
            token = "word" if arguments else ""
            for user in ("ann", "ben", None):
                assert told(Host(worker.address), user, token) == ""
            until(lambda: worker.log().count("welcome ") == 3)
            assert worker.log().count("hosts prove no users: each is believed") == 1
            assert "proven=yes" not in worker.log()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ann:hush\nben:hush\n", "line 2: an earlier line has the same token"),
        ("hush\nann:\n", "line 2: give a token of 1 to 4096 bytes, or user:token"),
        (" \n\n", "give 1 to 1048576 bytes of text"),
        ("word\n", "--proven-users: nobody could prove a name"),
    ],
)
def test_wrong_tokens_are_status_2_and_not_shown(tmp_path: Path, text: str, said: str) -> None:
    from test_worker import refused

    path = secret(tmp_path / "tokens", text)
    status, error = refused("--listen", "127.0.0.1:0", "--token-file", str(path), "--proven-users")
    assert (status, said in error, "hush" in error) == (2, True, False), error


def test_a_bound_of_weights_is_kept(tokens: Path, tmp_path: Path) -> None:
    from test_worker import refused

    status, error = refused("--listen", "127.0.0.1:0", "--token-file", str(tokens), "--max-weight", "1")
    assert (status, "--max-weight: hosts that prove no name could say many" in error) == (2, True)
    proof = ("--token-file", str(secret(tmp_path / "ann", "word of ann")))
    with (
        workers.running("--token-file", str(tokens), "--proven-users", "--max-weight", "1") as worker,
        Host(worker.address) as ann,
        Host(worker.address) as ben,
    ):
        assert ann.hello("word of ann", FACTS, "ann")[0] == ben.hello("word of ben", FACTS, "ben")[0] == "Welcome"
        ann.say("Ping", {"weight": 100_000})
        ann.hear("Pong")

        def shares() -> list[float]:
            for host in (ann, ben):
                host.say("Request", {"plan": 1, "about": b"", "result_bytes": 1}, request=1)
                assert host.hear("UnknownPlan")[0] == "UnknownPlan"
            found = json.loads(commands.run("fleet", f"127.0.0.1:{worker.port}", "--json", *proof))
            return [one["share"] for one in found["workers"][0]["clients"]]

        until(lambda: shares() == [0.5, 0.5])


# --- loaders and daemons


def vision(photos: Path) -> carya.Pipeline:
    return carya.image_folder(photos).shuffle(seed=11).decode_image().random_resized_crop(48).batch(4)


def options(worker: Worker, tls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"remote": [f"127.0.0.1:{worker.port}"], "remote_tls": tls, "placement": "remote:1", "threads": 1, **more}


def chunks_come(loader: carya.Loader) -> None:
    """Once a chunk of the worker has come, with the epoch that this host alone makes."""

    def came() -> int:
        loader.set_epoch(0)
        digest(loader)
        return int(loader.stats()["remote_chunks"])

    until(came)


def usage(worker: Worker, *proof: str) -> list[tuple[str, bool]]:
    """The users of the worker's hosts, and whether they are proven."""
    found = json.loads(commands.run("fleet", f"127.0.0.1:{worker.port}", "--json", *proof))
    return [(one["user"], one["proven"]) for one in found["workers"][0]["clients"]]


def trouble(loader: carya.Loader) -> str:
    return str(until(lambda: loader.placement()["trouble"]))


def test_a_loader_proves_its_user_by_a_certificate(photos: Path, certificates: dict[str, str]) -> None:
    tls = {"cert": certificates["user-ann.pem"], "key": certificates["user-ann.key"], "ca": certificates["ca.pem"]}
    proof = ("--cert", tls["cert"], "--key", tls["key"], "--ca", tls["ca"])
    with secured(certificates) as worker:
        with carya.Loader(vision(photos), **options(worker, {**tls, "user": "ann"}, daemon="embedded")) as loader:
            chunks_come(loader)
            assert usage(worker, *proof) == [("ann", True)]
            assert "ann@" in commands.run("fleet", f"127.0.0.1:{worker.port}", *proof)
        with carya.Loader(vision(photos), **options(worker, {**tls, "user": "ben"}, daemon="embedded")) as loader:
            assert "says that it is ben, and its certificate speaks for ann" in trouble(loader)
            assert digest(loader) == epoch_digest(vision(photos))


def test_a_loader_proves_its_user_by_a_token(photos: Path, tokens: Path) -> None:
    word = str(secret(tokens.parent / "ann", "word of ann\n"))
    with workers.running("--token-file", str(tokens)) as worker:
        own = {"token": "word of ann", "user": "ann"}
        with carya.Loader(vision(photos), **options(worker, own, daemon="embedded")) as loader:
            chunks_come(loader)
            assert usage(worker, "--token-file", word) == [("ann", True)]
        with carya.Loader(vision(photos), **options(worker, {**own, "user": "ben"}, daemon="embedded")) as loader:
            assert "says that it is ben, and its token speaks for ann" in trouble(loader)
        said = {"token": "word of anybody", "user": "ann"}
        with carya.Loader(vision(photos), **options(worker, said, daemon="embedded")) as loader:
            chunks_come(loader)
            assert usage(worker, "--token-file", word) == [("ann", False)]
            assert "ann?@" in commands.run("fleet", f"127.0.0.1:{worker.port}", "--token-file", word)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_daemon_proves_its_user_by_files_of_his(photos: Path, certificates: dict[str, str], home: Path) -> None:
    """By [remote] of caryad.toml, whose files lie in the home of whoever the daemon is; and loaders that name a user."""
    for name, of in (("host.pem", "user-ann.pem"), ("host.key", "user-ann.key"), ("ca.pem", "ca.pem")):
        secret(home / name, Path(certificates[of]).read_text())
    word = str(secret(home / "word", "word of ann\n"))
    tokens = str(secret(home / "tokens", "ann:word of ann\nben:word of ben\n"))
    config = home / "caryad.toml"
    with secured(certificates, "--token-file", tokens) as worker:
        config.write_text(
            f'[remote]\nworkers = ["127.0.0.1:{worker.port}"]\nuser = "ann"\ncertificate = "~/host.pem"\n'
            'key = "~/host.key"\nauthority = "~/ca.pem"\ntoken_file = "~/word"\n'
        )
        job: dict[str, Any] = {"threads": 1, "placement": "auto"}
        proof = ("--cert", str(home / "host.pem"), "--key", str(home / "host.key"), "--ca", str(home / "ca.pem"))
        with daemons.running("--config", str(config)) as daemon:
            with carya.Loader(vision(photos), daemon=daemon.socket, job="ann", **job) as loader:
                until(lambda: usage(worker, *proof, "--token-file", word) == [("ann", True)])
                assert digest(loader) == epoch_digest(vision(photos))
            tls = {"cert": proof[1], "key": proof[3], "ca": proof[5], "token": "word of ann", "user": "ben"}
            with carya.Loader(vision(photos), daemon=daemon.socket, job="ben", **options(worker, tls)) as loader:
                assert "says that it is ben, and its token speaks for ann" in trouble(loader)
            Path(word).chmod(0o644)
            with pytest.raises(carya.InvalidArgument, match=r"token_file .*/word: other users may read"):
                carya.Loader(vision(photos), daemon=daemon.socket, job="open", **job)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become other users")
def test_users_of_one_host_prove_their_names_and_take_no_other_s(photos: Path, tmp_path: Path) -> None:
    users = {uid: f"word of {uid}" for uid in (ALICE, BOB)}
    tokens = secret(tmp_path / "tokens", "".join(f"{uid}:{word}\n" for uid, word in users.items()))
    epoch = "result = streams.epoch_digest(pipeline, daemon=os.environ['CARYA_DAEMON_SOCKET'])"
    begin = """
pipeline = carya.image_folder(folder).shuffle(seed=11).decode_image().random_resized_crop(48).batch(4)
loader = carya.Loader(pipeline, daemon=os.environ["CARYA_DAEMON_SOCKET"], job="work", threads=1, **options)
result = next(iter(loader)).records.tolist()
"""
    trouble = "result = loader.placement()['trouble']"
    with workers.running("--token-file", str(tokens)) as worker, test_users.running() as host:
        common = test_users.data(host, photos, "common", ALICE, test_users.GROUP, 0o755)
        words = {uid: secret(host.folder / f"word-{uid}", word) for uid, word in users.items()}
        for uid, path in words.items():
            os.chown(path, uid, uid)
        host.stop()
        host.config.write_text(
            f'[remote]\nworkers = ["127.0.0.1:{worker.port}"]\n'
            + "".join(f'[user.{uid}]\nremote.token_file = "{path}"\n' for uid, path in words.items())
            + f'[user.{MALLORY}]\nremote.token_file = "{words[ALICE]}"\n'
        )
        host.start()
        proof = ("--token-file", str(words[ALICE]))
        with user(host, ALICE) as alice, user(host, BOB) as bob, user(host, MALLORY) as mallory:
            first = alice.do(begin, folder=str(common), options={})
            assert bob.do(begin, folder=str(common), options={}) == first
            until(lambda: sorted(usage(worker, *proof)) == sorted((str(uid), True) for uid in users))
            with pytest.raises(Refused, match=r"token_file .*word.*Permission denied"):
                mallory.do(begin, folder=str(common), options={})
            # What she says herself, with a token that she has by chance, and with her own daemon.
            stolen = {"token": users[BOB], "user": str(ALICE), "insecure": True}
            asked = {"remote": [f"127.0.0.1:{worker.port}"], "remote_tls": stolen, "placement": "remote:1"}
            assert mallory.do(begin, folder=str(common), options=asked) == first
            said = until(lambda: mallory.do(trouble))
            assert f"says that it is {ALICE}, and its token speaks for {BOB}" in said
            assert sorted(usage(worker, *proof)) == sorted((str(uid), True) for uid in users)
            assert alice.do(epoch) == bob.do(epoch), "the bits are the same"
