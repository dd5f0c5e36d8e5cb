"""Measures the live page with `hang`, 51 x 51, and writes the results to benchmarks/live.json.

    OPENBLAS_NUM_THREADS=1 python benchmarks/live.py [name ...]

Needs Chromium and playwright. Without names everything is measured, in 13 minutes. `toile view` runs as users start
it; the browser renders in software, on the same cores.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from results import record

HERE = Path(__file__).parent
DRAWN_IN_SOFTWARE = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
VIEWPORT = {"width": 1024, "height": 768}

WARM_UP, MEASURED, LONG = 20.0, 60.0, 600.0  # [s]


@contextlib.contextmanager
def viewed(scene: str) -> Iterator[tuple[str, int]]:
    """Address and process id of a live page."""
    command = [sys.executable, "-m", "toile", "view", scene, "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.terminate()


@contextlib.contextmanager
def browsing(url: str) -> Iterator[Page]:
    with sync_playwright() as engine:
        chromium = engine.chromium.launch(executable_path=shutil.which("chromium"), args=DRAWN_IN_SOFTWARE)
        page = chromium.new_page(viewport=VIEWPORT)
        page.goto(url)
        page.wait_for_function("document.body.innerText.includes('frame ')", timeout=120_000)
        yield page
        chromium.close()


def frame_of(page: Page) -> int:
    """The number of the frame that the page shows."""
    found = re.search(r"frame (\d+)", page.inner_text("body"))
    assert found is not None
    return int(found[1])


def resident(pid: int) -> float:
    """Resident memory of a process [MB]."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def frames_per_second() -> dict[str, Any]:
    """Simulated frames a second with a page attached; 30 is real time."""
    with viewed("hang") as (url, _), browsing(url) as page:
        page.wait_for_timeout(1e3 * WARM_UP)
        drawn = page.evaluate_handle(
            "() => { const n = {drawn: 0}; const tick = () => { n.drawn++; "
            "requestAnimationFrame(tick); }; tick(); return n; }"
        )
        first, begin = frame_of(page), time.perf_counter()
        page.wait_for_timeout(1e3 * MEASURED)
        last, seconds = frame_of(page), time.perf_counter() - begin
        return {
            "seconds": seconds,
            "frames_per_second": (last - first) / seconds,
            "pages_drawn_per_second": drawn.json_value()["drawn"] / seconds,
        }


def stalled(url: str) -> socket.socket:
    """A client that requests the messages of the page and reads none of them."""
    host, port = url.split("//")[1].strip("/").split(":")
    import viser

    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((host, int(port)))
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        "GET / HTTP/1.1", f"Host: {host}:{port}", f"Origin: http://{host}:{port}", "Upgrade: websocket",
        "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: viser-v{viser.__version__}",
    ]  # fmt: skip
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    response = connection.recv(64)
    assert b"101" in response, response
    return connection


def memory_with_a_stalled_client() -> dict[str, Any]:
    """Memory of the server [MB] every half minute for ten minutes; the client reconnects when it is disconnected."""
    with viewed("hang") as (url, pid):
        clients, found = [], []
        begin = due = time.perf_counter()
        while due < begin + LONG:
            clients.append(stalled(url))  # the one before was disconnected after 30 s
            if len(clients) > 3:
                clients.pop(0).close()
            due += 30.0
            time.sleep(due - time.perf_counter())
            found.append(round(resident(pid), 1))
        return {"megabytes": found, "grown_after_the_first_minute": round(found[-1] - found[1], 1)}


if __name__ == "__main__":
    record(HERE / "live.json", [frames_per_second, memory_with_a_stalled_client])
