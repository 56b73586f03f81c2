"""Chromium without a window: what becomes of a page in a real browser."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

PROGRAM = shutil.which("chromium")
MISSING = "no chromium here; on Debian: apt-get install chromium"

# Reads what came of the page in a frame, which is of the same origin, and says it in the document itself.
_LOOK = """
<body style="margin:0"><iframe id=f style="border:0;width:{width}px;height:{height}px" srcdoc="{page}"></iframe><pre id=said></pre>
<script>
window.ran = 0;
onload = () => {{
  const d = document.getElementById("f").contentDocument, e = d.documentElement;
  const broken = [...d.images].filter(i => !(i.complete && i.naturalWidth > 0)).length;
  document.getElementById("said").textContent = ["@", e.scrollWidth, d.images.length, broken, d.scripts.length, window.ran,
    performance.getEntriesByType("resource").length + d.defaultView.performance.getEntriesByType("resource")
      .filter(r => !r.name.startsWith("data:")).length, "@", d.body.innerText].join("\\n");
}};
</script>
"""


def _run(*arguments: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="chromium-") as profile:
        done = subprocess.run(
            [
                str(PROGRAM), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                "--disable-dev-shm-usage", f"--user-data-dir={profile}", *arguments,
            ],
            check=True, capture_output=True, timeout=300,
        )  # fmt: skip
    return done.stdout


class Seen:
    """What a browser made of a page."""

    def __init__(self, width: int, images: int, broken: int, scripts: int, ran: int, fetched: int, text: str) -> None:
        self.width, self.images, self.broken, self.scripts = width, images, broken, scripts
        self.ran, self.fetched, self.text = ran, fetched, text


def look(page: str, folder: Path, width: int, height: int = 3000) -> Seen:
    """Show the page in a frame of so many pixels. `width` of the answer: what it needs. `ran`: scripts that set `ran`."""
    file = folder / "look.html"
    file.write_text(_LOOK.format(page=html.escape(page), width=width, height=height))
    dom = _run("--dump-dom", f"--window-size={max(width, 500)},{height}", file.as_uri()).decode()
    found = re.search(r"<pre id=\"said\">@\n(.*?)\n@\n(.*?)</pre>", dom, re.DOTALL)
    assert found, dom[-2000:]
    numbers: list[Any] = [int(line) for line in found[1].splitlines()]
    return Seen(*numbers, html.unescape(found[2]))


def picture(page: str, folder: Path, width: int, *, dark: bool, height: int = 2000) -> np.ndarray[Any, Any]:
    """RGB of the page in a frame of so many pixels."""
    (folder / "page.html").write_text(page)
    frame = folder / "frame.html"
    frame.write_text(
        f'<body style="margin:0"><iframe src="page.html" style="border:0;width:{width}px;height:{height}px"></iframe>'
    )
    to = folder / "shot.png"
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    _run(f"--screenshot={to}", f"--window-size={max(width, 500)},{height}", scheme, frame.as_uri())
    with Image.open(to) as shot:
        return np.asarray(shot.convert("RGB"))[:, :width]
