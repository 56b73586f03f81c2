"""The libraries whose ids are ours, for what is not encoded natively: one face for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .._errors import SampleError, Unsupported


class Reference(Protocol):
    """Ids of texts by a library. Threads: one."""

    size: int  # one more than the greatest id
    around: int  # how many ids the file puts around a text

    def encode(self, text: str, around: bool) -> list[int]:
        """`around`: with the ids that the file puts around texts."""

    def id_of(self, token: str) -> int | None: ...


class HuggingFace:
    """A `tokenizer.json` by `tokenizers`."""

    def __init__(self, data: bytes, name: str, why: str, most: int | None) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise _lacking(name, why, "tokenizers") from None
        try:
            self._found: Any = Tokenizer.from_str(data.decode())
        except Exception as error:  # the package raises no narrower one
            raise SampleError(f"{name}: tokenizers: {error}; get the file again") from None
        self._found.no_padding()
        self._found.no_truncation()
        if most is not None:
            self._found.enable_truncation(most)
        self.size = 1 + max(self._found.get_vocab(with_added_tokens=True).values(), default=-1)
        self.around = int(self._found.num_special_tokens_to_add(False))

    def encode(self, text: str, around: bool) -> list[int]:
        ids: list[int] = self._found.encode(text, add_special_tokens=around).ids
        return ids

    def id_of(self, token: str) -> int | None:
        id: int | None = self._found.token_to_id(token)
        return id


def is_model(data: bytes) -> bool:
    """Whether a file begins as a model of SentencePiece does: with its first piece, which begins with a text."""
    return len(data) > 2 and data[0] == data[2] == 10 and data[1] < 128


class SentencePiece:
    """A model of SentencePiece. It puts nothing around texts."""

    around = 0

    def __init__(self, data: bytes, name: str, why: str, most: int | None) -> None:
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError:
            raise _lacking(name, why, "sentencepiece") from None
        try:
            self._found: Any = SentencePieceProcessor(model_proto=data)
            self.size = int(self._found.get_piece_size())
        except Exception as error:  # the package raises no narrower one
            raise SampleError(f"{name}: sentencepiece: {error}; get the file again") from None
        self._most = most

    def encode(self, text: str, around: bool) -> list[int]:
        ids: list[int] = self._found.encode(text)
        return ids[: self._most]

    def id_of(self, token: str) -> int | None:
        id = int(self._found.piece_to_id(token))
        return id if self._found.id_to_piece(id) == token else None


class TikToken:
    """Ranks by `tiktoken`. It puts nothing around texts."""

    around = 0

    def __init__(
        self, ranks: dict[bytes, int], pattern: str, special: Mapping[str, int], name: str, why: str, most: int | None
    ) -> None:
        try:
            import tiktoken
        except ImportError:
            raise _lacking(name, why, "tiktoken") from None
        try:
            self._found = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=dict(special))
        except BaseException as error:  # a panic of its native part is no Exception
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise SampleError(f"{name}: tiktoken: {error}; give another pattern, or get the file again") from None
        self._special, self._most = dict(special), most
        self.size = 1 + max([*ranks.values(), *special.values()], default=-1)

    def encode(self, text: str, around: bool) -> list[int]:
        return self._found.encode(text, allowed_special="all")[: self._most]

    def id_of(self, token: str) -> int | None:
        return self._special.get(token)


def _lacking(name: str, why: str, package: str) -> Unsupported:
    wanted = "carya[text]" if package == "tokenizers" else package
    return Unsupported(f"{name}: {why}, which needs the package {package}; pip install {wanted}")
