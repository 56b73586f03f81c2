"""The same pipelines by tf.data, with the operations that the seeds took. One process for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .data import Files
from .pipelines import IMAGES


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


def _gray_blurred(image: Any, size: int) -> Any:
    """A picture's luma, blurred by a drawn sigma, by a convolution along each side."""
    import tensorflow as tf

    gray = tf.pad(tf.image.rgb_to_grayscale(image), [[5, 5], [5, 5], [0, 0]], "REFLECT")
    places = tf.range(-(size // 2), size // 2 + 1, dtype=tf.float32)
    weights = tf.exp(-0.5 * tf.square(places / tf.random.uniform([], 0.1, 2.0)))
    weights /= tf.reduce_sum(weights)
    once = tf.nn.conv2d(gray[None], tf.reshape(weights, [size, 1, 1, 1]), 1, "VALID")
    return tf.nn.conv2d(once, tf.reshape(weights, [1, size, 1, 1]), 1, "VALID")[0]


def cedar_cv(data: Files, cores: int) -> Iterator[int]:
    """The operations of the torch form; cedar's own tf form crops by four drawn numbers, which may leave the picture."""
    import tensorflow as tf

    def make(path: Any) -> Any:
        image = tf.image.convert_image_dtype(tf.image.decode_jpeg(tf.io.read_file(path), channels=3), tf.float32)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.shape(image), tf.zeros([0, 0, 4]), aspect_ratio_range=(3 / 4, 4 / 3), area_range=(0.08, 1.0),
            max_attempts=10, use_image_if_no_bounding_boxes=True,
        )  # fmt: skip
        image = tf.image.resize(tf.slice(image, begin, size), (244, 244))
        image = tf.image.random_flip_left_right(image)
        image = tf.image.random_brightness(image, 0.1)
        image = tf.image.random_contrast(image, 0.9, 1.1)
        image = tf.image.random_hue(tf.image.random_saturation(image, 0.9, 1.1), 0.1)
        return (_gray_blurred(image, 11) - 0.1307) / 0.3081

    return loaded(_paths(data), make, IMAGES, cores)
