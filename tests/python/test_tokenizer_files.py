"""`carya.Tokenizer` of rank files and of models of SentencePiece, beside tiktoken and sentencepiece."""

from __future__ import annotations

import base64
import pickle
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carya
from carya._joined import JoinedTexts
from carya._text.rank_file import pattern_of

ROOT = Path(__file__).resolve().parents[2]
SPECIAL = {"<|endoftext|>": 5000, "<|endofprompt|>": 5001}
ENCODINGS = ("gpt2", "cl100k_base", "o200k_base", "llama3")


@cache
def corpus() -> str:
    files = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "transforms" / "text").glob("*.*"))]
    rng = random.Random(0)
    words = ["".join(rng.choice("абвгдежзий日本語文字éß") for _ in range(rng.randrange(1, 9))) for _ in range(300)]
    mixed = " ".join(rng.choice(words) for _ in range(3000))
    return "".join(file.read_text() for file in files)[:200_000] + mixed


@cache
def ranks() -> dict[bytes, int]:
    """All bytes, and tokens of two and more that occur: each the two before it side by side, and some that are so in two ways."""
    found = [bytes([byte]) for byte in range(256)]
    known = set(found)
    rng = random.Random(1)
    data = corpus().encode()
    while len(found) < 3000:
        at, size = rng.randrange(len(data) - 12), rng.randrange(2, 9)
        for end in range(2, size + 1):
            token = data[at : at + end]
            if token not in known and any(token[:i] in known and token[i:] in known for i in range(1, end)):
                known.add(token)
                found.append(token)
    return {token: rank for rank, token in enumerate(found)}


@pytest.fixture(scope="module")
def rank_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks") / "tokenizer.model"  # as Llama 3 names it
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks().items()))
    return path


def texts(count: int) -> list[str]:
    """Parts of the corpus, random characters, and both with special tokens inside."""
    rng, data = random.Random(2), corpus()
    parts = [data[(at := rng.randrange(len(data))) : at + rng.randrange(1, 400)] for _ in range(count)]
    drawn = [
        "".join(chr(rng.choice((rng.randrange(32, 0x500), rng.randrange(0xE000, 0x11000), 32, 10))) for _ in range(60))
        for _ in range(count)
    ]
    mixed = [f"{a}<|endoftext|>{b} <|endofprompt|>" for a, b in zip(parts[:20], drawn[:20], strict=True)]
    return ["", " ", "aaaaaaaa" * 40, *parts, *drawn, *mixed]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_ids_of_ranks_are_those_of_tiktoken(rank_file: Path, encoding: str) -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    pattern = pattern_of(encoding, "")
    reference = tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=ranks(), special_tokens=SPECIAL)
    tokenizer = carya.Tokenizer(rank_file, pattern=encoding, special=SPECIAL)
    assert tokenizer.native
    assert tokenizer.vocab_size == 5002
    for text in texts(400):
        assert tokenizer(text).tolist() == reference.encode(text, allowed_special="all"), repr(text)
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again(corpus()[:3000]).tolist() == tokenizer(corpus()[:3000]).tolist()
    assert (
        carya.Tokenizer(rank_file, pattern=pattern, special=SPECIAL)(corpus()[:999]).tolist()
        == tokenizer(corpus()[:999]).tolist()
    )


def test_the_pattern_that_tiktoken_has_for_gpt2_is_native(rank_file: Path) -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    reference = tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=ranks(), special_tokens=SPECIAL)
    tokenizer = carya.Tokenizer(rank_file, pattern=pattern, special=SPECIAL)
    assert tokenizer.native
    for text in [*texts(100), "a \n\u00a0", "a\n\n b \n", " \n\u2003 ", "'S'ſ's"]:
        assert tokenizer(text).tolist() == reference.encode(text, allowed_special="all"), repr(text)


def published(encoding: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The pattern of the tiktoken that is installed, whose vocabularies lie in the network."""
    public = pytest.importorskip("tiktoken_ext.openai_public", reason="tiktoken is not installed")
    monkeypatch.setattr(public, "load_tiktoken_bpe", lambda *_, **__: {})
    monkeypatch.setattr(public, "data_gym_to_mergeable_bpe_ranks", lambda *_, **__: {})
    pattern: str = getattr(public, encoding)()["pat_str"]
    return pattern


@pytest.mark.parametrize("encoding", ENCODINGS[:3])
def test_an_encoding_cuts_as_the_tiktoken_that_is_installed(
    tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also white space at the end of a text or in front of a special token, which cl100k_base has in one piece."""
    pattern = published(encoding, monkeypatch)
    import tiktoken

    known = dict(ranks())
    for token in (b"  ", b" \n", b"\n\n", b"\n ", b" \n ", b"\r\n", b"\xe2\x80", b"\xe2\x80\x83", b"!\n"):
        known.setdefault(token, 6000 + len(known))
    path = tmp_path / "ranks.tiktoken"
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in known.items()))
    reference = tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=known, special_tokens=SPECIAL)
    tokenizer = carya.Tokenizer(path, pattern=encoding, special=SPECIAL)
    rng = random.Random(3)
    alphabets = (
        " \n",
        " \t\n\r\x0b\x85\xa0\u2003\u2028\u3000\x1c\u200b",
        "'.!/\u0301\ufffd",
        "sStTlLéſдǅʰ字",
        "12²٣",
        ["<|endoftext|>"],
    )
    drawn = ["".join(rng.choice(rng.choice(alphabets)) for _ in range(rng.randrange(1, 12))) for _ in range(4000)]
    # A letter or a mark that Python's Unicode may not know decides whether the end of a line is its.
    drawn += [f"{chr(code)}\n " for code in range(0x80, 0x11000, 3) if not 0xD800 <= code < 0xE000] + [
        "\u1c89\n ",
        "a\n\n \n",
        "!\n\n \n\t",
    ]
    for texts_ in (drawn, JoinedTexts("".join(drawn).encode(), np.cumsum([len(text.encode()) for text in drawn]))):
        found = tokenizer.encode_many(texts_)
        for ids, text in zip(found, drawn, strict=True):
            assert ids.tolist() == reference.encode(text, allowed_special="all"), repr(text)
    assert carya.Tokenizer(path, pattern=pattern, special=SPECIAL).native
    assert tokenizer("\ud800\n ").tolist() == reference.encode("\ufffd\n ")


def test_a_pattern_of_its_own_runs_by_tiktoken(rank_file: Path) -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    pattern = r"\p{L}+|\p{N}|[^\p{L}\p{N}]+"
    reference = tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=ranks(), special_tokens=SPECIAL)
    tokenizer = carya.Tokenizer(rank_file, pattern=pattern, special=SPECIAL, truncate=50)
    assert not tokenizer.native
    assert "pattern" in tokenizer.why
    assert tokenizer.token_id("<|endoftext|>") == 5000
    for text in texts(20):
        assert tokenizer(text).tolist() == reference.encode(text, allowed_special="all")[:50]


def test_ids_of_a_model_are_those_of_sentencepiece(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    (tmp_path / "corpus.txt").write_text(corpus())
    for kind in ("unigram", "bpe"):
        prefix = str(tmp_path / kind)
        sentencepiece.SentencePieceTrainer.train(
            input=str(tmp_path / "corpus.txt"), model_prefix=prefix, vocab_size=600, model_type=kind, byte_fallback=True,
            max_sentence_length=20_000, minloglevel=2, num_threads=1,
        )  # fmt: skip
        reference = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
        tokenizer = carya.Tokenizer(f"{prefix}.model")
        assert not tokenizer.native
        assert "SentencePiece" in tokenizer.why
        assert tokenizer.vocab_size == 600
        assert tokenizer.token_id("<s>") == reference.bos_id()
        for text in texts(60):
            assert tokenizer(text).tolist() == reference.encode(text)
        (tmp_path / "lines.txt").write_text("one line\nand another one\n")
        rows = carya.text(tmp_path / "lines.txt").tokenize(tokenizer).pad_sequences("ids").batch(2)
        with carya.Loader(rows, threads=1) as loader:
            assert next(iter(loader))["ids"][0].tolist()[: len(reference.encode("one line"))] == reference.encode(
                "one line"
            )


def test_the_version_is_that_of_file_and_options(rank_file: Path) -> None:
    made: list[dict[str, Any]] = [
        {"pattern": "gpt2"},
        {"pattern": "cl100k_base"},
        {"pattern": "gpt2", "special": SPECIAL},
        {"pattern": "gpt2", "truncate": 5},
    ]
    versions = [carya.Tokenizer(rank_file, **options).version for options in made]
    assert len(set(versions)) == len(versions)
    assert carya.Tokenizer(rank_file, pattern="gpt2").version == versions[0]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"YQ== 0\nYQ== 1\n", "line 2"),
        (b"YQ== 0\nYg== 0\n", "one rank"),
        (b"YQ== 0\n!! 1\n", "line 2"),
        (b"YQ== 0\nYg==\n", "line 2"),
        (b"YQ== 0\nYg== 99999999999\n", "line 2"),
        (b"YQ== 0\n 1\n", "line 2"),
    ],
)
def test_broken_rank_files_are_errors(data: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "x.tiktoken").write_bytes(data)
    with pytest.raises(carya.SampleError, match=told):
        carya.Tokenizer(tmp_path / "x.tiktoken", pattern="gpt2")


def test_a_broken_model_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    (tmp_path / "x.model").write_bytes(b"\n\x0e\n" + bytes(range(200)))
    with pytest.raises(carya.SampleError, match="sentencepiece"):
        carya.Tokenizer(tmp_path / "x.model")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "pattern"),
        ({"pattern": "r100k"}, "pattern"),
        ({"pattern": "gpt2", "special": {"": 1}}, "special"),
        ({"pattern": "gpt2", "special": {"<a>": -1}}, "special"),
        ({"pattern": "gpt2", "special": ["<a>"]}, "special"),
    ],
)
def test_what_a_rank_file_needs_is_asked_for(rank_file: Path, options: dict[str, Any], named: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=f"Tokenizer: {named}"):
        carya.Tokenizer(rank_file, **options)


def test_a_pattern_is_for_rank_files_only(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": {}}')
    with pytest.raises(carya.InvalidArgument, match="no file of ranks"):
        carya.Tokenizer(tmp_path, pattern="gpt2")


def test_a_pipeline_of_ranks(rank_file: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("".join(f"line {number} of the text\n" for number in range(40)))
    tokenizer = carya.Tokenizer(rank_file, pattern="cl100k_base")
    packed = carya.text(tmp_path / "lines.txt").tokenize(tokenizer).pack(16, "ids").batch(2)
    with carya.Loader(packed, threads=1) as loader:
        found = np.concatenate([batch["ids"].reshape(-1).copy() for batch in loader])
    wanted = np.concatenate([tokenizer(f"line {number} of the text") for number in range(40)])
    assert found[: len(wanted)].tolist() == wanted[: len(found)].tolist()
