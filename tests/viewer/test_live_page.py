"""The live page in a real browser: what is drawn, what a hand does to the cloth, what its controls do.

One server and one page for all: a first picture takes seconds. Tests leave the page as they found it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE, VIEWPORT, Opened

from toile.scene.load import load
from toile.viewer.draw.color_modes import CLOTH, CONTACT, WARP
from toile.viewer.draw.palette import CLOTHS
from toile.viewer.live.panel import PINS, SHOWS
from toile.viewer.live.snapshot import PAUSED, RUNNING, Snapshot

viser = pytest.importorskip("viser", reason="the viewer extra is not installed")

# Of the memory test: it grows by less in any longer time [MB]
SETTLED = 4.0


class Tried:
    """The page under test: from inside, as the server has it, and from outside, as a browser does."""

    def __init__(self, page: Any, opened: Opened, url: str):
        self.inside, self.opened, self.url = page, opened, url
        self.mouse = opened.page.mouse

    @property
    def view(self) -> Snapshot:
        return self.inside.live.snapshot

    @property
    def camera(self) -> Any:
        (client,) = self.inside.server.get_clients().values()
        return client.camera

    def until(self, condition: Callable[[Snapshot], Any], what: str) -> Snapshot:
        self.opened.wait_until(lambda: condition(self.view), what)
        return self.view

    def at_rest(self) -> Snapshot:
        """Paused, so that what is seen stays where it is."""
        self.inside.live.pause()
        return self.until(lambda view: view.state == PAUSED, "it pauses")

    def pixel(self, point: np.ndarray) -> np.ndarray:
        """Where a point of the world is on the page: a pinhole camera, x right, y down, z forward."""
        camera, canvas = self.camera, self.canvas
        w, x, y, z = camera.wxyz
        turn = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
        right, down, ahead = turn.T @ (np.asarray(point, float) - camera.position)
        focal = 0.5 * canvas["height"] / np.tan(0.5 * camera.fov)
        middle = (canvas["x"] + 0.5 * canvas["width"], canvas["y"] + 0.5 * canvas["height"])
        return np.array([middle[0] + focal * right / ahead, middle[1] + focal * down / ahead])

    @property
    def canvas(self) -> dict[str, float]:
        return self.opened.page.locator("canvas").first.bounding_box()

    def count(self, color: tuple[int, int, int], among: tuple[tuple[int, int, int], ...]) -> int:
        """Pixels of the scene whose hue is nearest to a color, of those that are colored at all."""
        box = self.canvas
        picture = self.opened.picture()[int(box["y"]) : int(box["y"] + box["height"]), : int(box["x"] + box["width"])]
        picture = picture.reshape(-1, 3)
        colored = picture[np.ptp(picture, axis=1) > 40]
        hues = np.array([_chroma(np.array(one)) for one in among])
        nearest = np.argmin(((_chroma(colored)[:, None] - hues) ** 2).sum(axis=2), axis=1)
        return int((nearest == among.index(color)).sum())

    @contextmanager
    def pressed(self, x: float, y: float) -> Iterator[None]:
        """The left button of the mouse, from there on."""
        self.mouse.move(x, y)
        self.mouse.down()
        try:
            yield
        finally:
            self.mouse.up()

    def choose(self, label: str, option: str) -> None:
        """In a list of the panel."""
        page = self.opened.page
        page.get_by_label(label, exact=True).first.click()
        page.get_by_role("option", name=option, exact=True).click()

    def press(self, name: str) -> None:
        self.opened.page.get_by_role("button", name=name, exact=True).click()

    def tab(self, name: str) -> None:
        self.opened.page.get_by_role("tab", name=name).click()


def _chroma(colors: np.ndarray) -> np.ndarray:
    """Colors without their brightness, which light changes."""
    centered = colors - colors.mean(axis=-1, keepdims=True)
    return centered / np.linalg.norm(centered, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def tried(browser: Any, device: str) -> Iterator[Tried]:
    from toile.viewer.live.page import LivePage
    from toile.viewer.server.guarded_server import serve

    served = serve("test")
    scene = load("hang", overrides=["cloth[0].shape.resolution=[11, 11]"])
    page = LivePage(served.viser, scene, device)
    context = browser.new_context(viewport=VIEWPORT)
    opened = Opened(context.new_page())
    opened.page.goto(served.url)
    found = Tried(page, opened, served.url)
    opened.wait_until(lambda: page.server.get_clients(), "it is connected")
    opened.wait_until(lambda: found.count(CLOTHS[0], CLOTHS) > 1000, "the cloth is drawn")
    yield found
    context.close()
    page.close()
    served.stop()


class TestLivePage:
    def test_it_draws_the_cloth_and_asks_nobody_else(self, tried: Tried) -> None:
        assert tried.count(CLOTHS[0], CLOTHS) > 1000
        assert tried.opened.outside(tried.url) == []
        assert tried.opened.errors == []

    def test_points_are_where_they_are_drawn(self, tried: Tried) -> None:
        """The middle of the cloth has its color; a point well beside it has not."""
        view = tried.at_rest()
        tried.opened.page.wait_for_timeout(300)
        picture = tried.opened.picture()
        beside = view.positions[60] + np.array([0.0, 0.0, 0.6])
        for point, is_cloth in ((view.positions[60], True), (beside, False)):
            x, y = (round(c) for c in tried.pixel(point))
            assert (np.ptp(picture[y, x]) > 40) == is_cloth
        tried.inside.live.play()

    def test_pause_and_step(self, tried: Tried) -> None:
        tried.until(lambda view: view.state == RUNNING, "it runs")
        tried.press("Pause")
        paused = tried.until(lambda view: view.state == PAUSED, "it pauses")
        tried.press("Step")
        stepped = tried.until(lambda view: view.frame > paused.frame, "it steps")
        tried.opened.page.wait_for_timeout(300)
        assert (tried.view.frame, tried.view.state) == (paused.frame + 1, PAUSED)
        assert stepped.frame == paused.frame + 1
        tried.press("Play")
        tried.until(lambda view: view.frame > paused.frame + 3, "it goes on")
        tried.press("Restart")
        tried.until(lambda view: view.build > paused.build and view.frame >= 1, "it begins anew")

    def test_a_drag_moves_the_cloth_to_the_pointer_and_not_the_camera(self, tried: Tried) -> None:
        tried.until(lambda view: view.frame > 3, "it runs")
        view = tried.at_rest()
        camera = np.array([*tried.camera.position, *tried.camera.wxyz])
        x, y = tried.pixel(view.positions[60])
        tried.opened.page.wait_for_timeout(300)
        with tried.pressed(x, y):
            tried.mouse.move(x + 20, y - 20, steps=4)
            held = tried.until(lambda view: view.grip is not None, "the cloth is held")
            assert held.grip is not None
            # What is held is the place where the mouse went down, within a cell of the mesh.
            assert np.linalg.norm(held.grip[0] - view.positions[60]) < 0.1
            tried.inside.live.play()
            end = np.array([x + 60, y - 60])
            tried.mouse.move(*end, steps=6)

            def is_there(view: Snapshot) -> bool:
                """The hand is at the pointer, and the cloth has gone most of the way."""
                assert view.grip is not None
                cloth, hand = (np.linalg.norm(tried.pixel(point) - end) for point in view.grip)
                return bool(hand < 2.0 and cloth < 0.4 * np.hypot(60.0, 60.0))

            tried.until(is_there, "the cloth comes to the pointer")
        tried.until(lambda view: view.grip is None, "it is let go")
        np.testing.assert_allclose([*tried.camera.position, *tried.camera.wxyz], camera, atol=1e-6)

    def test_a_drag_beside_the_cloth_orbits(self, tried: Tried) -> None:
        before, target = np.array(tried.camera.position), np.array(tried.camera.look_at)
        canvas = tried.canvas
        start = (canvas["x"] + 0.5 * canvas["width"], canvas["y"] + canvas["height"] - 30)
        with tried.pressed(*start):
            tried.mouse.move(start[0] + 60, start[1], steps=5)
            tried.opened.wait_until(
                lambda: np.linalg.norm(np.array(tried.camera.position) - before) > 0.1, "the camera has moved"
            )
        tried.opened.page.wait_for_timeout(500)
        after = np.array(tried.camera.position)
        assert tried.view.grip is None
        assert np.linalg.norm(after - target) == pytest.approx(np.linalg.norm(before - target), rel=0.01)

    def test_a_slider_changes_the_material(self, tried: Tried) -> None:
        tried.tab("Change")
        before = tried.view
        stretch = before.scene.cloth[0].fabric.stretch_warp
        slider = tried.opened.page.get_by_role("slider").first
        slider.focus()
        slider.press("Home")
        after = tried.until(lambda view: view.scene.cloth[0].fabric.stretch_warp == 10.0, "it is as soft as can be")
        assert after.build > before.build
        assert after.frame >= before.frame  # it went on
        assert after.scene.cloth[0].fabric.stretch_weft == stretch
        tried.opened.wait_until(
            lambda: tried.inside.panel.controls._controls["cloth/fabric"].handle.value.endswith("(changed)"),
            "the fabric is no longer called cotton",
        )
        tried.choose("fabric", "cotton")
        tried.until(lambda view: view.scene.cloth[0].fabric.stretch_warp == stretch, "it is cotton again")
        tried.tab("Display")

    def test_what_cannot_be_is_reported_and_goes_back(self, tried: Tried) -> None:
        tried.tab("Change")
        tried.choose("integrator", "explicit_euler")
        tried.until(lambda view: "max_step" in view.message, "it is told")
        control = tried.inside.panel.controls._controls["method/integrator"].handle
        tried.opened.wait_until(lambda: control.value == "implicit_bdf2", "the list goes back")
        assert tried.view.scene.integrator.type_name() == "implicit_bdf2"
        tried.opened.wait_until(
            lambda: "explicit_euler is stable" in tried.opened.page.inner_text("body"), "the page says why"
        )
        tried.tab("Display")

    def test_a_click_shows_a_vertex(self, tried: Tried) -> None:
        view = tried.at_rest()
        tried.choose("a click", SHOWS)
        tried.opened.page.wait_for_timeout(300)
        tried.mouse.click(*tried.pixel(view.positions[60]))
        tried.opened.wait_until(lambda: tried.inside.picked == 60, "it is picked")
        tried.opened.wait_until(lambda: "60 of sheet" in tried.opened.page.inner_text("body"), "its figures are told")
        assert tried.view.build == view.build
        tried.inside.live.play()

    def test_a_click_pins_and_frees(self, tried: Tried) -> None:
        view = tried.at_rest()
        tried.choose("a click", PINS)
        tried.opened.page.wait_for_timeout(300)
        spot = tried.pixel(view.positions[60])
        tried.mouse.click(*spot)
        pinned = tried.until(lambda view: len(view.scene.constraints) == 2, "it is pinned")
        assert pinned.scene.constraints[1].where.indices == (60,)
        np.testing.assert_array_equal(pinned.positions, view.positions)
        tried.inside.live.step()
        tried.until(lambda view: 60 in view.pinned, "it is held")
        tried.mouse.click(*tried.pixel(tried.view.positions[60]))
        tried.until(lambda view: len(view.scene.constraints) == 1, "it is free again")
        tried.choose("a click", SHOWS)
        tried.inside.live.play()

    def test_colors(self, tried: Tried) -> None:
        tried.choose("color", CONTACT)
        tried.opened.wait_until(lambda: tried.count(CLOTHS[0], CLOTHS) < 100, "nothing touches anything")
        tried.opened.wait_until(lambda: "on a solid" in tried.opened.page.inner_text("body"), "the legend is there")
        tried.choose("color", WARP)
        tried.opened.wait_until(lambda: "+5 %" in tried.opened.page.inner_text("body"), "the legend has numbers")
        tried.choose("color", CLOTH)
        tried.opened.wait_until(lambda: tried.count(CLOTHS[0], CLOTHS) > 1000, "it is red again")

    def test_plots(self, tried: Tried) -> None:
        tried.tab("Plots")
        charts = tried.opened.page.locator(".uplot")
        tried.opened.wait_until(lambda: charts.count() == 4, "there are four charts")
        tried.tab("Display")

    def test_another_scene(self, tried: Tried) -> None:
        """Last, because the page is another afterwards."""
        tried.choose("scene", "swing")
        view = tried.until(lambda view: view.title == "swing" and view.frame >= 1, "it swings")
        assert view.scene.name == "swing"
        tried.choose("scene", "hang (as given)")
        view = tried.until(lambda view: view.title == "hang (as given)" and view.frame >= 1, "it hangs again")
        assert len(view.positions) == 121
        assert tried.opened.errors == []


@pytest.mark.slow
def test_memory_is_flat_with_a_page_that_does_not_read(device: str) -> None:
    """Some thousands of frames, in the colors that are the most to send; nothing but the latest is kept for a page."""
    from websockets.sync.client import connect

    from toile.viewer.live.page import LivePage
    from toile.viewer.server.guarded_server import serve

    served = serve("test")
    scene = load("hang", overrides=["cloth[0].shape.resolution=[9, 9]", "time.fps=400", "time.max_step=0.0025"])
    page = LivePage(served.viser, scene, device)
    page.panel.color.value, page.picked = WARP, 40
    own = served.url.rstrip("/")
    address = own.replace("http", "ws", 1)
    try:
        with connect(address, origin=own, subprotocols=[f"viser-v{viser.__version__}"], max_queue=1, max_size=None):
            memory = []
            for frames in (1500, 3000, 4500, 6000):
                end = time.monotonic() + PATIENCE
                while page.live.snapshot.frame < frames:
                    assert time.monotonic() < end
                    time.sleep(0.1)
                memory.append(_resident())
    finally:
        page.close()
        served.stop()
    assert memory[-1] - memory[0] < SETTLED


def _resident() -> float:
    """Memory of this process [MB]."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("this system does not tell how much memory a process has")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024.0
