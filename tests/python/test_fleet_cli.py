"""`carya fleet`: who uses which worker."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import commands
import workers
from daemons import until
from streams import digest
from workers import make_certificates

import carya


def fleet(*arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.ended("fleet", *arguments)


def vision(photos: Path) -> carya.Pipeline:
    return carya.image_folder(photos).shuffle(seed=11).decode_image().random_resized_crop(48).batch(4)


def test_hosts_and_their_parts_of_workers_are_shown(photos: Path) -> None:
    with workers.running() as used, workers.running() as free:
        busy, idle = (f"127.0.0.1:{one.port}" for one in (used, free))
        remote: dict[str, Any] = {
            "remote": [busy],
            "placement": "remote:1",
            "threads": 1,
            "daemon": "embedded",
            "weight": 2,
        }
        with carya.Loader(vision(photos), **remote) as loader:

            def chunks() -> int:
                loader.set_epoch(0)
                digest(loader)
                return int(loader.stats()["remote_chunks"])

            until(chunks)

            def shown() -> Any:
                """What is told, once the host's first Ping has come, which says its weight."""
                done = fleet(busy, idle, busy, "--price", "n2-standard-8", "--json")
                assert done.returncode == 0, done.stderr
                found = json.loads(done.stdout)
                return found if found["workers"][0]["clients"][0]["weight"] != 1 else None

            found = until(shown)
            assert [worker["address"] for worker in found["workers"]] == [busy, idle]
            (host,) = found["workers"][0]["clients"]
            assert host["client"].startswith("carya host ")
            assert (host["user"], host["weight"], host["share"]) == (pwd.getpwuid(os.geteuid()).pw_name, 2, 1)
            assert host["cost_per_hour"] == found["price"] == 0.427319
            assert host["since_s"] >= host["asked_s"] >= 0
            assert host["thread_s"] >= 0
            assert found["workers"][1]["clients"] == []
            text = fleet(busy, idle, "127.0.0.1:1", "--price", "0.5")
            assert text.returncode == 0
            lines = text.stdout.splitlines()
            assert "2 of 3 workers answer, 1 hosts use them, $0.500 an hour" in lines[-1]
            assert [line for line in lines if busy in line and " pid " in line and "100 %" in line]
            assert [line for line in lines if idle in line and "nobody" in line]
            assert [line for line in lines if "127.0.0.1:1 " in line and "refused" in line]
            assert all(len(line) <= 80 for line in lines if "refused" not in line)


def test_names_of_hosts_do_not_steer_the_terminal() -> None:
    from chunk_client import Host
    from fleet_child import FACTS

    with workers.running() as worker, Host(worker.address) as host:
        host.say("Hello", {"client": "x\x1b[2J" + "y" * 5000, "facts": FACTS, "token": ""})
        assert host.hear("Welcome", "Error")[0] == "Welcome"
        shown = fleet(f"127.0.0.1:{worker.port}").stdout
        assert "\x1b" not in shown
        assert "x\\x1b[2J" in shown
        assert all(len(line) <= 80 for line in shown.splitlines())


def test_who_asks_is_checked_like_a_host(tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "ca")
    token = tmp_path / "token"
    token.write_text("word\n")
    token.chmod(0o600)
    tls = ("--cert", files["server.pem"], "--key", files["server.key"], "--ca", files["ca.pem"])
    own = ("--cert", files["client.pem"], "--key", files["client.key"], "--ca", files["ca.pem"])
    with workers.running(*tls) as worker:
        at = f"127.0.0.1:{worker.port}"
        assert fleet(at, *own).returncode == 0
        assert fleet(at, *own, "--server-name", "other.example").returncode == 1
        refused = fleet(at, "--seconds", "1")  # it speaks TLS only
        assert refused.returncode == 1
        assert "ended the connection; where it wants TLS, give --cert, --key and --ca" in refused.stdout
    with workers.running() as worker:
        refused = fleet(f"127.0.0.1:{worker.port}", *own, "--seconds", "1")
        assert refused.returncode == 1
        assert "the peer speaks no TLS; start it with --cert, --key and --ca, or give --insecure" in refused.stdout
    with workers.running("--token-file", str(token)) as worker:
        at = f"127.0.0.1:{worker.port}"
        refused = fleet(at)
        assert refused.returncode == 1
        assert "does not know the token; give it by --token-file" in refused.stdout
        assert fleet(at, "--token-file", str(token)).returncode == 0


def test_a_name_stands_for_its_workers() -> None:
    with workers.running() as worker:
        found = json.loads(fleet(f"dns://localhost:{worker.port}", "--json").stdout)
        assert any(not one["error"] for one in found["workers"])


def test_wrong_arguments_are_named() -> None:
    for arguments, text in {
        ("127.0.0.1:1", "--price", "much"): "--price: got much; give $ per hour",
        ("127.0.0.1:1", "--cert", "x"): "give all three or none",
        ("dns://", "--insecure"): "give dns://name:port",
        ("127.0.0.1:1", "--token-file", "/no/file"): "/no/file",
    }.items():
        done = fleet(*arguments)
        assert done.returncode == 1
        assert text in done.stderr
        assert len(done.stderr.splitlines()) == 1
