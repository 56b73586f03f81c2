"""Code that decides bits uses nothing whose result depends on the machine (DESIGN section 4, "Same bits everywhere")."""

from __future__ import annotations

import re

import pytest
from tree import MODULES, ROOT, sources, without_comments

# Names that must not appear in the code of any module. base/det_math.cc is where exp, log, sin and cos come from, and
# even it uses none of them.
FORBIDDEN = re.compile(
    r"\b(?:"
    r"MulAdd|MulSub|NegMulAdd|NegMulSub|MulAddSub|Approximate\w*|"
    r"_mm\d*_(?:mask_|maskz_)?fn?m(?:add|sub)\w*|__builtin_fmaf?|vfmaq?_\w+|"
    r"std::(?:exp2?|expm1|log(?:2|10|1p)?|sin|cos|tan|a(?:sin|cos|tan2?)|sinh|cosh|tanh|pow|cbrt|hypot|fma|lerp)[fl]?\b|"
    r"(?:exp2?|expm1|log(?:2|10|1p)?|sin|cos|tan|asin|acos|atan2?|sinh|cosh|tanh|pow|cbrt|hypot|fma)[fl]?(?=\s*\()"
    r")|hwy/contrib/math|-ffast-math|#\s*pragma\s+STDC\s+FP_CONTRACT"
)
# `member.log(...)` and `x::log(...)` of our own are other functions.
OWN = re.compile(r"(?:\.|->|(?<!std)::)\s*$")


def forbidden_names(text: str) -> list[tuple[int, str]]:
    """(line, name) of each forbidden name in C++ source, comments and literals left out."""
    raw = [(text.count("\n", 0, m.start()) + 1, m.group()) for m in re.finditer(r"hwy/contrib/math", text)]
    code = without_comments(text)
    found = [
        (code.count("\n", 0, match.start()) + 1, match.group())
        for match in FORBIDDEN.finditer(code)
        if not re.match(r"[a-z]", match.group())
        or match.group().startswith(("std::", "hwy"))
        or not OWN.search(code[: match.start()][-8:])
    ]
    return sorted({*raw, *found})


@pytest.mark.parametrize("module", MODULES)
def test_no_machine_dependent_arithmetic(module: str) -> None:
    errors = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sources(module)
        for line, name in forbidden_names(path.read_text())
    ]
    assert not errors, "\n".join(errors)


def test_every_target_is_built_without_contraction() -> None:
    assert "-ffp-contract=off" in (ROOT / "cmake" / "carya.cmake").read_text()
    for path in [ROOT / "CMakeLists.txt", *ROOT.glob("*/CMakeLists.txt"), *ROOT.glob("cmake/*.cmake")]:
        text = path.read_text()
        for flag in ("-ffast-math", "-ffp-contract=fast", "-ffp-contract=on", "-march=native", "-Ofast"):
            assert flag not in text, f"{path.relative_to(ROOT)}: {flag}"


@pytest.mark.parametrize(
    "line",
    [
        "auto y = hn::MulAdd(a, b, c);",
        "return std::exp(x);",
        "float y = expf(x);",
        "y = std::pow(a, 2);",
        "_mm256_fmadd_ps(a, b, c);",
        '#include "hwy/contrib/math/math-inl.h"',
        "hn::ApproximateReciprocal(x)",
        "double y = log (x);",
    ],
)
def test_the_rule_sees(line: str) -> None:
    assert forbidden_names(line)


@pytest.mark.parametrize(
    "line",
    [
        "det_exp(x);",
        "// never std::exp here",
        "job.log(entry);",
        "double y = det_log(x);",
        "std::sqrt(x)",
        "expected(1)",
    ],
)
def test_the_rule_lets_pass(line: str) -> None:
    assert not forbidden_names(line)
