"""Tab completion: scenes, types, formats, folders of runs, and the keys and values of --set.

Nothing heavy is imported, so that a completion takes about a fifth of a second. typer talks to the shells; only its
scripts for bash and zsh are replaced. Both would add a space after `time.`; bash splits `key=value` into three words,
and zsh would not complete the first time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from toile.cli import catalog
from toile.families import FAMILIES, ROOT, members

SCENE_FILES = (".yaml", ".yml", ".json")

BASH = """
%(complete_func)s() {
    local IFS=$' \\t\\n' line="${COMP_LINE:0:COMP_POINT}" words count word
    read -ra words <<< "$line"
    count=${#words[@]}
    if [[ $line == *[![:space:]] ]]; then count=$((count - 1)); word="${words[count]}"; fi
    IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="$line" COMP_CWORD=$count %(autocomplete_var)s=complete_bash $1 2>/dev/null ) )
    # Readline completes only the part after the last =.
    if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then
        COMPREPLY=( "${COMPREPLY[@]#"${word%%"${word##*=}"}"}" )
    fi
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=./] ]]; then compopt -o nospace; fi
    return 0
}

complete -o default -F %(complete_func)s %(prog_name)s
"""

# typer's lines for fish are used: a candidate and, after a tab, a line about it.
ZSH = """
#compdef %(prog_name)s

%(complete_func)s() {
    local line word
    local -a going ending
    for line in "${(@f)$(env _TYPER_COMPLETE_FISH_ACTION=get-args _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" \\
            %(autocomplete_var)s=complete_fish %(prog_name)s 2>/dev/null)}"; do
        word="${line%%%%$'\t'*}"
        [[ -z $word ]] && continue
        [[ $line == *$'\t'* ]] && line="${word//:/\\\\:}:${line#*$'\t'}" || line="${word//:/\\\\:}"
        if [[ $word == *[=./] ]]; then going+=("$line"); else ending+=("$line"); fi
    done
    if (( $#going + $#ending == 0 )); then _files; return; fi
    (( $#going )) && _describe -t going %(prog_name)s going -S ''
    (( $#ending )) && _describe -t ending %(prog_name)s ending
    return 0
}

if [[ $funcstack[1] == _%(prog_name)s ]]; then %(complete_func)s "$@"; else compdef %(complete_func)s %(prog_name)s; fi
"""


def install_scripts() -> None:
    """Replaces typer's scripts for bash and zsh. A version of typer that keeps them elsewhere uses its own."""
    if "_TOILE_COMPLETE" in os.environ:
        os.environ["PYDANTIC_DISABLE_PLUGINS"] = "1"  # typer imports pydantic, which would search all packages for them
    try:
        from typer import _completion_shared

        _completion_shared._completion_scripts.update(bash=BASH, zsh=ZSH)
    except (ImportError, AttributeError):
        pass


def scenes(incomplete: str) -> list[tuple[str, str]]:
    """Completes a scene: shipped scenes, and files."""
    return [*_plain(catalog.scenes().items()), *_files(incomplete)]


def type_names(incomplete: str) -> list[tuple[str, str]]:
    """Completes the argument of `explain`: scenes, types of plug-ins, and presets."""
    named = [entry for family in FAMILIES for entry in members(family).items()]
    return [*scenes(incomplete), *_plain(named), *_plain(catalog.presets().items())]


def formats() -> list[tuple[str, str]]:
    """Completes an output, also from other packages."""
    return [*_plain(members("outputs").items()), *((name, "") for name in catalog.outside("outputs"))]


def runs(incomplete: str) -> list[tuple[str, str]]:
    """Completes the folder of a run, and folders on the way to it."""
    found = []
    for path, shown in _below(incomplete):
        if path.is_dir():
            is_run = (path / "cache.pc2").is_file()
            found.append((shown if is_run else f"{shown}/", "a run" if is_run else "a folder"))
    return found


def scenes_or_runs(incomplete: str) -> list[tuple[str, str]]:
    """Completes a scene or the folder of a run."""
    folders = runs(incomplete)
    taken = {name.rstrip("/") for name, _ in folders}
    return [*folders, *(entry for entry in scenes(incomplete) if entry[0].rstrip("/") not in taken)]


def overrides(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Completes KEY=VALUE of --set for the scene given before it, or for any scene."""
    from toile.cli.set_keys import complete

    # While an option waits for its value, typer has not assigned the arguments before it yet.
    scene = ctx.params.get("scene") or next(iter(ctx.args), None)
    return _plain(complete(incomplete, _values(scene)))


def _plain(entries: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Replaces brackets in the descriptions, because typer takes [s] for markup."""
    return [(name, about.replace("[", "(").replace("]", ")")) for name, about in entries]


def _values(scene: str | None) -> list[Any]:
    """Returns the values of a scene, of its preset and of the defaults; [] if the scene cannot be read."""
    import yaml

    file = ROOT / "scenes" / f"{scene}.yaml"
    try:
        given = yaml.safe_load((file if file.is_file() else Path(str(scene))).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return []
    if not isinstance(given, dict):
        return []
    cloths = given.get("cloth")
    layers: list[Any] = [given]
    for name in (given.get("preset"), "default"):
        path = ROOT / "scene" / "presets" / f"{name}.yaml"
        if path.is_file():
            layer = yaml.safe_load(path.read_text(encoding="utf-8"))
            if "cloth" in layer:  # one mapping that applies to every cloth
                layer["cloth"] = [layer["cloth"]] * (len(cloths) if isinstance(cloths, list) else 1)
            layers.append(layer)
    return layers


def _files(incomplete: str) -> Iterable[tuple[str, str]]:
    for path, shown in _below(incomplete):
        if path.is_dir():
            yield f"{shown}/", "a folder"
        elif path.suffix.lower() in SCENE_FILES:
            yield shown, "a scene file"


def _below(incomplete: str) -> list[tuple[Path, str]]:
    """Returns the entries of the folder of an incomplete path, each with the path to write."""
    folder, slash, start = incomplete.rpartition("/")
    try:
        entries = sorted(Path(f"{folder}{slash}" or ".").iterdir())
    except OSError:
        return []
    hidden = start.startswith(".")
    return [(path, f"{folder}{slash}{path.name}") for path in entries if hidden or not path.name.startswith(".")]
