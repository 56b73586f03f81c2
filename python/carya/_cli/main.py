"""The command `carya`. Needs rich and typer, which come with an installed package; the library does without."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from .. import _starting
from .._errors import Error, Exhausted, IoError


def main() -> None:
    """Entry point; exit status 0 done, 1 an error of Carya (one line on stderr), 2 wrong usage, 130 Ctrl-C."""
    try:
        _starting.interrupt_again()
        _run()
    except KeyboardInterrupt:
        raise SystemExit(_starting.INTERRUPTED) from None
    except SystemExit as end:
        if end.code == 1 and _was_interrupted(end):  # click has told it in its own way
            raise SystemExit(_starting.INTERRUPTED) from None
        raise
    finally:
        _starting.end_quietly()


def _was_interrupted(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__cause__ or seen.__context__
    return seen is not None


def _run() -> None:
    try:
        import rich
        import typer
    except ImportError as error:
        print(f"carya: the command line needs rich and typer ({error}): pip install rich typer", file=sys.stderr)
        raise SystemExit(2) from None
    del rich
    _print_anywhere()
    try:
        with _all_written():
            make_app(typer)(prog_name="carya")  # also of `python -m carya`; completion goes by it
    except Error as error:
        print(f"carya: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def _print_anywhere() -> None:
    """Let stdout escape what its encoding does not have, as a name in Japanese where a locale has ASCII; one that is closed is none."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    if sys.stdout.encoding.lower().replace("-", "") != "utf8":
        with contextlib.suppress(AttributeError):  # another object stands for it
            sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


@contextlib.contextmanager
def _all_written() -> Iterator[None]:
    """Flush stdout here, where an error of it can be told. Errors: Exhausted, IoError."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if sys.argv[1:2] == ["--install-completion"]:  # typer's, which tells no error
            raise IoError(
                f"{error.filename}: {error.strerror}; give HOME as a folder that this user can write"
            ) from None
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE) or not _was_printing(error):
            raise
        with contextlib.suppress(OSError, ValueError):  # so that nothing is written there when Python ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:  # the reader has seen enough
            raise SystemExit(1) from None
        raise Exhausted(f"the output: {error.strerror}; make room where it goes") from None


_PRINTERS = ("rich", "click", "_click", "typer")


def _was_printing(error: OSError) -> bool:
    """Whether an error of the system is from what a command prints: not from a script that it runs, which has its traceback."""
    frame, _ = list(traceback.walk_tb(error.__traceback__))[-1]
    place = frame.f_code.co_filename
    own = os.path.dirname(place) == os.path.dirname(__file__)
    return error.filename is None and (own or any(f"{os.sep}{name}{os.sep}" in place for name in _PRINTERS))


def make_app(typer: Any) -> Any:
    """The typer application with its commands.

    typer 0.7, which Debian 12 has, knows no `str | None`: an option that may be missing is `str = typer.Option(None)`.
    """
    app = typer.Typer(
        name="carya",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    _add_version(app, typer)
    _add_run(app, typer)
    _add_plan(app, typer)
    _add_doctor(app, typer)
    _add_bench(app, typer)
    _add_data(app, typer)
    _add_index(app, typer)
    _add_cache(app, typer)
    _add_service(app, typer)
    _add_daemon(app, typer)
    _add_trace(app, typer)
    return app


def _example(text: str) -> str:
    return f"Example: {text}"


def _add_version(app: Any, typer: Any) -> None:
    def show(wanted: bool) -> None:
        if wanted:
            from .. import _core

            print(f"carya {_core.version} ({_core.compiler}, Python {platform.python_version()})")
            raise typer.Exit

    @app.callback()  # type: ignore[untyped-decorator]
    def carya(
        version: bool = typer.Option(False, "--version", callback=show, is_eager=True, help="Version and build."),
    ) -> None:
        """Carya: a shared-memory data loader. Try `carya doctor`, then `carya run demo`."""


def _add_run(app: Any, typer: Any) -> None:
    from . import plan

    @app.command(  # type: ignore[untyped-decorator]
        "run", epilog=_example("carya run pipeline.json --epochs 2 --threads 4")
    )
    def run(
        target: str = typer.Argument(..., help="A pipeline document (JSON), train.py:pipeline, or the word demo."),
        data: str = typer.Option(None, help="This folder, with one folder of photos per class, in place of its own."),
        epochs: int = typer.Option(1, min=1, help="Epochs to iterate."),
        steps: int = typer.Option(None, min=1, help="Stop after this many steps."),
        threads: int = typer.Option(0, min=0, help="Threads; 0 is automatic."),
        on_error: str = typer.Option("raise", help="raise, replace or mask."),
        seed: int = typer.Option(None, min=0, help="Overrides the pipeline's seed."),
        io_engine: str = typer.Option("auto", help="auto, uring or pread."),
        reorder: str = typer.Option("exact", help=plan.REORDER),
        as_json: bool = typer.Option(False, "--json", help="One JSON line and no progress bar."),
    ) -> None:
        """Iterate a pipeline: progress with samples/s, share of time stalled and CPU use, then a table."""
        from .pipeline_file import load_pipeline
        from .run import Request, run_pipeline

        request = Request(epochs, steps, threads or "auto", on_error, seed, io_engine, reorder)
        run_pipeline(load_pipeline(target, data), request, as_json)


def _add_plan(app: Any, typer: Any) -> None:
    from .._afar import command as function_worker
    from . import placement, plan, simulate, tune

    plan.register(app, typer)
    placement.register(app, typer)
    tune.register(app, typer)
    simulate.register(app, typer)
    function_worker.register(app, typer)


def _add_doctor(app: Any, typer: Any) -> None:
    @app.command("doctor", epilog=_example("carya doctor --json"))  # type: ignore[untyped-decorator]
    def doctor(as_json: bool = typer.Option(False, "--json", help="One JSON line.")) -> None:
        """What this machine offers Carya; each problem with its fix."""
        from . import doctor

        facts, problems = doctor.examine()
        if as_json:
            print(json.dumps({**facts, "problems": [problem._asdict() for problem in problems]}))
        else:
            doctor.show(facts, problems)


def _add_bench(app: Any, typer: Any) -> None:
    @app.command("bench", epilog=_example("carya bench vision --data photos --peers"))  # type: ignore[untyped-decorator]
    def bench(
        name: str = typer.Argument(
            ..., help="vision, handoff, raw, small, ops, orders, start, daemon, functions, seeds or cache."
        ),
        data: str = typer.Option(None, help="Folder of JPEGs; seeds: with folders images, speech and text."),
        seconds: float = typer.Option(5.0, help="Per measured configuration."),
        rounds: int = typer.Option(3, min=1, help="Interleaved rounds; the median counts."),
        files: int = typer.Option(1_281_167, min=1, help="start: empty files for the listing."),
        peers: bool = typer.Option(False, "--peers", help="vision, ops: also what else is installed."),
        only: list[str] = typer.Option(None, help="seeds: a pipeline; cache: data or storage; several times."),  # noqa: B008
        python: list[str] = typer.Option(None, help="seeds: another interpreter, with Carya and what a side needs."),  # noqa: B008
        epochs: list[int] = typer.Option(None, help="cache: epochs of a run; several times for several."),  # noqa: B008
        svg: str = typer.Option(None, help="cache: write plots to this file."),
        daemon: bool = typer.Option(False, "--daemon", help="vision: through a daemon, beside embedded mode."),
        smoke: bool = typer.Option(False, "--smoke", help="A short run; its figures mean nothing."),
        as_json: bool = typer.Option(False, "--json", help="Only the JSON line."),
    ) -> None:
        """Measure against the ceiling of each task, in the same run."""
        from .._bench import Options
        from .._bench import run as run_bench

        names, others = tuple(only or ()), tuple(python or ())
        options = Options(data, seconds, rounds, peers, daemon, smoke, files, names, others, tuple(epochs or ()), svg)
        report = run_bench(name, options)
        if not as_json:
            print(report.table())
        print(report.to_json())


def _add_data(app: Any, typer: Any) -> None:
    from . import converting, inspecting

    inspecting.register(app, typer)
    converting.register(app, typer)


def _add_index(app: Any, typer: Any) -> None:
    @app.command("index", epilog=_example("carya index imagenet/train --verify"))  # type: ignore[untyped-decorator]
    def index(
        path: str = typer.Argument(
            ...,
            help="A file, a URL, a pattern, or a folder of any format that carya.open knows.",
        ),
        image: str = typer.Option(
            None, help="TFRecord, MDS, Arrow, Parquet, LMDB, beton: the feature or column of the image."
        ),
        label: str = typer.Option(None, help="TFRecord, MDS, Arrow, Parquet: the feature or column of the label."),
        columns: str = typer.Option(
            None, help="Parquet: the columns= of the training, as x,y; what is unpacked is kept by them."
        ),
        verify: bool = typer.Option(
            False, "--verify", help="Check the size and time of every file; of TFRecord files every checksum."
        ),
        decode_index: str = typer.Option("auto", help="Points inside JPEGs: auto, off, rows, 16 or 8."),
        threads: int = typer.Option(0, min=0, help="Threads; 0 is all allowed cores."),
        as_json: bool = typer.Option(False, "--json", help="One JSON line and no progress bar."),
    ) -> None:
        """List a dataset and make all that Carya keeps of it, so that the first epoch starts fast at once.

        Manifest and decode index of pictures; unpacked row groups of Parquet, compressed text and arrays; where the records of
        text begin. It says what is kept, and where; nothing beside the data is written.
        """
        from .cache import index_dataset

        index_dataset(path, verify, decode_index, threads, as_json, image, label, columns)


def _add_service(app: Any, typer: Any) -> None:
    from . import service

    service.register(app, typer)


def _add_cache(app: Any, typer: Any) -> None:
    cache = typer.Typer(
        name="cache",
        help="What is kept beside datasets: manifests, decode indexes, unpacked data, samples. All of it can be made anew.",
        epilog=_example("carya cache ls"),
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.add_typer(cache)
    chosen = typer.Argument(None, help="Names as `ls` shows them, or beginnings of fingerprints.")
    checked = typer.Argument(None, help="As for rm; all files when none is given.")
    folder = typer.Option(None, "--folder", help="A folder of samples that cache= names; else the cache folder.")

    @cache.command("ls", epilog=_example("carya cache ls --json"))  # type: ignore[untyped-decorator]
    def ls(folder: str = folder, as_json: bool = typer.Option(False, "--json", help="One JSON line.")) -> None:
        """Show the files of the cache folder, or the samples in another one."""
        from . import cache

        cache.show(folder, as_json)

    @cache.command("rm", epilog=_example("carya cache rm c8f2f0c4"))  # type: ignore[untyped-decorator]
    def rm(
        names: list[str] = chosen,
        everything: bool = typer.Option(False, "--all", help="All that ls shows."),
        folder: str = folder,
        as_json: bool = typer.Option(False, "--json", help="One JSON line."),
    ) -> None:
        """Remove files of the cache folder or samples of another one; running jobs go on and begin new ones."""
        from . import cache

        cache.remove(names or [], everything, folder, as_json)

    @cache.command("verify", epilog=_example("carya cache verify --json"))  # type: ignore[untyped-decorator]
    def verify(
        names: list[str] = checked,
        folder: str = folder,
        as_json: bool = typer.Option(False, "--json", help="One JSON line."),
    ) -> None:
        """Read and check every byte; exit status 1 when something is damaged."""
        from . import cache

        cache.verify(names or [], folder, as_json)

    @cache.command(  # type: ignore[untyped-decorator]
        "warm", epilog=_example("carya cache warm train.py:pipeline --folder /nvme/carya --capacity 500GB")
    )
    def warm(
        target: str = typer.Argument(..., help="A pipeline document (JSON), train.py:pipeline, or the word demo."),
        into: str = typer.Option(..., "--folder", help="The folder, as in Loader(cache=)."),
        capacity: str = typer.Option(..., help="Bytes of all that may lie there, such as 500GB."),
        shared: bool = typer.Option(False, "--shared", help="The folder is that of several machines."),
        after: str = typer.Option(None, help="Keep behind this operation; else where later epochs cost least."),
        data: str = typer.Option(None, help="This folder, with one folder of photos per class, in place of its own."),
        threads: int = typer.Option(0, min=0, help="Threads; 0 is automatic."),
        as_json: bool = typer.Option(False, "--json", help="One JSON line and no progress bar."),
    ) -> None:
        """Fill a folder of samples before a training, so that its first epoch finds them."""
        from . import cache
        from .pipeline_file import load_pipeline

        place = {"shared" if shared else "disk": (into, capacity)} | ({"after": after} if after else {})
        cache.warm(load_pipeline(target, data), place, threads or "auto", as_json)


def _add_trace(app: Any, typer: Any) -> None:
    given = typer.Argument(None, help="What the script is given, behind --.")

    @app.command("trace", epilog=_example("carya trace train.py -o run.pftrace -- --epochs 1"))  # type: ignore[untyped-decorator]
    def trace(
        target: str = typer.Argument(
            None, help="A pipeline document (JSON), train.py:pipeline, demo, or a script; none: the daemon."
        ),
        arguments: list[str] = given,
        output: str = typer.Option(None, "-o", "--output", help="The file; else carya.pftrace, or carya-trace.json."),
        chrome: bool = typer.Option(False, "--chrome", help="Chrome's JSON in place of Perfetto's format."),
        events: int = typer.Option(65_536, min=1, help="The newest events that each thread keeps, of 64 B."),
        steps: int = typer.Option(1_000, min=1, help="Of a pipeline: stop after this many steps of its first epoch."),
        threads: int = typer.Option(0, min=0, help="Of a pipeline: threads; 0 is automatic."),
        seconds: float = typer.Option(5.0, min=0.0, max=600.0, help="Of a daemon: how long."),
        job: str = typer.Option("", help="Of a daemon: only this job, as status names it."),
        socket: str = typer.Option(None, "--socket", help="Where the daemon listens; else as loaders find it."),
        as_json: bool = typer.Option(False, "--json", help="One JSON line."),
    ) -> None:
        """Record what a stream does over time, for ui.perfetto.dev: reads, chunks, slots, next(), workers, functions."""
        from .._watching import tracing

        path = tracing.check_output(output, chrome)
        before = tracing.written(path)
        try:
            if not target:
                from .daemon import find

                tracing.trace_daemon(find(socket), job, path, seconds=seconds, chrome=chrome, events=events)
            elif target.endswith(".py") and ":" not in target:
                tracing.trace_script(target, arguments or [], path, chrome=chrome, events=events)
            else:
                from .pipeline_file import load_pipeline

                pipeline = load_pipeline(target, None)
                tracing.trace_pipeline(
                    pipeline, path, steps=steps, threads=threads or "auto", chrome=chrome, events=events
                )
        finally:
            tracing.say(path, before, as_json)


def _add_daemon(app: Any, typer: Any) -> None:
    at = typer.Option(None, "--socket", help="Where the daemon listens; else as loaders find it.")
    in_json = typer.Option(False, "--json", help="One JSON line.")
    of_all = typer.Option(
        False, "--all-users", help="As root, where one service is for all users: the daemons of all of them."
    )

    @app.command("status", epilog=_example("carya status --json"))  # type: ignore[untyped-decorator]
    def status(
        socket: str = at,
        all_users: bool = of_all,
        as_json: bool = in_json,
    ) -> None:
        """The daemon, its jobs, ranks and readers: rates, share of time stalled, slots, memory."""
        from . import daemon

        (daemon.show_all_users if all_users else daemon.show_status)(socket, as_json)

    @app.command("top", epilog=_example("carya top"))  # type: ignore[untyped-decorator]
    def top(
        socket: str = at,
        all_users: bool = of_all,
        once: bool = typer.Option(False, "--once", help="Show it once and end."),
        web: bool = typer.Option(False, "--web", help="As a page for a browser, until Ctrl-C; prints its address."),
        address: str = typer.Option("127.0.0.1:0", help="Of the page: HOST:PORT of the loopback, or a socket's path."),
        as_json: bool = in_json,
    ) -> None:
        """The status, every second; q or Ctrl-C ends."""
        from . import daemon

        if web:
            from .._watching.serving import serve_all_users, serve_daemon

            if all_users:
                serve_all_users(socket, address, once, as_json)
            else:
                serve_daemon(daemon.find(socket), address, once, as_json)
            return
        daemon.top(socket, all_users, once, as_json)

    @app.command("logs", epilog=_example("carya logs -n 50"))  # type: ignore[untyped-decorator]
    def logs(
        socket: str = at,
        lines: int = typer.Option(100, "-n", "--lines", min=1, max=1000, help="How many of the last lines."),
        as_json: bool = in_json,
    ) -> None:
        """The last lines of the daemon's log."""
        from . import daemon

        daemon.logs(socket, lines, as_json)

    @app.command("drain", epilog=_example("carya drain"))  # type: ignore[untyped-decorator]
    def drain(socket: str = at, as_json: bool = in_json) -> None:
        """Let the daemon finish what is leased, refuse new jobs, and end. Loaders wait for its successor."""
        from . import daemon

        daemon.drain(socket, as_json)

    job = typer.Typer(
        name="job",
        help="Jobs of the daemon.",
        epilog=_example("carya job stop exp7"),
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.add_typer(job)

    @job.callback()  # type: ignore[untyped-decorator]
    def jobs() -> None:
        """Jobs of the daemon."""

    @job.command("stop", epilog=_example("carya job stop exp7"))  # type: ignore[untyped-decorator]
    def stop(
        name: str = typer.Argument(..., help="The job's name, as status shows it."),
        socket: str = at,
        as_json: bool = in_json,
    ) -> None:
        """End a job of the daemon; its readers are told."""
        from . import daemon

        daemon.stop_job(socket, name, as_json)
