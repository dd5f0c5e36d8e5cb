"""`toile view`: runs a scene live in the browser, or plays back a finished run."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

import toile
from toile.cli import completion
from toile.cli.console import console
from toile.cli.options import (
    DebugOption,
    Device,
    DeviceOption,
    OutsideOption,
    Precision,
    PrecisionOption,
    SetOption,
    ThreadsOption,
)
from toile.cli.reporter import Terminated, reporting


def command(
    scene: Annotated[
        str,
        typer.Argument(
            metavar="SCENE|RUN",
            help="a scene to run live, or the folder of a run",
            autocompletion=completion.scenes_or_runs,
        ),
    ],
    device: DeviceOption = Device.cpu,
    threads: ThreadsOption = None,
    precision: PrecisionOption = Precision.double,
    changes: SetOption = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port to listen on; 0 picks a free one")] = 8080,
    host: Annotated[
        str, typer.Option(help="address to listen on; one that other machines can reach needs --token")
    ] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option(help='secret that browsers must send; "auto" generates one', envvar="TOILE_TOKEN")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="open the page in a browser")] = True,
    allow_outside: OutsideOption = False,
    debug: DebugOption = False,
) -> None:
    """Open a page that runs a scene live, or plays back a finished run."""
    with reporting(debug):
        toile.use_precision(precision)
        from toile.errors import InputError
        from toile.scene.load import load
        from toile.viewer.live.page import LivePage
        from toile.viewer.playback.page import PlaybackPage
        from toile.viewer.server.guarded_server import serve

        is_run = Path(scene).is_dir()
        if is_run and changes:
            raise InputError(f"--set overrides values of a scene, but {scene} is the folder of a run. Omit --set.")
        loaded = None if is_run else load(scene, overrides=changes or (), allow_outside=allow_outside)
        served = serve(f"Toile: {Path(scene).stem}", host, port, token)
        page = None
        try:
            page = PlaybackPage(served.viser, Path(scene)) if loaded is None else LivePage(served.viser, loaded, device)
            console.print(f"{served.url}\nPress Ctrl-C to stop.")
            if browser:
                webbrowser.open(served.url)
            threading.Event().wait()
        except Terminated:
            raise
        except KeyboardInterrupt:
            pass
        finally:
            if page is not None:
                page.close()
            served.stop()
