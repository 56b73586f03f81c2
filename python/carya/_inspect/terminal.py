"""Pictures on a terminal: by the protocol that it has, else as half blocks in 24 bits of colour."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from .pictures import png, shrunk

Protocol = Literal["kitty", "iterm2", "blocks", "off"]
PROTOCOLS = ("auto", "kitty", "iterm2", "blocks", "off")
_PIECE = 4096  # letters of base64 in one command. Source: kitty's graphics protocol, "Remote client"
_COLUMNS, _ROWS = 40, 12  # that a picture takes at most
_CELL = 2  # height of a cell in widths
SIDE = 480  # pixels that a picture is sent with at most


def protocol_of(environment: Mapping[str, str], is_terminal: bool) -> Protocol:
    """What the terminal understands, as its environment says. Inside of tmux and screen nothing but letters comes through.

    >>> protocol_of({"TERM": "xterm-kitty"}, True), protocol_of({"TERM": "xterm-256color"}, False)
    ('kitty', 'off')
    """
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if not is_terminal or term in ("", "dumb"):
        return "off"
    inside = environment.get("TMUX") or environment.get("STY") or term.startswith(("screen", "tmux"))
    if not inside:
        if environment.get("KITTY_WINDOW_ID") or term in ("xterm-kitty", "xterm-ghostty") or program == "ghostty":
            return "kitty"
        if program in ("iTerm.app", "WezTerm", "mintty") or environment.get("LC_TERMINAL") == "iTerm2":
            return "iterm2"
    return "off" if environment.get("NO_COLOR") or term == "linux" else "blocks"


def picture(pixels: np.ndarray[Any, Any], protocol: Protocol, columns: int) -> str:
    """What shows RGB uint8 (h, w, 3) when it is printed, with a line end; "" for `off`."""
    width, height = _cells(pixels, min(columns, _COLUMNS))
    if protocol == "kitty":
        text = base64.b64encode(png(pixels)).decode()
        pieces = [text[i : i + _PIECE] for i in range(0, len(text), _PIECE)]
        head = f"a=T,f=100,q=2,c={width},r={height},"
        sent = [
            f"\x1b_G{head if i == 0 else ''}m={int(i < len(pieces) - 1)};{piece}\x1b\\"
            for i, piece in enumerate(pieces)
        ]
        return "".join(sent) + "\n"
    if protocol == "iterm2":
        data = png(pixels)
        how = f"inline=1;size={len(data)};width={width};height={height};preserveAspectRatio=1"
        return f"\x1b]1337;File={how}:{base64.b64encode(data).decode()}\x07\n"
    return _blocks(pixels, width, height) if protocol == "blocks" else ""


def _cells(pixels: np.ndarray[Any, Any], columns: int) -> tuple[int, int]:
    """Width and height in cells of the terminal, of the same ratio."""
    height, width = pixels.shape[:2]
    scale = min(columns / width, _ROWS * _CELL / height)
    return max(round(width * scale), 1), max(round(height * scale / _CELL), 1)


def _blocks(pixels: np.ndarray[Any, Any], width: int, height: int) -> str:
    """Two pixels in a cell: the upper half block in the colour of one, on the colour of the other."""
    small = shrunk(pixels, max(2 * height, width) * 2)
    rows = (np.arange(2 * height) * small.shape[0]) // (2 * height)
    across = (np.arange(width) * small.shape[1]) // width
    cells = small[rows][:, across].reshape(height, 2, width, 3)
    lines = []
    for upper, lower in cells:
        line = [
            f"\x1b[38;2;{a[0]};{a[1]};{a[2]};48;2;{b[0]};{b[1]};{b[2]}m\u2580"
            for a, b in zip(upper.tolist(), lower.tolist(), strict=True)
        ]
        lines.append("".join(line) + "\x1b[0m\n")
    return "".join(lines)
