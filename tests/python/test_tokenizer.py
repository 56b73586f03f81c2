"""Ids of `carya.Tokenizer` beside those of Hugging Face's `tokenizers`, the reference."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DATA
from streams import epoch_digest

import carya
from carya import _core
from carya._joined import JoinedTexts
from carya._text.tokenizer_file import PATTERNS

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
from token_files import byte_level  # noqa: E402
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("gpt2", "llama3", "qwen2", "gpt4o")
POINTS = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000]
# What pre-tokenizers look for, and what they may take for it.
MARKED = list(" \t\n\r'’.,/!-_09aZſKsStTreRELLlvVdDmM\u00a0\u2003e\u0301字ǅʰ٣½\u0085\u200b")


def cuts(kind: str) -> Any:
    """The pre-tokenizer as published files have it."""
    if kind == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    pattern = next(pattern for pattern, name in PATTERNS.items() if name == kind)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), level])


@cache
def corpus() -> str:
    """English, C++, Python, and what is no ASCII."""
    files = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "transforms" / "text").glob("*.*"))]
    rng = random.Random(0)
    words = ["".join(rng.choice("абвгдежзийклмн") for _ in range(rng.randrange(1, 9))) for _ in range(300)]
    words += ["".join(rng.choice("日本語文字列中国漢字") for _ in range(rng.randrange(1, 6))) for _ in range(300)]
    mixed = " ".join(rng.choice(words) for _ in range(4000))
    return "".join(file.read_text() for file in files)[:400_000] + mixed


@cache
def trained_text(kind: str, size: int, **options: Any) -> str:
    texts = [corpus()[i : i + 4000] for i in range(0, len(corpus()), 4000)]
    text: str = byte_level(texts, size, cuts(kind), **options).to_str()
    return text


def trained(kind: str = "gpt2", size: int = 1500, **options: Any) -> Any:
    """A byte-level tokenizer of the reference library, trained on the corpus: each call's own, which it may change."""
    return tokenizers.Tokenizer.from_str(trained_text(kind, size, **options))


@pytest.fixture(scope="module")
def reference() -> Callable[[str], Any]:
    """One per pre-tokenizer, which no test changes."""
    return cache(trained)


def drawn(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)

    def one() -> str:
        return "".join(rng.choice(MARKED if rng.random() < 0.8 else POINTS) for _ in range(rng.randrange(1, 40)))

    return [one() for _ in range(count)]


def check(made: Any, own: carya.Tokenizer, texts: list[str]) -> None:
    expected = [one.ids for one in made.encode_batch(texts)]
    for text, ids in zip(texts, expected, strict=True):
        got = own.encode(text)
        assert got.dtype == np.int32
        assert got.tolist() == ids, (text[:80], made.encode(text).tokens[:20])


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_reference(kind: str, reference: Callable[[str], Any]) -> None:
    made = reference(kind)
    own = carya.Tokenizer(made)
    assert own.native, own.why
    texts = [corpus()[i : i + 5000] for i in range(0, len(corpus()), 5000)]
    points = POINTS if kind in ("llama3", "gpt4o") else POINTS[::7]  # the others know no class that these do not
    texts += ["".join(points[i : i + 4096]) for i in range(0, len(points), 4096)]
    texts += ["'" + point for point in POINTS[::101]] + [f"a'{point}x" for point in POINTS[::103]]
    texts += [f" {point}a" for point in POINTS[::107]]
    texts += ["", " ", "\n", "a" * 400, " " * 300, "\n" * 300, "aA" * 200, "字" * 200, "é" * 129, "ab" * 64 + "c"]
    check(made, own, texts + drawn(KINDS.index(kind), 1500))


def test_texts_of_one_letter_take_no_square_of_their_length(reference: Callable[[str], Any]) -> None:
    made, own = reference("gpt2"), carya.Tokenizer(reference("gpt2"))
    for text in ("a" * 400_000, "字" * 100_000):
        assert own.encode(text).tolist() == made.encode(text).ids


def test_more_pretokens_than_are_remembered(reference: Callable[[str], Any]) -> None:
    rng = random.Random(1)
    text = " ".join("".join(rng.choice("etaoinsrhldcum") for _ in range(rng.randrange(3, 40))) for _ in range(120_000))
    made, own = reference("gpt2"), carya.Tokenizer(reference("gpt2"))
    expected = made.encode(text).ids
    assert own.encode(text).tolist() == expected
    assert own.encode(text).tolist() == expected, "what is remembered is the same"


@pytest.mark.skipif(DATA is None, reason="CARYA_TEST_DATA is not set")
def test_the_vocabulary_of_gpt_2_on_real_text() -> None:
    assert DATA is not None
    vocabulary = json.loads((Path(DATA) / "text/gpt2_bpe/encoder.json").read_text())
    rules = (Path(DATA) / "text/gpt2_bpe/vocab.bpe").read_text().split("\n")[1:-1]
    made = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[tuple(rule.split(" ")) for rule in rules]))
    made.pre_tokenizer = cuts("gpt2")
    own = carya.Tokenizer(made)
    assert own.encode("Hello world").tolist() == [15496, 995]
    files = ["tinyshakespeare/input.txt", "wikitext103/wiki.valid.tokens", "gsm8k/train.jsonl"]
    texts = [(Path(DATA) / "text" / name).read_text() for name in files]
    check(made, own, [text[i : i + 8000] for text in texts for i in range(0, min(len(text), 1_000_000), 8000)])


def test_whole_pretokens_come_before_rules() -> None:
    made = trained("llama3", ignore_merges=True)
    document = json.loads(made.to_str())
    # A token that no rule makes: only a pretoken that is it gets its id.
    document["model"]["vocab"]["Ġcaryatid"] = len(document["model"]["vocab"])
    made = tokenizers.Tokenizer.from_str(json.dumps(document))
    own = carya.Tokenizer(made)
    assert own.native
    assert own.encode(" caryatid").tolist() == [document["model"]["vocab"]["Ġcaryatid"]]
    check(made, own, [corpus()[:20_000], "a caryatids caryatid caryatid"])


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("most", [None, 2, 7, 10_000])
def test_special_tokens_around_and_inside_of_texts(special: bool, most: int | None) -> None:
    made = trained("llama3")
    made.add_special_tokens(["<|begin|>", "<|end|>", "<|end|>of"])
    made.add_tokens(["<tool>", AddedToken("plain", normalized=True)])
    begin, end = (made.token_to_id(token) for token in ("<|begin|>", "<|end|>"))
    made.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<|begin|> $A <|end|>", special_tokens=[("<|begin|>", begin), ("<|end|>", end)]
            ),
        ]
    )
    own = carya.Tokenizer(made, add_special_tokens=special, truncate=most)
    assert own.native, own.why
    if most is not None:
        made.enable_truncation(most)
    texts = ("", "Hello", "a<|end|>of b<|end|>c <|begin|><|end|>", "x <tool>plain <| too<l> plainplain", "")
    together = own.encode_many(texts)
    assert [one.tolist() for one in together] == [own.encode(text).tolist() for text in texts]
    for text in texts:
        assert own.encode(text).tolist() == made.encode(text, add_special_tokens=special).ids, text


@pytest.mark.parametrize("native", [True, False])
def test_fewer_ids_than_stand_around_a_text_are_refused(native: bool) -> None:
    made = trained("llama3") if native else OTHERS["wordpiece"][0]()
    made.add_special_tokens(["<|begin|>", "<|end|>"])
    ids = [(token, made.token_to_id(token)) for token in ("<|begin|>", "<|end|>")]
    made.post_processor = processors.TemplateProcessing(single="<|begin|> $A <|end|>", special_tokens=ids)
    with pytest.raises(carya.InvalidArgument, match="truncate: got 1; give at least 2"):
        carya.Tokenizer(made, truncate=1)
    own = carya.Tokenizer(made, truncate=2)
    assert own.native is native
    assert own.encode("hello a").tolist() == [id for _, id in ids]
    assert carya.Tokenizer(made, truncate=1, add_special_tokens=False).encode("hello a").size == 1


def test_merges_that_are_dropped_at_random_are_refused(tmp_path: Path) -> None:
    document = json.loads(trained_text("gpt2", 400))
    for dropout in (0.1, 0.0, None):
        document["model"]["dropout"] = dropout
        (tmp_path / "tokenizer.json").write_text(json.dumps(document))
        if dropout:
            with pytest.raises(carya.InvalidArgument, match=r'dropout: got 0\.1; give a file .* "dropout": null'):
                carya.Tokenizer(tmp_path)
        else:
            assert carya.Tokenizer(tmp_path).native


def test_normalization_is_that_of_the_reference() -> None:
    made = trained("qwen2")
    made.normalizer = normalizers.NFC()
    made.add_special_tokens(["<é>"])
    made.add_tokens([AddedToken("oñe", normalized=True)])
    own = carya.Tokenizer(made)
    assert own.native
    check(
        made, own, ["e\u0301 o\u0302", "on\u0303e oñe", "<e\u0301> <é>", "ﬁ Å \u212b 가 \u1100\u1161", *drawn(9, 300)]
    )


def joined(texts: Sequence[str]) -> JoinedTexts:
    data = [text.encode() for text in texts]
    return JoinedTexts(b"".join(data), np.cumsum([len(one) for one in data], dtype=np.int64))


@pytest.mark.parametrize("nfc", [False, True])
@pytest.mark.parametrize("most", [None, 1, 17, 40])
def test_texts_that_lie_one_behind_the_other_have_the_ids_of_each(nfc: bool, most: int | None) -> None:
    made = trained("qwen2")
    if nfc:
        made.normalizer = normalizers.NFC()
    made.add_special_tokens(["<s>"])
    made.add_tokens([AddedToken("oñe", normalized=True)])
    own = carya.Tokenizer(made, truncate=most)
    plain = ["", "Hello world, " * 9, "x", "", "12 345"]
    for texts in (plain, [*plain, "é ü"], [*plain, "e\u0301"], [*plain, "a<s>b"], ["on\u0303e oñe", *plain], [""], []):
        found = own.encode_many(joined(texts))
        assert [one.tolist() for one in found] == [own.encode(text).tolist() for text in texts]
        assert list(joined(texts)) == texts


def test_texts_that_cannot_lie_one_behind_the_other_are_refused() -> None:
    own = carya.Tokenizer(trained("gpt2"))
    for ends in ([2, 1, 3], [4], [-1]):
        with pytest.raises(carya.InvalidArgument, match="ends: give"):
            own.encode_many(JoinedTexts(b"abc", np.array(ends, np.int64)))
    with pytest.raises(carya.SampleError, match="no character of UTF-8"):
        own.encode_many(JoinedTexts(b"a\xff", np.array([2], np.int64)))


def with_model(model: Any) -> Any:
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


OTHERS: dict[str, tuple[Callable[[], Any], str]] = {
    "wordpiece": (
        lambda: with_model(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2, "hello": 3}, unk_token="[UNK]")),
        "its model is WordPiece",
    ),
    "unigram": (
        lambda: with_model(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("b", -2.0)], 0)),
        "its model is Unigram",
    ),
    "no bytes": (
        lambda: with_model(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")])),
        "its pre-tokenizer is none of",
    ),
    "space": (
        lambda: changed(pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True)),
        "it puts a space in front",
    ),
    "lower": (lambda: changed(normalizer=normalizers.Lowercase()), "its normalizer is Lowercase"),
    "word": (lambda: with_added(AddedToken("<x>", lstrip=True)), "its added token '<x>' takes spaces"),
}


def changed(**parts: Any) -> Any:
    made = trained(size=400)
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def with_added(token: Any) -> Any:
    made = trained(size=400)
    made.add_tokens([token])
    return made


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_native_runs_by_the_reference_and_says_why(name: str) -> None:
    make, why = OTHERS[name]
    made = make()
    own = carya.Tokenizer(made)
    assert not own.native
    assert why in own.why
    assert why in repr(own)
    check(made, own, ["ab hello  a <x> b", "Hello ÀB", ""])
    assert carya.Tokenizer(made, truncate=2).encode("ab hello a b a b a b").size <= 2
    assert pickle.loads(pickle.dumps(own)).encode("ab a").tolist() == made.encode("ab a").ids


def test_bytes_and_halves_of_surrogate_pairs(reference: Callable[[str], Any]) -> None:
    own = carya.Tokenizer(reference("llama3"))
    assert own.encode(b"a \xff\xe5\xad b").tolist() == own.encode("a \ufffd\ufffd b").tolist()
    assert own.encode("a\ud800b").tolist() == own.encode("a\ufffdb").tolist()
    made = trained("gpt2")
    made.add_special_tokens(["<s>"])
    own_added = carya.Tokenizer(made)
    assert own_added.encode("a\ud800b <s> c").tolist() == own_added.encode("a\ufffdb <s> c").tolist()
    both = ["a\ud800b", b"a", "c"]
    assert [one.tolist() for one in own.encode_many(both)] == [own.encode(text).tolist() for text in both]
    assert own.encode(memoryview("é".encode())).tolist() == own("é").tolist()
    with pytest.raises(carya.InvalidArgument, match="give a str, or bytes"):
        own.encode(3)  # type: ignore[arg-type]


def saved(folder: Path, change: Callable[[dict[str, Any]], object] = lambda document: None) -> Path:
    document = json.loads(trained(size=300).to_str())
    change(document)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(document))
    return path


def test_a_file_a_folder_and_transformers_are_the_same(tmp_path: Path) -> None:
    path = saved(tmp_path)
    own = carya.Tokenizer(path)
    assert own.version == carya.Tokenizer(str(tmp_path)).version
    assert own.version != carya.Tokenizer(path, truncate=5).version
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))
    assert carya.Tokenizer(fast).encode("Hello").tolist() == own.encode("Hello").tolist()


def set_rule(document: dict[str, Any], rule: Any) -> None:
    document["model"]["merges"][3] = rule


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no model": (lambda d: d.pop("model"), 'it has no "model"'),
    "no vocabulary": (lambda d: d["model"].pop("vocab"), "KeyError: 'vocab'"),
    "a vocabulary of words": (lambda d: d["model"].update(vocab=["a"]), "AttributeError"),
    "a negative id": (lambda d: d["model"]["vocab"].update(a=-1), "an id is below 0"),
    "an id without end": (lambda d: d["model"]["vocab"].update(a=1 << 70), "an id is below 0, or has more than 32"),
    "an id beyond what is encoded": (lambda d: d["model"]["vocab"].update(a=1 << 30), "ids are below"),
    "a rule of no token": (lambda d: set_rule(d, ["a", "nothing"]), "'a', 'nothing' or both together are no token"),
    "a rule of three": (lambda d: set_rule(d, "a b c"), "ValueError"),
    "a rule of numbers": (lambda d: set_rule(d, 3), "TypeError"),
    "an added token without id": (lambda d: d.update(added_tokens=[{"content": "x"}]), "KeyError: 'id'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_errors(name: str, tmp_path: Path) -> None:
    change, why = BROKEN[name]
    path = saved(tmp_path, change)
    with pytest.raises(carya.SampleError, match=r"tokenizer\.json: ") as caught:
        carya.Tokenizer(path)
    assert why in str(caught.value)


def test_what_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    for data in (b"", b"{", b"[" * 100_000, b"[]", b'{"model": 3}', path.read_bytes()[:-9]):
        path.write_bytes(data)
        with pytest.raises(carya.SampleError, match=r"give the tokenizer\.json"):
            carya.Tokenizer(path)
    with pytest.raises(carya.NotFound, match="save_pretrained"):
        carya.Tokenizer(tmp_path / "absent.json")
    with pytest.raises(carya.InvalidArgument, match=r"give a tokenizer\.json"):
        carya.Tokenizer(3)
    for most in (0, True, "7"):
        with pytest.raises(carya.InvalidArgument, match="give a number of ids"):
            carya.Tokenizer(path, truncate=most)  # type: ignore[arg-type]


def test_a_pipeline_of_tokens(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (tmp_path / "a.txt").write_text("\n".join(f"line {n} of the text" for n in range(60)))
    own = carya.Tokenizer(path)
    plain = carya.text(tmp_path / "a.txt")
    pipeline = plain.tokenize(path)
    assert pipeline[3].keys() == {"ids"}
    assert pipeline[3]["ids"].tolist() == own.encode("line 3 of the text").tolist()
    rows = pipeline.shuffle(seed=1).pack(32, "ids").batch(4)
    assert epoch_digest(rows, threads=1) == epoch_digest(rows, threads=2)
    with carya.Loader(rows, threads=2) as loader:
        next(iter(loader))
        state = loader.state_dict()
    saved(tmp_path, lambda document: document["model"]["merges"].pop())
    other = plain.tokenize(path).shuffle(seed=1).pack(32, "ids").batch(4)
    with carya.Loader(other, threads=2) as loader, pytest.raises(carya.InvalidArgument, match="the pipeline differs"):
        loader.load_state_dict(state)


def copied(batch: Any) -> dict[str, Any]:
    return {name: [np.array(row) for row in rows] for name, rows in batch.items()}


@pytest.mark.parametrize("form", ["padded", "to one length", "cut", "lists", "counted"])
def test_samples_that_are_made_at_once_are_those_made_one_by_one(form: str, tmp_path: Path) -> None:
    path = saved(tmp_path)
    lines = [f"line {n}{' é字' * (n % 7)}{'<|x|>' * (n % 3)}" + ("\r\n\n" if n % 5 else "\n") for n in range(90)]
    (tmp_path / "a.txt").write_text("".join(lines[:50]), newline="")
    (tmp_path / "b.txt").write_text("".join(lines[50:]), newline="")
    plain = carya.text(tmp_path / "[ab].txt").shuffle(seed=1)

    def formed(pipeline: Any) -> Any:
        made = pipeline.tokenize(carya.Tokenizer(path, truncate=60))
        if form == "padded":
            return made.pad_sequences("ids", multiple_of=4, value=7).batch(8)
        if form == "lists":
            return made.batch(8, lists=("ids",))
        if form == "counted":
            made = made.pad_sequences("ids").batch(8)
            return made.map_batches(lambda batch: batch | {"most": np.array([batch["ids_length"].max()])})
        return made.pad_sequences("ids", to=60 if form == "to one length" else 9, truncate=True).batch(8)

    with carya.Loader(formed(plain), threads=2) as loader:
        at_once = [copied(batch) for batch in loader]
        made, source = loader.stats()["samples_produced"], loader.stats()["ops"][0]
        assert source["timed_samples"] >= made - 2, "all of them are timed, as only those made at once are"
    with carya.Loader(formed(plain.map(lambda sample: sample)), threads=2) as loader:
        one_by_one = [copied(batch) for batch in loader]
    assert len(at_once) == 12
    for batch, expected in zip(at_once, one_by_one, strict=True):
        assert batch.keys() == expected.keys()
        for name, values in batch.items():
            for value, other in zip(values, expected[name], strict=True):
                np.testing.assert_array_equal(value, other)
                assert np.asarray(value).dtype == np.asarray(other).dtype


def test_a_record_without_a_text_is_a_broken_one(tmp_path: Path) -> None:
    texts = ["one", None, "three", 4]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    pipeline = carya.jsonl(tmp_path / "a.jsonl").tokenize(saved(tmp_path)).pad_sequences("ids").batch(4)
    with carya.Loader(pipeline, threads=1, epochs=1, on_error="mask") as loader:
        assert [batch.valid.tolist() for batch in loader] == [[True, False, True, False]]
        assert [entry["reason"] for entry in loader.quarantine()] == [
            f"SampleError: tokenize: text: got {name}, and texts have ids; mend the record, or give another field="
            for name in ("NoneType", "int")
        ]


def test_a_broken_line_among_those_made_at_once_is_the_only_one(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (tmp_path / "a.txt").write_bytes(b"".join(b"line %d\n" % n if n != 21 else b"a \xff\n" for n in range(40)))
    pipeline = carya.text(tmp_path / "a.txt").tokenize(path).pad_sequences("ids", to=12, truncate=True).batch(8)
    with carya.Loader(pipeline, threads=1, on_error="mask") as loader:
        masks = np.concatenate([batch.valid for batch in loader])
        (entry,) = loader.quarantine()
    assert np.flatnonzero(~masks).tolist() == [21]
    assert "a.txt @" in entry["reason"]
    with carya.Loader(pipeline, threads=1) as loader, pytest.raises(carya.SampleError, match=r"a\.txt @"):
        for _ in loader:
            pass


def test_a_line_that_is_too_long_among_those_made_at_once_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" if n != 21 else "line" * 40 + "\n" for n in range(40)))
    pipeline = carya.text(tmp_path / "a.txt").tokenize(path).pad_sequences("ids", to=12).batch(8)
    with (
        carya.Loader(pipeline, threads=1) as loader,
        pytest.raises(carya.InvalidArgument, match=r"^record 21: pad_sequences: ids: got \d+ elements"),
    ):
        for _ in loader:
            pass


@pytest.mark.parametrize("to", [None, 6])
def test_steps_that_are_made_together_are_those_of_their_records(to: int | None, tmp_path: Path) -> None:
    path, broken = saved(tmp_path), {701, 1402}
    lines = [b"line %d" % n + b" word" * (n % 5) for n in range(2000)]
    data = [b"\xff" + line if n in broken else line for n, line in enumerate(lines)]
    (tmp_path / "a.txt").write_bytes(b"\n".join(data))
    plain = carya.text(tmp_path / "a.txt").shuffle(seed=1).tokenize(path)
    tokenizer, seen = carya.Tokenizer(path), []
    # Steps of two lines take so little that a message to a worker speaks of several.
    with carya.Loader(
        plain.pad_sequences("ids", to=to, truncate=to is not None).batch(2), threads=2, on_error="mask"
    ) as loader:
        for batch in loader:
            ids, lengths = batch["ids"], batch["ids_length"]
            for row, record in enumerate(batch.records.tolist()):
                expected = [] if record in broken else tokenizer.encode(lines[record])[:to].tolist()
                assert batch.valid[row] == (record not in broken)
                assert ids[row, : lengths[row]].tolist() == expected
                assert not ids[row, lengths[row] :].any()
            assert ids.shape[1] == (to or lengths.max())
            seen += batch.records.tolist()
        assert {entry["record"] for entry in loader.quarantine()} == broken
    assert sorted(seen) == list(range(2000))


def test_samples_without_the_text_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with pytest.raises(carya.InvalidArgument, match=r"the sample has no 'text'; it has 'x'"):
        carya.dataset([{"x": "a"}]).tokenize(path)[0]
    with pytest.raises(carya.InvalidArgument, match="tokenize: out"):
        carya.dataset([{"x": "a", "ids": 1}]).tokenize(path, "x")[0]
    with pytest.raises(carya.InvalidArgument, match="tokenize: field"):
        carya.dataset([{"x": "a"}]).tokenize(path, "")
    with pytest.raises(carya.InvalidArgument, match=r"call \.tokenize"):
        carya.dataset([{"x": 1}]).batch(1).tokenize(path)


def test_classes_of_characters_are_those_of_the_reference() -> None:
    if _core.unicode_source != f"tokenizers {tokenizers.__version__}":
        pytest.skip(
            f"the classes are those of {_core.unicode_source}, and tokenizers {tokenizers.__version__} is installed"
        )
    run = subprocess.run(
        [sys.executable, ROOT / "tools" / "unicode_classes.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout.strip()) == (0, "equal"), run.stderr


def test_the_decoder_is_not_needed() -> None:
    made = trained("gpt2")
    made.decoder = decoders.ByteLevel()
    assert made.decode(carya.Tokenizer(made).encode("zum Wohl 字").tolist()) == "zum Wohl 字"
