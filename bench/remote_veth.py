#!/usr/bin/env python3
"""Results of a worker over a veth pair between two network namespaces, beside iperf3 and a bare SSL_read loop.

Bar: plain >= 0.9 of iperf3's bytes per second, TLS >= 0.85 of the bare loop's; the host's CPU time per byte at most
1.25 of theirs. Needs root and iperf3; says so and ends well where they are missing.

Usage: remote_veth.py [--rounds N] [--seconds S] [--bytes B] [--smoke]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "build/release/bench/bench_remote"
HOST, WORKER, PORT = "10.213.7.1", "10.213.7.2", 7070
SIDES = ("iperf3", "bare recv", "remote, plain", "bare SSL_read", "remote, TLS")


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Namespaces:
    """Two namespaces and the pair between them; gone at the end."""

    def __init__(self) -> None:
        self.host, self.worker = f"carya-h{os.getpid()}", f"carya-w{os.getpid()}"

    def __enter__(self) -> Namespaces:
        try:
            self._make()
        except subprocess.CalledProcessError:
            self.__exit__()
            raise
        return self

    def _make(self) -> None:
        for space in (self.host, self.worker):
            run("ip", "netns", "add", space)
            run("ip", "-n", space, "link", "set", "lo", "up")
        run("ip", "link", "add", "carya0", "netns", self.host, "type", "veth", "peer", "carya0", "netns", self.worker)
        for space, address in ((self.host, HOST), (self.worker, WORKER)):
            run("ip", "-n", space, "address", "add", f"{address}/24", "dev", "carya0")
            run("ip", "-n", space, "link", "set", "carya0", "up")

    def __exit__(self, *_: object) -> None:
        for space in (self.host, self.worker):
            subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True)

    def inside(self, space: str, *command: str) -> list[str]:
        return ["ip", "netns", "exec", space, *command]


def namespaces_refused() -> str:
    """Why there can be no namespaces with a veth pair here, as in most containers; "" where there can."""
    try:
        with Namespaces():
            return ""
    except subprocess.CalledProcessError as error:
        return str(error.stderr).strip()


def iperf3(spaces: Namespaces, seconds: float) -> tuple[float, float]:
    """Bytes per second that arrive at the host, and its CPU time per KB in ns."""
    server = subprocess.Popen(spaces.inside(spaces.host, "iperf3", "-s", "-1", "-J"), stdout=subprocess.PIPE, text=True)
    client = spaces.inside(spaces.worker, "iperf3", "-c", HOST, "-t", str(max(1, round(seconds))))
    until_ns = time.monotonic_ns() + 30_000_000_000
    while subprocess.run(client, capture_output=True, check=False).returncode != 0:
        if time.monotonic_ns() > until_ns:
            server.kill()
            raise SystemExit("remote_veth: iperf3 does not answer over the veth pair")
        time.sleep(0.05)  # it does not listen yet
    end = json.loads(server.communicate()[0])["end"]
    rate = end["sum_received"]["bits_per_second"] / 8
    return rate, end["cpu_utilization_percent"]["host_total"] / 100 * 1e12 / rate


def remote(spaces: Namespaces, ca: str, side: int, options: argparse.Namespace) -> tuple[float, float]:
    """The same of bare recv, plain, bare SSL_read, TLS: side 0 to 3."""
    out = run(
        *spaces.inside(spaces.host, str(BENCH), "--worker", f"{WORKER}:{PORT}", "--ca", ca, "--side", str(side)),
        *("--seconds", str(options.seconds), "--bytes", str(options.bytes)),
    )
    figures = json.loads(out.splitlines()[-1])
    return figures["bytes_per_s"], figures["cpu_ns_per_kb"]


def measure(options: argparse.Namespace) -> dict[str, list[tuple[float, float]]]:
    """The sides in turns, each round another one first: a virtual machine that was idle is fast for a moment."""
    runs: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as ca, Namespaces() as spaces:
        run(str(ROOT / "tools/test_ca.sh"), ca)
        serve = (str(BENCH), "--serve", f"{WORKER}:{PORT}", "--ca", ca, "--bytes", str(options.bytes))
        worker = subprocess.Popen(spaces.inside(spaces.worker, *serve))
        try:
            time.sleep(0.5)
            for nth in range(options.rounds * len(SIDES)):
                side = (nth + nth // len(SIDES)) % len(SIDES)
                seen = iperf3(spaces, options.seconds) if side == 0 else remote(spaces, ca, side - 1, options)
                runs[SIDES[side]].append(seen)
        finally:
            worker.kill()
            worker.wait()
    return runs


def report(runs: dict[str, list[tuple[float, float]]], options: argparse.Namespace) -> None:
    rate = {side: statistics.median(one[0] for one in seen) for side, seen in runs.items()}
    cpu = {side: statistics.median(one[1] for one in seen) for side, seen in runs.items()}
    print(
        f"results of {options.bytes / 1e6:.2f} MB over veth, median of {options.rounds} rounds of {options.seconds} s"
    )
    for side, seen in runs.items():
        low, high = min(one[0] for one in seen) / 1e9, max(one[0] for one in seen) / 1e9
        print(f"  {side:15} {rate[side] / 1e9:7.3f} GB/s ({low:.3f} to {high:.3f}) {cpu[side]:8.1f} CPU ns/KB")
    # Each round's two sides beside each other: what else the machine does then is the same for both.
    plain, tls = (
        {
            what: statistics.median(a[at] / b[at] for a, b in zip(runs[ours], runs[bare], strict=True))
            for at, what in enumerate(("rate", "cpu"))
        }
        for ours, bare in (("remote, plain", "iperf3"), ("remote, TLS", "bare SSL_read"))
    )
    met = plain["rate"] >= 0.9 and tls["rate"] >= 0.85 and plain["cpu"] <= 1.25 and tls["cpu"] <= 1.25
    print(f"  of iperf3: rate {plain['rate']:.3f}, CPU {plain['cpu']:.3f}; TLS: {tls['rate']:.3f}, {tls['cpu']:.3f}")
    line = {"bench": "remote_veth", "bytes": options.bytes, "plain": plain, "tls": tls, "met": met}
    print(json.dumps(line))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--smoke", action="store_true", help="a short run; its figures mean nothing")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.seconds, options.bytes = 1, 0.2, 1 << 17
    missing = [name for name in ("ip", "iperf3") if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        print("remote_veth: left out: it needs root" + "".join(f", {name}" for name in missing))
        sys.exit(0)
    refused = namespaces_refused()
    if refused:
        print(f"remote_veth: left out: no network namespaces here: {refused}")
        sys.exit(0)
    report(measure(options), options)


if __name__ == "__main__":
    main()
