"""The scripts in examples/ run at their small size, and their output agrees with their text."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A function that runs an example in an empty folder and returns its output."""
    monkeypatch.setenv("TOILE_EXAMPLE_SIZE", "small")
    monkeypatch.chdir(tmp_path)

    def run(name: str) -> str:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"(?<![\w.])[-+]?\d+\.?\d*(?:e[-+]\d+)?", text)]


def test_every_example_is_tested() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert names <= tested


def test_first_run(printed) -> None:
    """A sheet that falls gets lower, and its certificate is ok."""
    text = printed("first_run")
    lowest = [float(z) for z in re.findall(r"lowest point ([\d.]+) m", text)]
    assert len(lowest) == 3
    assert lowest == sorted(lowest, reverse=True)
    assert "15 frames in 30 steps" in text
    assert text.endswith("ok: True\n")


def test_own_scene(printed) -> None:
    text = printed("own_scene")
    assert all(Path(line).is_file() for line in text.splitlines() if line.startswith("out"))
    assert "ok = true: True met" in text
    assert "NOT MET" not in text
    assert 'cloth.0.shape - no such shape. Did you mean "grid"?' in text
    assert 'cloth.0.fabric - no such fabric. Did you mean "cotton"?' in text
    assert "time.frames - " in text


def test_sweep(printed) -> None:
    """The second-order scheme is the more accurate one, and smaller steps reduce the error of both."""
    rows = [numbers(line)[-2:] for line in printed("sweep").splitlines()[1:]]
    euler, bdf2 = zip(*rows, strict=True)
    assert len(rows) == 3
    assert all(second < first for first, second in rows)
    assert list(euler) == sorted(euler, reverse=True)
    assert list(bdf2) == sorted(bdf2, reverse=True)


def test_drape_coefficient(printed) -> None:
    """Between a limp cloth and a board, and larger for the stiffer fabric."""
    soft, stiff = (numbers(line)[-1] for line in printed("drape_coefficient").splitlines()[1:])
    assert 0.0 < soft < stiff < 100.0


def test_fabrics(printed) -> None:
    """Stiffer strips droop less, each a little more than the elastica: 5/6 of the rigidity, 1/24 more length."""
    rows = [numbers(line)[-3:] for line in printed("fabrics").splitlines()[1:]]
    lengths, droops, exact = zip(*rows, strict=True)
    assert list(lengths) == sorted(lengths)
    assert list(droops) == sorted(droops, reverse=True)
    assert all(theory < found < theory + 0.08 for found, theory in zip(droops, exact, strict=True))


def test_forces_in_pins(printed) -> None:
    """At rest the pins carry the weight, and pull sideways against each other."""
    last = printed("forces_in_pins").splitlines()[-1]
    carried, left, right = numbers(last)
    assert carried == pytest.approx(100.0, abs=1.0)
    assert left < 0.0 < right
    assert left == pytest.approx(-right, rel=0.01)


def test_export_and_render(printed) -> None:
    """Every named file exists; both ways to read the run agree to float32."""
    lines = printed("export_and_render").splitlines()
    assert all(Path(line).is_file() for line in lines if line.startswith("out"))
    assert "121 vertices, 200 triangles, 5 frames" in lines
    assert numbers(lines[-1])[0] < 1e-6


def test_moving_body(printed) -> None:
    """The cloth lands on the body, and no vertex is inside it."""
    lines = printed("moving_body").splitlines()
    depths = [float(depth) for line in lines for depth in re.findall(r"([\d.]+) mm deep", line)]
    contacts = [int(count) for line in lines for count in re.findall(r"(\d+) contacts", line)]
    assert max(depths) < 0.5
    assert contacts[0] == 0 < contacts[-1]
    assert lines[-1] == "ok: True"


def test_determinism(printed) -> None:
    """The same seed gives the same bits, and another seed gives others."""
    first, second, other = (line.split() for line in printed("determinism").splitlines()[1:])
    assert first == second
    assert first[1] != other[1]
    assert first[2] != other[2]


def test_custom_force(printed) -> None:
    """The period is 2 pi / sqrt(k). Steps of 1/240 s of a second-order scheme: (omega h)^2 / 2 is 0.04 %."""
    text = printed("custom_force")
    found, expected = numbers(text.splitlines()[0])
    assert found == pytest.approx(expected, rel=2e-3)
    assert "draw_in" in text.splitlines()[1]
