"""The pipeline that a command names: a document, a Python file, or the demo."""

from __future__ import annotations

import json
import os
import runpy
import sys
from typing import Any

from .. import image_folder
from .._errors import InvalidArgument, IoError, NotFound, Permission
from .._pipeline.pipeline import Pipeline

_WANTED = "give a document that Pipeline.to_json() wrote, a Python file (train.py:pipeline), or demo"


def load_pipeline(target: str, data: str | None) -> Pipeline:
    """The pipeline of a document or Python file, or the demo's, over the folder `data` where that is given.

    A Python file is run as a module is imported; `train.py:pipeline` names one of its global variables.
    Errors: NotFound, Permission, IoError, InvalidArgument.
    """
    if target == "demo":
        return _demo(data or "build/demo/photos")
    path, colon, name = target.rpartition(":")
    if colon and path.endswith(".py"):
        pipeline = _of_python(path, name)
    elif target.endswith(".py"):
        pipeline = _of_python(target, None)
    else:
        pipeline = _of_document(target)
    return pipeline if data is None else _over(pipeline, data)


def _demo(folder: str) -> Pipeline:
    if not os.path.isdir(folder):
        raise NotFound(
            f"demo: no folder {folder!r}; give --data FOLDER with one folder of photos per class, "
            "or run `make demo` once, which makes photos"
        )
    return (
        image_folder(folder)
        .shuffle(seed=42)
        .decode_image()
        .random_resized_crop(224)
        .random_horizontal_flip()
        .normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
        .batch(128)
    )


def _of_document(path: str) -> Pipeline:
    text = _read(path)
    try:
        return Pipeline.from_json(text)
    except InvalidArgument as error:
        told = str(error).removeprefix("pipeline document: ")
        raise InvalidArgument(f"pipeline: {path!r}: {told}{'' if ';' in told else '; ' + _WANTED}") from None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        raise NotFound(f"pipeline: no file {path!r}; {_WANTED}") from None
    except IsADirectoryError:
        raise InvalidArgument(f"pipeline: {path!r} is a folder; {_WANTED} with --data FOLDER") from None
    except PermissionError:
        raise Permission(
            f"pipeline: {path!r} cannot be read by this user; give this user the right to read it"
        ) from None
    except OSError as error:
        raise IoError(f"pipeline: {path!r}: {error.strerror}; {_WANTED}") from None
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"pipeline: {path!r} is no text ({error}); {_WANTED}") from None


def _of_python(path: str, name: str | None) -> Pipeline:
    _read(path)  # its own errors are plainer
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    try:
        found = runpy.run_path(path, run_name="carya_pipeline")
    except (Exception, SystemExit) as error:
        raise InvalidArgument(
            f"pipeline: {path!r} could not be run ({type(error).__name__}: {error}); it is run like a module that is "
            'imported: keep training under `if __name__ == "__main__":`'
        ) from error
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
    return _chosen(path, name, {key: value for key, value in found.items() if isinstance(value, Pipeline)})


def _chosen(path: str, name: str | None, found: dict[str, Pipeline]) -> Pipeline:
    if name is None:
        name = "pipeline" if "pipeline" in found else next(iter(found), None) if len(found) == 1 else None
    if name is None or name not in found:
        names = ", ".join(found) or "none"
        raise InvalidArgument(
            f"pipeline: {path!r} has the pipelines {names}; name a global variable that is one: {path}:NAME"
        )
    return found[name]


def _over(pipeline: Pipeline, folder: str) -> Pipeline:
    """The same chain over another folder of photos."""
    document: dict[str, Any] = json.loads(pipeline.native.to_json())
    kind = document["source"]["type"]
    if kind != "image_folder":
        raise InvalidArgument(f"--data: the pipeline reads from {kind}; it replaces the folder of an image_folder only")
    if not os.path.isdir(folder):
        raise NotFound(f"--data: no folder {folder!r}; give one with one folder of photos per class")
    document["source"]["path"] = folder
    return Pipeline.from_json(json.dumps(document))
