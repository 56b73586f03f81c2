"""The operations of a pipeline on colors, one method each, with torchvision's names, defaults and meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from .document import number_list, plain

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .order import OrderHints


class ColorOps:
    """Methods that append an operation on the values of uint8 (height, width, channels) images.

    `invert`, `grayscale`, `random_grayscale`, `color_jitter` and `gaussian_blur` also take float32 images in 0..1
    (`to_dtype("float32", scale=True)`): the same without rounding to levels, within 1e-4 of the reference on tensors.

    `fields`: None means `image` alone; several fields are changed by the same random numbers.
    """

    def _with_op(self, op: str, order: OrderHints, **parameters: Any) -> Self:
        raise NotImplementedError

    def invert(self, fields: Sequence[str] | None = None, **order: Unpack[OrderHints]) -> Self:
        """255 - x for every value, an alpha channel's too.

        Shape and dtype stay. Errors: InvalidArgument (no uint8 image).
        Reference: torchvision.transforms.v2.functional.invert; exact.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().invert().outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op("invert", order, fields=plain(fields))

    def solarize(self, threshold: float, fields: Sequence[str] | None = None, **order: Unpack[OrderHints]) -> Self:
        """255 - x for every value from `threshold` (0..255) on.

        Shape and dtype stay. Errors: InvalidArgument (threshold outside 0..255).
        Reference: torchvision.transforms.v2.functional.solarize; exact.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().solarize(128).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op("solarize", order, threshold=plain(threshold), fields=plain(fields))

    def posterize(self, bits: int, fields: Sequence[str] | None = None, **order: Unpack[OrderHints]) -> Self:
        """Keep the highest `bits` (0..8) of every value, the others become 0.

        Shape and dtype stay. Errors: InvalidArgument (bits outside 0..8).
        Reference: torchvision.transforms.v2.functional.posterize; exact.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().posterize(3).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op("posterize", order, bits=plain(bits), fields=plain(fields))

    def grayscale(
        self, num_output_channels: int = 1, fields: Sequence[str] | None = None, **order: Unpack[OrderHints]
    ) -> Self:
        """Luma, in each of `num_output_channels` (1 or 3) channels.

        Shape: (h, w, 1 or 3) -> (h, w, num_output_channels). Errors: InvalidArgument.
        Reference: torchvision.transforms.v2.Grayscale on PIL images, exact (so `decode_image("RGB").grayscale()` is
        `decode_image("L")`); within 1 level of it on tensors.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().grayscale().outputs[0]
        ('image', 'uint8', (None, None, 1))
        """
        return self._with_op("grayscale", order, num_output_channels=plain(num_output_channels), fields=plain(fields))

    def random_grayscale(
        self, p: float = 0.1, fields: Sequence[str] | None = None, **order: Unpack[OrderHints]
    ) -> Self:
        """Luma with probability `p`, in as many channels as there were.

        Shape and dtype stay. Errors: InvalidArgument (p outside 0..1).
        Reference: torchvision.transforms.v2.RandomGrayscale; pixels as `grayscale`.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().random_grayscale(p=0.2).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op("random_grayscale", order, p=plain(p), fields=plain(fields))

    def autocontrast(self, fields: Sequence[str] | None = None, **order: Unpack[OrderHints]) -> Self:
        """Stretch each channel so that its lowest value becomes 0 and its highest 255; a channel of one value stays.

        Shape and dtype stay. Errors: InvalidArgument (channels other than 1 or 3).
        Reference: torchvision.transforms.v2.functional.autocontrast, within 1 level.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().autocontrast().outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op("autocontrast", order, fields=plain(fields))

    def equalize(self, fields: Sequence[str] | None = None, **order: Unpack[OrderHints]) -> Self:
        """Make each channel's histogram flat.

        Shape and dtype stay. Errors: InvalidArgument (no uint8 image).
        Reference: torchvision.transforms.v2.functional.equalize; exact.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().equalize().outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op("equalize", order, fields=plain(fields))

    def adjust_sharpness(
        self, sharpness_factor: float, fields: Sequence[str] | None = None, **order: Unpack[OrderHints]
    ) -> Self:
        """Sharpen: 0 is smoothed, 1 as it was, 2 twice as sharp. The outermost pixels stay.

        Shape and dtype stay. Errors: InvalidArgument (a negative factor, channels other than 1 or 3).
        Reference: torchvision.transforms.v2.functional.adjust_sharpness on PIL images, exact; within 1 level of it on
        tensors.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().adjust_sharpness(2).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op("adjust_sharpness", order, sharpness_factor=plain(sharpness_factor), fields=plain(fields))

    def gaussian_blur(
        self,
        kernel_size: int | Sequence[int],
        sigma: float | Sequence[float] = (0.1, 2.0),
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Blur by Gaussian weights of a standard deviation uniform in `sigma`: (low, high), or one number.

        Shape and dtype stay. `kernel_size`: odd, up to 127; one number or (width, height). Beyond its border the image
        is mirrored, as often as needed. Errors: InvalidArgument (an even size, sigma outside 0.001..1000).
        Reference: torchvision.transforms.v2.GaussianBlur, within 1 level; own random numbers.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().gaussian_blur(11, (0.1, 2.0)).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op(
            "gaussian_blur", order, kernel_size=plain(kernel_size), sigma=plain(sigma), fields=plain(fields)
        )

    def color_jitter(
        self,
        brightness: float | Sequence[float] | None = None,
        contrast: float | Sequence[float] | None = None,
        saturation: float | Sequence[float] | None = None,
        hue: float | Sequence[float] | None = None,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Change brightness, contrast, saturation and hue by random factors, in random order.

        Shape and dtype stay. A factor is uniform in [max(0, 1 - x), 1 + x] for one number and in [low, high] for two;
        hue in [-x, x], in turns of the color circle, within -0.5..0.5. None leaves it alone.
        Errors: InvalidArgument (a negative number, low over high, channels other than 1 or 3).
        Reference: torchvision.transforms.v2.ColorJitter. With the same factors brightness, contrast and saturation are
        exact on PIL images; on tensors brightness is exact, saturation within 1 and contrast within 2 levels for factors up
        to 2; hue is within 1 level of tensors (on PIL images the reference rounds hue and saturation to 8 bits).

        >>> import carya
        >>> carya.image_folder("photos").decode_image().color_jitter(0.4, 0.4, 0.4, 0.1).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op(
            "color_jitter",
            order,
            brightness=plain(brightness),
            contrast=plain(contrast),
            saturation=plain(saturation),
            hue=plain(hue),
            fields=plain(fields),
        )

    def random_erasing(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: int | Sequence[int] | Literal["random"] = 0,
        fields: Sequence[str] | None = None,
        **order: Unpack[OrderHints],
    ) -> Self:
        """Fill a random rectangle (area `scale` of the image, height / width `ratio`, log-uniform) with probability `p`.

        Shape and dtype stay. `value`: 0..255, one number or one per channel; "random" fills with uniform noise (the
        reference draws from a normal distribution, which fits normalized floats alone).
        Errors: InvalidArgument (ranges not ascending, as many values as channels).
        Reference: torchvision.transforms.v2.RandomErasing; own random numbers.

        >>> import carya
        >>> carya.image_folder("photos").decode_image().random_erasing(value=(124, 116, 104)).outputs[0]
        ('image', 'uint8', (None, None, 3))
        """
        return self._with_op(
            "random_erasing",
            order,
            p=plain(p),
            scale=plain(scale),
            ratio=plain(ratio),
            value=number_list(value),
            fields=plain(fields),
        )
