"""Why a pipeline runs as it does: for a program (a dict), a person (text) and the eye (a picture)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import functions, stores, stream


class Explanation(dict[str, Any]):
    """What `Pipeline.explain()` and `Loader.explain()` give: a dict that prints as a text and draws itself.

    >>> import carya
    >>> p = carya.image_folder("photos").decode_image().color_jitter(0.4, hue=0.1).random_crop(224).batch(8)
    >>> print(str(p.explain()).splitlines()[0])
    decode_image > random_crop > color_jitter
    >>> p.explain().svg().startswith("<svg")
    True
    """

    def svg(self) -> str:
        """A picture of the plan, as the text of an SVG file: the operations as written and as they run, what each costs,
        which ones moved, and the size of a sample between them."""
        from .svg import draw

        return draw(self)

    def _repr_svg_(self) -> str:  # what notebooks look for
        return self.svg()

    def __str__(self) -> str:
        blocks = [
            [*_relaxed(self), *_order(self)],
            _difference(self),
            _passes(self, timed) if (timed := timed_order(self)) else _operations(self),
            _earlier(self),
            _moves(self),
            functions.lines(self),
            _others(self),
            [*_parallelism(self), *stream.lines(self)],
            [*stores.lines(self)],
            [*_cache(self)],
        ]
        return "\n\n".join(text for block in blocks if (text := "\n".join(block)))


def microseconds(us: float) -> str:
    """Three digits, or all that a sample may take.

    >>> microseconds(0.0357), microseconds(6), microseconds(498.97), microseconds(12345.6)
    ('0.04', '6.00', '499', '12,346')
    """
    return f"{us:,.0f}" if us >= 100 else f"{us:.1f}" if us >= 10 else f"{us:.2f}"


def size(count: float) -> str:
    """Bytes for a person.

    >>> size(900), size(562_500), size(5e6)
    ('900 B', '549 KiB', '4.8 MiB')
    """
    if count < 1000:
        return f"{count:.0f} B"
    if count < 1000 << 10:
        return f"{count / 1024:.0f} KiB" if count >= 10 << 10 else f"{count / 1024:.1f} KiB"
    return f"{count / (1 << 20):,.1f} MiB"


def age(seconds: float) -> str:
    """How long ago.

    >>> age(0.2), age(70), age(8000), age(400_000)
    ('now', '70 s ago', '2 h ago', '5 days ago')
    """
    if seconds < 1:
        return "now"
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / 3600:.0f} h ago" if seconds < 172_800 else f"{seconds / 86_400:.0f} days ago"


def moves_of(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the cheapest order turns round and the one that runs does too."""
    place = {name: number for number, name in enumerate(report["order"])}
    return [move for move in report["moves"] if place[move["op"]] < place[move["passes"]]]


def timed_order(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """The order that runs as its passes were timed; None: only the estimates of its operations are known.

    An estimate is of an operation by itself, over the whole picture, and serves to compare orders; a pass may read only
    the region that later ones need. So a text has the figures of one of the two.
    """
    for ran in report["measured"]:
        if ran["order"] == report["order"] and ran["us"] > 0:
            return dict(ran)
    return None


def origin(op: dict[str, Any]) -> str:
    """Where the cost of an operation is from."""
    if op["source"] in ("assumed", "untimed"):
        return "assumed" if op["source"] == "assumed" else "not timed"
    shared = "with its pass, " if op["source"] == "shared" else ""
    return f"{shared}{op['samples']:,.0f} samples, {age(op['age_s'])}"


def _relaxed(report: Explanation) -> Iterator[str]:
    """What the user gives up without having said so, where it is much."""
    relaxed = report.get("relaxed")
    if relaxed and not report.get("plan"):
        yield (
            f'reorder="relaxed" would make a sample {report["us"] / relaxed["us"]:.2g} times as cheap by the estimates '
            f"({microseconds(relaxed['us'])} us of CPU time, not {microseconds(report['us'])}): {' > '.join(relaxed['order'])}. "
            'The bits would be others; explain("relaxed") measures how far they lie apart.'
        )


def _order(report: Explanation) -> Iterator[str]:
    timed = timed_order(report)
    us = f"{microseconds(timed['us'] if timed else report['us'])} us of CPU time per sample"
    kind = "as timed" if timed else "as estimated"
    yield " > ".join(report["order"])
    if report["order"] == report["declared"]:
        yield f"This is the order as written: {us}, {kind}."
    else:
        ratio = report["declared_us"] / max(report["us"], 1e-9)
        yield f"{us} in this order, {kind}; as written ({' > '.join(report['declared'])}) {ratio:.2g} times that, by the estimates."
        yield "The bits are the same." if report["same_bits"] else "The bits are others."
    best = report["best"]
    if best["us"] < 0.99 * report["us"]:
        kept = "; the plan was given and is kept" if report.get("plan") else ""
        less = 1 - best["us"] / report["us"]
        yield f"By the estimates the cheapest order is {' > '.join(best['order'])}: {less:.0%} less{kept}."
    if not report["proven"]:
        yield "There are too many orders to look at all of them; a cheaper one may exist."


def _kept_after(place: Any) -> str:
    """A place of the cache: "decode_image", or "reading, as packed coefficients"."""
    files = [name for tier, name in _FILES.items() if place.get(tier)]
    beside = f", on {' and '.join(files)} too" if files else ""
    return f"{place['after']}{_FORMS.get(place['form'], '')}{beside}"


_SAID_SHARE = 0.005  # less is not said
_FILES = {"disk": "the disk", "shared": "the shared folder"}
_FORMS = {"coefficients": ", as packed coefficients", "records": ", as the records are"}


def _cache(report: Explanation) -> Iterator[str]:
    """What is kept for later epochs; nothing where nobody asked for it."""
    cache = report.get("cache")
    if not cache:
        return
    if cache["after"] is None:
        yield f"Nothing is kept for later epochs: {cache['why'].removeprefix('nothing is kept: ')}."
    else:
        found = cache["hits"] / cache["looked"] if cache["looked"] else 0.0
        yield (
            f"Kept after {_kept_after(cache)}: {cache['records']:,} samples, {size(cache['bytes'])} of "
            f"{size(cache['capacity_bytes'])}; {found:.1%} of the look-ups found one."
        )
        if cache["period_epochs"]:
            yield (
                f"They are those of {cache['period_epochs']:,} epochs, as reuse_augmentation says; then all of them are made anew."
            )
        if cache["found_share"] >= _SAID_SHARE:
            yield (
                f"{cache['found_share']:.0%} of the samples were there already when this loader began to keep them: "
                "by other loaders, or by an earlier run."
            )
    if cache["hit_us"] and cache["sample_us"]:
        filled = f"; to keep it took {microseconds(cache['fill_us'])}" if cache["fill_us"] else ""
        saved = f" {cache['saved_cpu_s']:.1f} CPU seconds were saved." if cache["saved_cpu_s"] is not None else ""
        yield (
            f"A sample takes {microseconds(cache['hit_us'])} us from there and {microseconds(cache['sample_us'])} "
            f"without{filled}.{saved}"
        )
    if cache["damaged_records"]:
        yield f"{cache['damaged_records']:,} samples that were kept were not whole, and are computed from their records."
    if read := cache.get("read"):
        yield (
            f"Reading a record from its store counts as {microseconds(read['money_us'])} us of CPU time for the money, "
            f"{microseconds(read['cpu_us'])} for the requests, and takes the threads {microseconds(read['wait_us'])} at its best rate."
        )
    if cache["after"] is not None and cache["asked_bytes"] > cache["capacity_bytes"]:
        yield f"{size(cache['asked_bytes'])} of memory were asked for, and {size(cache['capacity_bytes'])} given: what others left of it."
    for line in cache["bounded"]:
        yield f"{line[0].upper()}{line[1:]}."
    for tier in cache["files"]:
        if tier["over_budget"]:
            whose = (
                "that of this loader or of the daemon"
                if cache["write_budget"]
                else "[cache] write_budget of the daemon"
            )
            yield f"Nothing more is written to {tier['path']} today: {whose} is used."
        yield (
            f"In files of {tier['path']}: {tier['records']:,} samples, {size(tier['bytes'])} of "
            f"{size(tier['capacity_bytes'])}; {tier['hit_share']:.1%} of the look-ups found one there."
        )
    yield from _storages(cache)
    for choice in cache["choices"][1:]:
        back = choice["pays_back_epochs"]
        when = "never" if back is None else f"after {back:.1f} epochs"
        there = f", {choice['kept_share']:.0%} of all are there" if choice["kept_share"] >= _SAID_SHARE else ""
        yield (
            f"  after {_kept_after(choice)}: {size(choice['bytes'])} a sample, {choice['share']:.0%} of them fit{there}, "
            f"{microseconds(choice['later_us'])} us in a later epoch; paid back {when}."
        )


def _storages(cache: Mapping[str, Any]) -> Iterator[str]:
    """What the storages give that "auto" may use, and what writing to them brought."""
    for storage in cache["storages"]:
        if storage["known"]:
            yield (
                f"{storage['path']} gives samples of {size(storage['sample_bytes'])} at {size(storage['read_bytes_per_s'])}/s, "
                f"{size(storage['cached_bytes_per_s'])}/s of what is in memory, and takes {size(storage['write_bytes_per_s'])}/s: "
                f"measured {age(storage['age_s'])}."
            )
        else:
            yield f"{storage['path']} is not weighed: {storage['trouble'] or 'its rates are being measured'}."
    written = sum(tier["written_bytes"] for tier in cache["files"])
    saved = sum(tier["saved_cpu_s"] or 0.0 for tier in cache["files"])
    if written and saved > 0:
        yield f"{size(written)} were written to save {saved:.1f} CPU seconds: {size(written / saved)} for each."
    if cache["files"] and not cache["fills_more"]:
        yield "Nothing more is put there: it would not pay before the run ends."


def _difference(report: Explanation) -> Iterator[str]:
    if report["same_bits"] or "difference" not in report:
        return
    measured = report["difference"]
    if measured is None:
        yield "How far the results lie apart was not measured: the data cannot be read here; give --data FOLDER."
        return
    yield f"Measured over {measured['records']:,} records, to what is written:"
    for name, tensor in measured["tensors"].items():
        psnr = "no noise" if tensor["psnr"] is None else f"PSNR {tensor['psnr']:.1f} dB"
        yield f"  {name}: mean {tensor['mean']:.3g}, max {tensor['max']:.3g}, {psnr}."


def _operations(report: Explanation) -> list[str]:
    total = max(report["us"], 1e-9)
    rows = [("operation, as estimated", "CPU us", "share", "bytes in", "bytes out", "inflation", "source")]
    for op in report["ops"]:
        rows.append((("+ " if op["fused"] else "") + op["op"], *_figures(op, total), origin(op)))
    lines = _table(rows, left=(0, 6))
    if any(op["fused"] for op in report["ops"]):
        lines.append("+ in the same pass as the operation above it")
    return lines


def _passes(report: Explanation, timed: Mapping[str, Any]) -> Iterator[str]:
    rows = [("pass, as timed", "CPU us", "share", "bytes in", "bytes out", "inflation", "samples")]
    for stage in timed["stages"]:
        rows.append((stage["name"], *_figures(stage, timed["us"]), f"{stage['samples']:,.0f}"))
    yield from _table(rows, left=(0,))
    yield f"Timed {age(timed['age_s'])}."


def _earlier(report: Explanation) -> Iterator[str]:
    for ran in report["measured"]:
        if ran["order"] != report["order"]:
            yield f"{microseconds(ran['us'])} us as {' > '.join(ran['order'])}: {ran['samples']:,.0f} samples, {age(ran['age_s'])}."


def _figures(line: dict[str, Any], total: float) -> tuple[str, ...]:
    cost = (microseconds(line["us"]), f"{line['us'] / total:.0%}")
    if not line["bytes_in"] and not line["bytes_out"]:
        return (*cost, "", "", "")  # not measured
    inflation = line["bytes_out"] / line["bytes_in"] if line["bytes_in"] > 0 else 0.0
    return (*cost, f"{line['bytes_in']:,.0f}", f"{line['bytes_out']:,.0f}", f"{inflation:.2f}")


def _moves(report: Explanation) -> Iterator[str]:
    moves = moves_of(report)
    for op in dict.fromkeys(move["op"] for move in moves):
        passed = [
            f"{move['passes']} ({_saved(move)})" if move["saved_us"] > 0 else move["passes"]
            for move in moves
            if move["op"] == op
        ]
        yield f"{op} runs before {', '.join(passed)}."
    timed = timed_order(report)
    for fusion in report["fusions"] if report["order"] == report["best"]["order"] else ():
        if timed is None or any({fusion["op"], fusion["with"]} <= set(stage["ops"]) for stage in timed["stages"]):
            yield f"{fusion['op']} shares the pass of {fusion['with']} ({_saved(fusion)})."


def _saved(line: dict[str, Any]) -> str:
    return f"saves {'at least' if line['at_least'] else 'about'} {microseconds(line['saved_us'])} us by the estimates"


def _others(report: Explanation) -> Iterator[str]:
    if report["alternatives"]:
        yield "Within 20 % of the cheapest, and why not:"
        yield from (f"  {other['text']}" for other in report["alternatives"])


def _parallelism(report: Explanation) -> Iterator[str]:
    given = report["parallelism"]
    threads = given["threads"]
    timed = timed_order(report)
    us = timed["us"] if timed else report["us"]
    line = f"Parallelism: {threads} {stream.workers(threads, given)}"
    if "slots" in given:
        line += (
            f", {given['slots']} slots, tasks of {given['chunk_rows']} samples, {given['ahead_chunks']} of them ahead"
        )
    line += f"; {given['cores']:g} cores allowed."
    if us > 0:
        line += f" At {microseconds(us)} us a {given.get('kind', 'thread')} makes {1e6 / us:,.0f} samples/s, all of them {threads * 1e6 / us:,.0f}."
    yield line


def _table(rows: Sequence[Sequence[str]], left: tuple[int, ...]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
