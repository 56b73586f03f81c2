"""Stores of the clouds for the tests: they check tokens and signatures, and give tokens as the clouds do."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from stores import ACCESS, FaultStore, signed_right

HMAC_ID, HMAC_SECRET = "GOOG1EXAMPLE0TEST", "bGoa+V7g/yqDXvKRqq+JTFn4uQZbPiQJo4pf9RzJ"
CLIENT_SECRET, REFRESH_TOKEN = "GOCSPX-secret-of-the-tests", "1//refresh-token-of-the-tests"
EMAIL = "reader@project.iam.gserviceaccount.com"


class GoogleStore(FaultStore):
    """Cloud Storage's XML API, a token server and a metadata server, over objects in memory.

    A request is taken with a token that was given here and has not expired, or with a signature of HMAC_SECRET. `seconds`: how
    long tokens last.
    """

    def __init__(self, objects: dict[str, bytes], public_key: Path | None = None, seconds: int = 3600) -> None:
        super().__init__(objects)
        self.public_key, self.seconds = public_key, seconds
        self.tokens: dict[str, float] = {}  # until when each is good
        self.away = False  # nobody gives tokens

    def give(self) -> str:
        """A token that is good from now on."""
        with self.lock:
            token = f"ya29.token-of-the-tests-{len(self.tokens)}"
            self.tokens[token] = time.time() + self.seconds
        return token

    def refuses(self, request: http.server.BaseHTTPRequestHandler) -> bool:
        given = request.headers.get("Authorization", "")
        if given.startswith("Bearer "):
            return self.tokens.get(given.removeprefix("Bearer "), 0) < time.time()
        return not google_signed_right(request)

    def version(self, data: bytes) -> dict[str, str]:
        digest = hashlib.md5(data).digest()
        return {"ETag": f'"{digest.hex()}"', "x-goog-generation": str(int.from_bytes(digest[:6], "big") + 1)}

    def entry(self, name: str, data: bytes) -> str:
        number = self.version(data)["x-goog-generation"]
        return super().entry(name, data).replace("</Contents>", f"<Generation>{number}</Generation></Contents>")

    def is_another(self, request: http.server.BaseHTTPRequestHandler, version: dict[str, str]) -> bool:
        wanted = request.headers.get("x-goog-if-generation-match", version["x-goog-generation"])
        return wanted != version["x-goog-generation"]

    def beside(self, request: http.server.BaseHTTPRequestHandler, path: str, body: bytes) -> tuple[int, bytes] | None:
        if path == "/computeMetadata/v1/instance/service-accounts/default/token":
            if request.headers.get("Metadata-Flavor") != "Google":
                return 403, b""
            return self.answer_with_token()
        if path != "/token":
            return None
        form = dict(parse_qsl(body.decode()))
        if form.get("grant_type") == "refresh_token":
            right = form["refresh_token"] == REFRESH_TOKEN and form["client_secret"] == CLIENT_SECRET
        else:
            right = form.get("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer" and self.knows(
                form["assertion"]
            )
        return self.answer_with_token() if right else (400, b'{"error": "invalid_grant"}')

    def answer_with_token(self) -> tuple[int, bytes]:
        if self.away:
            return 503, b""
        return 200, json.dumps(
            {"access_token": self.give(), "expires_in": self.seconds, "token_type": "Bearer"}
        ).encode()

    def knows(self, assertion: str) -> bool:
        """Whether the account's key signed it, for this server and now."""
        assert self.public_key is not None
        header, claims, signature = assertion.split(".")
        signed = self.public_key.with_suffix(".sig")
        signed.write_bytes(_unpadded(signature))
        checked = subprocess.run(
            ["openssl", "dgst", "-sha256", "-verify", str(self.public_key), "-signature", str(signed)],
            input=f"{header}.{claims}".encode(), capture_output=True, check=False,
        )  # fmt: skip
        said: dict[str, Any] = json.loads(_unpadded(claims))
        return (
            checked.returncode == 0
            and json.loads(_unpadded(header))["alg"] == "RS256"
            and said["iss"] == EMAIL
            and said["aud"] == f"{self.url}/token"
            and said["scope"] == "https://www.googleapis.com/auth/devstorage.read_only"
            and abs(said["iat"] - time.time()) < 60
            and said["exp"] - said["iat"] <= 3600
        )


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def google_signed_right(request: http.server.BaseHTTPRequestHandler) -> bool:
    """Whether Google's V4 signing process gives the request's signature.

    Source: Cloud Storage, "V4 signing process with your own program" and "Canonical requests".
    """
    found = re.fullmatch(
        r"GOOG4-HMAC-SHA256 Credential=([^/]+)/(\d+)/auto/storage/goog4_request, SignedHeaders=([^,]+), Signature=(\w+)",
        request.headers.get("Authorization", ""),
    )
    if not found or found[1] != HMAC_ID:
        return False
    names = found[3].split(";")
    extensions = [name.lower() for name in request.headers if name.lower().startswith("x-goog-")]
    if not {"host", *extensions} <= set(names):
        return False
    parts = urlsplit(request.path)
    query = "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}"
        for name, value in sorted(parse_qsl(parts.query, keep_blank_values=True))
    )
    headers = "".join(f"{name}:{' '.join(request.headers[name].split())}\n" for name in names)
    hashed = request.headers["x-goog-content-sha256"]
    path = quote(unquote(parts.path), safe="/~")
    canonical = f"{request.command}\n{path}\n{query}\n{headers}\n{found[3]}\n{hashed}"
    date = request.headers["x-goog-date"]
    scope = f"{found[2]}/auto/storage/goog4_request"
    text = f"GOOG4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"GOOG4{HMAC_SECRET}".encode()
    for part in (found[2], "auto", "storage", "goog4_request", text):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex() == found[4]


def service_account(folder: Path, token_uri: str) -> tuple[Path, Path]:
    """The JSON file of a service account, as Google makes it, and its public key."""
    folder.mkdir(exist_ok=True)
    private, public = folder / "private.pem", folder / "public.pem"
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(private)],
        check=True, capture_output=True,
    )  # fmt: skip
    subprocess.run(["openssl", "pkey", "-in", str(private), "-pubout", "-out", str(public)], check=True)
    account = folder / "account.json"
    write_account(account, private.read_text(), token_uri)
    return account, public


def write_account(account: Path, key: str, token_uri: str) -> None:
    account.write_text(
        json.dumps(
            {
                "type": "service_account",
                "project_id": "project",
                "private_key_id": "0123456789abcdef",
                "private_key": key,
                "client_email": EMAIL,
                "token_uri": token_uri,
            }
        )
    )


AZURE_ACCOUNT, AZURE_KEY = "testaccount", base64.b64encode(b"the key of the account of the tests").decode()


class AzureStore(FaultStore):
    """Azure's Blob Storage over objects in memory, with the account in the path, and the servers that give tokens.

    A request is taken that is signed by AZURE_KEY, that has `sas` in its query, or a token that was given here.
    """

    def __init__(self, objects: dict[str, bytes]) -> None:
        super().__init__({f"/{AZURE_ACCOUNT}{path}": data for path, data in objects.items()})
        self.sas = "sv=2021-12-02&sp=rl&sig=c2VjcmV0%2Bof%2Fthe%3Dtests"
        self.tokens: set[str] = set()
        self.federated, self.client_secret = "federated.token.of-the-tests", "client~secret~of~the~tests"

    def refuses(self, request: http.server.BaseHTTPRequestHandler) -> bool:
        if not request.headers.get("x-ms-version"):
            return True
        given = request.headers.get("Authorization", "")
        if given.startswith("Bearer "):
            return given.removeprefix("Bearer ") not in self.tokens
        if self.sas in request.path:
            return False
        return given != shared_key(request)

    def listing(self, query: dict[str, str], bucket: str) -> bytes:
        names = sorted(path.removeprefix(f"/{bucket}/") for path in self.objects if path.startswith(f"/{bucket}/"))
        names = [name for name in names if name.startswith(query.get("prefix", ""))]
        begin = int(query.get("marker", "0"))
        part, more = names[begin : begin + self.page], begin + self.page < len(names)
        entries = "".join(self.entry(name, self.objects[f"/{bucket}/{name}"]) for name in part)
        following = f"<NextMarker>{begin + self.page}</NextMarker>" if more else "<NextMarker />"
        return f"\ufeff<?xml version='1.0' encoding='utf-8'?><EnumerationResults><Blobs>{entries}</Blobs>{following}</EnumerationResults>".encode()

    def entry(self, name: str, data: bytes) -> str:
        shown = f'<Name Encoded="true">{quote(name)}</Name>' if "&" in name else f"<Name>{name}</Name>"
        tag = self.version(data)["ETag"].strip('"')
        return f"<Blob>{shown}<Properties><Content-Length>{len(data)}</Content-Length><Etag>{tag}</Etag></Properties></Blob>"

    def beside(self, request: http.server.BaseHTTPRequestHandler, path: str, body: bytes) -> tuple[int, bytes] | None:
        form = dict(parse_qsl(body.decode()))
        if path == "/tenant/oauth2/v2.0/token":
            right = (
                form["client_id"] == "client"
                and form["scope"] == "https://storage.azure.com/.default"
                and (form.get("client_assertion") == self.federated or form.get("client_secret") == self.client_secret)
            )
        elif path == "/metadata/identity/oauth2/token":
            right = request.headers.get("Metadata") == "true"
        else:
            return None
        if not right:
            return 401, b'{"error": "invalid_client"}'
        token = f"entra.token.of-the-tests-{len(self.tokens)}"
        self.tokens.add(token)
        return 200, json.dumps({"access_token": token, "expires_in": "3599"}).encode()


def shared_key(request: http.server.BaseHTTPRequestHandler) -> str:
    """What signs a request, by the signer of azure-storage-blob where it is installed, else by its rules."""
    parts = urlsplit(request.path)
    headers = {name.lower(): value for name, value in request.headers.items()}
    try:
        from azure.core.pipeline.transport import HttpRequest
        from azure.storage.blob._shared.authentication import SharedKeyCredentialPolicy
    except ImportError:
        query = "".join(
            f"\n{name.lower()}:{value}" for name, value in sorted(parse_qsl(parts.query, keep_blank_values=True))
        )
        own = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers) if name.startswith("x-ms-"))
        text = f"{request.command}{chr(10) * 8}{headers.get('if-match', '')}{chr(10) * 4}"
        text += f"{own}/{AZURE_ACCOUNT}{parts.path}{query}"
        signature = hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), "sha256")
        return f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(signature).decode()}"

    class Asked:
        http_request = HttpRequest(request.command, f"http://host{request.path}", headers)
        context = type("Context", (), {"transport": None})()

    SharedKeyCredentialPolicy(AZURE_ACCOUNT, AZURE_KEY).on_request(Asked)
    return str(Asked.http_request.headers["Authorization"])


IDENTITY, CONTAINER_TOKEN, ROLE = (
    "web.identity.token-of-the-tests",
    "container-token-of-the-tests",
    "arn:aws:iam::1:role/reader",
)


class AmazonStore(FaultStore):
    """S3 over objects in memory, and the servers that give keys: STS, a container's and a machine's.

    A request is taken that botocore signs in the same way with keys that were given here and have not expired. `seconds`: how
    long keys last.
    """

    def __init__(self, objects: dict[str, bytes], seconds: int = 3600) -> None:
        super().__init__(objects)
        self.seconds = seconds
        self.given: dict[str, tuple[str, float]] = {}  # secret and end by session token

    def give(self) -> dict[str, str]:
        with self.lock:
            number = len(self.given)
            token, secret = f"session/token+of=the+tests-{number}", f"secret/key+of-the-tests-{number}"
            end = time.time() + self.seconds
            self.given[token] = secret, end
        shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))
        return {"AccessKeyId": f"ASIAOFTESTS{number}", "SecretAccessKey": secret, "Token": token, "Expiration": shown}

    def secrets(self) -> list[str]:
        return [text for token, (secret, _) in self.given.items() for text in (token, secret)]

    def refuses(self, request: http.server.BaseHTTPRequestHandler) -> bool:
        token = request.headers.get("x-amz-security-token", "")
        secret, end = self.given.get(token, ("", 0.0))
        return end < time.time() or not signed_right(request, secret, token)

    def beside(self, request: http.server.BaseHTTPRequestHandler, path: str, body: bytes) -> tuple[int, bytes] | None:
        role = "/latest/meta-data/iam/security-credentials/"
        if path == "/latest/api/token":
            right = request.command == "PUT" and request.headers.get("X-aws-ec2-metadata-token-ttl-seconds") == "21600"
            return (200, b"metadata-token") if right else (400, b"")
        if path.startswith(role):
            if request.headers.get("X-aws-ec2-metadata-token") != "metadata-token":
                return 401, b""
            return 200, b"reader" if path == role else json.dumps({"Code": "Success", **self.give()}).encode()
        if path == "/container":
            right = request.headers.get("Authorization") == CONTAINER_TOKEN
            return (200, json.dumps(self.give()).encode()) if right else (403, b"")
        return self.sts(request, body) if request.command == "POST" and path == "/" else None

    def sts(self, request: http.server.BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        form = dict(parse_qsl(body.decode()))
        right = form["RoleArn"] == ROLE and form["Version"] == "2011-06-15"
        if form["Action"] == "AssumeRoleWithWebIdentity":
            right = right and form["WebIdentityToken"] == IDENTITY
        else:
            right = right and f"Credential={ACCESS}/" in request.headers["Authorization"]
        if not right:
            return 403, b"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>"
        keys = {("SessionToken" if name == "Token" else name): value for name, value in self.give().items()}
        fields = "".join(f"<{name}>{value}</{name}>" for name, value in keys.items())
        return 200, f"<R><Result><Credentials>{fields}</Credentials></Result></R>".encode()
