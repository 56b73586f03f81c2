"""Workers on other machines: what a loader is told of them, and what it says of where its samples are made."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from .. import _core
from .._errors import InvalidArgument, invalid
from .._options import WHOLE_MAX, choice, flag, whole

if TYPE_CHECKING:
    from ..fleet import ChildFleet

Objective = Literal["cost", "speed", "cost-at-target"]
OBJECTIVES: tuple[Objective, ...] = ("cost", "speed", "cost-at-target")

_ASSUMED = _core.RemoteOptions()  # has the prices of who gives none

# $ per hour, on demand, read November 2026; docs/remote.md has them too. Sources: Google Cloud us-central1, as Pecan (USENIX ATC
# 2024) was evaluated with; AWS us-east-1, by SkyPilot's catalog (v8/aws/vms.csv of skypilot-org/skypilot-catalog at 00148f2a).
PRICES: dict[str, float] = {
    # machines with accelerators
    "v2-8": _ASSUMED.host_price,
    "v3-8": 8.8,
    "g6.12xlarge": 4.6016,
    "g6.16xlarge": 3.3968,
    "g7e.2xlarge": 3.36312,
    "g7e.8xlarge": 5.26824,
    "g7e.48xlarge": 33.14432,
    "p5.4xlarge": 6.88,
    "p5.48xlarge": 55.04,
    # general ones, for workers
    "n2-standard-8": _ASSUMED.worker_price,
    "m8i-flex.2xlarge": 0.4022,
    "m8i-flex.4xlarge": 0.8044,
    "m8i-flex.8xlarge": 1.6088,
    "m8i.12xlarge": 2.54016,
    "m8i.16xlarge": 3.38688,
    "r5a.2xlarge": 0.452,
    "r5a.4xlarge": 0.904,
}

_TLS_FILES = {"cert": "certificate", "key": "key", "ca": "authority"}


def remote_options(given: Mapping[str, Any], placement: Any, native: _core.Pipeline) -> _core.RemoteOptions | None:
    """What the native job takes as `remote`; None where this machine makes all. `given`: what the user gave, by name.

    Errors: InvalidArgument.
    """
    options = _core.RemoteOptions()
    remote = given.get("remote")
    where = _where(remote)
    fixed = _placement(placement, native)
    options.objective = choice("objective", given.get("objective", options.objective), OBJECTIVES)
    if "target" in given and options.objective != "cost-at-target":
        raise InvalidArgument('Loader: target: only objective="cost-at-target" has one; give that, or leave target out')
    if fixed.get("workers_fixed") and not where:
        raise InvalidArgument("Loader: placement: asks for workers, and remote= names none; give remote=[...]")
    prices = checked_prices(_priced(given.get("prices"), remote))
    options.host_price, options.worker_price = prices["host"], prices["worker"]
    for name, read in _READERS.items():
        if name in given:
            setattr(options, name, read(name, given[name]))
    for name, value in {**where, **_tls(given.get("remote_tls")), **fixed}.items():
        setattr(options, name, value)
    return options if where else None


def _where(remote: Any) -> dict[str, Any]:
    """Addresses, a name that stands for some, or a fleet that a child process runs; {} for none."""
    if remote is None:
        return {}
    if fleet := _as_fleet(remote):
        return {"workers": [], "fleet_command": list(fleet.command), "fleet_options": fleet.options}
    if isinstance(remote, str) and remote.startswith("dns://"):
        return {"workers": [], "dns": remote}
    listed = [remote] if isinstance(remote, str) else remote
    allowed = '["host:7070", "unix:/path", ...], "dns://name:7070" or a fleet of carya.fleet'
    if not isinstance(listed, Iterable):
        raise invalid("Loader: remote", remote, allowed)
    workers = list(listed)
    if any(not isinstance(worker, str) or not worker for worker in workers):
        raise invalid("Loader: remote", remote, allowed)
    return {"workers": workers} if workers else {}


def _as_fleet(remote: Any) -> ChildFleet | None:
    """`remote` if it is a fleet: whoever made one has loaded carya.fleet, which others need not."""
    fleet = sys.modules.get("carya.fleet")
    return remote if fleet is not None and isinstance(remote, fleet.ChildFleet) else None


def _priced(prices: Any, remote: Any) -> Any:
    """A fleet knows what its workers cost, if the user does not say."""
    fleet = _as_fleet(remote)
    if fleet and fleet.price > 0 and (prices is None or isinstance(prices, Mapping)):
        return {"worker": fleet.price, **(prices or {})}
    return prices


def _number(name: str, value: Any, right: Callable[[float], bool], allowed: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not right(number) or isinstance(value, bool | str):
        raise invalid(f"Loader: {name}", value, allowed)
    return number


def _amount(name: str, value: Any) -> float:
    return _number(name, value, lambda amount: amount > 0, "a number above 0, or None")


# How each further option is read.
_READERS: dict[str, Callable[[str, Any], Any]] = {
    "target": _amount,
    "max_workers": lambda name, value: whole(name, value, 0, "a count", 100_000),
    "max_cost_per_hour": _amount,
    "verify": lambda name, value: _number(name, value, lambda share: 0 <= share <= 1, "a share of 0 to 1, or None"),
}


def checked_prices(prices: Any) -> dict[str, float]:
    """$ per hour of the host and of a worker: numbers, or names of machine types in PRICES. `request` ($ per 1,000 requests to a
    store) and `gb` ($ per 10^9 bytes from it) only where they were given.

    >>> checked_prices({"host": "v3-8", "request": 0.0005})["request"]
    0.0005
    """
    allowed = (
        f'{{"host": {_ASSUMED.host_price:g}, "worker": {_ASSUMED.worker_price:.2g}}} in $ per hour, or machine types such as '
        + ", ".join(f'"{name}"' for name in PRICES)
        + '; and of stores "request" in $ per 1,000 requests and "gb" in $ per GB'
    )
    if prices is not None and not isinstance(prices, Mapping):
        raise invalid("Loader: prices", prices, allowed)
    given = {"host": _ASSUMED.host_price, "worker": _ASSUMED.worker_price, **(prices or {})}
    if not set(given) <= {"host", "worker", "request", "gb"}:
        raise invalid("Loader: prices", prices, allowed)
    found = {}
    for name, value in given.items():
        price = PRICES.get(value) if isinstance(value, str) and name in ("host", "worker") else value
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < math.inf:
            raise invalid("Loader: prices", prices, allowed)
        found[name] = float(price)
    return found


def _tls(files: Any) -> dict[str, Any]:
    allowed = (
        '{"cert": FILE, "key": FILE, "ca": FILE}, with "token", "user", "server_name" or "insecure": True beside them'
    )
    if files is None:
        return {}
    if not isinstance(files, Mapping) or not set(files) <= {*_TLS_FILES, "token", "user", "server_name", "insecure"}:
        raise invalid("Loader: remote_tls", files, allowed)
    named = {_TLS_FILES[name]: os.fspath(files[name]) for name in _TLS_FILES if name in files}
    if named and len(named) != len(_TLS_FILES):
        raise invalid("Loader: remote_tls", dict(files), allowed)
    if os.path.isfile(str(files.get("token", ""))):  # its name would be sent as the word
        raise InvalidArgument(
            'Loader: remote_tls: token: got the name of a file; give the word in it: {"token": open(FILE).read().strip()}'
        )
    texts = {name: str(files[name]) for name in ("token", "user", "server_name") if name in files}
    return {**named, **texts, "insecure": flag("remote_tls: insecure", files.get("insecure", False))}


def _placement(placement: Any, native: Any) -> dict[str, Any]:
    """What is not decided but kept."""
    if placement == "auto":
        return {}
    if placement == "local":
        return {"workers_fixed": 0}
    kind, _, rest = placement.partition(":") if isinstance(placement, str) else ("", "", "")
    if kind == "remote" and rest.isdecimal() and 0 < int(rest) < 100_000:
        return {"workers_fixed": int(rest)}
    if kind == "frozen" and rest:
        return _frozen(rest, native)
    raise invalid("Loader: placement", placement, '"auto", "local", "remote:4" or "frozen:plan.json"')


def _frozen(path: str, native: Any) -> dict[str, Any]:
    from .plan_file import read_frozen  # few loaders have one

    text = read_frozen(path, "placement", "carya placement freeze PIPELINE -o FILE")
    try:
        document = json.loads(text)
    except ValueError:  # also bytes that are no UTF-8
        document = None
    if not isinstance(document, dict):
        document = {}
    pipeline, workers, ops = (document.get(name) for name in ("pipeline", "workers", "ops_remote"))
    whole_numbers = all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < WHOLE_MAX for n in (workers, ops))
    if document.get("carya_placement") != 1 or not whole_numbers:
        raise InvalidArgument(f"{path}: is no placement; make one with `carya placement freeze`")
    if pipeline != native.fingerprint("raise", []):
        raise InvalidArgument(
            f"{path}: was made for another pipeline, or other versions of its operations; freeze it again"
        )
    assert isinstance(workers, int)
    assert isinstance(ops, int)
    return {"workers_fixed": workers, "cut_fixed": ops} if workers else {"workers_fixed": 0}


class Placement(dict[str, Any]):
    """Where the samples of a loader are made, and why: a dict that prints as a text.

    phase: "connecting", "measuring", "first worker" (one, or some that run already, is measured before more are asked for), "starting", "verifying",
    "settled", "fixed" (by `placement=`), "local" (no `remote=`). why: the last decision in words.
    choice: what the model says of what runs, by what is known now: workers, ops_remote (how many operations workers run; the rest stays here),
    cores, remote_share, samples_per_s, stall_share, cost_per_hour, cost_per_million ($ per million samples), limit.
    beside: the same of its neighbours (a worker more or less, other cuts, none, all remote), with name and why they lost.
    demand_per_s, local_per_s, local_us, worker_cores, link_in_bytes_per_s, link_out_bytes_per_s, source_bytes_per_s: what is known by now; None: not.
    worker_speeds: of the workers that were measured, beside the fastest and without what other hosts use of them, fastest first.
    cuts: each place where the plan can be cut, with bytes and CPU microseconds per sample on both sides.
    workers: each one's address, state, chunks, bytes, rates and latencies. events: the last things that befell them.
    trouble: why there is none of the workers that there should be, or what else stands in the way; "": nothing does.
    bill: $ so far (of workers while they are there and used), and what all local and all remote would have cost. changes,
    confidence (0 to 1), looks_again_in_s.
    """

    def __str__(self) -> str:
        lines = [f"{self['phase']}: {self['why']}"]
        if self.get("trouble"):
            lines.append(f"trouble: {self['trouble']}")
        choice = self.get("choice")
        if choice:
            lines += self._facts()
            lines += [self._row("now", choice)]
            lines += [self._row(one["name"], one) + f"  {one['why']}" for one in self["beside"]]
        for worker in self["workers"]:
            lines.append(
                f"  {worker['address']:<28} {worker['state']:<10} {worker['chunks']:>8} chunks "
                f"{worker['bytes_per_s'] / 1e6:8.1f} MB/s  hedged {worker['hedged']} lost {worker['lost']} {worker['reason']}"
            )
        bill = self.get("bill")
        if bill:
            lines.append(
                f"bill: ${bill['host'] + bill['workers']:.4g} in {bill['seconds']:.0f} s (workers ${bill['workers']:.4g}); "
                f"all local ${bill['all_local']:.4g}, all remote ${bill['all_remote']:.4g}"
            )
        return "\n".join(lines)

    def _facts(self) -> list[str]:
        def rate(value: float | None) -> str:
            return "not known" if value is None else f"{value:.4g}/s"

        link = self["link_in_bytes_per_s"]
        return [
            f"trainer wants {rate(self['demand_per_s'])}, this host makes {rate(self['local_per_s'])} "
            f"({self['local_us']:.0f} us a sample on {self['cores']:g} cores); workers have {self['worker_cores']:g} cores; "
            f"link {'not known' if link is None else f'{link / 1e6:.4g} MB/s'}; "
            f"{100 * self['confidence']:.0f} % sure, looks again in {self['looks_again_in_s']:.0f} s"
        ]

    @staticmethod
    def _row(name: str, choice: Mapping[str, Any]) -> str:
        cut = "" if choice["ops_remote"] is None else f" from the cut after {choice['ops_remote']} ops"
        cost = choice["cost_per_million"]
        return (
            f"  {name:<24} {choice['workers']:>4} workers{cut}: {choice['samples_per_s'] or 0:.4g} samples/s, "
            f"waits {100 * choice['stall_share']:.1f} %, {'no price' if cost is None else f'${cost:.4g}'} per million"
        )

    def frozen(self) -> dict[str, Any]:
        """The document that `Loader(placement="frozen:FILE")` reads. Errors: InvalidArgument, without `remote=`."""
        if "pipeline" not in self:
            raise InvalidArgument("placement: this loader has no remote=; there is nothing to keep")
        running = self.get("running") or {"workers": 0, "ops_remote": 0}
        return {
            "carya_placement": 1,
            "pipeline": self["pipeline"],
            "workers": running["workers"],
            "ops_remote": running["ops_remote"] if running["workers"] else 0,
        }


LOCAL = {"phase": "local", "why": "no remote= was given: this machine makes all samples", "workers": []}
