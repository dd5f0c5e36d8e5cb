"""A guarded server under test, in this process. Real sockets, on this machine only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import viser
from guarded_server import add_elements
from page_messages import CAMERA, update
from raw_page import Page

from toile.viewer.server.guarded_server import GuardedServer, serve

CLIENT = Path(viser.__file__).parent / "client" / "build" / "index.html"
TOKEN = "correct-horse-battery"


class Host:
    """A server under test, with its port and the elements on it."""

    def __init__(self, served: GuardedServer):
        self.served = served
        self.port = served.viser.get_port()
        self.uuids = add_elements(served)
        cloth = served.viser.scene.add_icosphere("/cloth", radius=1.0)
        cloth.on_drag("left")(self._ignore)

    @staticmethod
    async def _ignore(event: object) -> None:
        pass

    def serves_a_page(self) -> bool:
        """Whether a fresh page opens, and what it says is heard."""
        slider = self.served.viser.gui._gui_input_handle_from_uuid[self.uuids["slider"]]
        aim = 9.0 if slider.value < 5.0 else 1.0
        with Page(self.port) as page:
            if page.status != 101:
                return False
            page.send(CAMERA, update(self.uuids["slider"], aim))
            next(page.frames())
            return eventually(lambda: slider.value == aim)


def eventually(condition: Any, within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return bool(condition())


def hosted(**settings: Any) -> Iterator[Host]:
    served = serve("test", **settings)
    yield Host(served)
    served.stop()
