"""What a rank file of tiktoken says, as tables of the native way.

Such a file has a line for each token: its bytes in base64, and its rank, which is its id. It says nothing of how texts are
cut, nor of special tokens.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

import numpy as np

from .._errors import SampleError, invalid
from .tokenizer_file import PATTERNS, NotNative, Tables

# tiktoken's names of its encodings, by how they cut: those of `PATTERNS`.
_CUTS = {"gpt2": "gpt2", "r50k_base": "gpt2", "p50k_base": "gpt2", "cl100k_base": "llama3", "o200k_base": "gpt4o"}
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
    if pattern in _CUTS:
        return next(expression for expression, cut in PATTERNS.items() if cut == _CUTS[pattern])
    if re.fullmatch(r"\w+", pattern):
        raise invalid("Tokenizer: pattern", pattern, _named())
    return pattern


def _named() -> str:
    return ", ".join(f'"{one}"' for one in _CUTS) + ", or a regular expression"


def rank_tables(ranks: Mapping[bytes, int], pattern: str, special: Mapping[str, int]) -> Tables:
    """What the native way needs. Errors: NotNative (a pattern of its own, a byte without a token)."""
    if pattern not in PATTERNS:
        raise NotNative("its pattern is none of GPT-2, cl100k and o200k")
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise NotNative(f"its vocabulary has no token for the byte {missing[0]}")
    # Whatever two tokens stand side by side become the token that is both together; the one of the lowest rank comes first.
    rules = [
        (left, right, id, id)
        for token, id in ranks.items()
        for at in range(1, len(token))
        if (left := ranks.get(token[:at])) is not None and (right := ranks.get(token[at:])) is not None
    ]
    tokens = list(ranks)
    return Tables(
        pretokens=PATTERNS[pattern],
        byte_ids=np.array([ranks[bytes([byte])] for byte in range(256)], np.uint32),
        merges=np.array(rules, np.uint32).reshape(-1, 4),
        whole=b"".join(tokens),
        whole_ends=np.cumsum([len(token) for token in tokens], dtype=np.uint64),
        whole_ids=np.array([ranks[token] for token in tokens], np.uint32),
        added=(dict(special), {}),
    )
