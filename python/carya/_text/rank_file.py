"""What a rank file of tiktoken says, as tables of the native way.

Such a file has a line for each token: its bytes in base64, and its rank, which is its id. It says nothing of how texts are
cut, nor of special tokens.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import replace

from .._errors import SampleError, invalid
from .endings import byte_pairs, ending_tables
from .tokenizer_file import PATTERNS, NotNative, Tables

# tiktoken's cl100k_base. White space at the end of a text is one piece to it, and it cuts as Llama 3's pattern does elsewhere.
_CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
# tiktoken's names of its encodings, and Llama 3, by how they cut: those of `PATTERNS`.
_CUTS = {"gpt2": "gpt2", "r50k_base": "gpt2", "p50k_base": "gpt2", "o200k_base": "gpt4o", "llama3": "llama3"}
_NAMED = {
    "cl100k_base": _CL100K,
    **{name: next(pattern for pattern, cut in PATTERNS.items() if cut == of) for name, of in _CUTS.items()},
}
# Patterns of tiktoken's encodings that cut as one of `PATTERNS` does. In a tokenizer.json they are other ones, whose `$` is the end
# of a line.
_SAME = {
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
    _CL100K: "llama3",
}
_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]{1,10}\r?\n")
_IDS_MAX = 1 << 31
_TOKEN_MAX = 4096  # bytes


def is_ranks(data: bytes) -> bool:
    """Whether a file begins as one of ranks does."""
    return _LINE.match(data) is not None


def read_ranks(data: bytes, name: str) -> dict[bytes, int]:
    """Tokens and their ids. Errors: SampleError (a line that is none, a token or id that comes twice)."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            encoded, rank = line.split()
            token, id = base64.b64decode(encoded, validate=True), int(rank)
        except (ValueError, binascii.Error):
            raise SampleError(f"{name}: line {number}: no token in base64 and its rank; get the file again") from None
        if not token or len(token) > _TOKEN_MAX or token in ranks or not 0 <= id < _IDS_MAX:
            raise SampleError(
                f"{name}: line {number}: an empty token, one of more than {_TOKEN_MAX} B, one that came before, or an id of more than 31 "
                "bits; get the file again"
            )
        ranks[token] = id
    if len(set(ranks.values())) < len(ranks):
        raise SampleError(f"{name}: two tokens have one rank; get the file again")
    return ranks


def pattern_of(pattern: str | None, name: str) -> str:
    """The regular expression that cuts texts: `pattern` is one, or the name of an encoding. Errors: InvalidArgument."""
    if pattern is None or pattern == "":
        raise invalid("Tokenizer: pattern", pattern, f"for {name}, which does not say how texts are cut: {_named()}")
    if pattern in _NAMED:
        return _NAMED[pattern]
    if re.fullmatch(r"\w+", pattern):
        raise invalid("Tokenizer: pattern", pattern, _named())
    return pattern


def _named() -> str:
    return ", ".join(f'"{one}"' for one in _NAMED) + ", or a regular expression"


def rank_tables(ranks: Mapping[bytes, int], pattern: str, special: Mapping[str, int]) -> Tables:
    """What the native way needs. Errors: NotNative (a pattern of its own, a byte without a token)."""
    cut = _SAME.get(pattern) or PATTERNS.get(pattern)
    if cut is None:
        raise NotNative("its pattern is none of GPT-2, cl100k and o200k")
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise NotNative(f"its vocabulary has no token for the byte {missing[0]}")
    ending = ending_tables(ranks) if pattern == _CL100K else None
    return replace(byte_pairs(ranks, cut), added=(dict(special), {}), ending=ending)
