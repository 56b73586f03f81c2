"""Lines of JSON, each a record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._errors import SampleError, invalid
from .._options import named_arguments
from .._pipeline.pipeline import Pipeline
from .._sources.paths import PathLike
from .._stages.identity import identity
from .._stages.source import checked_dataset
from .kept import File, digest, file_name, text_files
from .texts import TextRecords, Texts, lines_of
from .values import as_dtype, checked_dtypes, checked_names

_NAMED = re.compile(r"^[^.].*\.(jsonl|ndjson|json)(\.(gz|zst|bz2|xz))?$")


@named_arguments
def jsonl(
    paths: PathLike | Sequence[PathLike],
    *,
    fields: str | Sequence[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    loads: Callable[[str], Any] = json.loads,
    endpoint: str | None = None,
    copy: bool = True,
) -> Pipeline:
    """Lines of JSON in any order, each a record, parsed in worker processes.

    `paths`: files, a glob pattern, braces, or a folder (its files called "*.jsonl", "*.ndjson" or "*.json", also with ".gz",
    ".zst", ".bz2" or ".xz" behind; bytewise). Where lines begin is found once, at the speed of reading, and kept in the cache
    folder for files of 8 MiB or more. Compressed files, known by their first bytes, are unpacked there once as a whole (zstd by
    pyarrow), as long as a tenth of the disk stays free.

    Lines are UTF-8, end with LF or CR LF, and may be empty, which is no record. The sample is what `loads` makes of a line,
    `json.loads` or another function of a `str` that worker processes can import, such as `orjson.loads`. Fields are its leaves
    by path ("box.x"), as of `carya.dataset`: numbers int64 or float64, lists of numbers arrays, anything else objects, of which
    a batch has a list. `fields`: only these, by name or path; a line without one of them is a broken record. `dtypes`: of numbers
    and lists of numbers by name or path, as {"score": "float32"}, which 1 and 1.5 fit both; a value that does not fit exactly
    (but for the rounding of floats) is a broken record. Without it the first record says what a field is, and a later one of
    another dtype or shape is an error.

    A line that is no JSON is a broken record (`Loader(on_error=)`), named by file and offset. A file that changes while it is
    used is an IoError.
    `endpoint`: of another server than the cloud's, for s3://, gs:// and az://. `copy`: objects behind URLs are copied into the
    cache folder as a whole, once for each version. False: they stay in their store. Where their lines begin is found by reading
    them once for each version, and then lines are read by ranges (docs/guides/stores.md says what that costs); compressed ones
    are copied all the same.
    Errors: NotFound, InvalidArgument (no line, a dtype that is none of numbers), SampleError (no text in UTF-8, a compressed file
    that was cut off), Exhausted (no room to unpack), Unsupported (zstd without pyarrow).
    Reference: json.loads of each line.

    >>> import carya, pathlib, tempfile
    >>> name = pathlib.Path(tempfile.mkdtemp()) / "a.jsonl"
    >>> size = name.write_text('{"text": "one", "n": 1}\\n{"text": "two", "n": 2.5}\\n')
    >>> carya.jsonl(name, dtypes={"n": "float32"})[1]
    {'text': 'two', 'n': array(2.5, dtype=float32)}
    """
    shown = "*.jsonl, *.ndjson or *.json"
    files = text_files("jsonl", paths, _NAMED, shown, endpoint, copy)
    names = checked_names("jsonl: fields", fields, "names of fields")
    if not callable(loads):
        raise invalid("jsonl: loads", loads, "a function of a line, such as orjson.loads")
    lines = JsonLines(files, names, dtypes, loads)
    return Pipeline._of_dataset(checked_dataset(lines, None, False, lines.version))


class JsonLines(TextRecords):
    """Records of lines of JSON by index. Threads: one. It travels to worker processes, each of which opens files of its own."""

    def __init__(
        self,
        files: Sequence[File],
        fields: tuple[str, ...] | None,
        dtypes: Mapping[str, Any] | None,
        loads: Callable[[str], Any],
    ) -> None:
        self._fields, self._loads = fields, loads
        self._dtypes = {name: dtype for name, dtype in checked_dtypes("jsonl", dtypes).items() if dtype is not None}
        self._texts = Texts("jsonl", files, lines_of)
        if not len(self):
            raise invalid("jsonl: paths", [file.path for file in files], "files with at least one line")
        sizes = [(file_name(file.path), file.size) for file in files]
        how = (fields, [(name, str(dtype)) for name, dtype in sorted(self._dtypes.items())], identity(loads))
        self.version = f"jsonl 1 {digest(sizes, self._texts.counts, how)}"

    def __getitem__(self, index: int) -> Any:
        line = self._texts.read(index)
        try:
            value = self._loads(line.decode())
            if self._fields is not None:
                value = {name: _inside(value, name) for name in self._fields}
            for name, dtype in self._dtypes.items():
                value = _with_dtype(value, name, dtype)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            place = self._texts.place(index)
            whole = index == 0 and isinstance(error, ValueError) and line.lstrip().startswith(b"[")
            cure = "a JSON list is no JSON Lines: write each of its records on a line of its own"
            raise SampleError(
                f"{place}: {type(error).__name__}: {error}; {cure if whole else 'mend the line, or leave it out'}"
            ) from error
        return value


def _inside(value: Any, name: str) -> Any:
    """What a sample has at a name or path."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        head, dot, tail = name.partition(".")
        if dot and head in value:
            return _inside(value[head], tail)
        raise ValueError(f"it has no {name!r}, only {', '.join(map(repr, list(value)[:20]))}")
    raise ValueError(f"it has no {name!r}, since it is a {type(value).__name__}")


def _with_dtype(value: Any, name: str, dtype: Any) -> Any:
    """The sample with the value at a name or path as an array of the dtype."""
    if isinstance(value, dict) and name not in value and "." in name and name.partition(".")[0] in value:
        head, _, tail = name.partition(".")
        return {**value, head: _with_dtype(value[head], tail, dtype)}
    try:
        return {**value, name: as_dtype(_inside(value, name), dtype)}
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
