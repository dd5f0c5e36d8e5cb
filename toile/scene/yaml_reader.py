"""Parses the YAML or JSON text of a scene into plain values, and keeps the line number of each of them.

The rules are those of YAML's safe loader (no tags, so nothing is ever executed), and stricter where YAML is misleading:
keys may not repeat, and 1:30 and 010 are not read as numbers in base 60 and base 8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

# Most values that a scene may expand to. Aliases of aliases can reach any number.
MAX_VALUES = 200_000

PREFIX = "tag:yaml.org,2002:"
PLAIN_TAGS = {PREFIX + name for name in ("null", "bool", "int", "float", "str", "timestamp", "seq", "map", "value")}
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,300})")
FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
NOT_FINITE = {".inf": float("inf"), "+.inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan")}

# The way to a value of a scene, such as ("cloth", 0, "fabric").
KeyPath = tuple[str | int, ...]


@dataclass
class Document:
    """A parsed scene: values as dicts, lists and scalars; `lines` holds the line on which each starts, by path."""

    values: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    faults: list[tuple[KeyPath, int, str]] = field(default_factory=list)  # path, line, message
    count: int = 0


def parse(text: str) -> Document:
    """Parses a YAML or JSON text; parts that cannot be read are listed in `faults`."""
    document = Document()
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            document.values = _build(node, (), document, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        document.faults.append(((), mark.line + 1 if mark else 1, f"not valid YAML: {error.problem or error.context}."))
    except yaml.YAMLError as error:  # such as control characters
        document.faults.append(((), 1, f"not valid YAML: {str(error).splitlines()[0]}."))
    except RecursionError:
        document.faults.append(((), 1, "nested too deeply."))
    except _TooMany:
        document.faults = [
            ((), 1, f"expands to more than {MAX_VALUES} values. Keep large data in files beside the scene.")
        ]
    return document


class _TooMany(Exception):
    pass


def _build(node: yaml.Node, path: KeyPath, document: Document, above: tuple[int, ...]) -> Any:
    line = node.start_mark.line + 1
    document.count += 1
    if document.count > MAX_VALUES:
        raise _TooMany
    document.lines.setdefault(path, line)
    if id(node) in above:
        document.faults.append((path, line, "contains itself."))
        return None
    if node.tag not in PLAIN_TAGS and node.tag != PREFIX + "merge":
        tag = node.tag.replace(PREFIX, "!!")
        document.faults.append((path, line, f"tags such as {tag} are not allowed in a scene."))
        return None
    above = (*above, id(node))
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, document, above)
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*path, i), document, above) for i, item in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode)
    return _scalar(node)


def _mapping(node: yaml.MappingNode, path: KeyPath, document: Document, above: tuple[int, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            document.faults.append((path, line, "keys must be plain text."))
            continue
        key = str(key_node.value)
        if key_node.tag == PREFIX + "merge":
            parts = _build(value_node, path, document, above)
            for part in parts if isinstance(parts, list) else [parts]:
                merged = {**(part if isinstance(part, dict) else {}), **merged}  # the first one has precedence
            continue
        if key in values:
            first = document.lines.get((*path, key), line)
            document.faults.append(((*path, key), line, f"given twice; the first is on line {first}."))
            continue
        document.lines[(*path, key)] = line
        values[key] = _build(value_node, (*path, key), document, above)
    return {**merged, **values}


def _scalar(node: yaml.ScalarNode) -> Any:
    text = str(node.value)
    kind = node.tag.removeprefix(PREFIX)
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in ("true", "yes", "on")
    if kind == "int" and INTEGER.fullmatch(text):
        return int(text)
    if kind == "float" and text.lower() in NOT_FINITE:
        return NOT_FINITE[text.lower()]
    if kind == "float" and FLOAT.fullmatch(text):
        return float(text)
    return text  # YAML 1.1 takes 1e-3 for text; the models convert it to a number
