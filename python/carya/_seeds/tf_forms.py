"""The same pipelines by tf.data, with the operations that the seeds took. One process for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from .data import Files
from .pipelines import ANGLE, IMAGES, MEANS, SHEAR


def loaded(data: Any, make: Callable[..., Any], batch_size: int, cores: int) -> Iterator[int]:
    """Sizes of batches without end, of a shuffled dataset."""
    import tensorflow as tf

    made = data.repeat().map(make, num_parallel_calls=cores, deterministic=False).batch(batch_size).prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = cores
    for _ in made.with_options(options):
        yield batch_size


def _paths(data: Files) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(data["paths"]).shuffle(len(data["paths"]))


def _blurred(image: Any, size: int, channels: int) -> Any:
    """A picture blurred by a drawn sigma, by a convolution along each side."""
    import tensorflow as tf

    around = [size // 2, size // 2]
    image = tf.pad(image, [around, around, [0, 0]], "REFLECT")[None]
    places = tf.range(-(size // 2), size // 2 + 1, dtype=tf.float32)
    weights = tf.exp(-0.5 * tf.square(places / tf.random.uniform([], 0.1, 2.0)))
    weights = tf.tile((weights / tf.reduce_sum(weights))[:, None], [1, channels])
    for sides in ([size, 1, channels, 1], [1, size, channels, 1]):
        image = tf.nn.depthwise_conv2d(image, tf.reshape(weights, sides), [1, 1, 1, 1], "VALID")
    return image[0]


def _part(image: Any, area: tuple[float, float], aspect: tuple[float, float], tries: int) -> Any:
    """A drawn part of a picture."""
    import tensorflow as tf

    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.shape(image), tf.zeros([0, 0, 4]), aspect_ratio_range=aspect, area_range=area, max_attempts=tries,
        use_image_if_no_bounding_boxes=True, min_object_covered=0.1,
    )  # fmt: skip
    return tf.slice(image, begin, size)


def cedar_cv(data: Files, cores: int) -> Iterator[int]:
    """The operations of the torch form; cedar's own tf form crops by four drawn numbers, which may leave the picture."""
    import tensorflow as tf

    def make(path: Any) -> Any:
        image = tf.image.convert_image_dtype(tf.image.decode_jpeg(tf.io.read_file(path), channels=3), tf.float32)
        image = tf.image.resize(_part(image, (0.08, 1.0), (3 / 4, 4 / 3), 10), (244, 244))
        image = tf.image.random_flip_left_right(image)
        image = tf.image.random_brightness(image, 0.1)
        image = tf.image.random_contrast(image, 0.9, 1.1)
        image = tf.image.random_hue(tf.image.random_saturation(image, 0.9, 1.1), 0.1)
        return (_blurred(tf.image.rgb_to_grayscale(image), 11, 1) - 0.1307) / 0.3081

    return loaded(_paths(data), make, IMAGES, cores)


def pecan_resnet50(data: Files, cores: int) -> Iterator[int]:
    """The published graph, over files of JPEG in place of TFRecords."""
    import tensorflow as tf

    turn, slope = math.radians(ANGLE), math.tan(math.radians(SHEAR))

    def warped(image: Any, matrix: Any) -> Any:
        return tf.raw_ops.ImageProjectiveTransformV3(
            images=image[None], transforms=matrix[None], output_shape=tf.shape(image)[:2], fill_value=0.0,
            interpolation="NEAREST", fill_mode="CONSTANT",
        )[0]  # fmt: skip

    def make(path: Any) -> Any:
        encoded = tf.io.read_file(path)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(encoded), tf.zeros([0, 0, 4]), aspect_ratio_range=(0.75, 1.33),
            area_range=(0.05, 1.0), max_attempts=100, use_image_if_no_bounding_boxes=True, min_object_covered=0.1,
        )  # fmt: skip
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.cast(tf.image.decode_and_crop_jpeg(encoded, window, channels=3), tf.float32)
        image = tf.image.random_flip_left_right(image)
        height, width = tf.cast(tf.shape(image)[0] - 1, tf.float32), tf.cast(tf.shape(image)[1] - 1, tf.float32)
        right = (width - (math.cos(turn) * width - math.sin(turn) * height)) / 2
        down = (height - (math.sin(turn) * width + math.cos(turn) * height)) / 2
        matrix = [math.cos(turn), -math.sin(turn), right, math.sin(turn), math.cos(turn), down, 0.0, 0.0]
        image = warped(image, tf.stack(matrix))
        image = warped(image, tf.constant([1.0, slope, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]))
        return tf.cast(tf.image.resize(image, (224, 224)) - MEANS, tf.float16)

    return loaded(_paths(data), make, IMAGES, cores)


def pecan_simclr(data: Files, cores: int) -> Iterator[int]:
    import tensorflow as tf

    def changes(image: Any) -> Any:
        return [
            lambda: tf.clip_by_value(image * tf.random.uniform([], 0.2, 1.8), 0.0, 1.0),
            lambda: tf.clip_by_value(tf.image.random_contrast(image, 0.2, 1.8), 0.0, 1.0),
            lambda: tf.clip_by_value(tf.image.random_saturation(image, 0.2, 1.8), 0.0, 1.0),
            lambda: tf.clip_by_value(tf.image.random_hue(image, 0.2), 0.0, 1.0),
        ]

    def jittered(image: Any) -> Any:
        order = tf.random.shuffle(tf.range(4))
        for place in range(4):
            image = tf.switch_case(order[place], changes(image))
        return image

    def likely(share: float, change: Callable[[], Any], image: Any) -> Any:
        return tf.cond(tf.random.uniform([]) < share, change, lambda: image)

    def view(image: Any) -> Any:
        part = _part(image, (0.08, 1.0), (3 / 4, 4 / 3), 100)
        image = tf.clip_by_value(tf.image.resize(part, (224, 224), "bicubic"), 0.0, 1.0)
        image = tf.image.random_flip_left_right(tf.ensure_shape(image, (224, 224, 3)))
        jitter = image
        image = likely(0.8, lambda: jittered(jitter), image)
        colored = image
        image = likely(0.2, lambda: tf.tile(tf.image.rgb_to_grayscale(colored), [1, 1, 3]), image)
        sharp = image
        return tf.clip_by_value(likely(0.5, lambda: _blurred(sharp, 23, 3), image), 0.0, 1.0)

    def make(path: Any) -> Any:
        image = tf.image.convert_image_dtype(tf.image.decode_jpeg(tf.io.read_file(path), channels=3), tf.float32)
        return tf.concat([view(image), view(image)], 2)

    return loaded(_paths(data), make, IMAGES, cores)
