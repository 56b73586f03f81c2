"""Identity of functions: the same in every process, another when the code is; and `random`, seeded when it is asked."""

from __future__ import annotations

import functools
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import user_code as code

from carya._stages import randomness
from carya._stages.identity import identity
from carya._stages.randomness import LazyRandom


def adds(amount: Any) -> Callable[[Any], Any]:
    return lambda value: value + amount


def defaults(value: int, by: int = 2, *, more: int = 3) -> int:
    return value * by + more


def nested(values: list[int]) -> Any:
    return sorted({value for value in values if value in {1, 2, 3}})


def test_code_constants_closures_and_attributes_count() -> None:
    found = [
        identity(value)
        for value in (
            adds(1), adds(2), adds("1"), defaults, nested, code.Doing("a", (1,)), code.Doing("b", (1,)), np.add, len,
            functools.partial(defaults, by=3), functools.partial(defaults, by=4), code.Sleeping(1.0), code.Sleeping(1),
            code.Squares(3).__getitem__, code.Squares(4).__getitem__, np.arange(3), np.arange(4), 1, 1.0, True, "1",
        )
    ]  # fmt: skip
    assert len(set(found)) == len(found)
    assert identity(adds(1)) == identity(adds(1))
    assert identity(defaults, version=3) != identity(defaults, version=4)
    assert identity(adds(1), version=3) == identity(adds(2), version=3)


def test_it_is_the_same_under_any_hash_seed() -> None:
    text = (
        "import sys; sys.path.insert(0, sys.argv[1])\nimport functools, test_function_identity as t, user_code as u\n"
        "from carya._stages.identity import identity\n"
        "print(identity([t.nested, t.adds({1, 2, 'x', frozenset('ab')}), u.Doing('a', (1,)), {'b': 1, 'a': 2}]))"
    )
    found = set()
    for seed in ("0", "1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", text, str(Path(__file__).parent)],
            capture_output=True, text=True, check=True, env={**_environment(), "PYTHONHASHSEED": seed},
        )  # fmt: skip
        found.add(done.stdout)
    assert len(found) == 1


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)


def test_cycles_and_models_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert identity(loop) == identity(loop)
    deep: Any = []
    for _ in range(2000):
        deep = [deep]
    identity(deep)
    identity({i: i for i in range(100_000)})


@pytest.mark.parametrize("seed", [0, 1, 2**63 + 5])
def test_lazy_random_gives_the_numbers_of_one_that_was_seeded(seed: int) -> None:
    lazy, plain = LazyRandom(), random.Random()
    uses: list[Callable[[random.Random], Any]] = [
        lambda r: r.random(),
        lambda r: r.getrandbits(70),
        lambda r: r.gauss(0, 1),
        lambda r: [r.gauss(0, 1) for _ in range(3)],
        lambda r: r.sample(range(100), 5),
        lambda r: r.choice("abc"),
        lambda r: r.randbytes(5),
        lambda r: r.getstate(),
        lambda r: (r.setstate(random.Random(3).getstate()), r.random())[1],
        lambda r: (r.seed("text"), r.random())[1],
    ]
    for use in uses:
        lazy.seed(seed)
        plain.seed(seed)
        assert use(lazy) == use(plain)
        assert use(lazy) == use(plain)


def test_global_generators_do_not_know_what_was_drawn_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a Gaussian that numpy keeps for the next call; and where numpy's memory cannot be written."""

    def drawn() -> list[float]:
        return [random.random(), *np.random.rand(2).tolist(), np.random.randn(), random.gauss(0, 1)]  # noqa: NPY002

    uses: list[Callable[[], Any]] = [lambda: None, np.random.rand, np.random.randn, random.random, drawn]
    found = []
    for fast in (True, False):
        if not fast:
            monkeypatch.setattr(randomness, "_twister", lambda: None)
        else:
            assert randomness._twister() is not None
        for use in uses:
            randomness.GlobalSeeds(77).set(1, 2, 0)
            use()
            randomness.GlobalSeeds(77).set(1, 3, 0)
            found.append(drawn())
    assert all(one == found[0] for one in found)
    randomness.GlobalSeeds(77).set(1, 4, 0)
    assert drawn() != found[0]
