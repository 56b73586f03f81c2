"""Files of token ids: what `carya tokenize` writes and `carya.token_blocks` reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._errors import SampleError
from .._records.records import Records
from .._text.tokenizer import Tokenizer
from .formats import Format
from .schema import Schema


class Tokens(NamedTuple):
    """How texts become ids."""

    tokenizer: Tokenizer
    field: str = "text"
    end: int | None = None  # the id behind each text

    @property
    def dtype(self) -> str:
        """The smallest that holds every id."""
        return "uint16" if max(self.tokenizer.vocab_size, (self.end or 0) + 1) <= 1 << 16 else "uint32"

    @property
    def about(self) -> dict[str, Any]:
        """What the bytes depend on, beside the records."""
        return {"tokenizer": self.tokenizer.version, "field": self.field, "end": self.end, "dtype": self.dtype}


class TokenShards(Format):
    """The ids of texts one behind the other, little-endian, as nanoGPT has them; `index.json` says the dtype."""

    name, suffix = "tokens", "bin"

    def __init__(self, records: Records, schema: Schema, how: Tokens) -> None:
        super().__init__(records, schema)
        self._how, self._dtype = how, np.dtype(how.dtype).newbyteorder("<")
        if not how.tokenizer.native:
            self.notes.append(f"ids are made by the package tokenizers: {how.tokenizer.why}")

    def stored(self, records: Records, index: int) -> dict[str, Any]:
        sample = records.read(index)
        text = sample.get(self._how.field)
        if not isinstance(text, str | bytes):
            found = ", ".join(f"{name!r} ({type(value).__name__})" for name, value in sample.items())
            raise SampleError(
                f"{records.place(index)}: it has no text {self._how.field!r}, only {found}; give another --field"
            )
        ids = self._how.tokenizer.encode(text)
        if self._how.end is not None:
            ids = np.append(ids, self._how.end)
        return {"ids": ids.astype(self._dtype)}

    def packed(self, records: Records, index: int, stored: dict[str, Any]) -> bytes:
        data: bytes = stored["ids"].tobytes()
        return data

    def overhead(self, count: int) -> int:
        return 0

    def finish(self, folder: str, shards: Sequence[dict[str, Any]], put: Callable[[str, bytes], None]) -> None:
        size = self._dtype.itemsize
        lines = [{"name": one["name"], "texts": one["records"], "ids": one["bytes"] // size} for one in shards]
        about = {
            "format": "carya tokens 1",
            **self._how.about,
            "ids": sum(one["ids"] for one in lines),
            "shards": lines,
        }
        put("index.json", json.dumps(about, indent=1).encode())

    def reader(self, path: str, sizes: Sequence[int]) -> Any:
        return _Read(path, self._dtype, sizes)


class _Read:
    """A file's ids cut as the texts were."""

    def __init__(self, path: str, dtype: np.dtype[Any], sizes: Sequence[int]) -> None:
        found = np.fromfile(path, dtype)
        ends = np.cumsum([size // dtype.itemsize for size in sizes])
        if len(found) != (ends[-1] if len(ends) else 0):
            raise SampleError(f"tokens: {path}: it has {len(found):,} ids, and {ends[-1]:,} were written")
        self._parts = np.split(found, ends[:-1])

    def __len__(self) -> int:
        return len(self._parts)

    def read(self, index: int) -> dict[str, Any]:
        return {"ids": self._parts[index]}
