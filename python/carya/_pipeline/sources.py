"""Where records come from: a folder of images, files, tars of a WebDataset, files of records, arrays in memory."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from .. import _core
from .._errors import NotFound, Unsupported, invalid
from .._options import named_arguments
from .._sources.huggingface import hf_files, hf_table
from .._sources.paths import TARS, TFRECORDS, PathLike, files_below, one_path, path_list, record_paths
from .._sources.stores import is_url, list_objects, url_paths
from .arrays import Array, array_memory, arrays_document, file_arrays
from .document import Document, plain
from .pipeline import Pipeline

_INDEX_BYTES_MAX = 256 << 20  # of an index.json: 400 B for each shard
AUDIO = ("wav", "flac", "mp3", "ogg", "oga", "opus")
PICTURES = (".jpg", ".jpeg", ".png")  # of an image_folder
ARROWS = re.compile(r"^[^.].*\.arrow$")


@named_arguments
def image_folder(path: PathLike, *, endpoint: str | None = None) -> Pipeline:
    """Images in one folder per class; label = index of the sorted class names.

    Fields: `image` encoded, `label` int64. Order: class, then path, bytewise. Symbolic links are followed; files with
    other extensions are skipped and named. The listing is kept on disk, so the next start is instant. `path` may be a folder of
    a bucket ("s3://bucket/photos"): it is listed when the pipeline is made, and each object's size is asked for when it is
    opened. `endpoint`: of another server than the cloud's.
    Errors (when it is opened): NotFound (no such folder, no class folder, a class without a file), Permission.
    Reference: torchvision.datasets.ImageFolder (classes and indices).

    >>> import carya
    >>> carya.image_folder("photos").outputs[1]
    ('label', 'int64', ())
    """
    urls = url_paths("path", path, endpoint)
    if urls is not None:
        return _images_of_bucket(urls[0].rstrip("/") + "/")
    return Pipeline._start({"type": "image_folder", "path": one_path("image_folder: path", path)})


def _images_of_bucket(root: str) -> Pipeline:
    """The same of the objects below a URL. Those beside the folders of classes are skipped, as files are."""
    inside = [url.removeprefix(root) for url in list_objects(root)]
    classes = sorted({key.split("/", 1)[0] for key in inside if "/" in key}, key=os.fsencode)
    pictures = [key for key in inside if "/" in key and key.lower().endswith(PICTURES)]
    empty = sorted(set(classes) - {key.split("/", 1)[0] for key in pictures})
    if not classes or empty:
        which = f"the class {empty[0]!r} has no picture" if empty else "there is no folder of a class"
        raise NotFound(f"image_folder: {root}: {which} ({', '.join(PICTURES)}); give the folder of the classes")
    order = {name: index for index, name in enumerate(classes)}
    pictures.sort(key=lambda key: (order[key.split("/", 1)[0]], os.fsencode(key)))
    listed = [root + key for key in pictures]
    return _of_classes(listed, [order[key.split("/", 1)[0]] for key in pictures], classes)


def _of_classes(paths: list[str], labels: list[int], names: Sequence[str], field: str = "image") -> Pipeline:
    """Files that were listed by the folders of their classes."""
    made = files(paths, labels, field=field)
    made._source.names = tuple(names)
    return made


@named_arguments
def files(
    paths: PathLike | Sequence[PathLike],
    labels: Sequence[int] | Array | Callable[[str], int] | None = None,
    *,
    extra: Mapping[str, PathLike | Sequence[PathLike]] | None = None,
    field: str = "image",
    endpoint: str | None = None,
    arrays: Mapping[str, Any] | None = None,
) -> Pipeline:
    """Images by path: a sequence in its order, or a glob pattern ("photos/**/*.jpg") in bytewise order; or URLs.

    `labels`: one integer per path, or a function from path to integer. `extra`: further images of each record by field
    name ({"mask": paths}); geometric ops treat them like the image, with the same random numbers. `field`: another name for the
    field of `paths`, as "audio" for sound files. `endpoint`: of another server than the cloud's, for s3://, gs:// and az://.
    `arrays`: what is in memory beside the files, by field name: an array with one row per path, or a list of one array per path,
    which may differ in their first side, as the boxes of each picture: `Pipeline.boxes()` makes one shape of those. They are kept
    as those of `carya.arrays`.
    Fields: `image` (or `field`) encoded, each extra encoded, the arrays, `label` int64 if given.
    Errors: NotFound (a glob that matches nothing; a missing path when it is opened), InvalidArgument (lengths).

    >>> import carya
    >>> p = carya.files(["a.jpg", "b.jpg"], labels=lambda path: int(path.startswith("b")))
    >>> p.outputs[1]
    ('label', 'int64', ())
    """
    listed = url_paths("paths", paths, endpoint) or path_list("paths", paths)
    values: list[int] | None = None
    if callable(labels):
        values = [checked_label(labels(path), "files", path) for path in listed]
    elif labels is not None:
        given = plain(labels)
        if not isinstance(given, list):
            raise invalid(
                "files: labels", labels, "a sequence of one integer per path, or a function from path to integer"
            )
        if len(given) != len(listed):
            raise invalid("files: labels", f"{len(given)} labels", f"one per path ({len(listed)})")
        values = [checked_label(value, "files", path) for value, path in zip(given, listed, strict=True)]
    columns = {}
    for name, column in (extra or {}).items():
        urls = url_paths(f"extra[{name!r}]", column, endpoint if is_url(listed[0]) else None)
        columns[name] = urls or path_list(f"extra[{name!r}]", column)
        if len(columns[name]) != len(listed):
            raise invalid(f"files: extra[{name!r}]", f"{len(columns[name])} paths", f"one per image ({len(listed)})")
    document: Document = {"type": "files", "paths": listed, "labels": values, "extra": columns}
    if field != "image":
        document["field"] = field
    memory = None
    if arrays:
        memory, document["arrays"] = file_arrays(arrays, len(listed))
    return Pipeline._start(document, memory)


@named_arguments
def audio_folder(
    path: PathLike,
    labels: Literal["folder"] | Callable[[str], int] | None = None,
    *,
    extensions: str | Sequence[str] = AUDIO,
) -> Pipeline:
    """Sound files of a folder and of all folders in it, by their paths in bytewise order.

    `labels`: None for none; "folder": the index of a file's first folder below `path` among the sorted ones, as one folder
    per speaker or word, whose names are `class_names`; or a function from path to integer. `extensions`: of the files that are
    taken, in any case.
    Fields: `audio` encoded, `label` int64 if there are labels.
    Symbolic links are followed, each folder once.
    Errors: NotFound (no such folder, or no such file in it), InvalidArgument (a file beside the folders of labels).

    >>> import carya
    >>> carya.audio_folder("no/such/folder")
    Traceback (most recent call last):
    ...
    carya.NotFound: audio_folder: no/such/folder: no such folder; give the folder of the sound files, or extensions=[...]
    """
    root = one_path("audio_folder: path", path)
    if isinstance(labels, str) and labels != "folder":
        raise invalid("audio_folder: labels", labels, '"folder", a function from path to integer, or None')
    listed = (extensions,) if isinstance(extensions, str) else extensions
    wanted = tuple("." + extension.lower().lstrip(".") for extension in listed)
    found = sorted((file for file in files_below(root) if file.lower().endswith(wanted)), key=os.fsencode)
    if not found:
        what = "no file that ends with " + ", ".join(wanted) if os.path.isdir(root) else "no such folder"
        raise NotFound(f"audio_folder: {root}: {what}; give the folder of the sound files, or extensions=[...]")
    if labels != "folder":
        return files(found, labels, field="audio")
    parts = [os.path.relpath(file, root).split(os.sep) for file in found]
    for part in parts:
        if len(part) == 1:
            raise invalid("audio_folder: labels", labels, f"a function or None: {part[0]} lies in no folder of a label")
    classes = sorted({part[0] for part in parts}, key=os.fsencode)
    order = {name: index for index, name in enumerate(classes)}
    return _of_classes(found, [order[part[0]] for part in parts], classes, field="audio")


@named_arguments
def webdataset(
    tars: PathLike | Sequence[PathLike],
    *,
    fields: Mapping[str, Sequence[str]] | None = None,
    label: str | Sequence[str] | None = "cls",
    endpoint: str | None = None,
) -> Pipeline:
    """Records of WebDataset tars: members "key.ext" that lie side by side and share a key. Hidden ones ("._0.jpg") are passed over.

    `tars`: paths or URLs ("s3://bucket/train-{000..146}.tar"), a glob pattern, braces, or a folder (its files called "*.tar",
    bytewise; of a bucket with a "/" at its end); `endpoint`: of another server than the cloud's, such as "http://host:9000"; also zips
    whose members are stored, not compressed (their CRCs are not checked). `fields`: extensions of each image field, the
    first that a key has counts (default {"image": ["jpg", "jpeg", "png"]}). `label`: extension of the member that holds
    the label as a decimal integer, None for none. An index is built once and verified by size and time.
    Fields: each field encoded, `label` int64. A key that lacks a field or its label, as the last one of a tar that was cut
    off, is a broken record: `Loader(on_error=)`. Tars that were appended to a tar are read with it.
    Errors: NotFound (also a field that no key has), InvalidArgument.

    >>> import carya
    >>> [name for name, _, _ in carya.webdataset("shard-{0..1}.tar", fields={"image": ["png"]}).outputs]
    ['image', 'label']
    """
    listed = url_paths("tars", tars, endpoint, TARS, "*.tar") or record_paths(tars, TARS, "*.tar")
    wanted = {name: _extensions(given) for name, given in (fields or {"image": ["jpg", "jpeg", "png"]}).items()}
    return Pipeline._start({"type": "webdataset", "tars": listed, "fields": wanted, "label": _extensions(label or [])})


def tfrecord(
    paths: PathLike | Sequence[PathLike],
    *,
    image: str | None = None,
    label: str | None = None,
    encoded: Mapping[str, str] | None = None,
    tensors: Mapping[str, tuple[str, Any, Sequence[int]]] | None = None,
    record: str | None = None,
    check_data: bool = True,
    endpoint: str | None = None,
) -> Pipeline:
    """Records of TFRecord files, read where they lie: features of `tf.train.Example`, or records as they are.

    `paths`: files or URLs, a glob pattern, braces ("train-{00000..01023}-of-01024"), or a folder (its files called "*.tfrecord*",
    "*.tfrec*" or "*-00000-of-00010", bytewise). `endpoint`: of another server than the cloud's. `image`: the feature that holds the encoded image, which becomes the field
    `image` for `decode_image`; `encoded`: further ones by field, which geometric ops treat alike. `label`: a feature of one
    int64. `tensors`: {field: (feature, dtype, shape)}, of a float list ("float32"), an int64 list ("int64"), or one bytes
    value of the tensor's size in any dtype, as `tf.io.decode_raw` takes it. They are copied into memory when a file is
    indexed, at most 4 GiB of a source together. `record`: the field that gets each record's whole bytes, Example or not.
    Features in the context of a `SequenceExample` are read likewise; its lists, and lists whose length differs between
    records, are not.

    Every file is indexed once, which reads it from end to end; the index is kept and verified by size and time.
    `check_data`: whether that checks the CRC of the data (that of the lengths is always checked); `open(verify=True)` indexes
    and checks anew. A record with a wrong CRC, one that is no Example or has no such feature or other values than asked for,
    and what was cut off at a file's end, is a broken record: `Loader(on_error=)`.
    Fields: `image`, those of `encoded` and of `record` encoded, `tensors` as given, `label` int64.
    Errors: InvalidArgument, NotFound (also a feature that no record has: the features of the first record are named), Unsupported
    (gzip or zlib: unpack the file first), SampleError (no TFRecord file).

    >>> import carya
    >>> carya.tfrecord("a.tfrecord", image="image/encoded", label="label", tensors={"box": ("box", "float32", (4,))}).outputs
    [('image', 'uint8', (None,)), ('box', 'float32', (4,)), ('label', 'int64', ())]
    """
    keys = encoded_fields(image, encoded)
    if record is not None:
        keys[record] = None
    if not keys and not tensors:
        wanted = 'what to read of each record, such as image="image/encoded", or record="image" for its whole bytes'
        raise invalid("tfrecord: image, encoded, tensors, record", None, wanted)
    urls = url_paths("paths", paths, endpoint, TFRECORDS, "*.tfrecord*, *.tfrec* or *-00000-of-00001")
    return _records("tfrecord", urls or record_paths(paths), keys, label, tensors, check_data)


def mds(
    folders: PathLike | Sequence[PathLike],
    *,
    image: str | None = None,
    label: str | None = None,
    encoded: Mapping[str, str] | None = None,
    tensors: Mapping[str, tuple[str, Any, Sequence[int]]] | None = None,
    endpoint: str | None = None,
) -> Pipeline:
    """Samples of MDS shards (MosaicML Streaming), read where they lie.

    `folders`: one with an `index.json`, or several, one after the other; or their URLs (`endpoint`: of another S3 than
    Amazon's). Fields are columns: `image` (stored as jpeg, png or
    bytes) becomes the field `image` for `decode_image`; `encoded`: further ones by field, which geometric ops treat alike;
    `label`: a column of integers (int, int8 to uint64, str_int); `tensors`: {field: (column, dtype, shape)} of numbers, an
    ndarray of that dtype and as many values, or bytes of that size. Those are copied into memory when a shard is indexed,
    at most 4 GiB of a source together.
    Every shard is indexed once; the index is kept and verified by size and time. Shards have no checksums of their own: those
    of `index.json` are not checked. A sample whose sizes do not add up is a broken record: `Loader(on_error=)`.
    Fields: `image`, those of `encoded` encoded, `tensors` as given, `label` int64.
    Errors: NotFound (no index.json; a column that there is not: those that there are are named), InvalidArgument (a column of
    another encoding), Unsupported (compressed shards: unpack them first; pkl and pil columns), SampleError (no shard).

    >>> import carya, pathlib, tempfile
    >>> train = pathlib.Path(tempfile.mkdtemp())
    >>> size = (train / "index.json").write_text('{"shards": [{"raw_data": {"basename": "shard.00000.mds"}}]}')
    >>> carya.mds(train, image="image", label="label").outputs
    [('image', 'uint8', (None,)), ('label', 'int64', ())]
    """
    keys = _columns("mds", image, encoded, tensors)
    given = folders if not isinstance(folders, str | bytes | os.PathLike) else [folders]
    named = url_paths("folders", list(given), endpoint) or [one_path("folders", folder) for folder in given]
    paths = [path for folder in named for path in mds_shards(folder)]
    return _records("mds", paths, keys, label, tensors, True)


def arrow(
    paths: PathLike | Sequence[PathLike],
    *,
    image: str | None = None,
    label: str | None = None,
    encoded: Mapping[str, str] | None = None,
    tensors: Mapping[str, tuple[str, Any, Sequence[int]]] | None = None,
    endpoint: str | None = None,
) -> Pipeline:
    """Rows of Arrow IPC files or streams, read where they lie: also the files that Hugging Face's datasets keeps.

    `paths`: files or URLs, a glob pattern, braces, or a folder (its files called "*.arrow", bytewise); `endpoint`: of another S3
    than Amazon's. Fields are columns, or paths
    into structs ("image.bytes"): `image` (binary, string, or a struct with such a field "bytes", as Hugging Face stores
    images) becomes the field `image` for `decode_image`; `encoded`: further ones by field, which geometric ops treat alike;
    `label`: a column of integers or bools; `tensors`: {field: (column, dtype, shape)} of numbers, of lists of them, nested too,
    that have as many values in each row, or of binary of that size. Those are copied into memory when a file is indexed, at
    most 4 GiB of a source together.
    Every file is indexed once, from its offsets alone; the index is kept and verified by size and time. A row with null in such
    a column is a broken record, as is what was cut off at a file's end: `Loader(on_error=)`.
    Fields: `image`, those of `encoded` encoded, `tensors` as given, `label` int64.
    Errors: NotFound (no file; a column that there is not: those that there are are named), InvalidArgument (a column of
    another type), Unsupported (files with compressed batches: write them without), SampleError (no Arrow file).

    >>> import carya
    >>> carya.arrow(["train-0.arrow", "train-1.arrow"], image="image", label="label").outputs
    [('image', 'uint8', (None,)), ('label', 'int64', ())]
    """
    keys = _columns("arrow", image, encoded, tensors)
    urls = url_paths("paths", paths, endpoint, ARROWS, "*.arrow")
    return _records("arrow", urls or record_paths(paths, ARROWS, "*.arrow"), keys, label, tensors, True)


def hf_dataset(
    dataset: Any,
    *,
    image: str | None = None,
    label: str | None = None,
    encoded: Mapping[str, str] | None = None,
    tensors: Mapping[str, tuple[str, Any, Sequence[int]]] | None = None,
    endpoint: str | None = None,
) -> Pipeline:
    """A dataset of Hugging Face's `datasets`, read from the files that it lies in: its cache as it is, nothing converted.

    `dataset`: a `datasets.Dataset` that was loaded from disk or from its cache, or the folder that `save_to_disk` wrote, also its URL
    (`endpoint`: of another server than the cloud's, for s3://, gs:// and az://), of which rows are read by ranges. Rows that `select`, `shuffle`, `filter` or `train_test_split` chose are taken in their order. Fields are as for `arrow`:
    `image="image"` is an image feature, `label` a class label.
    Columns are those of the files: what `rename_column` made since, or a range that `select` cut out, is seen after
    `save_to_disk`. Images of which the
    dataset holds only the path, not the bytes, are broken records: `carya.files`, or save it with its bytes.
    Errors: InvalidArgument (neither a dataset nor such a folder, a dataset that lies in memory, or whose table is not that of its
    files: `save_to_disk` writes one), and those of `arrow`.

    >>> import carya, json, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> size = (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    >>> carya.hf_dataset(folder, image="image", label="label").outputs
    [('image', 'uint8', (None,)), ('label', 'int64', ())]
    """
    saved = isinstance(dataset, str | bytes | os.PathLike)
    urls = url_paths("hf_dataset: dataset", dataset, endpoint) if saved or endpoint is not None else None
    if urls is not None:
        if len(urls) != 1:
            raise invalid(
                "hf_dataset: dataset", dataset, "the URL of one folder; carya.arrow takes the files of several"
            )
        found = hf_files(urls[0].rstrip("/"))
    else:
        found = hf_files(one_path("hf_dataset: dataset", dataset)) if saved else hf_table(dataset)
    pipeline = arrow(found.paths, image=image, label=label, encoded=encoded, tensors=tensors)
    return pipeline if found.rows is None else pipeline.subset(found.rows)


def mds_shards(folder: str) -> list[str]:
    """The shards that an index.json names, in its order."""
    name = os.path.join(folder, "index.json")
    try:
        shards = json.loads(_whole(name))["shards"]
        names = [shard["raw_data"]["basename"] for shard in shards]
        packed = [(shard.get("zip_data") or {}).get("basename") for shard in shards]
    except (FileNotFoundError, NotFound):
        raise NotFound(f"mds: {folder} has no index.json; give a folder that MDSWriter wrote") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise invalid(f"mds: {name}", repr(error), "an index.json of MDS, version 2") from None
    for name, zipped in zip(names, packed, strict=True):
        parts = name.split("/") if isinstance(name, str) else [".."]
        if name == "" or ".." in parts or name.startswith("/"):
            raise invalid(f"mds: {folder}: shard", name, "shards that lie in the folder")
        if isinstance(zipped, str) and (is_url(folder) or not os.path.exists(os.path.join(folder, name))):
            wanted = "unpack the shards first, or write them with MDSWriter(compression=None)"
            raise Unsupported(
                f"mds: {os.path.join(folder, zipped)}: compressed, so samples cannot be read one by one; {wanted}"
            )
    return [os.path.join(folder, name) for name in names]


def _whole(path: str) -> bytes:
    """A small file, or object of a store."""
    if is_url(path):
        return _core.store_head(path, _INDEX_BYTES_MAX)
    with open(path, "rb") as file:
        return file.read()


def encoded_fields(image: str | None, encoded: Mapping[str, str] | None) -> dict[str, str | None]:
    """Name in the record of each encoded field."""
    return {**({} if image is None else {"image": image}), **(encoded or {})}


def _columns(
    kind: str,
    image: str | None,
    encoded: Mapping[str, str] | None,
    tensors: Mapping[str, tuple[str, Any, Sequence[int]]] | None,
) -> dict[str, str | None]:
    """The same, of a format of columns. Errors: InvalidArgument, when nothing is to be read."""
    keys = encoded_fields(image, encoded)
    if not keys and not tensors:
        raise invalid(f"{kind}: image, encoded, tensors", None, 'the columns to read, such as image="image"')
    return keys


def _records(
    kind: str,
    paths: list[str],
    encoded: dict[str, str | None],
    label: str | None,
    tensors: Mapping[str, tuple[str, Any, Sequence[int]]] | None,
    check_data: bool,
) -> Pipeline:
    return Pipeline._start(
        {
            "type": kind,
            "paths": paths,
            "encoded": encoded,
            "tensors": {name: _tensor(kind, name, given) for name, given in (tensors or {}).items()},
            "label": label,
            "check_data": check_data,
        }
    )


def _tensor(kind: str, name: str, given: Any) -> dict[str, Any]:
    try:
        key, dtype, shape = given
        return {"key": key, "dtype": np.dtype(dtype).name, "shape": plain(shape if np.iterable(shape) else [shape])}
    except (TypeError, ValueError):
        raise invalid(
            f"{kind}: tensors[{name!r}]", given, 'a tuple of name, dtype and shape, as ("box", "float32", (4,))'
        ) from None


def names_records(path: str) -> Literal["tfrecord", "arrow"] | None:
    """The format of the record files that a file, a pattern or a folder is of, by its name or by those in it.

    >>> names_records("train-*.tfrecord"), names_records("train-00000-of-00010"), names_records("photos/*.tar")
    ('tfrecord', 'tfrecord', None)
    """
    if os.path.isdir(path):
        names = [entry.name for entry in os.scandir(path) if not entry.is_dir()]
    else:
        names = [os.path.basename(path)]
    if any(ARROWS.search(name) for name in names):
        return "arrow"
    return "tfrecord" if any(TFRECORDS.search(name) for name in names) else None


def arrays(data: Mapping[str, Any]) -> Pipeline:
    """Arrays in memory, or `.npy` files (mapped, not read): record i is row i of each. Nothing is decoded.

    Fields: one tensor per array, dtype and row shape as given. The memory stays yours and must not
    change while it is used; a mapped file that is truncated or rewritten is an IoError at the next batch. (Truncated in
    the very moment in which it is read, the system ends the process: SIGBUS.)
    Arrays that are not C-contiguous are copied once.
    Errors: InvalidArgument (no array, lengths differ, a dtype that is no plain number), NotFound.

    >>> import carya, numpy as np
    >>> carya.arrays({"image": np.zeros((10, 28, 28, 1), np.uint8), "label": np.arange(10)}).outputs
    [('image', 'uint8', (28, 28, 1)), ('label', 'int64', ())]
    """
    memory = array_memory(data)
    return Pipeline._start(arrays_document(memory), memory)


def dataset(
    dataset: Any, *, names: str | Sequence[str] | None = None, version: object = None, seed_globals: bool = True
) -> Pipeline:
    """A map-style dataset of Python: any object with `__len__` and `__getitem__` (a torch Dataset, Hugging Face's datasets, a list).

    Record i is `dataset[i]`, read in worker processes. The fields are the leaves of what it returns: of dicts, tuples, named
    tuples and dataclasses, also nested ("box.0"); one value is "value". `names` are those of the elements of its tuples, or of
    its only value, and make a dict of them, which is then what functions get. Numbers, lists of numbers, arrays and tensors become arrays; text and other objects stay as they are, and a batch has a list of
    them. Order, ranks, states and policies are those of every pipeline.

    The object travels to the worker processes once, by pickle: what it has open must be opened where it is used. `random`,
    `numpy.random` and torch's generator are seeded before each `dataset[i]` by seed, epoch and record, unless
    `seed_globals=False`. For the fingerprint in a state it counts by its type, its length and `version` (of Hugging Face's by the
    fingerprint they have): give a `version` that changes with the data.
    Errors: InvalidArgument (no length, no `__getitem__`, empty).

    >>> import carya
    >>> squares = [{"x": float(i), "y": i * i} for i in range(4)]
    >>> with carya.Loader(carya.dataset(squares).batch(2), threads=1) as loader:
    ...     [(batch["x"].tolist(), batch["y"].tolist()) for batch in loader]
    [([0.0, 1.0], [0, 1]), ([2.0, 3.0], [4, 9])]
    """
    from .._stages.source import checked_dataset

    return Pipeline._of_dataset(checked_dataset(dataset, names, seed_globals, version))


def mix(
    pipelines: Sequence[Pipeline],
    *,
    weights: Sequence[float] | Sequence[tuple[int, Sequence[float]]] | Callable[[int], Sequence[float]] | None = None,
    temperature: float | None = None,
    every: int | None = None,
    until: int | None = None,
    stop: Literal["first", "all"] = "first",
    seed: int | None = 0,
) -> Pipeline:
    """Several pipelines as one: each position has a sample of one of them, by `weights`. Their samples have the same fields.

    `pipelines`: without batch; each has its own source, order, operations, functions and filters, which are asked before the
    first batch; the mix is that of what they keep. `weights`: how large the
    share of each is, None: as many as it has records, so that an epoch has every record once. Shares are exact: among any n
    consecutive steps of the underlying order each pipeline has its share to within the number of pipelines, and `seed` shuffles
    the order inside of blocks of 4,096 positions (None: it stays regular).

    Weights that change: pairs of a position and weights, as [(0, [1, 0]), (100_000, [1, 3])], or a function of the position that is
    asked here, at 0, each `every` positions and at `until`, after which they stay. Positions count the samples of all epochs and ranks,
    so that they belong to no batch size: step n of a global batch size g is position n * g. In pairs and what a function gives weights may be 0.
    With a `seed` a change is spread over its block of 4,096, so that samples of weight 0 come before their time: with pairs that is
    warned of, and `seed=None` keeps it sharp. `temperature` raises weights to the power of 1 / temperature: 1 leaves
    them, more makes them more alike, so that small sources come more often.

    `stop`: an epoch ends before the first pipeline gives a record twice, or when all of them have given every record once. The next epoch goes on
    where each pipeline is, without beginning them anew: one that has been through begins its next epoch, with another order
    (where it is shuffled) and other random numbers. So each is at an exact place of its own at every step, which follows from
    epoch and position: states are those of every pipeline, and ranks, resumes and world sizes are free.

    `records` of a batch number the records of all pipelines, one behind the other. Everything runs in worker processes, as
    behind `carya.dataset`; functions and operations may follow, `shuffle`, `filter` and views may not:
    they belong to the pipelines.
    Errors: InvalidArgument (fewer than two pipelines, weights), Unsupported, those of opening the sources.

    >>> import carya, numpy as np
    >>> low, high = carya.arrays({"x": np.arange(4)}), carya.arrays({"x": np.arange(100, 112)})
    >>> mixed = carya.mix([low, high], weights=[1, 3], seed=None).batch(8)
    >>> with carya.Loader(mixed, threads=1, epochs=1) as loader:
    ...     [batch["x"].tolist() for batch in loader]
    [[100, 101, 102, 0, 103, 104, 105, 1], [106, 107, 108, 2, 109, 110, 111, 3]]
    """
    from .._orders.weights import Remade, table_of, warn_of_samples_before_their_time
    from .._stages.mix import MixSpec, checked_parts

    parts = checked_parts(pipelines)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64):
        raise invalid("mix: seed", seed, "an integer of 0 to 2^64 - 1, or None for an order that is not shuffled")
    specs = tuple([part._stream_spec(None) for part in parts])
    fingerprints = tuple([f"{part.native.fingerprint('raise')} {part.dataset.fingerprint}" for part in parts])
    counts = [spec.count for spec in specs]
    table = table_of(weights, counts, temperature, every, until)
    if seed is not None and not callable(weights):  # a ramp is a ramp, spread or not
        warn_of_samples_before_their_time(table)
    in_turn = any(spec.sharded for spec in specs)
    remade = Remade(
        None if weights is None else table, temperature, stop, seed, tuple(spec.span for spec in specs), in_turn
    )
    return Pipeline._of_dataset(MixSpec(remade(counts), specs, fingerprints, remade))


def checked_label(value: Any, kind: str, place: str) -> int:
    """Errors: InvalidArgument (no integer of 64 bits)."""
    try:
        if isinstance(value, bool | float | str):
            raise TypeError
        number = int(value.__index__())
        if not -(2**63) <= number < 2**63:
            raise TypeError
        return number
    except (TypeError, AttributeError):
        raise invalid(
            f"{kind}: label of {place}", value, "an integer of 64 bits; map class names to numbers first"
        ) from None


def _extensions(given: str | Sequence[str]) -> list[str]:
    names = [given] if isinstance(given, str) else list(given)
    return [name.lstrip(".").lower() if isinstance(name, str) else name for name in names]
