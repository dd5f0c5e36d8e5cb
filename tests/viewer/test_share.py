"""A run as one HTML file: what is in it is what the run left, and a real browser shows it from the disk."""

from __future__ import annotations

import base64
import json
import re
import socket
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import begin_run, certificate, entry_of, frame_of, make_run, sheet
from typer.testing import CliRunner

from toile.cli import app
from toile.errors import InputError
from toile.model.frame import Frame, Surface
from toile.outputs.pc2 import Pc2
from toile.render.solid_mesh import split_sharp
from toile.viewer.playback.share import chosen_frames, share_run


def read(path: Path) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray]:
    """What the page holds, triangles, places that stay, and those that move: by the format, not by the writer."""
    text = path.read_text(encoding="utf-8")
    about = json.loads(re.search(r'<script id="about"[^>]*>(.*?)</script>', text, re.S)[1])  # type: ignore[index]
    packed = re.search(r'<script id="data"[^>]*>(.*?)</script>', text, re.S)[1]  # type: ignore[index]
    data = zlib.decompress(base64.b64decode(packed, validate=True))
    end = 12 * about["triangles"]
    triangles = np.frombuffer(data[:end], "<u4").reshape(-1, 3)
    still = np.frombuffer(data[end : end + 12 * about["still"]], "<f4").reshape(-1, 3)
    rest = np.frombuffer(data[end + 12 * about["still"] :], np.uint8).reshape(len(about["frames"]), 2, -1).astype(int)
    z = rest[:, 0] + 256 * rest[:, 1]
    steps = np.cumsum(np.where(z % 2, -(z + 1) // 2, z // 2), axis=0) % 65536
    moving = np.array(about["low"]) + np.array(about["step"]) * steps.reshape(len(steps), -1, 3)
    return about, triangles, still, moving


def test_places_are_those_of_the_run(tmp_path: Path) -> None:
    """To half a step of 1/65535 of the box."""
    surface = make_run(tmp_path, 20)
    shared = share_run(tmp_path)
    assert (shared.path, shared.frames) == (tmp_path / "folding.html", 21)
    assert shared.size == shared.path.stat().st_size
    about, triangles, still, moving = read(shared.path)
    assert about["frames"] == list(range(21))
    table, hammer = surface.solids
    half = 0.5001 * np.array(about["step"])
    for number in range(21):
        frame = frame_of(surface, number)
        assert np.all(np.abs(moving[number][: surface.vertex_count] - frame.positions) <= half + 1e-7)
    everything = np.concatenate([moving[20], still])
    corners = everything[triangles]
    frame = frame_of(surface, 20)
    solids = [solid[surface_of.triangles] for solid, surface_of in zip(frame.solids, surface.solids, strict=True)]
    expected = np.concatenate([frame.positions[surface.triangles], solids[1], solids[0]])  # what moves comes first
    assert np.allclose(corners, expected, atol=1e-4)
    assert [thing["name"] for thing in about["objects"]] == ["sheet", hammer.name, table.name]
    assert sum(thing["triangles"] for thing in about["objects"]) == len(triangles)


def test_frames_may_be_left_out(tmp_path: Path) -> None:
    surface = make_run(tmp_path, 20)
    about, _, _, moving = read(share_run(tmp_path, every=6).path)
    assert about["frames"] == [0, 6, 12, 18, 20]
    assert np.allclose(moving[3][: surface.vertex_count], frame_of(surface, 18).positions, atol=1e-4)
    assert chosen_frames(101, 1, 5) == [0, 25, 50, 75, 100]
    assert chosen_frames(5, 1, 100) == [0, 1, 2, 3, 4]
    assert chosen_frames(1, 7, None) == [0]


def test_the_certificate_comes_along(tmp_path: Path) -> None:
    report = certificate(20, stopped="StepFailed at t = 0.7 s.")
    report["frames"][11] = entry_of(12, rejected=3)
    report["expect"] = {"max_strain": {"max": 0.1}}
    make_run(tmp_path, 20, report)
    about, *_ = read(share_run(tmp_path).path)
    assert about["message"] == "StepFailed at t = 0.7 s."
    assert about["certificate"][0] == ["max_strain", "0.2", "<= 0.1", "not met"]
    assert [12, "frame 12: steps rejected: 3"] in about["flagged"]
    assert [20, "frame 20: the run stopped here"] in about["flagged"]


def test_names_are_no_markup(tmp_path: Path) -> None:
    """Whatever a run is called, and whatever its certificate says, is text on the page."""
    bad = "</script><script>alert(1)</script>"
    make_run(tmp_path, 2, certificate(2, stopped=bad))
    rest = tmp_path / "rest.obj"
    rest.write_text(rest.read_text().replace('"folding"', json.dumps(bad)))
    shared = share_run(tmp_path)
    assert shared.path.parent == tmp_path
    about, *_ = read(shared.path)
    assert (about["name"], about["message"]) == (bad, bad)
    assert "<script>alert" not in shared.path.read_text()


def test_a_run_that_is_not_finished_is_shared_as_far_as_it_is(tmp_path: Path) -> None:
    surface, writer = begin_run(tmp_path)
    with pytest.raises(InputError, match="no complete frame"):
        share_run(tmp_path, tmp_path / "a.html")
    for number in range(3):
        writer.write(frame_of(surface, number))
    for cache in writer.caches:
        cache.file.close()
    about, *_ = read(share_run(tmp_path).path)
    assert (about["frames"], about["certificate"]) == ([0, 1, 2], [])


def test_no_server_and_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, 5)
    old = tmp_path / "folding.html"
    old.write_text("what was there before")
    monkeypatch.setattr(socket, "socket", lambda *_, **__: pytest.fail("a socket was opened"))
    cache = tmp_path / "cache.pc2"
    data = bytearray(cache.read_bytes())
    data[-4:] = np.array([np.nan], "<f4").tobytes()
    cache.write_bytes(data)
    with pytest.raises(InputError, match="frame 5 has positions that are not finite"):
        share_run(tmp_path)
    assert old.read_text() == "what was there before"
    assert not list(tmp_path.glob(".*part*"))
    data[-4:] = np.array([0.0], "<f4").tobytes()
    cache.write_bytes(data)
    share_run(tmp_path)


def test_a_run_without_cloth(tmp_path: Path) -> None:
    surface = sheet()
    bare = Surface(np.zeros((0, 3), np.int32), np.zeros((0, 3, 2)), np.zeros((0, 3)), (), 30.0, surface.solids[:1])
    writer = Pc2().writer(tmp_path, "bare", bare)
    for number in range(3):
        writer.write(Frame(number, number / 30.0, np.zeros((0, 3)), np.zeros((0, 3))))
    writer.close()
    about, triangles, still, _ = read(share_run(tmp_path).path)
    assert about["frames"] == [0, 1, 2]
    assert np.allclose(still[triangles], surface.solids[0].rest[surface.solids[0].triangles])


def test_the_command(tmp_path: Path) -> None:
    make_run(tmp_path / "run", 4)
    result = CliRunner().invoke(app, ["share", str(tmp_path / "run"), "--json", "--every", "2"])
    assert result.exit_code == 0, result.output
    messages = json.loads(result.stdout)
    page = Path(messages["written"][0])
    assert (page, messages["frames"], messages["bytes"]) == (tmp_path / "run" / "folding.html", 3, page.stat().st_size)
    result = CliRunner().invoke(app, ["share", str(tmp_path / "run"), "--out", str(tmp_path / "a.png")])
    assert result.exit_code == 2
    assert "ends in .html" in result.stderr
    assert CliRunner().invoke(app, ["share", str(tmp_path)]).exit_code == 2
    (tmp_path / "run" / "report.json").write_text("{}")
    result = CliRunner().invoke(app, ["share", str(tmp_path / "run")])
    assert (result.exit_code, "without a certificate" in result.stderr) == (0, True)


class TestSharpEdges:
    def test_a_box_has_three_vertices_at_each_corner(self) -> None:
        x = np.array([[i, j, k] for i in (0.0, 1.0) for j in (0.0, 1.0) for k in (0.0, 1.0)])
        squares = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
        triangles = np.array([t for a, b, c, d in squares for t in ((a, b, c), (a, c, d))])
        origin, corners = split_sharp(x, triangles)
        assert len(origin) == 24
        assert np.array_equal(origin[corners], triangles)

    def test_a_round_tube_stays_whole(self) -> None:
        count = 32
        angle = 2.0 * np.pi * np.arange(count) / count
        ring = np.stack([np.cos(angle), np.sin(angle), np.zeros(count)], axis=1)
        x = np.concatenate([ring, ring + np.array([0.0, 0.0, 1.0])])
        i, j = np.arange(count), (np.arange(count) + 1) % count
        triangles = np.concatenate([np.stack([i, j, j + count], 1), np.stack([i, j + count, i + count], 1)])
        origin, corners = split_sharp(x, triangles)
        assert len(origin) == 2 * count
        assert np.array_equal(origin[corners], triangles)


def test_in_a_browser(tmp_path: Path, open_page: Any) -> None:
    """From file://, with no request beyond the file: draws, scrubs, plays, turns; places are those of the run."""
    report = certificate(20)
    report["frames"][11] = entry_of(12, rejected=3)
    surface = make_run(tmp_path, 20, report)
    url = share_run(tmp_path).path.as_uri()
    opened = open_page(f"{url}#0")
    page = opened.page
    messages = page.locator("#status")
    opened.wait_until(lambda: messages.text_content().startswith("frame 0 of 20"), "the file is unpacked")
    shown = np.array(page.evaluate("Array.from(positions(data, 15))")).reshape(-1, 3)[: surface.vertex_count]
    assert np.allclose(shown, frame_of(surface, 15).positions, atol=1e-4)

    opened.wait_until(lambda: has_cloth(opened.picture()), "cloth is drawn")
    before = opened.picture()
    page.locator("#scrubber").fill("15")
    opened.wait_until(lambda: messages.text_content() == "frame 15 of 20 · 0.50 s", "the scrubber is heard")
    opened.wait_until(lambda: difference(before, opened.picture()) > 500, "the cloth looks otherwise")

    page.keyboard.press("Tab")  # away from the scrubber, whose own the arrows are
    page.locator("#back").click()
    assert page.evaluate("player.wanted") == 14
    page.get_by_text("Flagged frames").click()
    page.get_by_role("button", name="frame 12: steps rejected: 3").click()
    opened.wait_until(lambda: messages.text_content().startswith("frame 12"), "the marked frame is jumped to")

    turned = page.evaluate("camera.turn")
    page.mouse.move(400, 300)
    page.mouse.down()
    page.mouse.move(460, 300, steps=3)
    page.mouse.up()
    assert page.evaluate("camera.turn") == pytest.approx(turned - 60 * 0.008)
    page.locator("#loop").uncheck()
    page.get_by_role("button", name="Play").click()
    opened.wait_until(lambda: page.evaluate("player.wanted == 20 && !player.playing"), "it plays to the end")
    assert opened.outside(url) == []
    assert opened.errors == []


def has_cloth(picture: np.ndarray) -> bool:
    red, green, blue = np.moveaxis(picture, -1, 0)
    return bool(((red > green + 40) & (red > blue + 40)).sum() > 500)


def difference(before: np.ndarray, after: np.ndarray) -> int:
    """How many pixels above the bar differ."""
    return int((np.abs(before - after).max(axis=-1)[:480] > 20).sum())
