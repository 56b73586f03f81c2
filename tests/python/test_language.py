"""`carya.language`: texts cleaned, tokens masked, labels shifted, conversations with loss masks, words of a vocabulary."""

from __future__ import annotations

import json
import pickle
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streams import epoch_digest

import carya
from carya._stages.identity import identity
from carya.language import BasicEnglish, ChatTokens, CleanText, MaskTokens, ShiftLabels, Vocabulary

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MARKED = (
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
)
TALK = [
    {"role": "system", "content": "You are kind."},
    {"role": "user", "content": "What is two and two? Größe?"},
    {"role": "assistant", "content": "It is four, äöü 日本."},
    {"role": "user", "content": "And three?"},
    {"role": "assistant", "content": "Seven."},
]


def test_a_text_is_cleaned_step_by_step() -> None:
    text = "  Ｆull\u00a0width \u00e9 e\u0301\t\tİ <i>x</i> ﬁ\n"
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert CleanText(unicode=form)(text) == unicodedata.normalize(form, text)  # type: ignore[arg-type]
    assert CleanText()(text) == text
    assert CleanText(lower=True)(text) == text.lower()
    assert CleanText(spaces=True, strip=True)(" a \u2003\n b ") == "a b"
    assert CleanText(replace=[(r"(\w)<", r"\1 <"), ("<.*?>", "")])("x<b>y</b>") == "x y "
    assert CleanText(replace=[("B", "")], lower=True)("aBb") == "ab", "replaced before it is lower"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"unicode": "NFX"}, "unicode"),
        ({"lower": 1}, "lower"),
        ({"replace": ["ab"]}, "replace"),
        ({"replace": [("(", "")]}, "replace"),
        ({"replace": [("a", r"\2")]}, "replace"),
    ],
)
def test_what_cannot_clean_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(carya.InvalidArgument, match=f"CleanText: {named}"):
        CleanText(**options)
    with pytest.raises(carya.SampleError, match="not a text"):
        CleanText()(b"bytes")  # type: ignore[arg-type]


def test_tokens_are_masked_as_often_as_they_should() -> None:
    ids = np.random.default_rng(1).integers(10, 5000, 200_000)
    ids[::10] = 3
    made, labels = MaskTokens(4, 5000, special_ids=(3,))(ids, np.random.default_rng(2))
    chosen = labels != -100
    assert made.dtype == labels.dtype == np.int32
    assert not chosen[::10].any(), "special ones stay"
    assert (labels[chosen] == ids[chosen]).all()
    assert (made[~chosen] == ids[~chosen]).all()
    assert abs(chosen[ids != 3].mean() - 0.15) < 0.005
    masked, kept = made[chosen] == 4, made[chosen] == ids[chosen]
    assert abs(masked.mean() - 0.8) < 0.015
    assert abs(kept.mean() - 0.1) < 0.015
    others = made[chosen & (made != 4) & (made != ids)]
    assert abs(len(others) / chosen.sum() - 0.1) < 0.015
    assert len(np.unique(others)) > 1500
    assert others.max() < 5000


def test_masks_are_those_of_the_record_in_every_stream() -> None:
    data = {"ids": np.arange(64 * 16, dtype=np.int64).reshape(64, 16) % 90 + 10}
    masked = carya.arrays(data).shuffle(seed=3).map(MaskTokens(1, 100), fields="ids", out=("ids", "labels")).batch(8)
    digests = {workers: epoch_digest(masked, threads=workers) for workers in (1, 2)}
    assert digests[1] == digests[2]
    with carya.Loader(masked, threads=1, epochs=2) as loader:
        epochs: list[dict[int, bytes]] = [{}, {}]
        for epoch in epochs:
            for batch in loader:
                rows = zip(batch.records, batch["labels"], strict=True)
                epoch |= {int(record): labels.tobytes() for record, labels in rows}
    same = sum(epochs[0][record] == epochs[1][record] for record in epochs[0])
    assert len(epochs[0]) == 64
    assert same < 32, "an epoch draws anew"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((-1, 10), "mask_id"),
        ((1, 0), "vocab_size"),
        ((1, 10, {"p": 1.5}), "p"),
        ((1, 10, {"masked": 0.9, "random": 0.2}), "masked \\+ random"),
        ((1, 10, {"special_ids": ["a"]}), "special_ids"),
    ],
)
def test_what_cannot_mask_is_refused(arguments: tuple[Any, ...], named: str) -> None:
    options = arguments[2] if len(arguments) > 2 else {}
    with pytest.raises(carya.InvalidArgument, match=f"MaskTokens: {named}"):
        MaskTokens(*arguments[:2], **options)


def test_labels_are_the_next_ids() -> None:
    inputs, labels = ShiftLabels()(np.array([4, 5, 6, 7], np.uint16))
    assert inputs.tolist() == [4, 5, 6]
    assert labels.tolist() == [5, 6, 7]
    assert labels.dtype == np.int32
    assert [len(one) for one in ShiftLabels()(np.array([4]))] == [0, 0]
    with pytest.raises(carya.InvalidArgument, match="there are none"):
        ShiftLabels()(np.zeros(0, np.int32))
    with pytest.raises(carya.InvalidArgument, match="loss_mask"):
        ShiftLabels()(np.array([4, 5]), np.array([1]))
    with pytest.raises(carya.InvalidArgument, match="one-dimensional integers"):
        ShiftLabels()(np.array([4.0, 5.0]))


def test_words_are_those_of_torchtext() -> None:
    """By the pairs of its own documentation and tests: torchtext itself does not load beside this torch."""
    split = BasicEnglish()
    assert split("You can now install TorchText using pip!") == [
        "you",
        "can",
        "now",
        "install",
        "torchtext",
        "using",
        "pip",
        "!",
    ]
    text = 'Basic English Normalization for a Line of Text   don\'t . , ( ) ! ? ; : "quoted" a<br />b'
    words = [
        "basic",
        "english",
        "normalization",
        "for",
        "a",
        "line",
        "of",
        "text",
        "don",
        "'",
        "t",
        ".",
        ",",
        "(",
        ")",
        "!",
        "?",
        "quoted",
        "a",
        "b",
    ]
    assert split(text) == words


def test_a_vocabulary_counts_and_looks_up() -> None:
    texts = [["b", "a", "b"], ["c", "a", "d", "<pad>"]]
    made = Vocabulary.count(texts, special=["<unk>", "<pad>"], unknown="<unk>", at_least=2)
    assert made.words == ["<unk>", "<pad>", "a", "b"]
    assert len(made) == 4
    assert made(["b", "z", "<pad>"]).tolist() == [3, 0, 1]
    assert made(["b"]).dtype == np.int32
    assert Vocabulary.count(texts, most=2).words == ["a", "b"]
    with pytest.raises(carya.InvalidArgument, match="unknown="):
        Vocabulary(["a"])(["b"])
    with pytest.raises(carya.InvalidArgument, match="each word once"):
        Vocabulary(["a", "b", "a"])
    with pytest.raises(carya.InvalidArgument, match="one of the words"):
        Vocabulary(["a"], unknown="b")


def test_other_words_and_patterns_are_other_functions() -> None:
    many = [f"word {number}" for number in range(30_000)]
    assert identity(Vocabulary(many)) == identity(Vocabulary(list(many)))
    assert identity(Vocabulary(many)) != identity(Vocabulary([*many[:-1], "another"]))
    assert identity(Vocabulary(many)) != identity(Vocabulary(many, unknown=many[0]))
    assert identity(CleanText(replace=[("a", "b")])) != identity(CleanText(replace=[("c", "b")]))


def test_words_become_padded_batches(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The cat, the dog!\nA bird?\n")
    words = Vocabulary.count([BasicEnglish()("the cat, the dog! a bird?")], special=["<pad>"])
    lines = carya.text(tmp_path / "a.txt").map(CleanText(strip=True), fields="text").map(BasicEnglish(), fields="text")
    batched = lines.map(words, fields="text", out="ids").pad_sequences("ids").batch(2, lists=("text",))
    with carya.Loader(batched, threads=1) as loader:
        batch = next(iter(loader))
        rows = [[words.words[id] for id in row] for row in batch["ids"]]
    assert rows == [["the", "cat", ",", "the", "dog", "!"], ["a", "bird", "?", "<pad>", "<pad>", "<pad>"]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a model that chats, as save_pretrained() writes it."""
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    from token_files import byte_level
    from tokenizers import AddedToken

    trained = byte_level(["You are kind. It is four, äöü 日本. Seven. user assistant system"] * 3, 400, None)
    trained.add_special_tokens([AddedToken(one, special=True) for one in ("<|im_start|>", "<|im_end|>", "<s>")])
    folder = tmp_path_factory.mktemp("model")
    trained.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": CHATML, "bos_token": {"content": "<s>"}})
    )
    return folder


def said(model: Path, ids: Any, mask: Any) -> str:
    """The text of the ids that the mask leaves, with a bar between runs."""
    import tokenizers

    reference = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    reference.decoder = tokenizers.decoders.ByteLevel()
    decode = reference.decode
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask, [0]])))
    return "|".join(decode(ids[begin:end].tolist(), skip_special_tokens=False) for begin, end in edges.reshape(-1, 2))


def test_a_conversation_is_that_of_transformers(model: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    reference = transformers.PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"), bos_token="<s>")
    for template in (CHATML, MARKED):
        ids, mask = ChatTokens(model, template=template)(TALK)
        wanted = reference.apply_chat_template(
            TALK, chat_template=template, return_dict=True, return_assistant_tokens_mask=template is MARKED
        )
        assert ids.tolist() == wanted["input_ids"]
        assert ids.dtype == np.int32
        if template is MARKED:
            assert mask.tolist() == wanted["assistant_masks"]


def test_the_loss_is_of_what_the_model_says(model: Path) -> None:
    ids, mask = ChatTokens(model)(TALK)
    assert mask.dtype == np.uint8
    assert said(model, ids, mask) == "It is four, äöü 日本.<|im_end|>\n|Seven.<|im_end|>\n"
    ids, mask = ChatTokens(model, template=MARKED)(json.dumps(TALK))
    assert said(model, ids, mask) == "It is four, äöü 日本.<|im_end|>|Seven.<|im_end|>"
    ids, mask = ChatTokens(model, roles=("user",))(TALK[:2])
    assert "What is two" in said(model, ids, mask)
    assert "kind" not in said(model, ids, mask)
    assert len(ChatTokens(model, truncate=5)(TALK)[0]) == len(ChatTokens(model, truncate=5)(TALK)[1]) == 5


def without_messages(sample: dict[str, Any]) -> dict[str, Any]:
    return {name: sample[name] for name in ("ids", "labels")}


def test_conversations_in_a_pipeline(model: Path, tmp_path: Path) -> None:
    with (tmp_path / "talks.jsonl").open("w") as file:
        for number in range(12):
            file.write(
                json.dumps({"messages": [*TALK[:2], {"role": "assistant", "content": f"Answer {number}."}]}) + "\n"
            )
    chats = (
        carya.jsonl(tmp_path / "talks.jsonl", fields="messages")
        .shuffle(seed=1)
        .map(ChatTokens(model), fields="messages", out=("ids", "loss_mask"))
        .map(ShiftLabels(), fields=("ids", "loss_mask"), out=("ids", "labels"))
        .map(without_messages)
    )
    batched = chats.pad_sequences("ids").pad_sequences("labels", value=-100).batch(4)
    assert epoch_digest(batched, threads=1) == epoch_digest(batched, threads=2)
    with carya.Loader(batched, threads=1) as loader:
        for batch in loader:
            for labels in batch["labels"]:
                kept = labels[labels != -100]
                assert said(model, kept, np.ones(len(kept), np.uint8)).startswith("Answer ")


def test_a_chat_travels_and_is_known_by_its_files(model: Path, tmp_path: Path) -> None:
    made = ChatTokens(model)
    again = pickle.loads(pickle.dumps(made))
    assert [one.tolist() for one in again(TALK)] == [one.tolist() for one in made(TALK)]

    def goes_on(chat: ChatTokens, state: dict[str, Any] | None = None) -> dict[str, Any]:
        talks = carya.dataset([{"messages": TALK}] * 2).map(chat, fields="messages", out=("ids", "loss_mask"))
        with carya.Loader(talks.batch(1, lists=("messages",)), threads=1, state=state) as loader:
            next(iter(loader))
            return loader.state_dict()

    state = goes_on(made)
    goes_on(again, state)
    for other in (
        ChatTokens(model, template=MARKED),
        ChatTokens(model, roles=("user",)),
        ChatTokens(model, truncate=9),
    ):
        with pytest.raises(carya.Error, match="pipeline"):
            goes_on(other, state)


@pytest.mark.parametrize(
    ("messages", "error", "told"),
    [
        ([], carya.SampleError, "messages"),
        ("{", carya.SampleError, "no JSON"),
        ([{"content": "x"}], carya.SampleError, "role"),
        ([{"role": "user", "content": "\ufdd0"}], carya.SampleError, "U\\+FDD0"),
        ([{"role": "user", "content": 5}], carya.SampleError, "template"),
        ([{"role": "user"}], carya.SampleError, "template"),
    ],
)
def test_conversations_that_are_none_are_told(model: Path, messages: Any, error: Any, told: str) -> None:
    with pytest.raises(error, match=told):
        ChatTokens(model)(messages)


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{% for %}", "line 1"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ ''.__class__.__mro__ }}", "unsafe|Security|no element|undefined"),
        ("{{ messages.append(1) }}", "unsafe|Security|immutable"),
        ("{{ messages[0].content }}{{ messages | length }}", "put {% generation %}"),
    ],
)
def test_templates_that_are_hostile_or_of_no_use_are_told(model: Path, template: str, told: str) -> None:
    with pytest.raises((carya.SampleError, carya.InvalidArgument), match=told):
        ChatTokens(model, template=template)(TALK)


def test_folders_without_what_a_chat_needs_are_told(model: Path, tmp_path: Path) -> None:
    with pytest.raises(carya.NotFound, match="tokenizer\\.json"):
        ChatTokens(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
    with pytest.raises(carya.NotFound, match="template="):
        ChatTokens(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    assert ChatTokens(tmp_path)(TALK)[0].tolist() == ChatTokens(model)(TALK)[0].tolist()
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(carya.SampleError, match="no JSON"):
        ChatTokens(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(carya.SampleError, match="get the files again"):
        ChatTokens(tmp_path)
