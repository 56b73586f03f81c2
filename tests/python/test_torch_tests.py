"""`tools/torch_tests.py`: torch's own tests of its DataLoader, run against `carya.torch.DataLoader`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
TOOL = Path(__file__).parents[2] / "tools" / "torch_tests.py"

OF_TORCH = """
import unittest
from torch.utils.data import DataLoader
class TestIt(unittest.TestCase):
    def test_class(self):
        self.assertEqual(DataLoader.__module__, "carya._torch.dataloader")
        self.assertEqual([int(x) for x in DataLoader([1, 2], num_workers=0)], [1, 2])
    def test_fails(self):
        self.assertEqual(1, 2)
    def test_hangs(self):
        import time
        time.sleep(1000)
    @unittest.skip("not here")
    def test_skipped(self):
        pass
"""
OF_TORCHDATA = """
import unittest
from torchdata.stateful_dataloader import StatefulDataLoader as DataLoader
from torchdata.stateful_dataloader import Stateful, StatefulDataLoader
class TestIt(unittest.TestCase):
    def test_class(self):
        self.assertEqual({DataLoader.__module__, StatefulDataLoader.__module__}, {"carya._torch.dataloader"})
        self.assertTrue(Stateful)
        loader = StatefulDataLoader(
            [1, 2],
            snapshot_every_n_steps=5,
        )
        self.assertEqual(len(loader), 2)
"""


def table(file: Path, *options: str) -> list[list[str]]:
    """Test, outcome, engine and error of each row."""
    run = subprocess.run([sys.executable, TOOL, file, *options], capture_output=True, text=True, check=True)
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in run.stdout.splitlines()[2:] if line[:1] == "|"]


def test_the_class_is_put_in_place_and_each_outcome_told(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(OF_TORCH)
    assert table(tmp_path / "test_a.py", "--limit", "10") == [
        ["TestIt.test_class", "passes", "torch", ""],
        ["TestIt.test_fails", "fails", "", "AssertionError: 1 != 2"],
        ["TestIt.test_hangs", "fails", "", "no end after 20 s"],
        ["TestIt.test_skipped", "skipped", "", "not here"],
    ]
    (tmp_path / "test_b.py").write_text(OF_TORCHDATA)
    assert table(tmp_path / "test_b.py") == [["TestIt.test_class", "passes", "", ""]]


@pytest.mark.skipif(
    "CARYA_TORCH_TESTS" not in os.environ,
    reason="torch's wheel has no tests; CARYA_TORCH_TESTS=FILE gives its test/test_dataloader.py, or torchdata's",
)
def test_torchs_own_tests_of_samplers_and_batches_pass() -> None:
    for test in ("test_batch_sampler", "test_sampler", "test_seqential_batch_workers", "test_random_sampler"):
        (row,) = table(Path(os.environ["CARYA_TORCH_TESTS"]), "--only", rf"^TestDataLoader\.{test}$", "--limit", "300")
        assert row[1] == "passes", row
