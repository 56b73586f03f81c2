"""The operations of a pipeline, one method each, with torchvision's names, defaults and meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .._errors import invalid
from .arguments import no_operation
from .audio_ops import AudioOps
from .color_ops import ColorOps
from .document import filled, four_sides, number_list, pair, plain, shorter_side
from .warp_ops import BoxOps, WarpOps

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .chain import OpChain
    from .order import OrderHints

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
PaddingMode = Literal["constant", "edge", "reflect", "symmetric"]
Layout = Literal["CHW", "HWC"]


def _extra_and_masks(source: Any) -> tuple[list[str], list[str]]:
    """The pictures of files beside the main one, and those that hold numbers of objects: these have their numbers beside
    them, as `carya.coco(masks=)` has `mask` and `mask_values`."""
    extra = [*(source.document.get("extra") or ())] if source is not None else []
    return extra, [name for name in extra if f"{name}_values" in (source.arrays or {})]


def for_masks(parameters: Mapping[str, Any], source: Any) -> dict[str, Any]:
    """The parameters of an operation where all pictures beside the main one hold numbers of objects. What they leave open is
    then what keeps numbers what they are: no number between two, and 0 beside the picture."""
    extra, masks = _extra_and_masks(source)
    taken = dict(parameters)
    if masks and masks == extra:
        if "extra_interpolation" in taken and taken["extra_interpolation"] is None:
            taken["extra_interpolation"] = "nearest"
        if "fill" in taken:
            taken.setdefault("extra_fill", 0)
    return taken


def _masks_and_others(source: Any, ops: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The fields of files that `ops` leave encoded: pictures of numbers, and all others."""
    extra, masks = _extra_and_masks(source)
    left = [source.document.get("field", "image"), *extra] if masks else []
    for op in ops:
        if op["op"] == "decode_image":
            left = [name for name in left if name not in (op["fields"] or left)]
    return [name for name in left if name in masks], [name for name in left if name not in masks]


def _type_name(dtype: Any) -> str:
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    return str(name).removeprefix("torch.")


class Ops(ColorOps, WarpOps, BoxOps, AudioOps):
    """Methods that append an operation. Every parameter, and every shape the op is given, is checked at once.

    Every one of them also takes, by keyword (`**order`): `keep_position=True`: no operation passes it, and it passes
    none; `depends_on=["random_crop"]`: operations before it that run before it, whatever else moves ("random_crop#1" is
    the second so called). They forbid orders to a loader (`reorder=`) and change no bit of what is written.

    >>> import carya
    >>> p = carya.image_folder("photos").decode_image().color_jitter(0.4, keep_position=True).random_crop(224).batch(8)
    >>> p.explain()["order"]
    ['decode_image', 'color_jitter', 'random_crop']
    >>> carya.image_folder("photos").decode_image().random_crop(96, depends_on=["resize"])
    Traceback (most recent call last):
    ...
    carya.InvalidArgument: random_crop: depends_on "resize" names no op before it; there are decode_image
    """

    _source: Any = None  # what a pipeline reads from; a chain of carya.ops() reads nothing

    def _all_ops(self) -> list[dict[str, Any]]:
        """The operations on samples of that source."""
        return []

    if not TYPE_CHECKING:  # a type checker knows the operations by itself

        def __getattr__(self, name: str) -> Any:
            raise no_operation(type(self), name)

    def decode_image(
        self,
        mode: Literal["RGB", "L"] | None = None,
        apply_exif: bool = False,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Decode JPEG or PNG, told by content and not by file name.

        Shape: encoded bytes -> (height, width, 3) for "RGB", (height, width, 1) for "L"; uint8, 0..255, sRGB. `mode`: None
        is "L" for the masks of `carya.coco(masks=)` and `carya.voc(masks=)`, in operations of their own, and "RGB" for all else.
        16-bit PNG samples keep their high byte, gray ones too (Pillow clips those at 255). `apply_exif` turns the
        picture as its EXIF orientation says. `fields`: None decodes every encoded field.
        Errors: InvalidArgument here; a broken or unknown file is bad data when its sample is made (`on_error`).
        Reference: torchvision.io.decode_image / PIL.Image.open(...).convert(mode).

        >>> import carya
        >>> print(carya.image_folder("photos").decode_image().outputs[0])
        ('image', 'uint8', (None, None, 3))
        """
        if mode is None and self._source is not None:
            masks, others = _masks_and_others(self._source, self._all_ops())
            wanted = [*masks, *others] if fields is None else list(fields)
            masks, others = [name for name in masks if name in wanted], [name for name in wanted if name not in masks]
            if masks:
                made = self.decode_image("RGB", apply_exif, others, **order) if others else self
                return made.decode_image("L", apply_exif, masks, **order)
        return self._with_op("decode_image", order, mode=mode or "RGB", apply_exif=apply_exif, fields=plain(fields))

    def decode_raw(
        self,
        dtype: Any,
        shape: Sequence[int] = (),
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Take the bytes of a record for an array: little-endian values, row by row, with nothing in front of them.

        Shape: encoded bytes -> `shape`, of `dtype`: bool, int, uint or float of 8 to 64 bits. `fields`: None takes every encoded
        field. A uint8 (height, width, 1, 3 or 4) called `image` is a picture from then on, and so are others of its size, as
        in `carya.arrays`.
        Errors: InvalidArgument here; a record of another length is bad data when its sample is made (`on_error`).
        Reference: numpy.frombuffer(data, dtype).reshape(shape) / tf.io.decode_raw.

        >>> import carya, numpy as np, pathlib, tempfile
        >>> name = pathlib.Path(tempfile.mkdtemp()) / "a.bin"
        >>> name.write_bytes(np.arange(6, dtype="<f4").tobytes())
        24
        >>> carya.files([name], field="value").decode_raw("float32", (2, 3))[0]["value"][1]
        array([3., 4., 5.], dtype=float32)
        """
        return self._with_op("decode_raw", order, dtype=_type_name(dtype), shape=plain(shape), fields=plain(fields))

    def transcode(
        self,
        max_side: int = 512,
        quality: int = 90,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Make pictures smaller before anything else, and leave them encoded. Lossy, the same bytes each time and anywhere.

        A JPEG of at most `max_side` pixels (1 to 65,500) on its longer side stays as it is. All others are decoded, resized
        so that the longer side has `max_side` pixels (bilinear, antialiased; if it had more), and written as a baseline
        JPEG of `quality` (1 to 100, libjpeg's): gray JPEGs as gray, the rest as RGB, alpha is dropped; chroma is halved both
        ways; an EXIF orientation is kept. So it changes what a model sees, once and for all, and is part of the pipeline's
        fingerprint. It must be the first operation. What it makes can be kept (`Loader(cache={"disk": (folder, size),
        "after": "transcode"})`): a small data set for many epochs, of which each is decoded by regions as any other.
        `fields`: None takes every encoded field.
        Errors: InvalidArgument here; a broken or unknown file is bad data when its sample is made (`on_error`).
        Reference: PIL.Image.resize(size, BILINEAR).save(quality=quality, subsampling="4:2:0", optimize=True).

        >>> import carya
        >>> p = carya.image_folder("photos").transcode(max_side=256).decode_image().random_resized_crop(224)
        >>> p.outputs[0]
        ('image', 'uint8', (224, 224, 3))
        """
        return self._with_op("transcode", order, max_side=max_side, quality=quality, fields=plain(fields))

    def random_resized_crop(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: Interpolation = "bilinear",
        antialias: bool = True,
        extra_interpolation: Interpolation | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Crop a random part (area `scale`, aspect `ratio`, log-uniform) and resize it to `size`.

        Shape: (h, w, c) -> (size[0], size[1], c); uint8 stays uint8. `size`: pixels, one number is a square.
        Extra images are cut alike and resized by `extra_interpolation` (give "nearest" for masks).
        Errors: InvalidArgument (sizes below 1, scale or ratio not ascending and positive, input is no image).
        Reference: torchvision.transforms.v2.RandomResizedCrop; after a decode only the needed region is decoded.

        >>> import carya
        >>> photos = carya.image_folder("photos").decode_image()
        >>> photos.random_resized_crop(224).outputs[0]
        ('image', 'uint8', (224, 224, 3))
        """
        return self._with_op(
            "random_resized_crop",
            order,
            size=pair(size),
            scale=plain(scale),
            ratio=plain(ratio),
            interpolation=interpolation,
            antialias=antialias,
            extra_interpolation=extra_interpolation,
        )

    def random_sized_crop(
        self,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        **order: Unpack[OrderHints],
    ) -> Self:
        """Crop a random part (area `scale`, aspect `ratio`, log-uniform) and leave its size: `resize` comes later.

        Shape: (h, w, c) -> (any, any, c). For pipelines that do something before they resize; else `random_resized_crop`, which
        draws alike, is one step. Errors: InvalidArgument (scale or ratio not ascending and positive, input is no image).
        Reference: the window of torchvision.transforms.v2.RandomResizedCrop.

        >>> import carya
        >>> p = carya.image_folder("photos").decode_image().random_sized_crop().random_rotation(5)
        >>> p.resize((224, 224)).outputs[0]
        ('image', 'uint8', (224, 224, 3))
        """
        return self._with_op("random_sized_crop", order, scale=plain(scale), ratio=plain(ratio))

    def random_crop(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] = 0,
        padding_mode: PaddingMode = "constant",
        extra_fill: float | Sequence[float] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Cut `size` at a random place, after padding.

        Shape: (h, w, c) -> (size[0], size[1], c). `padding`: pixels for all sides, (left/right, top/bottom), or
        (left, top, right, bottom). A smaller image without `pad_if_needed` is bad data. `fill`: one value 0..255, or one per
        channel; `extra_fill`: that of extra images (None: as the main image; give 0 for masks).
        Errors: InvalidArgument. Reference: torchvision.transforms.v2.RandomCrop.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().random_crop(32, padding=4).outputs[0]
        ('image', 'uint8', (32, 32, 3))
        """
        return self._with_op(
            "random_crop",
            order,
            size=pair(size),
            padding=four_sides(padding),
            pad_if_needed=pad_if_needed,
            **filled(fill, extra_fill),
            padding_mode=padding_mode,
        )

    def center_crop(self, size: int | Sequence[int], **order: Unpack[OrderHints]) -> Self:
        """Cut `size` out of the middle; a smaller image is padded with 0.

        Shape: (h, w, c) -> (size[0], size[1], c). Errors: InvalidArgument.
        Reference: torchvision.transforms.v2.CenterCrop.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().resize(256).center_crop(224).outputs[0]
        ('image', 'uint8', (224, 224, 3))
        """
        return self._with_op("center_crop", order, size=pair(size))

    def crop(self, top: int, left: int, height: int, width: int, **order: Unpack[OrderHints]) -> Self:
        """Cut a fixed rectangle (pixels); what lies past the image is 0.

        Shape: (h, w, c) -> (height, width, c). Errors: InvalidArgument.
        Reference: torchvision.transforms.v2.functional.crop.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().crop(0, 0, 20, 30).outputs[0]
        ('image', 'uint8', (20, 30, 3))
        """
        return self._with_op("crop", order, top=plain(top), left=plain(left), height=plain(height), width=plain(width))

    def resize(
        self,
        size: int | Sequence[int],
        interpolation: Interpolation = "bilinear",
        max_size: int | None = None,
        antialias: bool = True,
        extra_interpolation: Interpolation | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Resize: one number is the shorter side (aspect kept, longer side at most `max_size`), two are exact.

        Shape: (h, w, c) -> (size[0], size[1], c), or (?, ?, c) for a shorter side.
        Errors: InvalidArgument ("lanczos" with antialias=False too). Reference: torchvision.transforms.v2.Resize on a PIL image; within
        1 level of Pillow for 99.9 % of values and never more than 2 away.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().resize((128, 96)).outputs[0]
        ('image', 'uint8', (128, 96, 3))
        """
        return self._with_op(
            "resize",
            order,
            size=shorter_side(size),
            interpolation=interpolation,
            max_size=plain(max_size),
            antialias=antialias,
            extra_interpolation=extra_interpolation,
        )

    def random_horizontal_flip(self, p: float = 0.5, **order: Unpack[OrderHints]) -> Self:
        """Mirror left and right with probability `p`, all images of the sample alike.

        Shape and dtype stay. Errors: InvalidArgument (p outside 0..1).
        Reference: torchvision.transforms.v2.RandomHorizontalFlip.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().random_horizontal_flip(p=0.25).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op("random_horizontal_flip", order, p=plain(p))

    def random_vertical_flip(self, p: float = 0.5, **order: Unpack[OrderHints]) -> Self:
        """Mirror top and bottom with probability `p`, all images of the sample alike.

        Shape and dtype stay. Errors: InvalidArgument (p outside 0..1).
        Reference: torchvision.transforms.v2.RandomVerticalFlip.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().random_vertical_flip().outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op("random_vertical_flip", order, p=plain(p))

    def pad(
        self,
        padding: int | Sequence[int],
        fill: float | Sequence[float] = 0,
        padding_mode: PaddingMode = "constant",
        extra_fill: float | Sequence[float] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Add pixels: one number for all sides, (left/right, top/bottom), or (left, top, right, bottom).

        Shape: (h, w, c) -> (top + h + bottom, left + w + right, c). `fill`: one value 0..255, or one per channel;
        `extra_fill`: that of extra images (None: as the main image; give 0 for masks). Errors: InvalidArgument.
        Reference: torchvision.transforms.v2.Pad.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().resize((10, 10)).pad((1, 2)).outputs[0]
        ('image', 'uint8', (14, 12, 3))
        """
        return self._with_op(
            "pad",
            order,
            padding=four_sides(padding),
            **filled(fill, extra_fill),
            padding_mode=padding_mode,
        )

    def random_apply(self, ops: OpChain, p: float = 0.5, **order: Unpack[OrderHints]) -> Self:
        """Do the operations of `ops`, a chain begun with `carya.ops()`, all of them or none, with probability `p`.

        Shape and dtype stay: `ops` holds geometric and color operations that together leave every image its shape (on images
        of unknown size: each its own). Each draws as if it stood in the pipeline by itself, whatever `random_apply` drew.
        Errors: InvalidArgument (p outside 0..1; no operation, one on values, one that changes a shape, another random_apply).
        Reference: torchvision.transforms.v2.RandomApply; own random numbers.

        >>> import carya
        >>> jitter = carya.ops().color_jitter(0.8, 0.8, 0.8, 0.2)
        >>> carya.image_folder("photos").decode_image().random_apply(jitter, p=0.8).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op("random_apply", order, ops=_documents("random_apply", ops), p=plain(p))

    def two_views(self, ops: OpChain, **order: Unpack[OrderHints]) -> Self:
        """Two pictures of one, as contrastive learning wants them: `image` becomes `view_0` and `view_1`, each drawn by itself.

        `ops`: a chain begun with `carya.ops()`, which each view goes through with random numbers of its own: any operations
        on `image` that end in one shape. The picture is read and decoded once. `view_0` is bit for bit the `image` of the
        same operations without `two_views`. Shape: (h, w, c) -> twice the shape after `ops`.
        Errors: InvalidArgument (`image` not decoded, or an image beside it; `ops` that leave the size open, decode, or take
        another field).
        Reference: the augmentation of SimCLR (arXiv:2002.05709).

        >>> import carya
        >>> simclr = carya.ops().random_resized_crop(96).random_horizontal_flip()
        >>> simclr = simclr.random_apply(carya.ops().color_jitter(0.8, 0.8, 0.8, 0.2), p=0.8).random_grayscale(p=0.2)
        >>> [name for name, _, _ in carya.image_folder("photos").decode_image().two_views(simclr).outputs]
        ['view_0', 'label', 'view_1']
        """
        return self._with_op("two_views", order, ops=_documents("two_views", ops))

    def normalize(
        self,
        mean: float | Sequence[float],
        std: float | Sequence[float],
        layout: Literal["CHW", "HWC", "keep"] = "CHW",
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """(x - mean) / std per channel as float32, computed as x * a + b; on uint8 it implies division by 255.

        Shape: (h, w, c) -> (c, h, w) for "CHW". `mean`, `std`: one number or one per channel, in units of 0..1.
        `fields`: None means `image` alone. Errors: InvalidArgument (std of 0, number of channels).
        Reference: torchvision v2 ToDtype(float32, scale=True) then Normalize.

        >>> import carya
        >>> p = carya.image_folder("photos").decode_image().resize((8, 8))
        >>> p.normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)).outputs[0]
        ('image', 'float32', (3, 8, 8))
        """
        return self._with_op(
            "normalize", order, mean=number_list(mean), std=number_list(std), layout=layout, fields=plain(fields)
        )

    def subtract_mean(
        self, mean: float | Sequence[float], fields: Sequence[str] | None = None, **order: Unpack[OrderHints]
    ) -> Self:
        """x - mean per channel, of float32 values in their own units.

        Shape and dtype stay. `mean`: one number or one per channel. `fields`: None means `image` alone.
        Errors: InvalidArgument (not float32, number of channels). Reference: numpy's float32 subtraction; exact.

        >>> import carya
        >>> p = carya.image_folder("photos").decode_image().to_dtype("float32").to_layout("CHW")
        >>> p.subtract_mean((123.7, 116.3, 103.5)).outputs[0]
        ('image', 'float32', (3, None, None))
        """
        return self._with_op("subtract_mean", order, mean=number_list(mean), fields=plain(fields))

    def scale(
        self, factor: float | Sequence[float], fields: Sequence[str] | None = None, **order: Unpack[OrderHints]
    ) -> Self:
        """x * factor per channel, of float32 values.

        Shape and dtype stay. `factor`: one number or one per channel. `fields`: None means `image` alone.
        Errors: InvalidArgument (not float32, number of channels). Reference: numpy's float32 product; exact.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().to_dtype("float32").scale(1 / 127.5).outputs[0]
        ('image', 'float32', (None, None, 3))
        """
        return self._with_op("scale", order, factor=number_list(factor), fields=plain(fields))

    def to_dtype(
        self,
        dtype: Any = "float32",
        scale: bool = False,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Convert the element type; with `scale`, uint8 0..255 becomes 0..1 and back.

        Shape stays. `dtype`: a dtype of numpy or torch, or its name. `fields`: None means `image` alone. An image cast to float32 is
        still an image to crops, resizes, flips, pads and warps, and with `scale` to `invert`, `grayscale`, `color_jitter`
        and `gaussian_blur`: they compute in float32 then, without rounding to levels, at several times the cost; the
        cast costs least as the last of them. "float16" and "bfloat16" are of float32 values and come last: the nearest value,
        the even one of two, beyond their range infinity. A bfloat16 is torch's and jax's own, in numpy the type of the
        package ml_dtypes. Errors: InvalidArgument. Reference: torchvision.transforms.v2.ToDtype.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().to_dtype("float32", scale=True).outputs[0]
        ('image', 'float32', (None, None, 3))
        """
        return self._with_op("to_dtype", order, dtype=_type_name(dtype), scale=scale, fields=plain(fields))

    def to_layout(self, layout: Layout, fields: Sequence[str] | None = None, **order: Unpack[OrderHints]) -> Self:
        """Order of the axes: "CHW" (planes, as torch wants it) or "HWC" (interleaved, as decoded).

        Shape: (h, w, c) <-> (c, h, w). `fields`: None means `image` alone. Errors: InvalidArgument.
        Reference: torchvision.transforms.v2.functional.pil_to_tensor.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().resize((8, 9)).to_layout("CHW").outputs[0]
        ('image', 'uint8', (3, 8, 9))
        """
        return self._with_op("to_layout", order, layout=layout, fields=plain(fields))

    def op(self, own: Any, fields: Sequence[str] | None = None, **order: Unpack[OrderHints]) -> Self:
        """An operation of your own: `own` is what `carya.op(...)` gave, called with its parameters or not.

        Shape and dtype: what it says of its input. `fields`: None means `image` alone. No other operation passes it.
        Errors: InvalidArgument, also with the operation's own reason.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().op("blur")
        Traceback (most recent call last):
        ...
        carya.InvalidArgument: op: own: got 'blur'; give what carya.op("name", sources=[...]) returned
        """
        if not all(hasattr(own, name) for name in ("name", "digest", "parameters")):
            raise invalid("op: own", own, 'what carya.op("name", sources=[...]) returned')
        parameters = {name: plain(value) for name, value in own.parameters.items()}
        return self._with_op(
            "user", order, name=own.name, digest=own.digest, parameters=parameters, fields=plain(fields)
        )


def _documents(op: str, ops: Any) -> Any:
    documents = getattr(ops, "_op_documents", None)
    if documents is None:
        raise invalid(f"{op}: ops", ops, "a chain such as carya.ops().color_jitter(0.4)")
    return documents()
