"""One text to ids."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._errors import InvalidArgument, NotFound, Permission, SampleError, Unsupported, invalid
from .._joined import ByColumns, Joined, JoinedTexts
from . import rank_file
from .endings import Endings, cut_endings
from .reference import HuggingFace, Reference, SentencePiece, TikToken, is_model
from .tokenizer_file import JSON_MAX, Finder, NotNative, Tables, finder, read_json, tables

_FILE = "tokenizer.json"
_ALL = 1 << 62
_MAY_CHANGE = re.compile("[^\0-\u02ff]")  # by NFC, or the character before it


class Tokenizer:
    """Text to token ids, equal to those of Hugging Face's `tokenizers`.

    `source`: a `tokenizer.json` or a folder with one, a tokenizer of the packages `tokenizers` or `transformers` (a fast one), a
    rank file of tiktoken, or a model of SentencePiece; files are known by what they begin with. Byte-level BPE with the
    pre-tokenizers of GPT-2, Llama 3, Qwen 2 and GPT-4o is encoded natively; anything else (WordPiece, Unigram, byte fallback) by
    the package `tokenizers` (`carya[text]`), `sentencepiece` or `tiktoken`, with its ids. `native` says which it is, and `why` what
    the native way lacks.

    `add_special_tokens`: with the ids that the file puts around a text, such as a beginning of sequence. `truncate`: at most so
    many ids, those around a text among them. Padding and truncation that the file asks for are left to the pipeline. Special
    tokens that stand in a text as their names, as "<|endoftext|>", become their ids, as with the reference. A file whose model
    drops merges at random (BPE's "dropout") is refused: no seed repeats the numbers that it draws.

    `pattern`, `special`: what a rank file does not say: how texts are cut (the name of an encoding of tiktoken: "gpt2", "r50k_base",
    "p50k_base", "cl100k_base", "o200k_base"; "llama3"; or a regular expression), and the ids of special tokens, by name.

    Texts are str, or bytes of UTF-8; bytes that are no UTF-8 count as U+FFFD, as `bytes.decode(errors="replace")` has them.
    Classes of characters are those of tokenizers 0.23.3, whichever version is installed.

    Threads: one call at a time; others wait. It travels to other processes with all that it needs.
    Errors: NotFound, SampleError (no such file, or a broken one), InvalidArgument, Unsupported (`tokenizers` is missing).
    Reference: tokenizers.Tokenizer.encode(text).ids, version 0.23.3; tiktoken.Encoding.encode(text, allowed_special="all");
    sentencepiece.SentencePieceProcessor.encode(text).

    >>> import carya
    >>> tokenizer = carya.Tokenizer("gpt2/tokenizer.json")  # doctest: +SKIP
    >>> tokenizer.encode("Hello world")  # doctest: +SKIP
    array([15496,   995], dtype=int32)
    """

    def __init__(
        self,
        source: Any,
        *,
        add_special_tokens: bool = True,
        truncate: int | None = None,
        pattern: str | None = None,
        special: Mapping[str, int] | None = None,
    ) -> None:
        if truncate is not None and (not isinstance(truncate, int) or isinstance(truncate, bool) or truncate < 1):
            raise invalid("Tokenizer: truncate", truncate, "a number of ids from 1 on")
        data, name = _content(source)
        is_ranks = rank_file.is_ranks(data)
        if not is_ranks and (pattern is not None or special is not None):
            raise invalid(
                "Tokenizer: pattern, special", pattern or special, f"neither for {name}, which is no file of ranks"
            )
        tokens = _special(special)
        how = f"tokenizer 1 {bool(add_special_tokens)} {truncate}".encode()
        if is_ranks:
            pattern = rank_file.pattern_of(pattern, name)
            how += f" {pattern!r} {sorted(tokens.items())!r}".encode()
        self._state: dict[str, Any] = {
            "version": hashlib.blake2b(how + b"\0" + data, digest_size=16).hexdigest(),
            "special": bool(add_special_tokens),
            "truncate": truncate,
            "tables": None,
            "file": None,
            "pattern": pattern,
            "tokens": tokens,
            "why": "",
        }
        try:
            if is_model(data):
                raise NotNative("it is a model of SentencePiece")
            if is_ranks:
                self._state["tables"] = rank_file.rank_tables(rank_file.read_ranks(data, name), str(pattern), tokens)
            else:
                self._state["tables"] = tables(read_json(data, name), name)
        except NotNative as error:
            self._state |= {"why": str(error), "file": data}
        self._open(name)
        least = self._count_around()
        if truncate is not None and truncate < least:  # the reference does not cut at all then
            raise invalid(
                "Tokenizer: truncate", truncate,
                f"at least {least}, as many ids as {name} puts around a text, or add_special_tokens=False",
            )  # fmt: skip

    def _open(self, name: str) -> None:
        known: Tables | None = self._state["tables"]
        self._reference: Reference | None = None
        self._bpe: _core.Bpe | None = None
        if known is None:
            self._reference = _reference(self._state, name)
            return
        try:
            self._bpe = known.bpe()
        except InvalidArgument as error:
            raise SampleError(f"{name}: {error}; get the file again") from None
        self._endings = None if known.ending is None else Endings(known.ending)
        self._nfc = known.nfc
        self._raw, self._normalized = map(finder, known.added)
        self._added = known.added[0] | known.added[1]
        self._around = (known.before, known.behind) if self._state["special"] else ((), ())
        most = self._state["truncate"]
        self._most = _ALL if most is None else max(most - self._count_around(), 0)

    def _count_around(self) -> int:
        """How many ids stand around each text."""
        if self._reference is not None:
            return self._reference.around if self._state["special"] else 0
        return sum(map(len, self._around))

    def __getstate__(self) -> dict[str, Any]:
        return self._state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._state = state
        self._open(_FILE)

    @property
    def native(self) -> bool:
        """Whether texts are encoded natively."""
        return self._bpe is not None

    @property
    def why(self) -> str:
        """What the native way lacks; empty where it is taken."""
        return str(self._state["why"])

    @property
    def vocab_size(self) -> int:
        """One more than the greatest id."""
        if self._reference is not None:
            return self._reference.size
        known: Tables = self._state["tables"]
        others = np.array([*known.before, *known.behind, *self._added.values()], np.uint32)
        return 1 + int(np.concatenate([known.byte_ids, known.merges[:, 3], known.whole_ids, others]).max())

    def token_id(self, token: str) -> int:
        """The id of an added token, such as "<|endoftext|>". Errors: InvalidArgument: there is none of that name."""
        if self._reference is not None:
            id = self._reference.id_of(token)
        else:
            id = self._added.get(token)
        if id is None:
            names = list(self._added) if self._reference is None else []
            shown = f"one of {', '.join(names[:20])}" if names else "a token of the file"
            raise invalid("Tokenizer: token", token, shown)
        return int(id)

    @property
    def version(self) -> str:
        """32 hexadecimal digits that are equal for equal files and options."""
        return str(self._state["version"])

    def encode(self, text: str | bytes) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The ids of one text: int32 [n]. Errors: InvalidArgument: neither str nor bytes."""
        return self.encode_many([text]).values

    __call__ = encode

    def encode_many(self, texts: Sequence[str | bytes]) -> Joined:
        """The ids of several texts, int32, in one array. Errors: InvalidArgument: neither str nor bytes."""
        if self._bpe is None:
            return Joined.of([np.array(self._by_reference(text), np.int32) for text in texts], np.int32)
        if isinstance(texts, JoinedTexts) and self._as_they_are(texts):
            return Joined(*self._bpe.encode_joined(texts.data, texts.ends, self._most, *self._around))
        parts = [self._parts(text) for text in texts]
        try:
            return Joined(*self._bpe.encode(parts, self._most, *self._around))
        except UnicodeEncodeError:  # one has half of a surrogate pair
            sound = [_sound(part) if isinstance(part, str) else [*map(_sound, part)] for part in parts]
            return Joined(*self._bpe.encode(sound, self._most, *self._around))

    def _by_reference(self, text: str | bytes) -> list[int]:
        reference: Any = self._reference
        ids: list[int] = reference.encode(_sound(_as_str(text)), self._state["special"])
        return ids

    def _as_they_are(self, texts: JoinedTexts) -> bool:
        """Whether texts of UTF-8 are encoded as a whole, unchanged: as `_parts` has them."""
        if self._nfc and not texts.data.isascii():
            return False
        if any(found is not None and found.start.encode() in texts.data for found in (self._raw, self._normalized)):
            return False
        return self._endings is None or not self._endings.anywhere(texts)

    def _parts(self, text: str | bytes) -> str | list[str | int]:
        """A text as it is encoded: cut at added tokens, in whose place are their ids."""
        text = text if type(text) is str else _as_str(text)
        raw, normalized = self._raw, self._normalized
        if raw is not None and raw.start in text:
            parts = self._cut(raw, [text])
            if self._nfc:
                parts = [part if part in self._added else _nfc(part) for part in parts]
        elif not self._nfc:
            if normalized is None or normalized.start not in text:
                return text if self._endings is None else self._endings.parts(text) or text
            parts = [text]
        else:
            parts = [_nfc(text)]
        if normalized is not None:
            parts = self._cut(normalized, parts)
        return cut_endings(self._endings, [self._added.get(part, part) for part in parts])

    def _cut(self, found: Finder, parts: list[str]) -> list[str]:
        """The parts cut at added tokens, which are parts of their own."""
        cut = ([part] if part in self._added else found.pattern.split(part) for part in parts)
        return [piece for pieces in cut for piece in pieces if piece]

    def __repr__(self) -> str:
        return f"Tokenizer({'native' if self.native else f'by {type(self._reference).__name__}: {self.why}'})"


class Tokenized(ByColumns):
    """Samples with ids in place of a text: what `.tokenize` puts into a pipeline."""

    def __init__(self, tokenizer: Tokenizer, field: str, out: str) -> None:
        self._tokenizer, self._field, self._out = tokenizer, field, out

    def __call__(self, sample: Any) -> dict[str, Any]:
        """Errors: SampleError (no text in the field: the record is broken), InvalidArgument (no dict, no such field, or an `out`
        that is there already)."""
        if not isinstance(sample, dict) or self._field not in sample:
            found = ", ".join(map(repr, sample)) if isinstance(sample, dict) else type(sample).__name__
            raise InvalidArgument(f"tokenize: field: the sample has no {self._field!r}; it has {found}")
        text = sample[self._field]
        if not isinstance(text, str | bytes):
            raise SampleError(
                f"tokenize: {self._field}: got {type(text).__name__}, and texts have ids; mend the record, or give another field="
            )
        return self._rest(sample) | {self._out: self._tokenizer.encode(text)}

    def columns(self, given: Any) -> dict[str, Any]:
        return self._rest(given) | {self._out: self._tokenizer.encode_many(given[self._field])}

    def _rest(self, named: dict[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in named.items() if name != self._field}
        if self._out in rest:
            raise invalid("tokenize: out", self._out, "a name that the sample does not have")
        return rest


def _content(source: Any) -> tuple[bytes, str]:
    """A tokenizer's file, and how errors name it."""
    backend = getattr(source, "backend_tokenizer", source)  # of transformers' fast ones
    if hasattr(backend, "to_str"):
        return backend.to_str().encode(), f"Tokenizer: {type(source).__name__}"
    if not isinstance(source, str | os.PathLike):
        raise invalid(
            "Tokenizer: source",
            source,
            "a tokenizer.json, a folder with one, a fast tokenizer, a rank file of tiktoken, or a model of SentencePiece",
        )
    path = os.path.expanduser(os.fspath(source))
    name = os.path.join(path, _FILE) if os.path.isdir(path) else path
    try:
        with open(name, "rb") as file:
            return file.read(JSON_MAX + 1), f"Tokenizer: {name}"
    except FileNotFoundError:
        raise NotFound(
            f"Tokenizer: {name}: it does not exist; give a tokenizer.json, as save_pretrained() of transformers writes it (names of "
            "the Hugging Face Hub are not looked up)"
        ) from None
    except PermissionError:
        raise Permission(f"Tokenizer: {name}: this user may not read it; give read permission") from None


def _special(given: Mapping[str, int] | None) -> dict[str, int]:
    tokens = dict(given or {}) if isinstance(given, Mapping | None) else {"": -1}
    for token, id in tokens.items():
        if (
            not isinstance(token, str)
            or not token
            or isinstance(id, bool)
            or not isinstance(id, int)
            or not 0 <= id < 1 << 31
        ):
            raise invalid("Tokenizer: special", given, 'ids by name, as {"<|endoftext|>": 100257}')
    return tokens


def _reference(state: dict[str, Any], name: str) -> Reference:
    data, why, most = state["file"], state["why"], state["truncate"]
    if is_model(data):
        return SentencePiece(data, name, why, most)
    if rank_file.is_ranks(data):
        ranks = rank_file.read_ranks(data, name)
        return TikToken(ranks, state["pattern"], state["tokens"], name, why, most)
    return HuggingFace(data, name, why, most)


def _as_str(text: str | bytes) -> str:
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text).decode(errors="replace")
    if not isinstance(text, str):
        raise invalid("Tokenizer: text", text, "a str, or bytes of UTF-8")
    return text


def _sound(text: Any) -> Any:
    """The text with U+FFFD in place of lone surrogates, which no UTF-8 has; an id as it is."""
    if not isinstance(text, str):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _nfc(text: str) -> str:
    if text.isascii() or not _MAY_CHANGE.search(text):
        return text
    try:
        from tokenizers import normalizers
    except ImportError:
        raise Unsupported("Tokenizer: NFC of a text needs the package tokenizers; pip install carya[text]") from None
    return str(normalizers.NFC().normalize_str(text))
