"""Checks that kernels say what they read and write, and that functions and files stay short.

    python tools/check_structure.py [PATH ...]      all files by default; the exit code is 1 if anything is reported

Kernels     Comments in the parameter list of a kernel divide it into SECTIONS. Names of outputs end in `_out`, other
            names do not, and outputs come last. A list of at most MAX_PLAIN_LINES lines needs no sections. A kernel has
            at most MAX_PARAMETERS parameters, writes no array that is not an output, and writes every output. Writes
            are followed into the functions that the kernel calls, in the same file or imported from another; native
            functions are taken to write all their arrays.
Lengths     A kernel or `@wp.func` has at most MAX_KERNEL_LINES lines, another function has MAX_FUNCTION_LINES
            (functions inside it are counted by themselves), and a file has MAX_FILE_LINES.

A kernel is a function with the decorator `@wp.kernel`, or one inside a function that calls `wp.Kernel`, if it has
sections or is named there without being called. A `@wp.func` that has sections is held to the rules of kernels. The
rules of kernels apply below toile/, those of lengths everywhere. Files are only read, never imported.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

# Comments that divide the parameters of a kernel. The last two hold outputs.
SECTIONS = ("# model", "# solid", "# in", "# in and out", "# out")
OUTPUT_SECTIONS = SECTIONS[-2:]

MAX_PARAMETERS = 12
MAX_PLAIN_LINES = 2
MAX_KERNEL_LINES = 90
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 450

ROOTS = ("toile", "tests", "benchmarks", "docs/_pages", "examples", "tools")
KERNEL_ROOT = "toile/"

# Places that may break a rule, as "path" or "path:function", each with its reason.
EXCEPTIONS: dict[str, str] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Problem:
    """A broken rule and its place."""

    path: str
    line: int
    kind: str  # "kernel", "function", "file" or "exception"
    name: str
    message: str

    @property
    def place(self) -> str:
        """The key under which EXCEPTIONS may hold it."""
        return self.path if self.kind == "file" else f"{self.path}:{self.name}"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind} {self.name}: {self.message}"


@dataclass
class Source:
    """A file, its syntax tree and the functions in it."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def functions(self) -> list[Function]:
        return list(functions_in(self.tree))

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """The module of every name that is imported from one, and its name there."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.update({alias.asname or alias.name: (node.module, alias.name) for alias in node.names})
        return found

    @cached_property
    def kernels(self) -> list[Function]:
        """The kernels of the file, and its device functions that have sections."""
        found = {id(f) for f in self.functions if decorated(f, "wp.kernel")}
        found |= {id(f) for f in self.functions if decorated(f, "wp.func") and self.sections(f)}
        for maker in self.functions if "wp.Kernel(" in self.text else []:
            if not any(ast.unparse(call.func) == "wp.Kernel" for call in calls_in(maker)):
                continue
            called = {id(call.func) for call in calls_in(maker)}
            named = {n.id for n in ast.walk(maker) if isinstance(n, ast.Name) and id(n) not in called}
            inside = [f for f in functions_in(maker) if f is not maker and not f.decorator_list]
            found |= {id(f) for f in inside if f.name in named or self.sections(f)}
        return [f for f in self.functions if id(f) in found]

    def comments(self, function: Function) -> list[tuple[int, str]]:
        """Line numbers and texts of the comments that have a line of the parameter list to themselves."""
        last = max((a.lineno for a in function.args.args), default=function.lineno)
        stripped = ((n, self.lines[n - 1].strip()) for n in range(function.lineno + 1, last))
        return [(n, text) for n, text in stripped if text.startswith("#")]

    def sections(self, function: Function) -> list[tuple[int, str]]:
        """Line numbers and texts of those comments that begin a section."""
        return [(line, text) for line, text in self.comments(function) if text in SECTIONS]


class Repository:
    """The files below a folder, each of which is read once, and the arrays that their functions write."""

    def __init__(self, root: Path):
        self.root = root
        self._sources: dict[str, Source] = {}
        self._writes: dict[int, dict[str, str]] = {}  # by the identity of the function

    def source(self, path: str) -> Source:
        if path not in self._sources:
            self._sources[path] = Source(path, (self.root / path).read_text(encoding="utf-8"))
        return self._sources[path]

    def writes(self, source: Source, function: Function) -> dict[str, str]:
        """Parameters whose arrays a function writes, each with the writer: this function, or one that it calls."""
        if id(function) in self._writes:
            return self._writes[id(function)]
        found = self._writes[id(function)] = {}  # still empty where functions call each other
        parameters = {parameter.arg: is_array(parameter) for parameter in function.args.args}
        if decorated(function, "wp.func_native"):
            found.update({name: function.name for name, array in parameters.items() if array})
        for name, steps in map(root_of, written_expressions(function)):
            # A component of a vector that is passed by value is a local variable; a field of a structure is an array.
            if name in parameters and "[" in steps and (parameters[name] or steps.startswith(".")):
                found[name] = function.name
        for call in calls_in(function):
            for name, writer in self._written_arguments(source, call):
                if name in parameters:
                    found.setdefault(name, writer)
        return found

    def _written_arguments(self, source: Source, call: ast.Call) -> Iterator[tuple[str, str]]:
        """Arguments of a call whose arrays the called function writes, each with the name of that function."""
        name, steps = root_of(call.func)
        if steps:
            return
        if name in source.imports:
            module, name = source.imports[name]
            path = f"{module.replace('.', '/')}.py"
            if not (self.root / path).is_file():
                return
            source = self.source(path)
        for function in source.functions:
            if function.name == name and (decorated(function, "wp.func") or decorated(function, "wp.func_native")):
                written = self.writes(source, function)
                for parameter, argument in zip(function.args.args, call.args, strict=False):
                    given, steps = root_of(argument)
                    if parameter.arg in written and "[" not in steps:
                        yield given, name


def functions_in(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def calls_in(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def decorated(function: Function, name: str) -> bool:
    """Tells whether a function has a decorator, with arguments or without."""
    plain = (d.func if isinstance(d, ast.Call) else d for d in function.decorator_list)
    return any(ast.unparse(decorator) == name for decorator in plain)


def is_array(parameter: ast.arg) -> bool:
    return parameter.annotation is not None and ast.unparse(parameter.annotation).startswith("wp.array")


def root_of(expression: ast.expr) -> tuple[str, str]:
    """The name that an expression begins with, and its steps from there: `a.b[i]` is "a" and ".["."""
    steps = ""
    while isinstance(expression, ast.Attribute | ast.Subscript):
        steps = ("." if isinstance(expression, ast.Attribute) else "[") + steps
        expression = expression.value
    return (expression.id if isinstance(expression, ast.Name) else ""), steps


def written_expressions(function: Function) -> Iterator[ast.expr]:
    """Targets of the assignments of a function, and elements of the arrays of its atomic operations."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from target.elts if isinstance(target, ast.Tuple) else [target]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("wp.atomic_") and len(node.args) > 1:
            yield ast.Subscript(node.args[0], node.args[1], ast.Store())


def passed_names(function: Function) -> set[str]:
    """Names that are passed to a call, whole or as a field: the call may write their arrays."""
    roots = (root_of(argument) for call in calls_in(function) for argument in call.args)
    return {name for name, steps in roots if "[" not in steps}


def check_header(source: Source, kernel: Function) -> Iterator[str]:
    """Reports what is wrong with the sections, the names and the order of the parameters."""
    sections = source.sections(kernel)
    for _, text in source.comments(kernel):
        if text not in SECTIONS:
            yield f"the comment '{text}' is not a section; sections are {', '.join(SECTIONS)}"
    parameters = kernel.args.args
    lines = parameters[-1].lineno - parameters[0].lineno + 1 if parameters else 0
    if not sections and lines > MAX_PLAIN_LINES:
        yield f"parameters on {lines} lines without sections; at most {MAX_PLAIN_LINES}"
    first_output = None
    for parameter in parameters:
        name, is_output = parameter.arg, parameter.arg.endswith("_out")
        section = section_of(parameter, sections)
        if is_output and sections and section not in OUTPUT_SECTIONS:
            yield f"output {name} is " + (f"in section '{section}'" if section else "before the sections")
        if not is_output and section in OUTPUT_SECTIONS:
            yield f"{name} is in section '{section}' and does not end in _out"
        if is_output or section in OUTPUT_SECTIONS:
            first_output = first_output or name
        elif first_output:
            yield f"outputs come last: {name} is after {first_output}"


def section_of(parameter: ast.arg, sections: list[tuple[int, str]]) -> str | None:
    """The section that a parameter is in; None if it is before the first one."""
    return next((text for line, text in reversed(sections) if line < parameter.lineno), None)


def check_writes(repository: Repository, source: Source, kernel: Function) -> Iterator[str]:
    """Reports arrays that are written but are not outputs, and outputs that are never written."""
    written, passed, sections = repository.writes(source, kernel), passed_names(kernel), source.sections(kernel)
    for parameter in kernel.args.args:
        name = parameter.arg
        if name.endswith("_out"):
            if name not in written and name not in passed:
                yield f"never writes {name}"
        elif name in written and section_of(parameter, sections) not in OUTPUT_SECTIONS:
            through = "" if written[name] == kernel.name else f" through {written[name]}"
            yield f"writes {name}{through}, which does not end in _out"


def check_lengths(source: Source) -> Iterator[Problem]:
    """Reports files and functions that are too long."""
    count = len(source.lines)
    if count > MAX_FILE_LINES:
        yield Problem(source.path, 1, "file", Path(source.path).name, f"{count} lines; at most {MAX_FILE_LINES}")
    kernels = {id(kernel) for kernel in source.kernels}
    for function in source.functions:
        on_device = id(function) in kernels or decorated(function, "wp.func")
        limit = MAX_KERNEL_LINES if on_device else MAX_FUNCTION_LINES
        count = own_lines(function)
        if count > limit:
            kind = "kernel" if id(function) in kernels else "function"
            yield Problem(source.path, function.lineno, kind, function.name, f"{count} lines; at most {limit}")


def own_lines(function: Function) -> int:
    """The number of lines from `def` to the end, without those of functions inside."""
    own = set(range(function.lineno, (function.end_lineno or function.lineno) + 1))
    for inner in functions_in(function):
        if inner is not function:
            first = min([inner.lineno, *(decorator.lineno for decorator in inner.decorator_list)])
            own -= set(range(first, (inner.end_lineno or inner.lineno) + 1))
    return len(own)


def check_kernel(repository: Repository, source: Source, kernel: Function) -> Iterator[Problem]:
    """Reports what is wrong with one kernel, apart from its length."""
    messages = [*check_header(source, kernel), *check_writes(repository, source, kernel)]
    count = len(kernel.args.args)
    if count > MAX_PARAMETERS:
        messages.append(f"{count} parameters; at most {MAX_PARAMETERS}")
    for message in messages:
        yield Problem(source.path, kernel.lineno, "kernel", kernel.name, message)


def check(root: Path, paths: Iterable[str], exceptions: dict[str, str]) -> list[Problem]:
    """Reports what is wrong in the files at some paths of a repository, and exceptions that are no longer needed."""
    repository, found = Repository(root), []
    for path in files_below(root, paths):
        source = repository.source(path)
        problems = list(check_lengths(source))
        if path.startswith(KERNEL_ROOT):
            problems += [p for kernel in source.kernels for p in check_kernel(repository, source, kernel)]
        places = {problem.place for problem in problems}
        found += [problem for problem in problems if problem.place not in exceptions]
        for place in exceptions:
            if place.partition(":")[0] == path and place not in places:
                found.append(Problem(path, 1, "exception", place, "nothing is wrong there; delete the exception"))
    return found


def files_below(root: Path, paths: Iterable[str]) -> Iterator[str]:
    """The Python files at and below some paths, relative to the root."""
    for path in paths:
        top = root / path
        for file in [top] if top.is_file() else sorted(top.rglob("*.py")):
            yield file.relative_to(root).as_posix()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=ROOTS, help="files and folders, relative to the repository")
    root, paths = Path(__file__).resolve().parents[1], parser.parse_args().paths
    for path in paths:
        if not (root / path).exists():
            parser.error(f"{path}: no such file or folder in {root}.")
    found = check(root, paths, EXCEPTIONS)
    print("".join(f"{problem}\n" for problem in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
