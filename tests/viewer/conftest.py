"""A real browser for pages: Chromium without a screen, drawing in software. Where there is none, tests say so."""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from hosts import Host

    from toile.viewer.live.live_simulation import LiveSimulation

ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
VIEWPORT = {"width": 800, "height": 600}

# Software rendering compiles shaders for seconds, and the machine may be busy with other tests.
PATIENCE = 120.0  # [s]


class Opened:
    """A page in the browser, and what it asked for and got."""

    def __init__(self, page: Any):
        self.page = page
        self.requests: list[str] = []  # addresses, also of web sockets
        self.received: list[bytes] = []  # messages over web sockets
        self.errors: list[str] = []
        page.set_default_timeout(1e3 * PATIENCE)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("websocket", self._listen)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def wait_until(self, condition: Callable[[], Any], what: str) -> Any:
        """Until it holds; the page goes on meanwhile."""
        end = time.monotonic() + PATIENCE
        while not (value := condition()):
            assert time.monotonic() < end, f"waited in vain until {what}"
            self.page.wait_for_timeout(50)
        return value

    def picture(self) -> np.ndarray:
        """The page as it looks: (height, width, 3), 0 to 255."""
        from PIL import Image

        data = self.page.screenshot(timeout=1e3 * PATIENCE)
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)

    def outside(self, own: str) -> list[str]:
        """What was asked for beyond addresses that begin with one of these, and what a page makes itself."""
        return [
            url for url in self.requests if not url.startswith((own, own.replace("http", "ws", 1), "data:", "blob:"))
        ]

    def _listen(self, socket: Any) -> None:
        self.requests.append(socket.url)
        socket.on(
            "framereceived", lambda data: self.received.append(data if isinstance(data, bytes) else data.encode())
        )


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as engine:
        chromium = engine.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[[str], Opened]]:
    """Opens an address; closed after the test."""
    context = browser.new_context(viewport=VIEWPORT)

    def open_it(url: str) -> Opened:
        opened = Opened(context.new_page())
        opened.page.goto(url)
        return opened

    yield open_it
    context.close()


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """A guarded server on 127.0.0.1, without a token."""
    pytest.importorskip("viser")
    from hosts import hosted

    yield from hosted()


@pytest.fixture(scope="module")
def token_host() -> Iterator[Host]:
    """A guarded server that needs a token."""
    pytest.importorskip("viser")
    from hosts import TOKEN, hosted

    yield from hosted(token=TOKEN)


@pytest.fixture
def start(device: str) -> Iterator[Callable[..., LiveSimulation]]:
    """LiveSimulation simulations that end with the test."""
    from toile.viewer.live.live_simulation import LiveSimulation

    started: list[LiveSimulation] = []

    def make(scene: Any, **more: Any) -> LiveSimulation:
        started.append(LiveSimulation(scene, device, **more))
        return started[-1]

    yield make
    for live in started:
        live.close()
