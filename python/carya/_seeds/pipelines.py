"""The seeds' pipelines as a user of Carya writes them. examples/seeds has a document for each, with what differs and why."""

from __future__ import annotations

from typing import NamedTuple

from .._formats.lines import text
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import files
from .._text.tokenizer import Tokenizer
from .data import Files

IMAGES, TEXTS = 16, 64  # samples of a batch, on all sides


class Draws(NamedTuple):
    """What cedar's CV pipeline draws from; a test fixes it."""

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: tuple[tuple[float, float], ...] = ((0.9, 1.1), (0.9, 1.1), (0.9, 1.1), (-0.1, 0.1))  # as ColorJitter's
    sigma: tuple[float, float] = (0.1, 2.0)


CEDAR = Draws()


def cedar_cv(data: Files, draws: Draws = CEDAR) -> Pipeline:
    brightness, contrast, saturation, hue = draws.jitter
    return (
        files(data["paths"])
        .shuffle(seed=1)
        .decode_image()
        .to_dtype("float32", scale=True)
        .random_resized_crop(244, draws.scale, draws.ratio, antialias=False)
        .random_horizontal_flip(draws.flip)
        .color_jitter(brightness, contrast, saturation, hue)
        .grayscale()
        .gaussian_blur(11, draws.sigma)
        .normalize(0.1307, 0.3081)
        .batch(IMAGES)
    )


def cedar_nlp_torch(data: Files) -> Pipeline:
    """RoBERTa's ids, with those around a text: 254 of its own at most."""
    tokenizer = Tokenizer(data["roberta_tokenizer"], truncate=256)
    return text(data["lines"]).shuffle(seed=1).tokenize(tokenizer).pad_sequences("ids", value=1).batch(TEXTS)


def cedar_nlp_hf(data: Files) -> Pipeline:
    tokenizer = Tokenizer(data["gpt2_tokenizer"], truncate=254)
    return text(data["lines"]).shuffle(seed=1).tokenize(tokenizer).pad_sequences("ids").batch(TEXTS)
