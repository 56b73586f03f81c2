"""Keys of S3 that are asked for: by a web identity, a container, a machine, a program, a role; renewed, and written nowhere."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clouds import CONTAINER_TOKEN, IDENTITY, ROLE, AmazonStore
from store_data import BUCKET, forget_credentials, objects_of, tars, write_data
from stores import ACCESS, SECRET
from streams import epoch_digest

import carya

pytest.importorskip("botocore")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data") / BUCKET)


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_credentials(monkeypatch, tmp_path)


@pytest.fixture
def amazon(data: Path) -> Iterator[AmazonStore]:
    with AmazonStore(objects_of(data)) as store:
        yield store


def by_web_identity(monkeypatch: pytest.MonkeyPatch, store: AmazonStore, work: Path) -> list[str]:
    (work / "token").write_text(IDENTITY + "\n")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(work / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", store.url)
    return [IDENTITY]


def by_container(monkeypatch: pytest.MonkeyPatch, store: AmazonStore, work: Path) -> list[str]:
    (work / "token").write_text(CONTAINER_TOKEN)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{store.url}/container")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(work / "token"))
    return [CONTAINER_TOKEN]


def by_metadata(monkeypatch: pytest.MonkeyPatch, store: AmazonStore, work: Path) -> list[str]:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", store.url)
    return ["metadata-token"]


def by_program(monkeypatch: pytest.MonkeyPatch, store: AmazonStore, work: Path) -> list[str]:
    keys = store.give()
    (work / "keys.json").write_text(json.dumps({"Version": 1, "SessionToken": keys.pop("Token"), **keys}))
    write_profile(monkeypatch, work, f"credential_process = cat '{work}/keys.json'\n")
    return []


def by_role(monkeypatch: pytest.MonkeyPatch, store: AmazonStore, work: Path) -> list[str]:
    base = f"[profile base]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n"
    write_profile(monkeypatch, work, f"role_arn = {ROLE}\nsource_profile = base\n{base}")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", store.url)
    return [ACCESS, SECRET]


def write_profile(monkeypatch: pytest.MonkeyPatch, work: Path, lines: str) -> None:
    (work / "config").write_text(f"[profile train]\n{lines}")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(work / "config"))
    monkeypatch.setenv("AWS_PROFILE", "train")


WAYS = [by_web_identity, by_container, by_metadata, by_program, by_role]


@pytest.mark.parametrize("way", WAYS)
def test_keys_that_are_asked_for_let_in_and_are_written_nowhere(
    data: Path,
    amazon: AmazonStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    way,
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = way(monkeypatch, amazon, tmp_path)
    pipeline = tars(f"s3://{BUCKET}", endpoint=amazon.url)
    assert epoch_digest(pipeline) == epoch_digest(tars(data))
    said = [repr(pipeline), pipeline.to_json(), str(pipeline.explain())]
    with carya.Loader(pipeline, reorder="exact", prefetch_epochs=False) as loader:
        loader.trace(tmp_path / "trace")
        list(loader)
        said += [repr(loader), json.dumps(loader.state_dict()), str(loader.stats()), str(loader.explain())]
        assert amazon.refused == 0
        assert len(amazon.given) == 1
        amazon.fault = lambda path, count: "403"
        with pytest.raises(carya.IoError) as caught:
            list(loader)
        said += [str(caught.value)]
    traced = [tmp_path / "trace"] if (tmp_path / "trace").is_file() else list((tmp_path / "trace").rglob("*"))
    files = [path for path in [*traced, *Path(os.environ["CARYA_CACHE_DIR"]).rglob("*")] if path.is_file()]
    assert files
    said += [path.read_bytes().decode("latin-1") for path in files]
    said += [record.getMessage() for record in caplog.records if record.name.startswith("carya")]
    for secret in [*secrets, *amazon.secrets()]:
        assert all(secret not in text for text in said)


def test_a_stream_goes_on_through_renewed_keys(
    data: Path, amazon: AmazonStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    amazon.seconds = 8
    by_metadata(monkeypatch, amazon, tmp_path)
    expected = epoch_digest(tars(data))
    end = time.monotonic() + 60
    while len(amazon.given) < 3 and time.monotonic() < end:
        assert epoch_digest(tars(f"s3://{BUCKET}", endpoint=amazon.url)) == expected
        time.sleep(0.3)  # as a trainer has pauses; what is renewed is asked for by the next request
    assert len(amazon.given) >= 3


def test_who_gives_no_keys_is_named(amazon: AmazonStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_web_identity(monkeypatch, amazon, tmp_path)
    (tmp_path / "token").write_text("geheim")
    with pytest.raises(
        carya.Permission, match=r"no credentials could be had: STS answered 403 \(AccessDenied\)"
    ) as caught:
        tars(f"s3://{BUCKET}", endpoint=amazon.url).open()
    assert "geheim" not in str(caught.value)
    for name in ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"):
        monkeypatch.delenv(name)
    write_profile(monkeypatch, tmp_path, "credential_process = sh -c 'echo geheim; exit 1'\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", amazon.url)
    with pytest.raises(
        carya.Permission, match=r"credential_process of profile train: it failed; run it by hand"
    ) as caught:
        tars(f"s3://{BUCKET}").open()
    assert "geheim" not in str(caught.value)
    write_profile(monkeypatch, tmp_path, "sso_start_url = https://example.invalid\n")
    with pytest.raises(carya.Permission, match=r"signs in by a browser \(sso\); give it credential_process"):
        tars(f"s3://{BUCKET}").open()
