"""A real Prometheus scrapes a real caryad: labels, the queries of the dashboard, the alerts, the documented configuration."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from daemons import Daemon, running, until
from ports import free_port
from store_data import BUCKET, objects_of, tars, write_data
from stores import FaultStore
from streams import numbers
from test_dashboard import document, panels
from test_metrics import port

import carya

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
RULES = PACKAGING / "prometheus" / "carya.rules.yml"

Query = Callable[[str], list[dict[str, Any]]]


def program(name: str) -> str:
    """Its path: the system's, else the one that tools/setup.sh unpacks."""
    found = shutil.which(name, path=f"{ROOT}/build/prometheus/usr/bin") or shutil.which(name)
    if not found:
        why = f"{name} is not installed; `make test` unpacks it into build/prometheus"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    return found


def documented_config(target: str, rules: Path) -> str:
    """What docs/metrics.md tells to write, with this daemon's address, looked at often."""
    text = re.search(r"```yaml\n(scrape_configs:.*?)```", (ROOT / "docs" / "metrics.md").read_text(), re.DOTALL)
    assert text
    config = text[1].replace("127.0.0.1:9464", target).replace("/etc/prometheus/carya.rules.yml", str(rules))
    config = config.replace("scrape_interval: 15s", "scrape_interval: 200ms")
    assert target in config
    assert str(rules) in config
    return f"global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}\n{config}"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with running("--metrics", "127.0.0.1:0") as started:
        yield started


@pytest.fixture(scope="module")
def query(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Query]:
    """Asks the Prometheus that scrapes the daemon. Its rules look at seconds in place of minutes."""
    folder = tmp_path_factory.mktemp("prometheus")
    hasty = folder / "rules.yml"
    hasty.write_text(re.sub(r"\[\d+[mh]\]", "[2s]", re.sub(r"for: \d+m", "for: 0s", RULES.read_text())))
    (folder / "config.yml").write_text(documented_config(f"127.0.0.1:{port(daemon)}", hasty))
    place = f"127.0.0.1:{free_port()}"

    def ask(expression: str) -> list[dict[str, Any]]:
        words = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://{place}/api/v1/query?{words}", timeout=60) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return result

    def answers() -> bool:
        try:
            return bool(ask('up{job="carya"} == 1'))
        except OSError:
            return False

    command = [program("prometheus"), f"--config.file={folder}/config.yml", f"--storage.tsdb.path={folder}/data"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen([*command, f"--web.listen-address={place}"], stderr=log) as child,
    ):
        try:
            until(answers, 60)
            yield ask
        finally:
            child.kill()


def values(result: list[dict[str, Any]], label: str) -> dict[str, float]:
    return {line["metric"][label]: float(line["value"][1]) for line in result}


def test_two_jobs_are_two_lines(daemon: Daemon, query: Query) -> None:
    with (
        carya.Loader(numbers(80, batch_size=4), daemon=daemon.socket, job="one") as one,
        carya.Loader(numbers(80, batch_size=4), daemon=daemon.socket, job="two") as two,
    ):
        next(iter(one))
        next(iter(two))
        sums = until(
            lambda: len(found := values(query("sum by (carya_job) (carya_samples_total)"), "carya_job")) == 2 and found
        )
        assert set(sums) == {"one", "two"}
        (line,) = query('carya_epoch{carya_job="one"}')
        assert line["metric"]["job"] == "carya"  # that of the scrape configuration
        assert not [key for key in line["metric"] if key.startswith("exported_")]


def test_every_query_of_the_dashboard_is_answered(daemon: Daemon, query: Query, photos: Path, tmp_path: Path) -> None:
    """Those about workers and users are valid and empty, as there are none; of the process there is caryad's line alone. What a
    cache saves may not be known yet."""
    pattern = "|".join(values(query("carya_uptime_seconds"), "instance"))
    chosen = {"$host": pattern, "$user": ".*", "$job": ".*", "$__rate_interval": "1m"}
    choices = {one["name"]: one.get("query", "") for one in document()["templating"]["list"]}
    assert choices["host"] == "label_values(carya_uptime_seconds, instance)"
    expressions = [target["expr"] for panel in panels() for target in panel["targets"]]
    chain = carya.image_folder(photos).decode_image().random_crop(32).batch(4)
    cache = {"memory": "16MB", "disk": (tmp_path, "16MB"), "after": "decode_image"}
    where = write_data(tmp_path / BUCKET)
    with (
        FaultStore(objects_of(where)) as store,
        carya.Loader(tars(f"{store.url}/{BUCKET}"), daemon=daemon.socket, job="stored") as stored,
        carya.Loader(chain, daemon=daemon.socket, job="shown", cache=cache) as loader,
    ):
        shown, kept = (itertools.chain.from_iterable(itertools.repeat(one)) for one in (stored, loader))

        def lines(expression: str) -> list[dict[str, Any]]:
            for stream in (shown, kept):
                next(stream)
            for name, value in chosen.items():
                expression = expression.replace(name, value)
            return query(expression)

        job = re.fullmatch(r"label_values\((.*), carya_job\)", choices["job"])
        assert job
        until(lambda: {"stored", "shown"} <= set(values(lines(job[1]), "carya_job")), 60)

        for expression in expressions:
            assert "$host" in expression
            if "carya_cache_saved" in expression:
                lines(expression)
                continue
            remote = any(word in expression for word in ("worker", "carya_cost", "carya_user_up"))
            remote &= "vector(0)" not in expression
            found = lines(expression) if remote else until(lambda wanted=expression: lines(wanted), 60)
            assert bool(found) != remote, expression
            if "process_" in expression:
                assert len(found) == 1, expression


def test_alerts_come_when_they_should(daemon: Daemon, query: Query, damaged: list[str]) -> None:
    def alerts(name: str) -> set[str]:
        return set(values(query(f'ALERTS{{alertname="{name}", alertstate="firing"}}'), "carya_job"))

    good = carya.Loader(numbers(80, batch_size=4), daemon=daemon.socket, job="calm", slots=2)
    chain = carya.files(damaged).decode_image().resize((8, 8)).batch(4)
    with (
        good,
        carya.Loader(chain, daemon=daemon.socket, job="broken", on_error="replace") as bad,
        carya.Loader(numbers(80, batch_size=4), daemon=daemon.socket, job="hungry", slots=2) as hungry,
    ):
        until(lambda: query('carya_quarantined_total{carya_job="broken"} == 0'), 60)
        batches = iter(hungry)
        held = [next(batches), next(batches)]

        def starved() -> bool:
            assert hungry._job.next(0.3) is None  # all its slots are held
            next(iter(bad))
            return "hungry" in alerts("CaryaTrainerStarves") and "broken" in alerts("CaryaRecordsQuarantined")

        until(starved, 60)
        assert "calm" not in alerts("CaryaTrainerStarves") | alerts("CaryaRecordsQuarantined")
        held.clear()


def test_alerts_hold_over_simulated_time() -> None:
    """The minutes of the rules, which a real Prometheus would take too long for."""
    for words in (["check", "rules", RULES], ["test", "rules", RULES.with_suffix(".test.yml")]):
        done = subprocess.run([program("promtool"), *words], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_is_well_formed(daemon: Daemon) -> None:
    """promtool's own reading and lint of the text format. The names of counters end with _total, units are named."""
    page = urllib.request.urlopen(f"http://127.0.0.1:{port(daemon)}/metrics", timeout=60).read()
    done = subprocess.run(
        [program("promtool"), "check", "metrics"], input=page, capture_output=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_its_row_in_the_document() -> None:
    alerts = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    rows = set(re.findall(r"^\| `(Carya\w+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))
    assert alerts == rows
    used = set(re.findall(r"\bcarya_\w+(?=\[|\)| <|$)", RULES.read_text()))
    assert used >= {"carya_reader_stall_seconds_total", "carya_quarantined_total", "carya_worker_lost_total"}
