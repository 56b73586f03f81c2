"""No number of a document that somebody else wrote is taken without a range: messages by the table of
loader/wire/number_ranges, pipelines and plan files by transforms/op/params, whose every way to read a number asks for
the lowest and the highest."""

from __future__ import annotations

import re

from tree import ROOT

READ = re.compile(r"get<(std::u?int\d+_t|double|float|int)>\(\)")
# Where a number leaves JSON: each with the reason that it may.
MAY = {
    "transforms/op/params.cc": "the readers, each with a range",
    "transforms/op/json.cc": "writes them",
    "loader/plan/frozen_plan.cc": "the format's version, compared with ours alone",
    "loader/plan/profile_file.cc": "our own cache, each number checked; what is odd makes it empty",
    "loader/data/dataset.cc": "views of a pipeline that params.cc has read",
}


def test_numbers_of_pipelines_and_plans_are_read_with_a_range() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in (
            "transforms/op",
            "transforms/ops",
            "transforms/pipeline",
            "transforms/plan",
            "loader/plan",
            "loader/data",
        )
        for path in (ROOT / folder).glob("*.cc")
        if READ.search(path.read_text())
    }
    assert found == set(MAY), "read it by transforms::Params, or say here why it needs no range"


def test_params_reads_no_number_without_a_range() -> None:
    header = (ROOT / "transforms" / "op" / "params.h").read_text()
    readers = re.findall(
        r"(?:std::int64_t|double|std::vector<double>|std::optional<[^;(]*>>?) (\w+)\(([^;]*)\);", header
    )
    ranged = {
        name
        for name, arguments in readers
        if re.search(r"(int64_t|double) low,\s*(?:std::int64_t|double) high", arguments)
    }
    assert {"integer", "integer_or_null", "number", "numbers_or_null", "integers_or_null"} <= ranged
    unranged = {name for name, arguments in readers} - ranged - {"choice_or_null", "strings_or_null"}
    assert not unranged, unranged
