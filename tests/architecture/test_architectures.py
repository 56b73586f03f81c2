"""What only one architecture has stands where the preprocessor keeps the others away (`make arm` compiles for aarch64)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest
from tree import ANYTHING_GOES, MODULES, ROOT, sources, without_comments

X86 = re.compile(
    r"\b_mm\d*_\w+|\b__m(?:64|128|256|512)[id]?\b|\b__mmask\d+|\b_(?:pdep|pext|xgetbv)\w*|\b__rdtscp?\b|"
    r"\w*intrin\.h|__builtin_(?:ia32_|cpu_supports|cpu_init)|<cpuid\.h>|xxh_x86dispatch"
)
NEON = re.compile(
    r"\bv[a-z]+[0-9]?q?(?:_[a-z]+)*_[sufp](?:8|16|32|64)\b(?=\()|\bu?int(?:8|16|32|64)x\d+_t\b|arm_(?:neon|sve)\.h"
)
# Conditions that only x86 (or only aarch64) fulfils.
X86_ONLY = re.compile(r"HWY_(?:SSE4|SSSE3|AVX\w+|ARCH_X86)|CARYA_SIMD_X86|__x86_64__")
NEON_ONLY = re.compile(r"CARYA_SIMD_NEON|HWY_ARCH_ARM|__aarch64__")
DIRECTIVE = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)")


@dataclass
class Branch:
    """One `#if` ... `#endif`: the conditions so far; the last one holds here unless `otherwise`."""

    conditions: list[str] = field(default_factory=list)
    otherwise: bool = False

    def only(self, here: re.Pattern[str], there: re.Pattern[str]) -> bool:
        """Whether lines of this branch are for `here` alone: it says so, or the other one took a branch before."""
        if not self.otherwise and here.search(self.conditions[-1]) and "!" not in self.conditions[-1]:
            return True
        before = self.conditions if self.otherwise else self.conditions[:-1]
        return any(there.search(condition) for condition in before)


def unguarded(text: str) -> list[tuple[int, str]]:
    """(line, name) of what one architecture alone has, in C++ source where the others can see it."""
    found: list[tuple[int, str]] = []
    open_ones: list[Branch] = []
    for number, line in enumerate(without_comments(text).replace("\\\n", " \n").split("\n"), 1):
        if directive := DIRECTIVE.match(line):
            word, condition = directive.groups()
            if word in ("if", "ifdef", "ifndef"):
                open_ones.append(Branch([("!" if word == "ifndef" else "") + condition]))
            elif word == "elif":
                open_ones[-1].conditions.append(condition)
            elif word == "else":
                open_ones[-1].otherwise = True
            else:
                open_ones.pop()
            continue
        for names, here, there in ((X86, X86_ONLY, NEON_ONLY), (NEON, NEON_ONLY, X86_ONLY)):
            for name in names.finditer(line):
                if not any(branch.only(here, there) for branch in open_ones):
                    found.append((number, name.group()))
    return found


@pytest.mark.parametrize("folder", [*MODULES, *ANYTHING_GOES])
def test_nothing_of_one_architecture_stands_in_the_open(folder: str) -> None:
    errors = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sources(folder)
        for line, name in unguarded(path.read_text())
    ]
    assert not errors, "\n".join(errors)


@pytest.mark.parametrize(
    "text",
    [
        "#include <immintrin.h>",
        "__m128i a = _mm_setzero_si128();",
        "#if HWY_TARGET != HWY_SCALAR\nreturn V{_mm_add_epi16(a, b)};\n#endif",
        "#ifndef __x86_64__\n_mm_pause();\n#endif",
        "#ifdef __x86_64__\n#else\n_mm_pause();\n#endif",
        "#if HWY_TARGET == HWY_AVX2\n#endif\n_mm256_add_epi16(a, b);",
        "return vaddq_s16(a, b);",
        "#if HWY_TARGET == HWY_SSE4\nint16x8_t a;\n#endif",
        "if (__builtin_cpu_supports(name)) return;",
    ],
)
def test_the_rule_sees(text: str) -> None:
    assert unguarded(text)


@pytest.mark.parametrize(
    "text",
    [
        "#ifdef __x86_64__\n#include <xxh_x86dispatch.h>\n#endif",
        "#if HWY_TARGET <= HWY_AVX2\n#if kMore\n_mm256_add_epi16(a, b);\n#endif\n#endif",
        "#if CARYA_SIMD_NEON\nvaddq_s16(a, b);\n#else\n_mm_add_epi16(a, b);\n#endif",
        "#if X\n#elif HWY_TARGET == HWY_SSE4\n_mm_add_epi16(a, b);\n#endif",
        "// _mm_add_epi16 of x86",
        "hn::Vec<D16> v = hn::Add(a, b);",
        "std::int16_t value_of_s16;",
    ],
)
def test_the_rule_lets_pass(text: str) -> None:
    assert not unguarded(text)


def test_what_the_emulator_leaves_out_is_told() -> None:
    told = (ROOT / "tests" / "ENVIRONMENT.md").read_text()
    lines = (ROOT / "tests" / "qemu_leaves_out.txt").read_text().splitlines()
    names = [line for line in lines if line and not line.startswith("#")]
    assert names
    tests = "\n".join(path.read_text() for path in sources("tests"))
    for name in names:
        assert f"`{name}`" in told, f"{name} is not in tests/ENVIRONMENT.md"
        assert re.split(r"[./]", name)[-1] in tests, f"no test is called {name}"
