"""A survey as one HTML page: nothing outside of it, no script, nothing in it that the data could start."""

from __future__ import annotations

import base64
import html
from typing import Any

from .. import _core
from .pictures import pixels_of, png
from .survey import Shown, Survey
from .texts import short

_SIDE = 320  # pixels of a picture's longer side
_TEXT = 600  # letters of a value

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --paper: #fff; --line: #d8dee6; --card: #f5f7fa; --bad: #a3261b }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --soft: #9aa6b5; --paper: #12161c; --line: #2d3642; --card: #1a2029; --bad: #ff9a8f }
}
body { margin: 0 auto; max-width: 1100px; padding: 1rem; font: 15px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper) }
h1 { font-size: 1.3rem; overflow-wrap: anywhere } h2 { font-size: 1.05rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } .wide { overflow-x: auto }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere }
.wide th, .wide td { overflow-wrap: normal }
th { font-weight: 600; color: var(--soft) }
code, pre { font: 13px/1.5 ui-monospace, monospace } pre { background: var(--card); padding: .6rem; overflow-x: auto }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .6rem .8rem; margin: .8rem 0 }
.card h3 { font-size: .95rem; margin: 0 0 .4rem } .place { color: var(--soft); font-weight: 400; overflow-wrap: anywhere }
.card td:first-child { white-space: nowrap; color: var(--soft) } .bad { color: var(--bad) }
img { max-width: 100%; height: auto; display: block; margin: .3rem 0; image-rendering: auto }
"""


def page(found: Survey, figures: list[tuple[str, str]]) -> str:
    """The page. `figures`: what is known of the whole, as it is shown on a terminal too."""
    facts = "".join(f"<tr><th scope=row>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in figures)
    fields = "".join(
        f"<tr><td><code>{_text(one.name)}</code></td><td>{_text(one.dtype)}</td><td>{_text(one.shape)}</td>"
        f"<td>{one.seen:,}</td></tr>"
        for one in found.fields
    )
    notes = "".join(f"<p class=bad>{_text(note)}</p>" for note in found.notes)
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(found.path)}</title><style>{_STYLE}</style></head><body>
<h1>{_text(found.path)}</h1>
<table>{facts}</table>{notes}
<h2>Fields</h2>
<div class=wide><table><tr><th>field</th><th>dtype</th><th>shape</th><th>in how many of {found.looked_at:,}</th></tr>{fields}</table></div>
<h2>Records</h2>
{"".join(map(_card, found.shown))}
<h2>Open it</h2>
<pre>{_text(found.line)}</pre>
</body></html>
"""


def _card(record: Shown) -> str:
    head = f"<h3>{record.index:,} <span class=place>{_text(record.place)}</span></h3>"
    if record.problem:
        return f"<div class=card>{head}<p class=bad>{_text(record.problem)}</p></div>\n"
    rows = "".join(
        f"<tr><td>{_text(str(name))}</td><td>{_value(value)}</td></tr>" for name, value in record.values.items()
    )
    return f"<div class=card>{head}<table>{rows}</table></div>\n"


def _value(value: Any) -> str:
    said = _text(short(value, _TEXT))
    pixels, problem = pixels_of(value, _SIDE)
    if pixels is not None:
        height, width = pixels.shape[:2]
        data = base64.b64encode(png(pixels)).decode()
        return f'<img alt="{said}" width="{width}" height="{height}" src="data:image/png;base64,{data}">{said}'
    return said + (f" <span class=bad>{_text(problem)}</span>" if problem else "")


def _text(text: str) -> str:
    """What steers a terminal, or the direction of letters, is escaped as there."""
    return html.escape(_core.escaped(text.encode("utf-8", "surrogatepass")))
