"""The files of the seeds' pipelines: found under the folder of the test data, or drawn."""

from __future__ import annotations

import json
import random
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import Unsupported

# JSON: it travels to the processes of all sides. "what" tells where the files come from.
Files = dict[str, Any]
_DRAWN = "drawn, for no real ones are given"
_BYTES = [*range(33, 127), *range(161, 173), *range(174, 256)]  # those that byte-level vocabularies write as they are


def find(kind: str, root: Path | None, scratch: Path, smoke: bool) -> Files:
    """Files of `kind` under `root`, whose folders are named as in the shared test data; drawn ones where it has none.

    Errors: Unsupported: pictures are drawn by Pillow, which is not installed.
    """
    found = None if root is None or smoke else _FOUND[kind](root, scratch)
    if found is not None:
        return found
    folder = scratch / kind
    folder.mkdir(exist_ok=True)
    why = "drawn, as in all short runs" if smoke else _DRAWN if root is None else f"drawn, for {root} has none"
    return {**_DRAWERS[kind](folder), "what": why}


def _found_photos(root: Path, scratch: Path) -> Files | None:
    folder = root / "images" / "imagenet_sample"
    paths = sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    return {"what": f"{len(paths)} photos of {folder}", "paths": paths} if paths else None


def _found_objects(root: Path, scratch: Path) -> Files | None:
    folder = root / "images" / "dali_coco" / "coco_dummy"
    instances = folder / "instances.json"
    if not instances.is_file():
        return None
    return {"what": f"{instances}", "images": str(folder / "images"), "instances": str(instances)}


def _found_lines(root: Path, scratch: Path) -> Files | None:
    lines = root / "text" / "wikitext103" / "wiki.valid.tokens"
    encoder, merges = (root / "text" / "gpt2_bpe" / name for name in ("encoder.json", "vocab.bpe"))
    if not (lines.is_file() and encoder.is_file() and merges.is_file()):
        return None
    return {"what": f"{lines}, GPT-2's vocabulary", **_tokenizers(lines, encoder, merges, scratch)}


def _found_clips(root: Path, scratch: Path) -> Files | None:
    folder = root / "speech" / "common_voice"
    paths = sorted(str(path) for path in folder.glob("*.mp3"))
    return {"what": f"{len(paths)} clips of {folder}", "paths": _often(paths)} if paths else None


def _found_utterances(root: Path, scratch: Path) -> Files | None:
    folder = root / "speech" / "librispeech_dali" / "flac"
    paths = sorted(str(path) for path in folder.glob("*.flac"))
    return {"what": f"{len(paths)} utterances of {folder}", "paths": _often(paths)} if paths else None


def _often(paths: list[str]) -> list[str]:
    """Few files, each as often as some batches need."""
    return paths * -(-48 // len(paths))


def _draw_objects(folder: Path, count: int = 24) -> Files:
    """JPEGs of 320 x 240 with up to five rectangles, and the file of their boxes."""
    try:
        from PIL import Image
    except ImportError:
        raise Unsupported("bench seeds: pictures are drawn by Pillow; pip install pillow, or give --data") from None
    draw = np.random.default_rng(0)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    pictures = folder / "pictures"
    pictures.mkdir()
    for number in range(count):
        small = draw.integers(0, 200, (12, 16, 3), np.uint8)
        pixels = np.array(Image.fromarray(small).resize((320, 240), Image.Resampling.BICUBIC))
        for _ in range(int(draw.integers(1, 6))):
            width, height = (int(side) for side in draw.integers(24, 120, 2))
            left, top = int(draw.integers(0, 320 - width)), int(draw.integers(0, 240 - height))
            category = int(draw.integers(3))
            pixels[top : top + height, left : left + width, category] = 220
            box = {"image_id": number, "category_id": category, "bbox": [left, top, width, height]}
            annotations.append({"id": len(annotations), "iscrowd": 0, "area": width * height, **box})
        Image.fromarray(pixels).save(pictures / f"{number:03d}.jpg", quality=90)
        images.append({"id": number, "file_name": f"{number:03d}.jpg", "width": 320, "height": 240})
    instances = folder / "instances.json"
    instances.write_text(json.dumps({"images": images, "annotations": annotations}))
    return {"images": str(pictures), "instances": str(instances)}


def _draw_photos(folder: Path) -> Files:
    made = _draw_objects(folder)
    return {"paths": sorted(str(path) for path in Path(made["images"]).iterdir())}


def _draw_lines(folder: Path, count: int = 600) -> Files:
    """Lines of drawn words, a third of them empty, and a vocabulary that joins the bytes of each word from its left."""
    draw = random.Random(0)
    words = sorted({"".join(draw.choices("etaoinshrdlu", k=draw.randint(1, 9))) for _ in range(1500)})
    lines, encoder, merges = folder / "lines.txt", folder / "encoder.json", folder / "vocab.bpe"
    texts = [" ".join(draw.choices(words, k=draw.choice((0, 60, 300)))) for _ in range(count)]
    lines.write_text("\n".join(texts) + "\n")
    vocabulary = {token: id for id, token in enumerate(byte_tokens())}
    joined: dict[str, None] = {}
    for word in words:
        for end in range(1, len(word) + 1):
            left, right = ("\u0120" + word[: end - 1]), word[end - 1]
            joined.setdefault(f"{left} {right}")
            vocabulary.setdefault(left + right, len(vocabulary))
    encoder.write_text(json.dumps(vocabulary | {"<|endoftext|>": len(vocabulary)}))
    merges.write_text("\n".join(["#version: 0.2", *joined]) + "\n")
    return {**_tokenizers(lines, encoder, merges, folder)}


def _draw_clips(folder: Path, count: int = 4) -> Files:
    """WAVs of tones in noise, 2 to 6 s at 22,050 Hz: nothing here writes MP3 or FLAC."""
    draw = np.random.default_rng(0)
    paths = []
    for number in range(count):
        times = np.arange(int(draw.uniform(2, 6) * 22050)) / 22050
        tone = 6000 * np.sin(2 * np.pi * draw.uniform(100, 3000) * times) + draw.normal(0, 900, times.size)
        path = folder / f"{number:02d}.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(22050)
            file.writeframes(tone.astype("<i2").tobytes())
        paths.append(str(path))
    return {"paths": _often(paths)}


def byte_tokens() -> list[str]:
    """The token of each byte in a byte-level vocabulary, in GPT-2's order."""
    rest = [byte for byte in range(256) if byte not in set(_BYTES)]
    return [chr(byte) for byte in _BYTES] + [chr(256 + number) for number in range(len(rest))]


def _tokenizers(lines: Path, encoder: Path, merges: Path, folder: Path) -> Files:
    """The text, GPT-2's files, a RoBERTa-like vocabulary over them, and both as files of `tokenizers`.

    RoBERTa's own vocabulary is GPT-2's tokens in another order behind four special ones; the order here is drawn, which changes
    no cost.
    """
    vocabulary: dict[str, int] = json.loads(encoder.read_text())
    rules = [line for line in merges.read_text().split("\n")[1:] if line]
    order = list(range(len(vocabulary)))
    random.Random(1).shuffle(order)
    other = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    other |= {token: 4 + order[id] for token, id in vocabulary.items()}
    # What cedar's VocabTransform looks up: GPT-2's ids, written as text.
    by_text = {str(id): other[token] for token, id in vocabulary.items()}
    around = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True}
    paths = {name: folder / f"{name}.json" for name in ("gpt2_tokenizer", "roberta_tokenizer", "roberta_vocabulary")}
    paths["gpt2_tokenizer"].write_text(_tokenizer(vocabulary, rules, None))
    paths["roberta_tokenizer"].write_text(_tokenizer(other, rules, around | {"add_prefix_space": False}))
    paths["roberta_vocabulary"].write_text(json.dumps(by_text))
    found = {"lines": lines, "encoder": encoder, "merges": merges, **paths}
    return {name: str(path) for name, path in found.items()}


def _tokenizer(vocabulary: dict[str, int], merges: list[str], around: dict[str, Any] | None) -> str:
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges}
    parts: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
    }
    return json.dumps(
        {**parts, "pre_tokenizer": level, "post_processor": around or level, "decoder": level, "model": model}
    )


_FOUND: dict[str, Callable[[Path, Path], Files | None]] = {
    "photos": _found_photos,
    "objects": _found_objects,
    "lines": _found_lines,
    "clips": _found_clips,
    "utterances": _found_utterances,
}
_DRAWERS: dict[str, Callable[[Path], Files]] = {
    "photos": _draw_photos,
    "objects": _draw_objects,
    "lines": _draw_lines,
    "clips": _draw_clips,
    "utterances": _draw_clips,
}
