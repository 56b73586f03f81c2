"""Options have one default each, in loader/ (or in `loader_options.DEFAULTS`); documents say it, and none other."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from streams import numbers

import carya
from carya import _core
from carya._loading import remote
from carya._options import byte_size

ROOT = Path(__file__).parents[2]


def said() -> dict[str, Any]:
    """What `help(carya.Loader)` says."""
    text = re.search(r"\bDefaults: (.*?)\.\n\n", inspect.getdoc(carya.Loader) or "", re.DOTALL)
    assert text
    return {name: ast.literal_eval(value) for name, value in re.findall(r'(\w+)=("[^"]*"|[^,\s]+)', text[1])}


def native(name: str) -> Any:
    """The default of loader/, or of who alone knows the option."""
    if name == "on_daemon_loss":
        return _core.DaemonOptions().on_loss
    for options in (_core.JobOptions(), _core.RemoteOptions(), _core.DaemonOptions()):
        if hasattr(options, name):
            value = getattr(options, name)
            return "auto" if name in ("threads", "slots") and value == 0 else value
    return {"hold_timeout": 10.0, "function_timeout": 300.0, "native": "auto", "daemon": "auto", "placement": "auto"}[
        name
    ]


def test_help_says_the_defaults_that_there_are() -> None:
    found = said()
    parameters = inspect.signature(carya.Loader.__init__).parameters
    assert {name: repr(parameters[name].default) for name in found} == {name: repr(found[name]) for name in found}
    assert byte_size("read_ahead", found.pop("read_ahead")) == _core.JobOptions().read_ahead
    assert found == {name: native(name) for name in found}
    assert f"0 to 1; None: {_core.RemoteOptions().verify}." in (carya.Loader.__doc__ or "")


def test_help_leaves_no_default_out() -> None:
    # These have none: without them nothing is bounded, restored, renamed, or done elsewhere; a rank is the launcher's.
    parameters = inspect.signature(carya.Loader.__init__).parameters
    without = {name for name, one in parameters.items() if one.default is None}
    assert parameters.keys() - {"self", "pipeline"} == said().keys() | without
    assert without == {
        "rank", "world_size", "epochs", "state", "seed", "as_tuple", "plan", "job", "share", "remote", "prices", "target",
        "max_workers", "max_cost_per_hour", "remote_tls", "verify", "max_rss", "function_workers",
        "function_tls",
    }  # fmt: skip


def test_what_is_not_given_is_what_help_says() -> None:
    with carya.Loader(numbers(8, batch_size=4)) as bare, carya.Loader(numbers(8, batch_size=4), **said()) as told:
        for loader in (bare, told):
            assert (loader.on_error, loader._reorder, loader._hold_timeout) == ("raise", "exact", 10.0)
        assert [batch["x"].tolist() for batch in bare] == [batch["x"].tolist() for batch in told]


@pytest.mark.parametrize("name", sorted(said()))
def test_none_is_refused_where_there_is_a_default(name: str) -> None:
    options: dict[str, Any] = {name: None}
    with pytest.raises(carya.InvalidArgument, match=name):
        carya.Loader(numbers(8, batch_size=4), **options)


@pytest.mark.parametrize(
    ("options", "name", "names"),
    [
        (_core.JobOptions, "on_error", ["raise", "replace", "mask"]),
        (_core.JobOptions, "io_engine", ["auto", "uring", "pread"]),
        (_core.JobOptions, "label_dtype", ["int64", "int32"]),
        (_core.JobOptions, "decode_index", ["off", "auto", "rows", "8", "16"]),
        (_core.JobOptions, "reorder", ["off", "exact", "rounding", "relaxed"]),
        (_core.DaemonOptions, "on_loss", ["embedded", "raise"]),
        (_core.RemoteOptions, "objective", list(remote.OBJECTIVES)),
    ],
)
def test_enumerations_travel_by_name(options: Any, name: str, names: list[str]) -> None:
    given = options()
    for value in names:
        setattr(given, name, value)
        assert getattr(given, name) == value
    with pytest.raises(carya.InvalidArgument) as refused:
        setattr(given, name, "else")
    assert re.findall(r'"(\w[\w-]*)"', str(refused.value)) == ["else", *names]
    assert str(refused.value).startswith(name)


def test_an_option_that_is_none_is_refused() -> None:
    for options in (_core.JobOptions(), _core.RemoteOptions(), _core.DaemonOptions()):
        with pytest.raises(AttributeError):
            options.no_such = 1


def test_prices_stand_in_one_place() -> None:
    assumed = _core.RemoteOptions()
    host, worker = assumed.host_price, assumed.worker_price
    assert remote.checked_prices(None) == {"host": host, "worker": worker}
    assert (remote.PRICES["v2-8"], remote.PRICES["n2-standard-8"]) == (host, worker)
    assert f"\nhost_price = {host}\nworker_price = {worker}\n" in (ROOT / "packaging/caryad.toml").read_text()
    assert f"Defaults {host} and {worker}." in (ROOT / "packaging/man/caryad.8").read_text()
    page = " ".join((ROOT / "docs/remote.md").read_text().split())
    assert f"a host counts as ${host} and a worker as ${worker:.4f} an hour" in page
