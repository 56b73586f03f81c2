"""The same work by other loaders, each with its best settings for the cores at hand. One process per peer and run.

All do a random resized crop to 224 and a flip, in batches of 128; float32 is normalized and CHW. torch's
workers stack uint8 samples straight into shared memory (default_collate), and the trainer normalizes the batch: that is
cheaper than per sample, and than passing float32 between processes. tf.data, OpenCV and simplejpeg resize without antialias, as
their users have it; that is less work than what Carya, Pillow and DALI do. FFCV reads the same JPEG bytes from its own
file, decodes whole pictures with the fast inverse DCT, and gives float32 as a view of HWC. SPDL crops and resizes by
FFmpeg's filters.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .measure import measure, process_tree_cpu_s
from .photos import BATCH, MEAN, SIDE, STD

# The modules that a peer needs, and what brings them.
_NEEDS = {
    "torch+pillow": {"torch": "torch", "PIL": "pillow"},
    "torch+opencv": {"torch": "torch", "cv2": "opencv-python-headless"},
    "torch+simplejpeg": {"torch": "torch", "simplejpeg": "simplejpeg", "cv2": "opencv-python-headless"},
    "tf.data": {"tensorflow": "tensorflow"},
    "dali": {"nvidia.dali": "nvidia-dali-cuda120"},
    "ffcv": {"torch": "torch", "ffcv": "ffcv"},
    "grain+opencv": {"grain": "grain", "cv2": "opencv-python-headless"},
    "spdl": {"spdl.io": "spdl"},
}
PEERS = tuple(_NEEDS)


def missing(name: str) -> str | None:
    """What to install for a peer, None where all of it is here."""
    packages = [package for module, package in _NEEDS[name].items() if not _importable(module)]
    return f"not installed: pip install {' '.join(packages)}" if packages else None


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def crop_box(random: np.random.Generator, height: int, width: int) -> tuple[int, int, int, int]:
    """left, top, width, height as torchvision's RandomResizedCrop draws them."""
    for _ in range(10):
        area = height * width * random.uniform(0.08, 1.0)
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(random.integers(0, width - w + 1)), int(random.integers(0, height - h + 1)), w, h
    side = min(height, width)
    return (width - side) // 2, (height - side) // 2, side, side


class TorchSamples:
    """A map-style dataset; `decode` is "pillow", "opencv" or "simplejpeg"."""

    def __init__(self, paths: list[str], decode: str) -> None:
        self._paths = paths
        self._make = {"pillow": self._pillow, "opencv": self._opencv, "simplejpeg": self._simplejpeg}[decode]
        self._random: np.random.Generator | None = None

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Any:
        if self._random is None:
            self._random = np.random.default_rng()
            if self._make != self._pillow:
                _opencv_one_thread()
        image = self._make(self._paths[index], self._random)
        return np.ascontiguousarray(image[:, ::-1]) if self._random.random() < 0.5 else image

    def _pillow(self, path: str, random: np.random.Generator) -> Any:
        from PIL import Image

        with Image.open(path) as opened:
            image = opened.convert("RGB")
        left, top, w, h = crop_box(random, image.height, image.width)
        part = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=(left, top, left + w, top + h))
        return np.asarray(part)

    def _opencv(self, path: str, random: np.random.Generator) -> Any:
        import cv2

        if hasattr(cv2, "IMREAD_COLOR_RGB"):
            return _cv_crop(cv2.imread(path, cv2.IMREAD_COLOR_RGB), random)
        return _cv_crop(cv2.cvtColor(cv2.imread(path, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB), random)

    def _simplejpeg(self, path: str, random: np.random.Generator) -> Any:
        import simplejpeg

        with open(path, "rb") as file:
            return _cv_crop(simplejpeg.decode_jpeg(file.read(), "RGB"), random)


def _opencv_one_thread() -> None:
    import cv2

    cv2.setNumThreads(0)  # one thread per worker process; more of them only wait for each other


def _cv_crop(image: Any, random: np.random.Generator) -> Any:
    import cv2

    left, top, w, h = crop_box(random, image.shape[0], image.shape[1])
    return cv2.resize(image[top : top + h, left : left + w], (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)


def torch_batches(paths: list[str], form: str, cores: int, decode: str) -> Iterator[int]:
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    loader: Any = DataLoader(
        TorchSamples(paths, decode),
        batch_size=BATCH,
        shuffle=True,
        num_workers=cores,
        persistent_workers=True,
        prefetch_factor=4,
    )
    finish = _normalizer(form)
    while True:
        for batch in loader:
            yield len(finish(batch))


def _normalizer(form: str) -> Callable[[Any], Any]:
    """What the trainer does to a batch of uint8 pictures, a torch tensor."""
    import torch

    scale = torch.tensor([1 / (255 * value) for value in STD]).view(1, 3, 1, 1)
    offset = torch.tensor([-m / s for m, s in zip(MEAN, STD, strict=True)]).view(1, 3, 1, 1)

    def normalized(batch: Any) -> Any:
        return batch.permute(0, 3, 1, 2).float(memory_format=torch.contiguous_format).mul_(scale).add_(offset)

    return normalized if form == "float32" else lambda batch: batch


def tf_batches(paths: list[str], form: str, cores: int) -> Iterator[int]:
    import tensorflow as tf

    def sample(path: Any) -> Any:
        data = tf.io.read_file(path)
        shape = tf.image.extract_jpeg_shape(data)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape, tf.zeros([0, 0, 4]), aspect_ratio_range=(3 / 4, 4 / 3), area_range=(0.08, 1.0),
            max_attempts=10, use_image_if_no_bounding_boxes=True,
        )  # fmt: skip
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, (SIDE, SIDE)))
        if form == "uint8":
            return tf.cast(image + 0.5, tf.uint8)
        return tf.transpose((image / 255 - MEAN) / STD, (2, 0, 1))

    data = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).repeat()
    data = data.map(sample, num_parallel_calls=cores, deterministic=False).batch(BATCH).prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = cores
    for batch in data.with_options(options):
        yield int(batch.shape[0])


def dali_batches(paths: list[str], form: str, cores: int) -> Iterator[int]:
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=cores, device_id=None, prefetch_queue_depth=2)  # type: ignore[untyped-decorator]
    def graph() -> Any:
        data, _ = fn.readers.file(files=paths, random_shuffle=True, name="files")
        image = fn.decoders.image_random_crop(
            data, device="cpu", random_area=(0.08, 1.0), random_aspect_ratio=(3 / 4, 4 / 3)
        )
        image = fn.resize(image, resize_x=SIDE, resize_y=SIDE, antialias=True)
        flip = fn.random.coin_flip()
        if form == "uint8":
            return fn.flip(image, horizontal=flip)
        return fn.crop_mirror_normalize(
            image,
            mirror=flip,
            dtype=types.FLOAT,
            output_layout="CHW",
            mean=[255 * value for value in MEAN],
            std=[255 * value for value in STD],
        )

    built = graph()
    built.build()
    while True:
        (batch,) = built.run()
        yield len(batch)


def ffcv_batches(paths: list[str], form: str, cores: int) -> Iterator[int]:
    import ffcv.fields.decoders as decoders
    import ffcv.fields.rgb_image as rgb_image
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
    from ffcv.writer import DatasetWriter

    def encode_same_bytes(destination: Any, image: tuple[int, int, bytes], malloc: Any) -> None:
        """In place of the field's own, which would decode and encode anew."""
        destination["height"], destination["width"], data = image
        destination["mode"] = rgb_image.IMAGE_MODES["jpg"]
        destination["data_ptr"], storage = malloc(len(data))
        storage[:] = np.frombuffer(data, np.uint8)

    field = rgb_image.RGBImageField()
    field.encode = encode_same_bytes

    class Files:
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, index: int) -> tuple[tuple[int, int, bytes]]:
            from PIL import Image

            with Image.open(paths[index]) as opened:
                width, height = opened.size
            with open(paths[index], "rb") as file:
                return ((height, width, file.read()),)

    beton = os.path.join(tempfile.mkdtemp(), "photos.beton")
    DatasetWriter(beton, {"image": field}, num_workers=1).from_indexed_dataset(Files())
    steps = [decoders.RandomResizedCropRGBImageDecoder((SIDE, SIDE)), RandomHorizontalFlip()]
    if form == "float32":
        mean, std = (np.array([255 * value for value in values]) for values in (MEAN, STD))
        steps += [NormalizeImage(mean, std, np.float32), ToTensor(), ToTorchImage()]
    else:
        steps += [ToTensor()]
    loader = Loader(
        beton,
        batch_size=BATCH,
        num_workers=cores,
        order=OrderOption.RANDOM,
        os_cache=True,
        pipelines={"image": steps},
    )
    while True:
        for (batch,) in loader:
            yield len(batch)


class GrainSample:
    """A sample by OpenCV, with grain's own random numbers."""

    _ready = False

    def __call__(self, path: str, random: np.random.Generator) -> Any:
        import cv2

        if not self._ready:
            _opencv_one_thread()
            self._ready = True
        image = _cv_crop(cv2.cvtColor(cv2.imread(path, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB), random)
        return np.ascontiguousarray(image[:, ::-1]) if random.random() < 0.5 else image


def grain_batches(paths: list[str], form: str, cores: int) -> Iterator[int]:
    import grain

    data = grain.MapDataset.source(paths).seed(1).shuffle().repeat().random_map(GrainSample()).batch(BATCH)
    stream = data.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=BATCH)).mp_prefetch(
        grain.MultiprocessingOptions(num_workers=cores, per_worker_buffer_size=2)
    )
    for batch in stream:
        if form == "float32":
            batch = (batch.transpose(0, 3, 1, 2) * _column(np.array(STD) * 255, True)) + _column(_offset(), False)
        yield len(batch)


def _column(values: Any, inverse: bool) -> Any:
    """Per channel, as float32, to be broadcast over batches in CHW."""
    return (1 / np.asarray(values) if inverse else np.asarray(values)).astype(np.float32).reshape(1, 3, 1, 1)


def _offset() -> list[float]:
    return [-m / s for m, s in zip(MEAN, STD, strict=True)]


def spdl_batches(paths: list[str], form: str, cores: int) -> Iterator[int]:
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    spdl.io.demux_image(paths[0])  # where FFmpeg's libraries lack, this says so; the pipeline would wait for ever
    random = np.random.default_rng(1)

    def endless() -> Iterator[str]:
        while True:
            yield from (paths[index] for index in random.permutation(len(paths)))

    def decode(path: str) -> Any:
        packets = spdl.io.demux_image(path)
        left, top, width, height = crop_box(random, packets.height, packets.width)
        flip = ",hflip" if random.random() < 0.5 else ""
        steps = f"crop={width}:{height}:{left}:{top},scale={SIDE}:{SIDE}{flip},format=pix_fmts=rgb24"
        return spdl.io.decode_packets(packets, filter_desc=steps)

    def stack(frames: list[Any]) -> Any:
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    builder = PipelineBuilder().add_source(endless()).pipe(decode, concurrency=cores).aggregate(BATCH)
    pipeline = builder.pipe(stack).add_sink(4).build(num_threads=cores)
    scale, offset = _column(np.array(STD) * 255, True), _column(_offset(), False)
    with pipeline.auto_stop():
        for batch in pipeline:
            if form == "float32":
                batch = batch.transpose(0, 3, 1, 2) * scale + offset
            yield len(batch)


_BATCHES = {
    "tf.data": tf_batches,
    "dali": dali_batches,
    "ffcv": ffcv_batches,
    "grain+opencv": grain_batches,
    "spdl": spdl_batches,
}


def main() -> None:
    """Reads one request as JSON on stdin, writes one JSON line."""
    request = json.load(sys.stdin)
    paths, form, cores = request["paths"], request["form"], request["cores"]
    name = request["name"]
    if name.startswith("torch+"):
        batches = torch_batches(paths, form, cores, name.partition("+")[2])
    else:
        batches = _BATCHES[name](paths, form, cores)
    rate = measure(batches, request["seconds"], process_tree_cpu_s, warm_batches=2 * cores + 2)
    print(json.dumps({"samples": rate.samples, "wall_s": rate.wall_s, "cpu_s": rate.cpu_s}), flush=True)


if __name__ == "__main__":
    main()
    import os

    os._exit(0)  # worker processes of the peers need no orderly end
