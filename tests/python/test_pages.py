"""The Python code of the documents is run: each page's blocks one after the other, over small data.

A block with a title (```python title="torch") is another library's code or a sketch of a script, and is not run.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import tarfile
import wave
from pathlib import Path

import pytest
from record_writers import example, write_records

import carya

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
MODULE = re.compile(r'^```python title="(\w+\.py)"\n(.*?)^```', re.MULTILINE | re.DOTALL)  # that others import
PAGES = sorted(DOCS.glob("guides/*.md"))
# These use what they said before, or what a reader has.
OTHERS = [DOCS.parent / "README.md", *(page for page in sorted(DOCS.rglob("*.md")) if page not in PAGES)]
GIVEN = """
import carya, carya.jax, carya.torch
train = p = carya.image_folder("photos").shuffle(seed=1).decode_image().random_crop(40)
train = train.batch(4)
loader = carya.Loader(train)
checkpoint = {}
def step(*arrays):
    pass
"""
ELSEWHERE = {"remote"}  # workers of three machines with certificates: tests/python/test_remote*.py


@pytest.fixture
def data(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the pages name: photos/ in three classes, tars and TFRecord files of four of them each."""
    (tmp_path / "pictures").symlink_to(photos)
    shutil.copytree(photos, tmp_path / "photos")
    (tmp_path / "shards").mkdir()
    jpegs = sorted(photos.glob("*/*.jpg"))
    for shard in range(2):
        with tarfile.open(tmp_path / "shards" / f"train-{shard:03d}.tar", "w") as tar:
            for number in range(4 * shard, 4 * shard + 4):
                tar.add(jpegs[number], f"{number:04d}.jpg")
                label = tmp_path / "label"
                label.write_text(str(number))
                tar.add(label, f"{number:04d}.cls")
    (tmp_path / "records").mkdir()
    for shard in range(2):
        records = [
            example({"image/encoded": jpegs[number].read_bytes(), "image/class/label": number})
            for number in range(4 * shard, 4 * shard + 4)
        ]
        write_records(tmp_path / "records" / f"train-{shard:05d}-of-00002", records)
    (tmp_path / "LibriSpeech" / "train-clean-100").mkdir(parents=True)
    for number in range(32):
        with wave.open(str(tmp_path / "LibriSpeech" / "train-clean-100" / f"{number}.wav"), "wb") as sound:
            sound.setparams((1, 2, 16000, 0, "NONE", ""))
            sound.writeframes(bytes(range(250)) * 64)
    shutil.copytree(tmp_path / "LibriSpeech" / "train-clean-100", tmp_path / "musan")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_corpus(folder: Path) -> None:
    """Text, and a tokenizer of it."""
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    from token_files import byte_level

    (folder / "corpus").mkdir()
    (folder / "corpus" / "a.txt").write_text("".join(f"line {n}, one of {n % 7} of a text\n" for n in range(4000)))
    (folder / "llama-3").mkdir()
    byte_level(["line one of a text"], 300).save(str(folder / "llama-3" / "tokenizer.json"))
    (folder / "llama-3" / "chat_template.jinja").write_text("{% for one in messages %}{{ one.content }}\n{% endfor %}")
    (folder / "talks").mkdir()
    talk = [{"role": "user", "content": "one?"}, {"role": "assistant", "content": "a line"}]
    (folder / "talks" / "a.jsonl").write_text(8 * (json.dumps({"messages": talk}) + "\n"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_s_examples_run(page: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [match[1] for match in BLOCK.finditer(page.read_text())]
    for name, text in MODULE.findall(page.read_text()):
        (data / name).write_text(text)
    monkeypatch.syspath_prepend(data)
    for library in ("torch", "jax"):
        if any(f"carya.{library}" in block for block in blocks) and not importlib.util.find_spec(library):
            pytest.skip(f"{library} is not installed")
    if page.stem == "text":
        write_corpus(data)
    names: dict[str, object] = {"__name__": page.stem}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize(
    "page", [page for page in OTHERS if BLOCK.search(page.read_text())], ids=lambda page: page.stem
)
def test_examples_of_the_other_pages_run(page: Path, data: Path) -> None:
    if page.stem in ELSEWHERE:
        return
    for library in ("torch", "jax"):
        pytest.importorskip(library)
    for folder in ("photos/train", "imagenet/train"):  # enough for their batches
        for number in range(150):
            path = data / folder / "abc"[number % 3] / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(sorted((data / "pictures").glob("*/*.jpg"))[number % 8])
    names: dict[str, object] = {"__name__": page.stem}
    for block in (GIVEN, *(match[1] for match in BLOCK.finditer(page.read_text()))):
        exec(compile(block, str(page), "exec"), names)
    for thing in names.values():
        if isinstance(thing, carya.Loader):
            thing.close()


def test_every_guide_has_an_example_or_a_test_of_its_own() -> None:
    without = [page.stem for page in PAGES if not BLOCK.search(page.read_text())]
    assert without == [
        "huggingface",
        "lightning",
        "own-ops",
        "stores",
    ]  # the libraries and servers themselves are tried
    text = (Path(__file__).parent / "test_framework_resume.py").read_text()
    for name in ("lightning", "accelerate", "transformers"):
        assert f" import {name}\n" in text or f" from {name} import " in text, name


def test_nothing_is_promised_of_an_index() -> None:
    """Carya is on no package index: a page that tells to install it names the file of the wheel."""
    root = DOCS.parent
    texts = [*DOCS.rglob("*.md"), root / "README.md", *(root / "packaging" / "man").iterdir()]
    for path in texts:
        for line in path.read_text().splitlines():
            if re.search(r"pip (?:install|download)(?: --?\S+)* ['\"]?carya", line):
                raise AssertionError(f"{path}: {line}")


def test_how_likely_a_lie_stays_unseen_is_what_the_formula_gives() -> None:
    """Each number of the table is the formula's, to as many digits as it has; 0 is less than any other one of them."""
    text = (DOCS / "security.md").read_text().partition("{ #verify }\n")[2].partition("\n## ")[0]
    assert "(1 - verify (1 - (1 - x)^8))^n" in text
    head, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"]
    chunks = [int(cell.removesuffix(" chunks").replace(",", "")) for cell in head[2:]]
    assert chunks == [100, 1000, 10_000, 100_000]
    smallest = min(float(cell) for _, _, *cells in rows for cell in cells if cell != "0")
    for altered, verify, *cells in rows:
        share = 1.0 if altered == "all" else share_of(altered)
        for count, cell in zip(chunks, cells, strict=True):
            unseen = (1 - float(verify) * (1 - (1 - share) ** 8)) ** count
            digits, _, power = cell.partition("e")
            half = 0.5 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
            near = unseen < smallest if cell == "0" else abs(unseen - float(cell)) <= half
            assert near, f"{altered}, {verify}, {count}: {cell}, and it is {unseen:.3g}"


def share_of(rows: str) -> float:
    """Of "10 %" or "1 in 500"."""
    part, _, whole = rows.partition(" ")
    return float(part) / (100 if whole == "%" else float(whole.removeprefix("in ")))
