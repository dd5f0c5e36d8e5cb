"""`toile view`: what it refuses, and that it serves a page until Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from made_runs import make_run
from typer.testing import CliRunner, Result

pytest.importorskip("viser")

from toile.cli import app

SMALL = ("hang", "--set", "cloth[0].shape.resolution=[5, 5]")


def view(*words: str) -> Result:
    return CliRunner().invoke(app, ["view", *words, "--no-browser"])


def test_what_cannot_be_shown_is_reported_in_words(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words, messages in (
            (("hagn",), 'Did you mean "hang"?'),
            ((str(tmp_path),), "not the folder of a finished run"),
            ((str(tmp_path / "run"), "--set", "time.fps=3"), "--set overrides values of a scene"),
            (("hang", "--port", port), f"port {port} of 127.0.0.1 is taken"),
            (("hang", "--port", "0", "--host", "0.0.0.0"), "needs a token"),
            (("hang", "--port", "0", "--token", "short"), "16 printable ASCII characters"),
        ):
            result = view(*words)
            assert (result.exit_code, result.stdout) == (2, "")
            assert messages in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C cannot be sent to one process there")
@pytest.mark.parametrize("shown", ["scene", "run"])
def test_it_serves_a_page_until_it_is_stopped(tmp_path: Path, shown: str) -> None:
    make_run(tmp_path / "run")
    what = SMALL if shown == "scene" else (str(tmp_path / "run"),)
    command = [sys.executable, "-c", START, "view", *what, "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url, how_to_end = (process.stdout.readline().strip() for _ in range(2))
            with urllib.request.urlopen(url, timeout=20.0) as answer:
                assert answer.headers["Content-Type"].startswith("text/html")
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=60.0)
        finally:
            process.kill()
    assert (process.returncode, out, errors) == (0, "", "")
    assert how_to_end == "Press Ctrl-C to stop."


# Also where the tests themselves were started deaf to Ctrl-C.
START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from toile.cli import main; main()"
