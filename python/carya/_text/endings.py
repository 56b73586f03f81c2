"""White space at the end of a text, which is one piece to tiktoken's `cl100k_base` (`\\s++$`) and several to other pre-tokenizers."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._joined import JoinedTexts
from .tokenizer_file import Tables

# What `\s` is: White_Space of Unicode. (`str.isspace` has four control characters more.)
_WHITE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_LINES = "\r\n"
_LAST = np.array(sorted({char.encode()[-1] for char in _WHITE if char not in _LINES}), np.uint8)


def ending_tables(ranks: Mapping[bytes, int]) -> Tables:
    """A vocabulary of all bytes and the tokens of white space, whose pre-tokenizer leaves white space in one piece."""
    white = {byte for char in _WHITE for byte in char.encode()}
    tokens = {token: id for token, id in ranks.items() if len(token) > 1 and white.issuperset(token)}
    bytes_of = {bytes([byte]): ranks[bytes([byte])] for byte in range(256)}
    return byte_pairs(bytes_of | tokens, "gpt2")


def byte_pairs(ranks: Mapping[bytes, int], cut: str) -> Tables:
    """The tables of ranks. Whatever two tokens stand side by side become the token that is both together; the one of the lowest
    rank comes first."""
    rules = [
        (left, right, id, id)
        for token, id in ranks.items()
        for at in range(1, len(token))
        if (left := ranks.get(token[:at])) is not None and (right := ranks.get(token[at:])) is not None
    ]
    tokens = list(ranks)
    return Tables(
        pretokens=cut,
        byte_ids=np.array([ranks[bytes([byte])] for byte in range(256)], np.uint32),
        merges=np.array(rules, np.uint32).reshape(-1, 4),
        whole=b"".join(tokens),
        whole_ends=np.cumsum([len(token) for token in tokens], dtype=np.uint64),
        whole_ids=np.array([ranks[token] for token in tokens], np.uint32),
    )


class Endings:
    """Cuts texts in front of their last piece where that is white space in which a line ends, but not at its end: all else is cut
    there by both. Threads: one."""

    def __init__(self, tables: Tables) -> None:
        self._bpe = tables.bpe()

    def parts(self, text: str) -> list[str | int] | None:
        """What stands before, and the ids of the last piece; None where there is nothing to cut."""
        if text[-1:] in _LINES or text[-1:] not in _WHITE:
            return None
        before = text.rstrip(_WHITE)
        white = text[len(before) :]
        if before and _takes_lines(before[-1]):
            white = white.lstrip(_LINES)
        if "\n" not in white and "\r" not in white:
            return None
        ids, _ = self._bpe.encode([white], len(white.encode()), (), ())
        return [text[: len(text) - len(white)], *ids.tolist()]

    def anywhere(self, texts: JoinedTexts) -> bool:
        """Whether one of the texts is to be cut."""
        data, ends = np.frombuffer(texts.data, np.uint8), np.asarray(texts.ends, np.int64)
        filled = np.flatnonzero(np.diff(ends, prepend=0))
        perhaps = filled[np.isin(data[ends[filled] - 1], _LAST)]
        return any(self.parts(texts[int(number)]) is not None for number in perhaps)


@functools.lru_cache(1024)
def _takes_lines(char: str) -> bool:
    """Whether ends of lines behind a character belong to its piece: it is no letter and no number, by the classes of the native way,
    since Python has others."""
    data = char.encode("utf-8", "replace")
    ids, _ = _probe().encode([data.decode() + "\n"], 8, (), ())
    return len(ids) == len(data)


@functools.cache
def _probe() -> Any:
    """Joins the end of a line with a byte before it, in one piece."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    return byte_pairs(ranks | {bytes([byte, 10]): 256 + byte for byte in range(256)}, "llama3").bpe()


def cut_endings(endings: Endings | None, parts: Sequence[str | int]) -> list[str | int]:
    """Parts of a text, each of which ends as a text does; ids stay."""
    if endings is None:
        return list(parts)
    found: list[str | int] = []
    for part in parts:
        cut = endings.parts(part) if isinstance(part, str) else None
        found += [part] if cut is None else cut
    return found
