"""Playback of runs, down to a real browser: which frame is shown, what is marked, what is on disk by halves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import begin_run, certificate, entry_of, frame_of, make_run, sheet

from toile.errors import InputError
from toile.outputs.pc2 import HEADER
from toile.scene.schema import Bound
from toile.viewer.draw.plots import MAX_POINTS, Plots
from toile.viewer.draw.strain import scale_position, strain_along
from toile.viewer.draw.text import plain
from toile.viewer.playback.flagged_frames import FlaggedFrames, find_flagged, frame_numbers
from toile.viewer.playback.playhead import Playhead
from toile.viewer.playback.recording import NO_CERTIFICATE, Recording


class Clock:
    """Time that goes on only when told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class TestPlayhead:
    def test_frames_follow_the_clock_and_the_speed(self) -> None:
        clock = Clock()
        playhead = Playhead(30.0, 100, clock)
        playhead.play()
        clock.now = 1.0
        playhead.advance()
        assert (playhead.frame, playhead.playing) == (30, True)
        playhead.set_speed(0.5)  # from here on, not as if it had always been so
        clock.now = 2.0
        playhead.advance()
        assert playhead.frame == 45

    def test_the_end_stops_it_and_playing_again_begins_anew(self) -> None:
        clock = Clock()
        playhead = Playhead(30.0, 31, clock)
        playhead.play()
        clock.now = 5.0
        playhead.advance()
        assert (playhead.frame, playhead.playing) == (30, False)
        playhead.play()
        assert (playhead.frame, playhead.playing) == (0, True)

    def test_a_loop_shows_the_last_frame_and_begins_anew(self) -> None:
        clock = Clock()
        playhead = Playhead(10.0, 11, clock)
        playhead.loop = True
        playhead.play()
        clock.now = 1.0
        playhead.advance()
        assert (playhead.frame, playhead.playing) == (10, True)
        clock.now = 1.15
        playhead.advance()
        assert (playhead.frame, playhead.playing) == (0, True)

    def test_seeking_stays_inside_and_stops(self) -> None:
        playhead = Playhead(30.0, 11)
        playhead.play()
        playhead.seek(99)
        assert (playhead.frame, playhead.playing) == (10, False)
        playhead.seek(-1)
        assert playhead.frame == 0

    def test_a_run_without_frames(self) -> None:
        playhead = Playhead(30.0, 0)
        playhead.play()
        playhead.advance()
        assert (playhead.frame, playhead.last, playhead.playing) == (0, 0, False)


class TestRecording:
    def test_frames_of_a_finished_run(self, tmp_path: Path) -> None:
        surface = make_run(tmp_path, 6)
        recording = Recording(tmp_path)
        assert (recording.name, recording.frame_count, recording.fps) == ("folding", 7, 30.0)
        for number in (6, 0, 3):
            frame = frame_of(surface, number)
            assert np.array_equal(recording.positions(number), frame.positions.astype(np.float32))
            for found, expected in zip(recording.solids(number), frame.solids, strict=True):
                assert np.array_equal(found, expected.astype(np.float32))
        assert [entry["frame"] for entry in recording.entries] == [1, 2, 3, 4, 5, 6]
        assert recording.message == ""

    def test_a_run_that_is_being_written_grows_by_whole_frames(self, tmp_path: Path) -> None:
        surface, writer = begin_run(tmp_path)
        for number in range(3):
            writer.write(frame_of(surface, number))
        cloth = writer.caches[-1].file
        frame = np.ascontiguousarray(frame_of(surface, 3).positions, "<f4").tobytes()
        cloth.write(frame[:100])  # and this one is on its way
        for cache in writer.caches:
            cache.file.flush()
        recording = Recording(tmp_path)
        assert (recording.frame_count, recording.message) == (3, NO_CERTIFICATE)
        assert not recording.grow()
        cloth.write(frame[100:])
        cloth.flush()
        assert not recording.grow()  # its solids are not there yet
        writer.caches[0].append(frame_of(surface, 3))
        writer.caches[0].file.flush()
        assert recording.grow()
        assert recording.frame_count == 4
        assert np.array_equal(recording.positions(3), frame_of(surface, 3).positions.astype(np.float32))
        assert not recording.is_stale()
        for cache in writer.caches:
            cache.count = 4
        writer.close()
        assert recording.is_stale()
        assert np.array_equal(recording.positions(2), frame_of(surface, 2).positions.astype(np.float32))
        finished = Recording(tmp_path)
        assert (finished.frame_count, finished.growing) == (4, False)
        (tmp_path / "report.json").write_text(json.dumps(certificate(3)))
        assert finished.is_stale()
        assert Recording(tmp_path).report is not None

    def test_a_killed_run_in_the_folder_of_an_older_one_is_what_is_played(self, tmp_path: Path) -> None:
        make_run(tmp_path, 6)
        surface, writer = begin_run(tmp_path)
        for number in range(3):
            writer.write(frame_of(surface, number))
        for cache in writer.caches:
            cache.file.close()
        recording = Recording(tmp_path)
        assert (recording.frame_count, recording.report) == (3, None)

    def test_a_stopped_run_says_why(self, tmp_path: Path) -> None:
        make_run(tmp_path, 4, certificate(4, stopped="interrupted"))
        assert Recording(tmp_path).message == "interrupted"

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"summary": {"ok": 1}, "frames": [{}], "expect": {}}'])
    def test_a_damaged_certificate_is_reported_and_the_rest_is_played(self, tmp_path: Path, text: str) -> None:
        make_run(tmp_path, 3)
        (tmp_path / "report.json").write_text(text)
        recording = Recording(tmp_path)
        assert (recording.frame_count, recording.report) == (4, None)
        assert "not a readable certificate" in recording.message

    def test_a_certificate_of_another_shape_is_reported(self, tmp_path: Path) -> None:
        report = certificate(3)
        report["frames"][1]["strain"] = 3
        make_run(tmp_path, 3, report)
        recording = Recording(tmp_path)
        assert recording.report is None
        assert "not a readable certificate" in recording.message

    def test_the_certificate_of_another_run_is_left_out(self, tmp_path: Path) -> None:
        make_run(tmp_path, 3, certificate(5))
        recording = Recording(tmp_path)
        assert recording.report is None
        assert "of another run" in recording.message

    def test_a_folder_that_is_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"not the folder of a finished run: no rest\.obj and no cache\.pc2"):
            Recording(tmp_path)
        with pytest.raises(InputError, match="no such folder"):
            Recording(tmp_path / "nowhere")

    def test_a_truncated_cache(self, tmp_path: Path) -> None:
        make_run(tmp_path, 3)
        cache = tmp_path / "cache.pc2"
        cache.write_bytes(cache.read_bytes()[:-4])
        with pytest.raises(InputError, match="damaged"):
            Recording(tmp_path)
        cache.write_bytes(b"POINTCACHE2\0"[: HEADER.size])
        with pytest.raises(InputError, match="not a PC2 cache"):
            Recording(tmp_path)


class TestFlaggedFrames:
    def test_rows_of_frames_with_one_fault_and_the_worst_of_each(self) -> None:
        report = certificate(9)
        for number, rejected in ((2, 1), (3, 4), (4, 1), (8, 2)):
            report["frames"][number - 1] = entry_of(number, rejected=rejected)
        assert find_flagged({}, report, 10) == [
            FlaggedFrames(2, 4, 3, "steps rejected: 4"),
            FlaggedFrames(8, 8, 8, "steps rejected: 2"),
        ]

    def test_beyond_what_is_expected(self) -> None:
        expect = {"max_strain": Bound(max=0.075), "frames.ms.CG": Bound(max=18.5), "steps": Bound(max=1)}
        found = find_flagged(expect, certificate(9), 10)
        assert [(mark.first, mark.last, mark.worst) for mark in found] == [(8, 9, 9), (9, 9, 9)]
        assert found[0].reason == "max_strain out of bounds: 0.09"
        assert frame_numbers(found) == {8, 9}

    def test_where_it_stopped_and_how_it_began(self) -> None:
        report = certificate(4, stopped="interrupted")
        report["summary"]["intersections_start"] = 3
        assert [str(mark) for mark in find_flagged({}, report, 5)] == [
            "frame 0: pairs of triangles intersect: 3",
            "frame 4: the run stopped here",
        ]


class TestColors:
    def test_strain_is_measured_along_the_threads(self) -> None:
        """Lengths times 1.1 along warp and 0.8 along weft, turned: strains of 0.1 and -0.2 to the digits of float32."""
        surface = sheet()
        angle = 0.7
        turn = np.array([[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0], [0.0, 0.0, 1.0]])
        strain = strain_along(surface)(surface.rest * [1.1, 0.8, 1.0] @ turn.T)
        assert strain.shape == (len(surface.triangles), 2)
        assert np.allclose(strain, [0.1, -0.2], atol=1e-6)

    def test_rest_is_in_the_middle_of_the_palette(self) -> None:
        assert np.allclose(scale_position(np.array([-0.2, -0.1, 0.0, 0.05, 0.3]), 0.1), [0.0, 0.0, 0.5, 0.75, 1.0])


class FakeGui:
    """Takes what plots are made of."""

    def __init__(self) -> None:
        self.charts: list[dict[str, Any]] = []

    def add_folder(self, _: None) -> Any:
        import contextlib

        return contextlib.nullcontext()

    def add_uplot(self, **settings: Any) -> Any:
        from types import SimpleNamespace

        self.charts.append(settings)
        return SimpleNamespace(remove=lambda: None, **settings)


class TestPlots:
    def test_peaks_survive_thinning_and_lengths_agree(self) -> None:
        count = 5 * MAX_POINTS
        entries = [entry_of(number, contacts={"solid": 7 * (number == 1234), "cloth": 0}) for number in range(count)]
        gui = FakeGui()
        plots = Plots(gui)
        plots.show(entries, 2000, {3000})
        assert len(gui.charts) == 4
        for chart in gui.charts:
            assert len({len(row) for row in chart["data"]}) == 1
            assert len(chart["data"]) == len(chart["series"])
            assert np.all(np.diff(chart["data"][0]) >= 0.0)
            assert len(chart["data"][0]) <= MAX_POINTS + 3
        contacts = gui.charts[2]
        assert contacts["data"][1].max() == 7.0
        at = contacts["data"][0][np.argmax(contacts["data"][-1])]
        assert at == 2000.0
        foot = contacts["data"][0][np.argmax(contacts["data"][-2])]
        assert abs(foot - 3000.0) <= 5.0

    def test_a_certificate_without_frames_has_no_charts(self) -> None:
        gui = FakeGui()
        Plots(gui).show([], 0)
        assert gui.charts == []


def test_text_from_files_is_no_markup() -> None:
    shown = plain('<img src="http://x.example/">|a_b_c*')
    assert not set('<>"|_*/') & set(shown)


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Any]:
    """A page of a run in `tmp_path`, served as `toile view` does."""
    pytest.importorskip("viser")
    from toile.viewer.playback.page import PlaybackPage
    from toile.viewer.server.guarded_server import serve

    served = serve("test")
    pages: list[PlaybackPage] = []

    def begin() -> tuple[PlaybackPage, str]:
        pages.append(PlaybackPage(served.viser, tmp_path))
        return pages[0], served.url

    yield begin
    for page in pages:
        page.close()
    served.stop()


def test_in_a_browser(tmp_path: Path, play: Any, open_page: Any) -> None:
    """The page asks for nothing from outside, draws the cloth, and the scrubber brings the positions of its frame."""
    report = certificate(20)
    report["frames"][11] = entry_of(12, rejected=3)
    surface = make_run(tmp_path, 20, report)
    page, url = play()
    opened = open_page(url)
    opened.page.get_by_text("folding").wait_for()
    sent = [frame_of(surface, number).positions.astype(np.float32).tobytes() for number in range(21)]
    opened.wait_until(lambda: any(sent[0] in data for data in opened.received), "the first frame arrives")
    opened.wait_until(lambda: reddish(opened.picture()).sum() > 500, "cloth is drawn")
    before = opened.picture()

    slider = opened.page.locator(".mantine-Slider-root").first
    box = slider.bounding_box()
    opened.page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 0.5 * box["height"])
    opened.wait_until(lambda: page.playhead.frame > 0, "the scrubber is heard")
    number = page.playhead.frame
    assert 12 <= number <= 18
    opened.wait_until(lambda: any(sent[number] in data for data in opened.received), "the frame arrives")
    opened.wait_until(lambda: changed(before, opened.picture()) > 500, "the cloth looks otherwise")

    opened.page.get_by_role("button", name="back").click()
    opened.wait_until(lambda: page.playhead.frame == number - 1, "a step back is made")
    opened.page.get_by_role("button", name="frame 12: steps rejected: 3").click()
    opened.wait_until(lambda: page.playhead.frame == 12, "the marked frame is jumped to")
    opened.page.get_by_role("button", name="Play").click()
    opened.wait_until(lambda: page.playhead.frame == 20 and not page.playhead.playing, "it plays to the end")
    assert opened.outside(url) == []
    assert opened.errors == []


def test_a_page_follows_a_run_that_goes_on(tmp_path: Path, play: Any) -> None:
    surface, writer = begin_run(tmp_path)
    page, _ = play()  # before there is a frame
    for number in range(8):
        writer.write(frame_of(surface, number))
    for cache in writer.caches:
        cache.file.flush()
    wait_for(lambda: page.playhead.frame_count == 8)
    assert page.panel.scrubber.max == 7
    writer.close()
    (tmp_path / "report.json").write_text(json.dumps(certificate(7)))
    wait_for(lambda: page.recording.report is not None and page.panel.certificate.visible)


def wait_for(condition: Any) -> None:
    import time

    end = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def reddish(picture: np.ndarray) -> np.ndarray:
    """Where the first cloth's color is, in whatever light."""
    red, green, blue = np.moveaxis(picture[:, :480], -1, 0)
    return (red > green + 40) & (red > blue + 40)


def changed(before: np.ndarray, after: np.ndarray) -> int:
    """How many pixels left of the panel differ."""
    return int((np.abs(before - after).max(axis=-1)[:, :480] > 20).sum())
