"""The seeds' pipelines as a user of Carya writes them. examples/seeds has a document for each, with what differs and why."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._detection.coco import coco
from .._formats.lines import text
from .._pipeline.chain import OpChain, ops
from .._pipeline.pipeline import Pipeline
from .._pipeline.sources import files
from .._text.tokenizer import Tokenizer
from ..detection import RetinaNetTargets, SsdTargets, default_boxes, grid_anchors
from .data import Files

IMAGES, TEXTS, CLIPS = 16, 64, 16  # samples of a batch, on all sides
RATE, SECONDS = 8000, 8  # of clips, on all sides
UTTERANCE = 16  # seconds, on all sides
DETECTIONS, RETINA = 8, 640  # pictures of a batch of RetinaNet, and their sides
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MEANS = (123.68, 116.78, 103.94)
ANGLE, SHEAR = 2.5, math.degrees(math.atan(0.05))  # one angle and one shear for all of a job, as Pecan draws them


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


def cedar_asr(data: Files, masks: int = 1) -> Pipeline:
    return (
        files(data["paths"], field="audio")
        .shuffle(seed=1)
        .decode_audio(rate=RATE)
        .pad_audio(seconds=SECONDS)
        .spectrogram(n_fft=400, hop_length=100)
        .time_stretch(0.8)
        .spec_augment(masks, 79, masks, 79)
        .mel_scale(256, mel_scale="slaney")
        .batch(CLIPS)
    )


def ssd_boxes() -> Any:
    """The 8,732 default boxes of SSD300."""
    levels = [(side, side) for side in (38, 19, 10, 5, 3, 1)]
    aspects = [[2], [2, 3], [2, 3], [2, 3], [2], [2]]
    scales = [0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05]
    return default_boxes((300, 300), levels, aspects, scales, (8, 16, 32, 64, 100, 300))


def cedar_ssd(data: Files, drawn: bool = True) -> Pipeline:
    """`drawn`: False leaves out what is drawn, for a test."""
    pictures = (
        coco(data["images"], data["instances"], invalid="drop").shuffle(seed=1).decode_image().boxes(invalid="drop")
    )
    if drawn:
        pictures = pictures.random_zoom_out(fill=(123, 117, 104), p=1.0).random_iou_crop().sanitize_boxes()
    pictures = pictures.random_horizontal_flip(1.0)
    if drawn:
        pictures = pictures.color_jitter((0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05))
    pictures = pictures.resize((300, 300)).to_dtype("float32", scale=True).to_layout("CHW")
    return pictures.batch(IMAGES).map_batch(SsdTargets(ssd_boxes()))


def pecan_resnet50(data: Files, drawn: bool = True) -> Pipeline:
    """`drawn`: False takes the whole picture, flipped, for a test."""
    area = (0.05, 1.0) if drawn else (1.0, 1.0)
    return (
        files(data["paths"])
        .shuffle(seed=1)
        .decode_image()
        .random_sized_crop(area, (0.75, 1.34))
        .to_dtype("float32")
        .random_horizontal_flip(0.5 if drawn else 1.0)
        .rotate(ANGLE)
        .affine(0, (0, 0), 1.0, SHEAR)
        .resize((224, 224), antialias=False)
        .subtract_mean(MEANS)
        .to_dtype("float16")
        .batch(IMAGES)
    )


def simclr_view() -> OpChain:
    return (
        ops()
        .random_resized_crop(224, interpolation="bicubic", antialias=False)
        .random_horizontal_flip()
        .random_apply(ops().color_jitter(0.8, 0.8, 0.8, 0.2), p=0.8)
        .random_grayscale(0.2)
        .random_apply(ops().gaussian_blur(23, (0.1, 2.0)), p=0.5)
    )


def pecan_simclr(data: Files) -> Pipeline:
    views = files(data["paths"]).shuffle(seed=1).decode_image().two_views(simclr_view())
    return views.to_dtype("float32", scale=True, fields=["view_0", "view_1"]).batch(IMAGES)


def retina_boxes() -> Any:
    """RetinaNet's 76,725 anchors of 640 x 640."""
    strides = (8, 16, 32, 64, 128)
    octaves = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))
    levels = [(RETINA // stride, RETINA // stride) for stride in strides]
    return grid_anchors((RETINA, RETINA), levels, [[4 * stride * octave for octave in octaves] for stride in strides])


def pecan_retinanet(data: Files, flip: float = 0.5) -> Pipeline:
    return (
        coco(data["images"], data["instances"], crowd=False, invalid="drop")
        .shuffle(seed=1)
        .decode_image()
        .boxes(invalid="drop")
        .random_horizontal_flip(flip)
        .scale_jitter(RETINA, (1.0, 1.0))
        .crop(0, 0, RETINA, RETINA)
        .sanitize_boxes()
        .normalize(MEAN, STD)
        .batch(DETECTIONS)
        .map_batch(RetinaNetTargets(retina_boxes(), low=0.5))
    )


def pecan_speech(data: Files, masks: int = 2) -> Pipeline:
    return (
        files(data["paths"], field="audio")
        .shuffle(seed=1)
        .decode_audio(rate=16000)
        .pad_audio(seconds=UTTERANCE)
        .log_mel("kaldi", 80)
        .spec_augment(masks, 27, masks, 100)
        .batch(CLIPS)
    )
