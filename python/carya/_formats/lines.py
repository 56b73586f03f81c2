"""Lines of text, or whole files of it, each a record."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Literal

import numpy as np

from .._errors import SampleError, invalid
from .._joined import ByColumns, JoinedTexts
from .._pipeline.pipeline import Pipeline
from .._sources.paths import PathLike
from .._stages.source import checked_dataset
from .kept import File, digest, file_name, text_files
from .texts import FindStarts, TextRecords, Texts, lines_of

_NAMED = re.compile(r"^[^.].*\.(txt|text|md|tokens)(\.(gz|zst|bz2|xz))?$")


def text(
    paths: PathLike | Sequence[PathLike],
    *,
    by: Literal["line", "file"] = "line",
    endpoint: str | None = None,
    copy: bool = True,
) -> Pipeline:
    """Text files in any order of lines, or of files: samples are `{"text": str}`.

    `paths`: files, a glob pattern, braces, or a folder (its files called "*.txt", "*.text", "*.md" or "*.tokens", also with
    ".gz", ".zst", ".bz2" or ".xz" behind; bytewise). `by="line"`: each line is a record, without its line end (LF or CR LF);
    empty lines are none. Where lines begin is found once, at the speed of reading, and kept in the cache folder for files of
    8 MiB or more. `by="file"`: each file is one, of at most 1 GiB. Compressed files, known by their first bytes, are unpacked
    into the cache folder once as a whole (zstd by pyarrow).

    Text is UTF-8, whose byte order mark is left out; a record that is none is a broken one (`Loader(on_error=)`), named by file
    and offset. A file that changes while it is used is an IoError.
    `endpoint`: of another server than the cloud's, for s3://, gs:// and az://. `copy`: objects behind URLs are copied into the
    cache folder as a whole, once for each version. False: they stay in their store. Where their lines begin is found by reading
    them once for each version, and then lines are read by ranges (docs/guides/stores.md says what that costs); compressed ones
    are copied all the same.
    Errors: NotFound, InvalidArgument (no line), SampleError (no text in UTF-8, a compressed file that was cut off), Exhausted (no
    room to unpack), Unsupported (zstd without pyarrow).
    Reference: bytes.decode of each line.

    >>> import carya, pathlib, tempfile
    >>> name = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> size = name.write_text("one\\n\\ntwo\\n")
    >>> carya.text(name)[1]
    {'text': 'two'}
    """
    if by not in ("line", "file"):
        raise invalid("text: by", by, '"line" or "file"')
    shown = "*.txt, *.text, *.md or *.tokens"
    files = text_files("text", paths, _NAMED, shown, endpoint, copy)
    lines = TextLines(files, by)
    return Pipeline._of_dataset(checked_dataset(lines, None, False, lines.version))


class TextLines(TextRecords, ByColumns):
    """Records of text by index. Threads: one. It travels to worker processes, each of which opens files of its own."""

    def __init__(self, files: Sequence[File], by: str) -> None:
        find: FindStarts = lines_of if by == "line" else _whole
        self._texts = Texts("text", files, find, (by,))
        if not len(self):
            raise invalid("text: paths", [file.path for file in files], "files with at least one line")
        sizes = [(file_name(file.path), file.size) for file in files]
        self.version = f"text 1 {digest(sizes, self._texts.counts, by)}"
        self._by_line = by == "line"

    def __getitem__(self, index: int) -> dict[str, str]:
        data = self._texts.read(index)
        try:
            found = data.decode()
        except UnicodeDecodeError as error:
            raise SampleError(f"{self._texts.place(index)}: {error}; save it as UTF-8") from None
        if self._by_line:
            found = found.partition("\n")[0].removesuffix("\r")  # empty lines follow
        return {"text": found}

    def columns(self, given: Any) -> dict[str, Any] | None:
        if not self._by_line:
            return None
        read = self._texts.read_lines(given)
        return None if read is None else {"text": JoinedTexts(*read)}


def _whole(open_: Callable[[], BinaryIO], size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The one record of a file; none of an empty one. A BOM is no part of it."""
    with open_() as file:
        begin = 3 if file.read(3) == b"\xef\xbb\xbf" else 0
    return np.array([begin, size] if size > begin else [size], np.int64)
