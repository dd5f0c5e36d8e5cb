"""A guarded server in a process of its own, so that its memory can be measured, with a page's elements on it.

Reads commands from stdin, one a line, and answers each with a line of JSON. `stats`: nothing else; `collect`: collects
garbage before; `push N PAUSE`: sends N frames of a cloth of 2600 vertices, one each PAUSE seconds.
"""

import gc
import json
import sys
import time
from dataclasses import replace

import numpy as np

from toile.viewer.server.guarded_server import GuardedServer, Limits, serve

VERTICES = 2600


def add_elements(served: GuardedServer) -> dict[str, str]:
    """One of each element that pages have; returns its uuid for each name."""
    gui = served.viser.gui
    elements = {
        "button": gui.add_button("button"),
        "checkbox": gui.add_checkbox("checkbox", False),
        "slider": gui.add_slider("slider", 0.0, 10.0, 0.1, 3.0),
        "count": gui.add_slider("count", 0, 10, 1, 3),
        "dropdown": gui.add_dropdown("dropdown", ("silk", "denim")),
        "text": gui.add_text("text", "hello"),
        "vector": gui.add_vector3("vector", (0.0, 0.0, -9.81), min=(-20.0, -20.0, -20.0), max=(20.0, 20.0, 20.0)),
        "color": gui.add_rgb("color", (1, 2, 3)),
        "range": gui.add_multi_slider("range", 0.0, 10.0, 0.5, (1.0, 5.0)),
        "disabled": gui.add_button("disabled", disabled=True),
    }
    return {name: element._impl.uuid for name, element in elements.items()}


def main() -> None:
    settings = json.loads(sys.argv[1])
    served = serve("test", limits=replace(Limits(), **settings))
    uuids = add_elements(served)
    rng = np.random.default_rng(1)
    frames = rng.random((30, VERTICES, 3), dtype=np.float32)
    faces = rng.integers(0, VERTICES, (5000, 3), dtype=np.uint32)
    cloth = served.viser.scene.add_mesh_simple("/cloth", frames[0], faces)

    @cloth.on_drag("left")  # type: ignore[arg-type]
    async def drag(event: object) -> None:
        pass

    print(json.dumps({"url": served.url, "uuids": uuids}), flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "push":
            for i in range(int(arguments[0])):
                cloth.vertices = frames[i % 30]
                time.sleep(float(arguments[1]))
        if command == "collect":
            gc.collect()
        with open("/proc/self/statm") as file:
            resident = int(file.read().split()[1]) * 4096
        guard = served.guard
        answer = {
            "accepted": guard.accepted,
            "ignored": guard.ignored,
            "refused": guard.refused,
            "pages": len(served.viser._websock_server._live_connections),
            "resident": resident,
        }
        print(json.dumps(answer), flush=True)
    served.stop()


if __name__ == "__main__":
    main()
