"""What lies at a path that no source takes as it is, and what to do with it."""

from __future__ import annotations

import itertools
import os
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator

from .._errors import InvalidArgument
from .._pipeline.sources import AUDIO, PICTURES
from .._sources.objects import open_file
from .._sources.stores import is_url

SOUNDS = tuple("." + extension for extension in AUDIO)
_POINTER = b"version https://git-lfs"
_LOOKED_AT_MAX = 10_000  # names below a folder: enough to say what is there, and soon told of a slow file system
_SHOWN_MAX = 3
# What is written about a dataset and stands beside it.
_ABOUT = re.compile(r"(?i)^(readme|licen[cs]e|copying|notice|authors|citation|changelog|contributing)\b")
_OTHERS = {
    r"\.(tar\.(gz|bz2|xz|zst)|tgz|tbz2|txz)$": "it is a compressed tar, whose members cannot be read where they lie; unpack it to a .tar",
    r"\.(7z|rar)$": "it is an archive whose members cannot be read where they lie; unpack it",
    r"\.(pkl|pickle|pt|pth|ckpt|joblib)$": "it is a pickle, or may hold one, and no source loads those; save the arrays in it as .npy",
    r"\.bin$": "if it holds token ids, call carya.token_blocks(path, length)",
}


class NoSource(InvalidArgument):
    """What lies there is known, and a path alone does not open it: the message says what does."""


def is_about(name: str) -> bool:
    """Whether a file is called as what is written about a dataset.

    >>> is_about("README.md"), is_about("LICENSE"), is_about("readings.txt")
    (True, True, False)
    """
    return bool(_ABOUT.match(name))


def check_pointer(path: str, head: bytes) -> None:
    """Errors: NoSource, where a file stands for one that Git LFS has elsewhere."""
    if head.startswith(_POINTER):
        raise NoSource(
            f"open: {path}: it is a pointer of Git LFS in place of the data; run `git lfs pull` in its clone"
        )


def check_tokens(path: str, index: str) -> None:
    """Errors: NoSource, where an index.json is that of `carya tokenize`."""
    with open_file(index) as file:
        if b'"carya tokens ' in file.read(1 << 10):
            raise NoSource(
                f"open: {path}: it has the token ids that carya tokenize wrote; call carya.token_blocks(path, length), which says how "
                "many are a record"
            )


def said_of(path: str, head: bytes) -> str:
    """What to do with a file that no source takes by its name and first bytes; "" where nothing is known of it."""
    name = posixpath.basename(path).lower()
    if name.endswith(SOUNDS):
        return 'it is a sound file; call carya.audio_folder() with its folder, or carya.files(paths, field="audio")'
    if name.endswith(PICTURES):
        return "it is a picture; call carya.files() with paths, or carya.image_folder() with the folder of the classes"
    if name.endswith(".json"):
        if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            return "it is one array of JSON; write a record to a line (jq -c '.[]' FILE > FILE.jsonl)"
        return "if each of its lines is a record, call carya.jsonl(path)"
    return next((said for pattern, said in _OTHERS.items() if re.search(pattern, name)), "")


def names_below(path: str) -> Iterator[str]:
    """Relative names of files in the folders of a folder, without hidden ones: some, of very many. Links are followed by nobody."""

    def below() -> Iterator[str]:
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            if folder != path:
                yield from (
                    os.path.relpath(os.path.join(folder, name), path) for name in sorted(names) if name[0] != "."
                )

    return itertools.islice(below(), _LOOKED_AT_MAX)


def check_below(
    path: str, names: Iterable[str], kind_of: Callable[[str], str], marks: Collection[str], texts: bool
) -> bool:
    """Whether pictures are in the folders of a folder, which are then its classes.

    `names`: of the files in those folders, relative; `kind_of`: the kind of a name, or ""; `marks`: names that only one kind has;
    `texts`: that texts count as data, which only explain what they lie beside.
    Errors: NoSource, where other data lies there and no picture.
    """
    found: dict[str, str] = {}  # kinds, each with a name
    for name in names:
        file = posixpath.basename(name)
        if file.lower().endswith(PICTURES):
            return True
        kind = "sound" if file.lower().endswith(SOUNDS) else kind_of(file)
        if kind and not is_about(file):
            found.setdefault(kind, name)
    check_sounds(path, "sound" in found)
    marked = {kind: name for kind, name in found.items() if posixpath.basename(name) in marks}
    found = marked or {kind: name for kind, name in found.items() if kind != "text"} or (found if texts else {})
    if found:
        kinds = sorted(found.items())
        folder = posixpath.join(path, posixpath.dirname(kinds[0][1])) + "/" * is_url(path)
        ending = posixpath.splitext(kinds[0][1])[1]
        pattern = "" if marked or is_url(path) else f", or a pattern such as {posixpath.join(path, '**', '*' + ending)}"
        raise NoSource(
            f"open: {path}: in its folders are no pictures, but {', '.join(f'{kind} ({name})' for kind, name in kinds[:_SHOWN_MAX])}; give "
            f"the folder with the data, as {folder}{pattern}"
        )
    return False


def check_sounds(path: str, there: bool) -> None:
    """Errors: NoSource, if there are sound files."""
    if there:
        raise NoSource(f"open: {path}: it has sound files; call carya.audio_folder(path)")
