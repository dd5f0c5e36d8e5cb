"""The checker of kernel signatures and lengths reports every rule that a small source breaks, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import check_structure

ROOT = Path(__file__).parents[2]

GOOD = """
@wp.kernel
def scatter(
    first: wp.int32,
    # model
    hinges: wp.array(dtype=wp.vec4i), rest: wp.array[Hinge],
    # in
    x: wp.array(dtype=vec3), p: vec3,
    # in and out
    f_out: wp.array(dtype=vec3),
    # out
    E_out: wp.array(dtype=real), list_out: List,
):  # fmt: skip
    i = first + wp.tid()
    p[0] = real(0.0)
    wp.atomic_add(f_out, hinges[i][0], x[i])
    E_out[i], y = real(0.0), x[i]
    list_out.count[0] += 1
"""


def problems(folder: Path, text: str, path: str = "toile/a.py", exceptions: dict[str, str] | None = None) -> list[str]:
    """Messages about a file, without its path."""
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text, encoding="utf-8")
    found = check_structure.check(folder, [path], exceptions or {})
    return [str(problem).removeprefix(f"{path}:") for problem in found]


def test_a_good_kernel(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# model", "# mesh", "the comment '# mesh' is not a section; sections are # model, # solid, # in, "),
        ("p: vec3,", "p: vec3, q_out: wp.array[real],", "output q_out is in section '# in'"),
        ("first: wp.int32,", "first: wp.int32, q_out: wp.array[real],", "output q_out is before the sections"),
        ("list_out: List", "list_out: List, rows: wp.int32", "rows is in section '# out' and does not end in _out"),
        ("# in and out", "# out\n    s_out: List,\n    # in\n    n: int,\n    # out", "n is after s_out"),
        ("E_out[i], y", "z, y", "never writes E_out"),
        ("list_out.count[0]", "z", "never writes list_out"),
        ("E_out[i], y", "E_out[i], x[i]", "writes x, which does not end in _out"),
        ("E_out[i], y", "E_out[i], rest[i].angle", "writes rest, which does not end in _out"),
        ("wp.atomic_add(f_out", "wp.atomic_max(x, i, f_out[i]); wp.atomic_add(f_out", "writes x, which does not end"),
        ("p: vec3", ", ".join(f"p{k}: vec3" for k in range(6)), "13 parameters; at most 12"),
        ("    list_out", "    z = 0\n" * 75 + "    list_out", "91 lines; at most 90"),
    ],
)
def test_a_rule_that_a_kernel_breaks(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in GOOD
    found = problems(tmp_path, GOOD.replace(old, new, 1))
    assert any(line.startswith("3: kernel scatter: ") and message in line for line in found), found


def test_twelve_parameters_and_ninety_lines_are_allowed(tmp_path: Path) -> None:
    parameters = ", ".join(f"p{k}: vec3" for k in range(5))
    text = (
        GOOD.replace("p: vec3", parameters)
        .replace("p[0]", "p0[0]")
        .replace("    list_out", "    z = 0\n" * 74 + "    list_out")
    )
    assert problems(tmp_path, text) == []


def test_a_short_header_needs_no_sections(tmp_path: Path) -> None:
    text = "@wp.kernel\ndef double(\n    x: wp.array[real],\n    y_out: wp.array[real],{}\n):\n    y_out[0] = x[0]\n"
    assert problems(tmp_path, text.format("")) == []
    (found,) = problems(tmp_path, text.format("\n    z_out: List, ").replace("= x[0]", "= f(z_out)"))
    assert found == "2: kernel double: parameters on 3 lines without sections; at most 2"
    (found,) = problems(tmp_path, text.format(" k: int"))
    assert found == "2: kernel double: outputs come last: k is after y_out"


def test_passing_an_output_to_a_function_may_write_it(tmp_path: Path) -> None:
    text = "@wp.kernel\ndef fill(list_out: List, y_out: wp.array[real]):\n    append(list_out.count, y_out)\n"
    assert problems(tmp_path, text) == []


def test_writes_are_followed_into_functions(tmp_path: Path) -> None:
    (tmp_path / "toile").mkdir()
    (tmp_path / "toile" / "sums.py").write_text(
        "@wp.func\n"
        "def clear(parts: wp.array[real], k: int):\n    parts[k] = real(0.0)\n"
        "@wp.func\n"
        "def take(parts: wp.array[real], v: vec3):\n    v[0] = parts[0]\n    clear(parts, 0)\n"
        '@wp.func_native("...")\n'
        "def wait(arrived: wp.array[wp.uint64], n: int): ...\n"
    )
    text = (
        "from toile.sums import take as take_sum, wait\n"
        "@wp.kernel\n"
        "def add(parts: wp.array[real], v: vec3, arrived: wp.array[wp.uint64], n: int, y_out: wp.array[real]):\n"
        "    y_out[0] = take_sum(parts, v)\n"
        "    wait(arrived, n)\n"
    )
    assert problems(tmp_path, text) == [
        "3: kernel add: writes parts through take, which does not end in _out",
        "3: kernel add: writes arrived through wait, which does not end in _out",
    ]
    assert (
        problems(tmp_path, text.replace("take_sum(parts, v)", "take_sum(y_out, v)").replace("(arrived", "(y_out")) == []
    )


@pytest.mark.parametrize(
    "how",
    [
        "return wp.Kernel(fill, module=module)",
        "return tuple(wp.Kernel(function) for function in (other, fill))",
        "def kernel(function):\n        return wp.Kernel(function)\n    return Kernels(kernel(fill))",
    ],
)
def test_functions_that_become_kernels(how: str, tmp_path: Path) -> None:
    text = (
        "def make(shape):\n"
        "    @wp.func\n"
        "    def helper(x: wp.array[real]):\n        x[0] = real(0.0)\n"
        "    def host(x: list):\n        x[0] = 0.0\n"
        "    def fill(x: wp.array[real]):\n        x[0] = real(1.0)\n"
        "    host([])\n"
        f"    {how}\n"
    )
    assert problems(tmp_path, text) == ["7: kernel fill: writes x, which does not end in _out"]
    assert problems(tmp_path, text.replace("wp.Kernel", "use")) == []


def test_a_nested_function_with_sections_is_a_kernel(tmp_path: Path) -> None:
    text = (
        "def make(name):\n"
        "    def fill(\n        # in\n        x: wp.array[real],\n    ):\n        x[0] = real(1.0)\n"
        "    return wp.Kernel(locals()[name])\n"
    )
    assert problems(tmp_path, text) == ["2: kernel fill: writes x, which does not end in _out"]


def test_a_function_with_sections_is_held_to_them(tmp_path: Path) -> None:
    text = "@wp.func\ndef relax(\n    # in\n    x: wp.array[real], k: int,\n) -> real:\n    x[k] = real(1.0)\n"
    assert problems(tmp_path, text) == ["2: kernel relax: writes x, which does not end in _out"]
    assert problems(tmp_path, text.replace("    # in\n", "")) == []


def test_lengths_of_functions_and_files(tmp_path: Path) -> None:
    body = "    z = 0\n"
    assert problems(tmp_path, "def f():\n" + 59 * body) == []
    assert problems(tmp_path, "def f():\n" + 60 * body) == ["1: function f: 61 lines; at most 60"]
    assert problems(tmp_path, "@wp.func\ndef f():\n" + 89 * body) == []
    assert problems(tmp_path, "@wp.func\ndef f():\n" + 90 * body) == ["2: function f: 91 lines; at most 90"]
    inner = "    @cache\n    def g():\n" + 40 * f"    {body}"
    assert problems(tmp_path, "def f():\n" + inner + 30 * body) == []
    assert problems(tmp_path, 450 * "z = 0\n") == []
    assert problems(tmp_path, 451 * "z = 0\n") == ["1: file a.py: 451 lines; at most 450"]


def test_kernels_of_tests_are_not_checked_but_their_lengths_are(tmp_path: Path) -> None:
    text = "@wp.kernel\ndef double(x: wp.array[real]):\n    x[0] = real(0.0)\n" + 450 * "\n"
    assert problems(tmp_path, text, "tests/test_a.py") == ["1: file test_a.py: 453 lines; at most 450"]


def test_exceptions(tmp_path: Path) -> None:
    text = "def f():\n" + 60 * "    z = 0\n"
    assert problems(tmp_path, text, exceptions={"toile/a.py:f": "a table", "toile/b.py": "another file"}) == []
    (found,) = problems(tmp_path, "z = 0\n", exceptions={"toile/a.py:f": "a table"})
    assert found == "1: exception toile/a.py:f: nothing is wrong there; delete the exception"


def test_the_command(tmp_path: Path) -> None:
    """It checks the files of its own repository, and its exit code is 1 if anything was found."""
    script = tmp_path / "tools" / "check_structure.py"
    script.parent.mkdir()
    script.write_bytes((ROOT / "tools" / "check_structure.py").read_bytes())
    (tmp_path / "toile").mkdir()
    (tmp_path / "toile" / "a.py").write_text("def f():\n" + 60 * "    z = 0\n")

    def run(*paths: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, script, *paths], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    assert run("tools") == (0, "")
    assert run("toile", "tools") == (1, "toile/a.py:1: function f: 61 lines; at most 60\n")
    code, text = run("nowhere")
    assert code == 2 and "nowhere: no such file or folder" in text
