"""`carya function-worker`."""

from __future__ import annotations

import os
from typing import Any

from .._errors import InvalidArgument


def register(app: Any, typer: Any) -> None:
    """Add the command to the application."""

    @app.command(  # type: ignore[untyped-decorator]
        "function-worker",
        epilog="Example: carya function-worker --allow-functions --token-file ~/.carya-token --processes 16",
    )
    def function_worker_command(
        allow_functions: bool = typer.Option(
            False, "--allow-functions", help="Needed: whoever holds the token may run any code as this user."
        ),
        listen: str = typer.Option("127.0.0.1:7071", help="Address and port; port 0 takes a free one and says it."),
        token_file: str = typer.Option(..., help="A file with a token, which only this user can read."),
        tls_cert: str = typer.Option("", help="Certificate (PEM); needed where other machines can reach it."),
        tls_key: str = typer.Option("", help="Its key (PEM)."),
        insecure: bool = typer.Option(False, "--insecure", help="Other machines, and no TLS."),
        processes: int = typer.Option(0, min=0, max=4096, help="Processes that make rows; 0: as many as cores."),
    ) -> None:
        """Make rows of the Python functions of trainers on other machines, while those have no core left.

        Trainers name it by `Loader(function_workers=["host:7071"], function_tls={"token": FILE, "ca": FILE})`. It needs the same
        Python, packages and files under the same paths; it says what differs, and makes nothing then. Ctrl-C ends it; trainers go
        on by themselves.
        """
        if not allow_functions:
            raise InvalidArgument(
                "function-worker: whoever holds the token may run any code as this user; say so by --allow-functions"
            )
        from .server import run

        path = os.path.expanduser(token_file)
        raise typer.Exit(run(listen, path, tls_cert, tls_key, insecure, processes or len(os.sched_getaffinity(0))))
