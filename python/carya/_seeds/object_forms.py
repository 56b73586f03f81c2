"""The pipelines on objects by torch's DataLoader and torchvision v2."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .data import Files
from .pipelines import DETECTIONS, IMAGES, MEAN, RETINA, STD, retina_boxes, ssd_boxes
from .torch_forms import Samples, loaded, vision


class Annotated(NamedTuple):
    path: str
    boxes: list[list[float]]  # left, top, right, bottom
    labels: list[int]


def annotated(data: Files, crowd: bool = True) -> list[Annotated]:
    """The pictures of a file of COCO, in its order."""
    with open(data["instances"]) as file:
        found = json.load(file)
    pictures = {
        image["id"]: Annotated(os.path.join(data["images"], image["file_name"]), [], []) for image in found["images"]
    }
    for annotation in found["annotations"]:
        left, top, width, height = annotation["bbox"]
        if crowd or not annotation.get("iscrowd"):
            pictures[annotation["image_id"]].boxes.append([left, top, left + width, top + height])
            pictures[annotation["image_id"]].labels.append(annotation["category_id"])
    return list(pictures.values())


class Objects:
    """torchvision's names for boxes, which changed with version 0.16."""

    def __init__(self) -> None:
        self.v2 = vision("transforms.v2")
        try:
            self.kinds = vision("tv_tensors")
            self.sanitize = self.v2.SanitizeBoundingBoxes
        except ModuleNotFoundError:
            self.kinds = vision("datapoints")
            self.sanitize = self.v2.SanitizeBoundingBox

    def boxes(self, boxes: Any, height: int, width: int) -> Any:
        import torch

        tensor = torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)
        if hasattr(self.kinds, "BoundingBoxes"):
            return self.kinds.BoundingBoxes(tensor, format="XYXY", canvas_size=(height, width))
        return self.kinds.BoundingBox(tensor, format=self.kinds.BoundingBoxFormat.XYXY, spatial_size=(height, width))


class Targets:
    """Boxes as labels and codes of anchors, by torchvision's matcher and coder; -1 where there is no box."""

    def __init__(self, anchors: Any, match: Any, weights: tuple[float, ...]) -> None:
        import torch

        self.anchors, self.match = torch.from_numpy(anchors), match
        self.coder = vision("models.detection._utils").BoxCoder(weights)
        self.iou = vision("ops.boxes").box_iou

    def __call__(self, found: Any, labels: Any) -> tuple[Any, Any]:
        import torch

        boxes = torch.as_tensor(found).as_subclass(torch.Tensor)
        classes, codes = torch.full((len(self.anchors),), -1), torch.zeros(len(self.anchors), 4)
        if len(boxes):
            matches = self.match(self.iou(boxes, self.anchors))
            taken = matches >= 0
            classes[taken] = labels[matches[taken]]
            codes[taken] = self.coder.encode_single(boxes[matches[taken]], self.anchors[taken])
        return classes, codes


class CedarSsd:
    """Opened in a worker: a picture to float32 [3, 300, 300], and its boxes as codes of SSD's default boxes."""

    def __init__(self, drawn: bool = True) -> None:
        self.drawn = drawn

    def __call__(self) -> Callable[[Annotated], Any]:
        import torch
        from PIL import Image

        of, detection = Objects(), vision("models.detection._utils")
        v2 = of.v2
        first = [v2.RandomZoomOut(fill=(123, 117, 104), p=1.0), v2.RandomIoUCrop(), of.sanitize()] if self.drawn else []
        colors = [v2.RandomPhotometricDistort(p=1.0)] if self.drawn else []
        moves = v2.Compose([*first, v2.RandomHorizontalFlip(1.0), *colors, v2.Resize((300, 300), antialias=True)])
        floats = vision("transforms.functional").to_tensor
        targets = Targets(ssd_boxes(), detection.SSDMatcher(0.5), (10.0, 10.0, 5.0, 5.0))

        def make(picture: Annotated) -> Any:
            with Image.open(picture.path) as opened:
                image = opened.convert("RGB")
            boxes = of.boxes(picture.boxes, image.height, image.width)
            image, found = moves(image, {"boxes": boxes, "labels": torch.tensor(picture.labels)})
            return floats(image), *targets(found["boxes"], found["labels"])

        return make


def cedar_ssd(data: Files, cores: int) -> Iterator[int]:
    return loaded(Samples(annotated(data), CedarSsd()), IMAGES, cores, None)


class PecanRetinaNet:
    """Opened in a worker: a picture to float32 [3, 640, 640] that is flipped, shrunk and padded, and its boxes as codes."""

    def __init__(self, flip: float = 0.5) -> None:
        self.flip = flip

    def __call__(self) -> Callable[[Annotated], Any]:
        import torch
        from PIL import Image

        of, detection, functional = Objects(), vision("models.detection._utils"), vision("transforms.functional")
        v2 = of.v2
        flip = v2.Compose([v2.RandomHorizontalFlip(self.flip)])
        matcher = detection.Matcher(0.5, 0.5, allow_low_quality_matches=True)
        targets = Targets(retina_boxes(), matcher, (1.0, 1.0, 1.0, 1.0))

        def make(picture: Annotated) -> Any:
            with Image.open(picture.path) as opened:
                image = opened.convert("RGB")
            share = min(RETINA / image.height, RETINA / image.width)
            sizes = int(image.height * share), int(image.width * share)
            resize = v2.Resize(sizes, antialias=True)
            boxes = of.boxes(picture.boxes, image.height, image.width)
            image, found = resize(*flip(image, {"boxes": boxes, "labels": torch.tensor(picture.labels)}))
            padded = torch.zeros(3, RETINA, RETINA)
            padded[:, : sizes[0], : sizes[1]] = functional.normalize(functional.to_tensor(image), MEAN, STD)
            return padded, *targets(found["boxes"], found["labels"])

        return make


def pecan_retinanet(data: Files, cores: int) -> Iterator[int]:
    return loaded(Samples(annotated(data, crowd=False), PecanRetinaNet()), DETECTIONS, cores, None)
