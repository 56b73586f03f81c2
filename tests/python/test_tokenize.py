"""`carya tokenize`: files of ids, the same bytes whatever happens."""

from __future__ import annotations

import functools
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import commands
import numpy as np
import pytest
from commands import contents

import carya
from carya._convert.conversion import Request, convert
from carya._convert.tokens import Tokens

pytest.importorskip("tokenizers", reason="tokenizers is not installed")
pytest.importorskip("typer")
pytest.importorskip("rich")
from token_files import byte_level

COMMAND = [sys.executable, "-m", "carya", "tokenize"]
TEXTS = [f"text {n} of a corpus, number {n * n}.\n" for n in range(3000)]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = byte_level(TEXTS[:100], 320)
    made.add_special_tokens(["<|end|>"])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text, "n": n}) + "\n" for n, text in enumerate(TEXTS)))
    return path


run = functools.partial(commands.run, "tokenize")


def test_ids_stand_one_behind_the_other_with_an_end_behind_each(corpus: Path, tokenizer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ids"
    options = ("--tokenizer", tokenizer, "--end", "<|end|>", "--shard-bytes", "20k", "--json")
    told = json.loads(run(corpus, folder, *options))
    own = carya.Tokenizer(tokenizer)
    end = own.token_id("<|end|>")
    expected = np.concatenate([[*own.encode(text), end] for text in TEXTS])
    about = json.loads((folder / "index.json").read_text())
    assert (told["records"], told["shards"]) == (3000, len(about["shards"]))
    assert told["shards"] == told["shards_verified"] > 3
    assert (about["dtype"], about["ids"], about["end"]) == ("uint16", len(expected), end)
    files = [np.fromfile(folder / shard["name"], "<u2") for shard in about["shards"]]
    assert np.concatenate(files).tolist() == expected.tolist()
    assert [len(file) for file in files] == [shard["ids"] for shard in about["shards"]]
    assert sum(shard["texts"] for shard in about["shards"]) == 3000
    assert carya.token_blocks(folder, 100)[0]["ids"].tolist() == expected[:100].tolist()
    one = tmp_path / "one"
    run(corpus, one, *options, "--workers", "1")
    assert contents(one) == contents(folder)


def test_what_was_ended_goes_on_to_the_same_bytes(corpus: Path, tokenizer: Path, tmp_path: Path) -> None:
    def command(folder: Path) -> list[str | Path]:
        return [*COMMAND, corpus, folder, "--tokenizer", tokenizer, "--shard-bytes", "4k", "--json"]

    whole, folder = tmp_path / "whole", tmp_path / "ended"
    subprocess.run(command(whole), check=True, capture_output=True)
    folder.mkdir()
    rng = random.Random(7)
    for _ in range(5):
        wanted = len(list(folder.glob("shard-*"))) + rng.randrange(1, 4)
        process = subprocess.Popen(command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(list(folder.glob("shard-*"))) < wanted:
            time.sleep(0.005)
        process.kill()
        process.wait()
    subprocess.run(command(folder), check=True, capture_output=True)
    assert contents(folder) == contents(whole)


def test_ids_of_more_than_16_bits_need_32(corpus: Path, tokenizer: Path, tmp_path: Path) -> None:
    document = json.loads(tokenizer.read_text())
    document["added_tokens"].append(dict(document["added_tokens"][0], id=70_000, content="<|far|>"))
    large = tmp_path / "tokenizer.json"
    large.write_text(json.dumps(document))
    assert carya.Tokenizer(large).vocab_size == 70_001
    run(corpus, tmp_path / "ids", "--tokenizer", large, "--end", "<|far|>")
    assert json.loads((tmp_path / "ids" / "index.json").read_text())["dtype"] == "uint32"
    first = carya.Tokenizer(large).encode(TEXTS[0])
    assert carya.token_blocks(tmp_path / "ids", len(first) + 1)[0]["ids"].tolist() == [*first, 70_000]


def test_another_tokenizer_does_not_go_on(corpus: Path, tokenizer: Path, tmp_path: Path) -> None:
    own = carya.Tokenizer(tokenizer)
    folder = str(tmp_path / "ids")
    convert(Request(str(corpus), folder, "tokens", 1, tokens=Tokens(own)))
    for other in (Tokens(own, end=3), Tokens(carya.Tokenizer(tokenizer, truncate=4))):
        with pytest.raises(carya.InvalidArgument):
            convert(Request(str(corpus), folder, "tokens", 1, tokens=other))


def test_what_cannot_be_is_refused(corpus: Path, tokenizer: Path, tmp_path: Path) -> None:
    said = run(corpus, tmp_path / "a", "--tokenizer", tokenizer, "--field", "words", code=1)
    assert "it has no text 'words', only 'text' (str), 'n' (int)" in said
    assert "give another --field" in said
    assert "it has no text 'n'" in run(corpus, tmp_path / "d", "--tokenizer", tokenizer, "--field", "n", code=1)
    said = run(corpus, tmp_path / "b", "--tokenizer", tokenizer, "--end", "<|none|>", code=1)
    assert "give one of <|end|>" in said
    said = run(corpus, tmp_path / "b", "--tokenizer", tokenizer, "--end", "99999999", code=1)
    assert "got 99999999; give a token, or an id below" in said
    said = run(corpus, "s3://bucket/ids", "--tokenizer", tokenizer, code=1)
    assert "s3://bucket/ids: stores are not written to; give a folder of this machine" in said
    assert "save_pretrained" in run(corpus, tmp_path / "c", "--tokenizer", tmp_path / "absent", code=1)
