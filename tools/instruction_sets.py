#!/usr/bin/env python3
"""Checks that machine code uses only instruction sets that it may: instruction_sets.py PROGRAM-OR-LIBRARY...

Functions in a namespace of one of Highway's targets (N_AVX2, N_AVX3_DL, ...) may use the sets that run-time dispatch
checks before it calls them (transforms/simd/targets.cc, asked through the extension). All other code may use plain
x86-64, which every processor has that can run a wheel. Names each offending function, instruction and set.

How: the code is disassembled, and every distinct instruction is assembled again by GNU as, which knows which set each
one belongs to, for an architecture that has the allowed sets only. An instruction in EVEX form (first byte 0x62)
needs AVX-512 whatever its name, so it is judged by its bytes.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

# The compilers' names of the sets and those of GNU as, where the two differ.
AS_NAMES = {
    "avx512vnni": "avx512_vnni",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avxvnni": "avx_vnni",
}
# Tried one by one to name the set of an instruction that is refused.
KNOWN_SETS = (
    *("sse3", "ssse3", "sse4.1", "popcnt", "sse4.2", "lzcnt", "movbe", "cx16", "pclmul", "aes", "sha", "rdrnd"),
    *("avx", "f16c", "fma", "bmi", "bmi2", "adx", "avx2", "avxvnni", "vaes", "vpclmulqdq", "gfni"),
    *("avx512f", "avx512cd", "avx512dq", "avx512bw", "avx512vl", "avx512ifma", "avx512vbmi", "avx512vbmi2"),
    *("avx512vnni", "avx512bitalg", "avx512vpopcntdq", "avx512bf16", "avx512fp16", "amx_tile"),
)
# endbr64 is a no-op on processors without IBT.
BASELINE = ("ibt",)
# Functions outside of Highway's targets, and the set that their callers check for.
CHECKED_FUNCTIONS = (
    (re.compile(r"^get_available_features\b"), "xsave"),  # libgcc reads CPUID: xgetbv, where CPUID says it is there
    (re.compile(r"^_ZN5carya2io12_GLOBAL__N_1\d+crc32c_by_sse42E"), "sse4.2"),  # io/formats/crc32c.cc
    # std::random_device of a static libstdc++ reads CPUID. Nothing of ours calls it; oneTBB's symbols bring it along.
    (re.compile(r"^_ZNSt12_GLOBAL__N_1\d+__x86_(rdrand|rdseed_rdrand)EPv"), "rdrnd"),
    (re.compile(r"^_ZNSt12_GLOBAL__N_1\d+__x86_(rdseed|rdseed_rdrand)EPv"), "rdseed"),
)


class Instruction(NamedTuple):
    """A normalized instruction."""

    text: str
    evex: bool  # in EVEX form


class Offence(NamedTuple):
    """An instruction that its function may not use."""

    function: str
    instruction: str
    missing: str


def target_of(symbol: str, targets: dict[str, list[str]]) -> str | None:
    """The SIMD target in whose namespace a mangled symbol lies; None: it is ordinary code."""
    found = [name for name in targets if f"{len(name) + 2}N_{name}" in symbol]
    return found[0] if found else None


def allowed_sets(symbol: str, targets: dict[str, list[str]]) -> frozenset[str]:
    """The instruction sets that the function may use beyond plain x86-64."""
    if own := frozenset(checked for pattern, checked in CHECKED_FUNCTIONS if pattern.match(symbol)):
        return own
    target = target_of(symbol, targets)
    return frozenset(targets[target] if target else ())


def normalized(text: str) -> str:
    """The instruction with addresses and constants made equal, so that few are distinct. Empty: nothing to judge."""
    text = re.sub(r"<[^>]*>|#.*", "", text.replace("\t", " ")).strip()
    if re.match(r"(?:notrack )?(?:j\w+|call\w*|loop\w*) +-?(?:0x)?[0-9a-f]+$", text):
        return ""  # branches to constant addresses are in every x86-64
    if text.startswith("tzcnt"):
        return ""  # bsf with a prefix that older processors ignore: compilers use it where both give the same
    text = re.sub(r"^(rdrand|rdseed)[lqw]\b", r"\1", text)  # GNU as takes the size from the register alone
    return re.sub(r"-?0x[0-9a-f]+", "0x10", text)


def functions(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The functions of a program or library, each with its lines of the listing: bytes, a tab, a text in which addresses and
    constants are equal."""
    listing = subprocess.run(
        ["llvm-objdump-19", "--disassemble", "--no-leading-addr", str(path)], capture_output=True, text=True, check=True
    ).stdout
    # All at once, so that few of a million lines are distinct.
    listing = re.sub(r"-?0x[0-9a-f]+(?: <.*)?", "0x10", listing)
    for block in listing.split("\n\n"):
        heading, *lines = block.split("\n")
        if heading.startswith("<"):
            yield heading.strip("<>:"), lines


def distinct(lines: Iterable[str]) -> list[Instruction]:
    """The instructions of these lines: a program has a million lines, of which most have the text of another one."""
    short = {(line[:3], line.partition("\t")[2]) for line in lines}
    found = {Instruction(normalized(text), evex=data.strip() == "62") for data, text in short}
    return sorted(one for one in found if one.text)


def refused(texts: list[str], sets: frozenset[str]) -> dict[int, str]:
    """What GNU as says of those instructions that it refuses, by their index."""
    names = [AS_NAMES.get(name, name) for name in (*BASELINE, *sorted(sets))]
    head = [".arch generic64", *(f".arch .{name}" for name in names)]
    done = subprocess.run(
        ["as", "-o", "/dev/null", "-"],
        input="\n".join([*head, *texts, ""]),
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"^\{standard input\}:(\d+): Error: (.*)$", done.stderr, re.MULTILINE)
    by_line = {int(line) - len(head) - 1: message for line, message in errors}
    if any(index < 0 for index in by_line):
        raise SystemExit(f"carya: GNU as does not know one of the sets {names}: {done.stderr[:500]}")
    return by_line


def name_of_missing_set(instruction: Instruction, allowed: frozenset[str], complaint: str) -> str:
    for name in KNOWN_SETS:
        helps = name not in allowed and not refused([instruction.text], allowed | {name})
        if helps and (not instruction.evex or name.startswith("avx512")):
            return name
    return f"an unknown set ({complaint})"


def offences(path: Path, targets: dict[str, list[str]]) -> list[Offence]:
    """Every distinct instruction of the file that its function may not use.

    Errors: SystemExit where a target has no function at all: without symbols nobody can tell what code is whose.
    """
    found = []
    by_name = list(functions(path))
    used: dict[frozenset[str], list[list[str]]] = defaultdict(list)
    for name, lines in by_name:
        used[allowed_sets(name, targets)].append(lines)
    for name, needs in targets.items():
        if needs and frozenset(needs) not in used:
            raise SystemExit(f"carya: {path}: no function of {name}; give a file that was not stripped of its symbols")
    for allowed, parts in used.items():
        uses = distinct(itertools.chain.from_iterable(parts))
        complaints = refused([instruction.text for instruction in uses], allowed)
        for index, instruction in enumerate(uses):
            if index not in complaints and (not instruction.evex or "avx512f" in allowed):
                continue
            missing = name_of_missing_set(instruction, allowed, complaints.get(index, "EVEX form"))
            found += [
                Offence(function, instruction.text, missing)
                for function, own in by_name
                if allowed_sets(function, targets) == allowed and instruction in distinct(own)
            ]
    return found


def demangled(names: list[str]) -> list[str]:
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    from carya import _core  # the build under test

    targets = _core.simd_needs()
    failed = False
    for path in options.files:
        found = offences(path, targets)
        for offence, function in zip(found, demangled([one.function for one in found]), strict=True):
            print(f"{path.name}: {function}: {offence.instruction}: needs {offence.missing}")
        verdict = f"{len(found)} uses of instructions that a machine may lack" if found else "ok"
        print(f"{path.name}: {verdict}")
        failed = failed or bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
