"""What a `tokenizer.json` says: tables for the native way, or why there is none."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._errors import SampleError, invalid

Ids = np.ndarray[Any, np.dtype[np.uint32]]

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_CASED = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]%s[\p{Ll}\p{Lm}\p{Lo}\p{M}]%s" + _CONTRACTIONS + "?"
_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# Patterns as published files have them, by the pre-tokenizer that cuts in the same places.
PATTERNS = {
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _TAIL: "llama3",
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _TAIL: "qwen2",
    "|".join((_CASED % ("*", "+"), _CASED % ("+", "*"), r"\p{N}{1,3}")) + _TAIL.replace(r"[\r\n]*|\s*", r"[\r\n/]*|\s*"): "gpt4o",
}  # fmt: skip
JSON_MAX = 1 << 29  # bytes


class NotNative(Exception):
    """The file asks for what only the reference library does. Its text says what."""


@dataclass(frozen=True)
class Tables:
    """A byte-level vocabulary and what stands around and inside of texts. Ids are uint32."""

    pretokens: str
    byte_ids: Ids  # [256]
    merges: Ids  # [rules, 4]: left, right, rank, result
    whole: bytes = b""  # tokens that a pretoken is as a whole, one behind the other
    whole_ends: np.ndarray[Any, np.dtype[np.uint64]] = field(default_factory=lambda: np.zeros(0, np.uint64))
    whole_ids: Ids = field(default_factory=lambda: np.zeros(0, np.uint32))
    nfc: bool = False
    before: tuple[int, ...] = ()  # ids around a text
    behind: tuple[int, ...] = ()
    added: tuple[dict[str, int], dict[str, int]] = ({}, {})  # ids of tokens to be found in raw and in normalized text
    ending: Tables | None = None  # of white space at the end of a text, where that is one piece

    def bpe(self) -> _core.Bpe:
        """The native encoder. Errors: InvalidArgument."""
        return _core.Bpe(
            pretokens=self.pretokens,
            byte_ids=self.byte_ids,
            merges=self.merges,
            whole=self.whole,
            whole_ends=self.whole_ends,
            whole_ids=self.whole_ids,
        )


def read_json(data: bytes, name: str) -> dict[str, Any]:
    """The document. Errors: SampleError: it is no `tokenizer.json`."""
    if len(data) > JSON_MAX:
        raise SampleError(f"{name}: it has {len(data):,} B; a tokenizer.json has at most {JSON_MAX:,} B")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SampleError(f"{name}: no JSON: {error}; give the tokenizer.json of a Hugging Face model") from None
    if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
        raise SampleError(f'{name}: it has no "model"; give the tokenizer.json of a Hugging Face model')
    return document


def tables(document: dict[str, Any], name: str) -> Tables:
    """What the native way needs. Errors: NotNative, SampleError (ids or rules that cannot be), InvalidArgument (dropout)."""
    model = document["model"]
    if model.get("dropout"):
        raise invalid(
            f"{name}: dropout", model["dropout"],
            'a file whose model has "dropout": null: it drops merges by random numbers that no seed repeats',
        )  # fmt: skip
    _check_model(model)
    before, behind = _template(document.get("post_processor"))
    pretokens = _pretokens(document.get("pre_tokenizer"))
    nfc = _normalizes(document.get("normalizer"))
    try:
        vocabulary = {str(token): int(id) for token, id in model["vocab"].items()}
        if any(id < 0 or id >= 1 << 32 for id in vocabulary.values()):
            raise ValueError("an id is below 0, or has more than 32 bits")
        missing = [byte for byte, char in enumerate(_BYTE_CHARS) if char not in vocabulary]
        if missing:
            raise NotNative(f"its vocabulary has no token for the byte {missing[0]}")
        whole = _whole(vocabulary) if model.get("ignore_merges") else {}
        return Tables(
            pretokens=pretokens,
            byte_ids=np.array([vocabulary[char] for char in _BYTE_CHARS], np.uint32),
            merges=_merges(vocabulary, model["merges"]),
            nfc=nfc,
            before=before,
            behind=behind,
            added=_added(document.get("added_tokens") or []),
            **whole,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SampleError(f"{name}: {type(error).__name__}: {error}; get the file again") from None


def _check_model(model: dict[str, Any]) -> None:
    kind = model.get("type", "BPE" if "merges" in model else "unknown")
    if kind != "BPE":
        raise NotNative(f"its model is {kind}")
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise NotNative(f"its model has {key}={model[key]!r}")


def _pretokens(found: Any) -> str:
    steps = found.get("pretokenizers", []) if isinstance(found, dict) and found.get("type") == "Sequence" else [found]
    steps = [step if isinstance(step, dict) else {} for step in steps]
    level = steps[-1] if steps else {}
    if level.get("type") != "ByteLevel" or len(steps) > 2:
        raise NotNative("its pre-tokenizer is none of GPT-2, Llama 3, Qwen 2 and GPT-4o")
    if level.get("add_prefix_space", True):
        raise NotNative("it puts a space in front of each text")
    if len(steps) == 1 and level.get("use_regex", True):
        return "gpt2"
    split = steps[0]
    pattern = (split.get("pattern") or {}).get("Regex") if split.get("type") == "Split" else None
    cuts = split.get("behavior") == "Isolated" and not split.get("invert")
    if len(steps) == 2 and cuts and not level.get("use_regex", True) and pattern in PATTERNS:
        return PATTERNS[pattern]
    raise NotNative("its pre-tokenizer is none of GPT-2, Llama 3, Qwen 2 and GPT-4o")


def _normalizes(found: Any) -> bool:
    steps = found.get("normalizers", []) if isinstance(found, dict) and found.get("type") == "Sequence" else [found]
    kinds = [step.get("type") if isinstance(step, dict) else None for step in steps if step is not None]
    if kinds not in ([], ["NFC"]):
        raise NotNative(f"its normalizer is {', '.join(map(str, kinds))}")
    return bool(kinds)


def _template(found: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids before and behind a text."""
    if found is None:
        return (), ()
    kind = found.get("type") if isinstance(found, dict) else None
    if kind == "ByteLevel":
        return (), ()
    if kind == "Sequence":
        around = [_template(step) for step in found.get("processors", [])]
        if sum(pair != ((), ()) for pair in around) > 1:
            raise NotNative("its post-processor has several templates")
        return next((pair for pair in around if pair != ((), ())), ((), ()))
    try:
        if kind in ("RobertaProcessing", "BertProcessing"):
            return (int(found["cls"][1]),), (int(found["sep"][1]),)
        if kind == "TemplateProcessing":
            ids: tuple[list[int], list[int]] = ([], [])
            texts = 0
            for piece in found["single"]:
                if "Sequence" in piece:
                    texts += 1
                else:
                    ids[texts].extend(map(int, found["special_tokens"][piece["SpecialToken"]["id"]]["ids"]))
            if texts == 1:
                return tuple(ids[0]), tuple(ids[1])
    except (KeyError, TypeError, ValueError, IndexError):
        pass
    raise NotNative(f"its post-processor is {kind}")


def _added(found: list[Any]) -> tuple[dict[str, int], dict[str, int]]:
    raw: dict[str, int] = {}
    normalized: dict[str, int] = {}
    for token in found:
        content = str(token["content"])
        if any(token.get(key) for key in ("lstrip", "rstrip", "single_word")):
            raise NotNative(f"its added token {content!r} takes spaces around it, or stands as a word only")
        if content:
            (normalized if token.get("normalized", not token.get("special")) else raw)[content] = int(token["id"])
    return raw, normalized


def _merges(vocabulary: dict[str, int], merges: list[Any]) -> Ids:
    rules = {}  # of a pair that comes twice the reference keeps the last rule
    for rank, merge in enumerate(merges):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        try:
            rules[vocabulary[left], vocabulary[right]] = rank, vocabulary[left + right]
        except KeyError:
            raise ValueError(f"merges: {rank}: {left!r}, {right!r} or both together are no token") from None
    rows = [(*pair, *rule) for pair, rule in rules.items()]
    return np.array(rows, np.uint32).reshape(-1, 4)


def _whole(vocabulary: dict[str, int]) -> dict[str, Any]:
    tokens, ids = [], []
    for token, id in vocabulary.items():
        if token and all(char in _CHAR_BYTES for char in token):
            tokens.append(bytes(_CHAR_BYTES[char] for char in token))
            ids.append(id)
    return {
        "whole": b"".join(tokens),
        "whole_ends": np.cumsum([len(token) for token in tokens], dtype=np.uint64),
        "whole_ids": np.array(ids, np.uint32),
    }


def _byte_chars() -> list[str]:
    """The character that stands for each byte in the tokens of a byte-level vocabulary."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    chars = {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [chars[byte] for byte in range(256)]


_BYTE_CHARS = _byte_chars()
_CHAR_BYTES = {char: byte for byte, char in enumerate(_BYTE_CHARS)}


class Finder(NamedTuple):
    """Finds added tokens in a text."""

    start: str  # what all of them begin with
    pattern: re.Pattern[str]  # it splits a text at them, at the longest that stands there


def finder(tokens: dict[str, int]) -> Finder | None:
    """Nothing where there are no tokens."""
    if not tokens:
        return None
    longest = sorted(tokens, key=len, reverse=True)
    first, last = min(tokens), max(tokens)
    same = next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return Finder(first[:same], re.compile("(" + "|".join(map(re.escape, longest)) + ")"))
