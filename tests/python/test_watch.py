"""The page of a daemon and of a loader: what it shows, to whom, and what hostile names can do there: nothing."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import browser
import numpy as np
import pytest
import workers
from daemons import running
from PIL import Image

import carya
from carya import _core
from carya._watching.page import page
from carya._watching.server import PageServer
from carya._watching.thumbnails import Thumbnails
from carya._watching.users import Said
from carya._watching.view import Stream, View, view_of_daemon, view_of_loader, view_of_users

HOSTILE = (
    b"<script>parent.ran=1<img src=x onerror=parent.ran=1>.jpg",
    b"\"'><svg onload=parent.ran=1>.jpg",
    "\u202egpj.jpg".encode(),
    b"\xff\x1b[2J.jpg",
    b"]]>&amp;&#60;script&#62;.jpg",
    b"y" * 240 + b".jpg",
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Photos, and as many broken ones with the names above."""
    folder = tmp_path / "photos" / "class"
    folder.mkdir(parents=True)
    for number in range(len(HOSTILE)):
        rows = np.add.outer(np.arange(120), np.arange(160)) * (number + 1) % 256
        Image.fromarray(np.stack([rows, rows.T[:120, :120].repeat(2, 1)[:, :160], rows], -1).astype(np.uint8)).save(
            folder / f"{number}.jpg"
        )
    good = (folder / "1.jpg").read_bytes()
    for name in HOSTILE:
        with open(os.path.join(os.fsencode(folder), name.replace(b"/", b"_")), "wb") as file:
            file.write(good[: len(good) // 2])
    return folder.parent


def pipeline(photos: Path) -> carya.Pipeline:
    return carya.image_folder(str(photos)).shuffle(seed=1).decode_image().random_resized_crop(32).batch(4)


def shown(photos: Path, name: str = "<b>job</b>") -> str:
    """The page of a daemon whose job has met all broken records."""
    with (
        running() as daemon,
        carya.Loader(pipeline(photos), daemon=daemon.socket, job=name, on_error="mask") as loader,
    ):
        for _ in range(2):
            for _ in loader:
                pass
        return page(view_of_daemon(daemon.socket), Thumbnails(), refresh=False)


class _Parsed(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_daemon_shows_streams_stages_plan_slots_and_quarantine(hostile: Path) -> None:
    text = shown(hostile)
    parsed = _Parsed(text)
    for wanted in ("caryad", "rank 0 of 1", "Where time goes", "decode_image", "Slots", "Plan", "Quarantine", "masked"):
        assert wanted in parsed.text
    pictures = [attributes["src"] for tag, attributes in parsed.tags if tag == "img"]
    assert sum(str(source).startswith("data:image/svg+xml") for source in pictures) == 1
    assert sum(str(source).startswith("data:image/png") for source in pictures) == len(HOSTILE)  # cut off, and decoded


def test_hostile_names_are_text_and_nothing_else(hostile: Path) -> None:
    text = shown(hostile)
    parsed = _Parsed(text)
    assert {tag for tag, _ in parsed.tags}.isdisjoint(
        {"script", "svg", "iframe", "object", "link rel", "b", "form", "a"}
    )
    for tag, attributes in parsed.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert all(
            not str(value).startswith(("http", "//")) for name, value in attributes.items() if name in ("src", "href")
        ), tag
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b" in text
    assert "\\u202e" in text
    assert "<b>job</b>" not in text
    assert "&lt;b&gt;job&lt;/b&gt;" in text
    assert "default-src 'none'" in text


@pytest.mark.skipif(browser.PROGRAM is None, reason=browser.MISSING)
@pytest.mark.parametrize("width", [360, 1440])
def test_a_browser_shows_it_light_and_dark_and_runs_nothing(hostile: Path, tmp_path: Path, width: int) -> None:
    text = shown(hostile)
    seen = browser.look(text, tmp_path, width)
    assert seen.width <= width  # nothing sticks out
    assert seen.images == 1 + len(HOSTILE)
    assert seen.broken == seen.scripts == seen.ran == seen.fetched == 0
    assert "<b>job</b>" in seen.text
    assert "<script>parent.ran=1" in seen.text
    if width == 1440:
        return  # pictures of so many pixels take a processor eight seconds each
    # The same page without its policy runs nothing either: the names are text.
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert bare != text
    assert browser.look(bare, tmp_path, width).ran == 0
    light = browser.picture(text, tmp_path, width, dark=False)
    dark = browser.picture(text, tmp_path, width, dark=True)
    assert light.mean() > 200 > 80 > dark.mean()
    for shot in (light, dark):
        assert len(np.unique(shot.reshape(-1, 3), axis=0)) > 100  # text, bars and pictures are drawn


@pytest.mark.skipif(browser.PROGRAM is None, reason=browser.MISSING)
def test_the_browser_would_show_what_a_script_does(tmp_path: Path) -> None:
    """The test above can fail: a page with what it must not have is seen to have it."""
    seen = browser.look(
        '<script>parent.ran=1</script><img src="nothing.png"><div style="width:900px">x</div>', tmp_path, 360
    )
    assert (seen.ran, seen.scripts, seen.images, seen.broken) == (1, 1, 1, 1)
    assert seen.width >= 900


def test_a_loader_shows_itself(hostile: Path) -> None:
    with carya.Loader(pipeline(hostile), on_error="mask", daemon="embedded", cache="auto", threads=1) as loader:
        for _ in loader:
            pass
        with carya.watch(loader) as server:
            status, headers, body = get(server.url)
            assert status == 200
            assert headers["Content-Security-Policy"].startswith("default-src 'none'")
            assert "Quarantine" in body
            assert "samples in memory" in body
        with pytest.raises(ConnectionRefusedError):
            get(server.url)
        server.close()  # twice is harmless


def double(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return 2 * x


def test_a_loader_of_functions_shows_itself() -> None:
    source = carya.arrays({"x": np.arange(64)}).map(double, fields=["x"]).batch(8)
    with carya.Loader(source, threads=1) as loader:
        for _ in loader:
            pass
        text = page(view_of_loader(loader), Thumbnails())
    assert "double" in text
    assert "Where time goes" in text


def test_workers_have_rows(photos: Path) -> None:
    with workers.running("--insecure") as worker:
        address = f"127.0.0.1:{worker.port}"
        with carya.Loader(pipeline(photos), remote=[address], placement="remote:1", daemon="embedded") as loader:
            for _ in loader:
                pass
            assert address in _Parsed(page(view_of_loader(loader), Thumbnails())).text


def get(url: str, path: str | None = None, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    try:
        connection.request(method, where.path if path is None else path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def server() -> Iterator[PageServer]:
    with PageServer("127.0.0.1:0", lambda: View("title", [("a", "b")], [])) as made:
        yield made


def test_only_the_token_opens_it(server: PageServer) -> None:
    assert get(server.url)[0] == 200
    token = urlsplit(server.url).path
    assert len(token) > 32
    for path in ("/", "/x/", token[:-2] + "/", token[:-1], token + "x", "/%00", "/../etc/passwd"):
        status, _, body = get(server.url, path)
        assert status == 404
        assert "title" not in body
    assert get(server.url, method="HEAD")[::2] == (200, "")
    assert get(server.url, method="POST")[0] == 501


def test_another_sites_name_is_refused(server: PageServer) -> None:
    """DNS rebinding: a page of evil.example whose name leads to 127.0.0.1."""
    assert get(server.url, Host="evil.example")[0] == 403
    assert get(server.url, Host=f"localhost:{urlsplit(server.url).port}")[0] == 200


def test_clients_that_say_nothing_keep_nobody_out(server: PageServer) -> None:
    where = urlsplit(server.url)
    silent = [socket.create_connection((where.hostname, where.port)) for _ in range(8)]
    try:
        assert get(server.url)[0] == 200
    finally:
        for one in silent:
            one.close()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "example.org:80", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", ""])
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(carya.InvalidArgument, match="page: address"):
        PageServer(address, lambda: View("", [], []))


def test_a_unix_socket_is_of_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.sock"
    (tmp_path / "file").write_text("kept")
    with pytest.raises(carya.IoError, match="cannot listen"):
        PageServer(str(tmp_path / "file"), lambda: View("", [], []))
    assert (tmp_path / "file").read_text() == "kept"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    with PageServer(str(path), lambda: View("title", [], [])) as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(server.url)
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            said = b"".join(iter(lambda: client.recv(65536), b""))
        assert b" 200 " in said.split(b"\r\n")[0]
        assert b"title" in said
        with pytest.raises(carya.IoError, match="cannot listen"):
            PageServer(str(path), lambda: View("", [], []))
    assert not path.exists()


def test_an_error_of_the_daemon_is_said() -> None:
    def ask() -> View:
        raise carya.NotFound("no daemon listens")

    with PageServer("127.0.0.1:0", ask) as server:
        status, _, body = get(server.url)
    assert status == 503
    assert "no daemon listens" in body


def entry(path: Path | str, **more: Any) -> dict[str, Any]:
    return {"record": 1, "path": str(path), "member": "", "offset": 0, "stage": "s", "reason": "r", **more}


def test_thumbnails_of_whatever_lies_there(tmp_path: Path) -> None:
    thumbnails = Thumbnails()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_bytes(b"hello, this is no picture")
    Image.fromarray(np.full((64, 64, 3), 200, np.uint8)).save(tmp_path / "made.jpg")
    whole = (tmp_path / "made.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[:-40])
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        tar.add(tmp_path / "made.jpg", "m.jpg")
    with tarfile.open(tmp_path / "t.tar") as tar:
        offset = tar.getmembers()[0].offset_data
    assert thumbnails.of(entry(tmp_path / "fifo")).said == "no regular file"
    assert thumbnails.of(entry("/dev/zero")).said == "no regular file"
    assert thumbnails.of(entry(tmp_path / "none")).said == "cannot be read: No such file or directory"
    assert "cannot be read" in thumbnails.of(entry("a\0b")).said
    assert thumbnails.of(entry(tmp_path / "empty")).said == "empty"
    assert thumbnails.of(entry(tmp_path / "text")).said == "no picture; begins with 68 65 6c 6c 6f 2c 20 74"
    for found in (entry(tmp_path / "cut.jpg"), entry(tmp_path / "t.tar", member="m.jpg", offset=offset)):
        assert thumbnails.of(found).picture.startswith("data:image/png;base64,")
    lying = entry(tmp_path / "text", member="m", offset=10)
    assert thumbnails.of(lying).picture == ""
    (tmp_path / "text").write_bytes(whole)  # another file by the same name
    assert thumbnails.of(entry(tmp_path / "text")).picture


def test_users_have_their_parts_of_a_page_and_hide_no_other(hostile: Path) -> None:
    """Whatever their daemons say, and without a look at their files."""
    entry = {
        "record": 0,
        "path": str(next(hostile.iterdir())),
        "member": "",
        "offset": 0,
        "stage": "read",
        "reason": "b",
    }
    broken = Stream("theirs", quarantine=[entry])
    mad = Stream("mad", stats={"slots": {"count": 1}})  # without the bytes that are drawn
    views = [
        View("daemon", [("state", "running")], [broken]),
        View("daemon", [], [mad]),
        View("daemon", [], [Stream(f"s{number}") for number in range(20)], left_out=3),
    ]
    names = ("ann", "<b>ben", "cy")
    said = [Said(name, view, late=name == "ann") for name, view in zip(names, views, strict=True)]
    text = page(view_of_users([*said, Said("dan", error="no answer yet")]), Thumbnails())
    parts = text.split("<h2 class=user>")
    assert [part.partition("</h2>")[0] for part in parts[1:]] == [
        "user ann",
        "user &lt;b&gt;ben",
        "user cy",
        "user dan",
    ]
    assert "this is what it said last" in parts[1]
    assert "the user&#x27;s file" in parts[1]
    assert "<img" not in parts[1]
    assert "cannot be drawn: KeyError" in parts[2]
    assert ">s7<" in parts[3]
    assert ">s8<" not in parts[3]
    assert "15 more streams are not shown" in parts[3]
    assert "no answer yet" in parts[4]


def test_a_page_says_what_it_leaves_out() -> None:
    found = [entry("/none", record=number, epoch=0, substitute=3) for number in range(20)]
    text = page(View("t", [], [Stream("s", quarantine=found)], left_out=7), Thumbnails())
    assert "and 8 others" in text
    assert "7 more streams" in text
    assert "record 3 in its place" in text


def test_the_command_serves_until_ctrl_c(hostile: Path) -> None:
    command = [sys.executable, "-m", "carya", "top", "--web"]
    with running() as daemon, carya.Loader(pipeline(hostile), daemon=daemon.socket, on_error="mask") as loader:
        next(iter(loader))
        once = subprocess.run(
            [*command, "--once", "--socket", daemon.socket], check=True, capture_output=True, text=True
        )
        assert "rank 0 of 1" in once.stdout
        assert "refresh" not in once.stdout.split("<style>")[0]
        process = subprocess.Popen([*command, "--json", "--socket", daemon.socket], stdout=subprocess.PIPE, text=True)
        assert process.stdout
        url = json.loads(process.stdout.readline())["url"]
        assert get(url)[0] == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_daemon_tells_of_its_own_jobs_only() -> None:
    with running() as daemon, pytest.raises(carya.NotFound, match="carya status"):
        _core.daemon_watch(daemon.socket, "nobody")
