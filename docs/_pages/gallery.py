"""`make gallery`: runs every shipped scene and stores a picture, a small film and its measurements in docs/gallery.

    python docs/_pages/gallery.py [SCENE ...] [--jobs 1] [--limit 1800] [--again]

Runs are written to out/gallery. A scene is run again if its file, or a default that it relies on, has changed since its
measurements were written, and with --again. A run that takes longer than the limit [s] is stopped and reported; the
gallery keeps what it had.

Times are processor times of one thread, so other load on the machine does not affect them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import gallery_pages

from toile.outputs.picture import Picture
from toile.outputs.video import Video
from toile.runs.expectations import check
from toile.runs.folder import RunFolder
from toile.runs.run import run
from toile.scene.load import load, scene_names
from toile.scene.schema import Scene

RUNS = Path("out", "gallery")
GALLERY, SCENES = gallery_pages.GALLERY, gallery_pages.SCENES

# The films and pictures of all scenes together stay below 15 MB in the repository.
FILM = {"width": 480, "height": 360, "samples": 2}
FILM_RATE, FILM_QUALITY = 15, 27  # [1/s], x264's crf
BANNER, BANNER_SECONDS = ("ball", "twist", "bmf03_balloon"), 4.0
PICTURE_WIDTH, PICTURE_QUALITY = 800, 82  # [pixels], of 100


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the shipped scenes and show them in docs/gallery.")
    parser.add_argument("scenes", nargs="*", help="scenes by name; all when not given")
    parser.add_argument("--jobs", type=int, default=1, help="scenes at a time")
    parser.add_argument("--limit", type=float, default=1800.0, help="longest time for one scene [s]")
    parser.add_argument("--again", action="store_true", help="also scenes that have not changed")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a scene, in the process that was started for it
    options = parser.parse_args()
    if options.one:
        show(options.one)
        return 0
    GALLERY.mkdir(exist_ok=True)
    wanted = [name for name in options.scenes or scene_names() if options.again or not is_current(name)]
    with ThreadPoolExecutor(options.jobs) as pool:
        shown = pool.map(lambda name: started(name, options.limit), wanted)
        failed = [name for name, ok in zip(wanted, shown, strict=True) if not ok]
    make_banner()
    gallery_pages.write()
    print(f"{len(wanted) - len(failed)} scenes run, {len(scene_names()) - len(wanted)} as they were.")
    if failed:
        print(f"Not shown: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


def started(name: str, limit: float) -> bool:
    """Runs one scene in a separate process; returns whether it succeeded."""
    try:
        done = subprocess.run([sys.executable, __file__, "--one", name], timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"{name}: not done after {limit:g} s, and stopped.", file=sys.stderr)
        return False
    return done.returncode == 0


def is_current(name: str) -> bool:
    """Returns whether the gallery shows the present version of the scene."""
    files = [GALLERY / f"{name}{suffix}" for suffix in (".json", ".webp", ".mp4")]
    return all(file.exists() for file in files) and json.loads(files[0].read_text())["input"] == fingerprint(name)


def fingerprint(name: str) -> str:
    """Returns a hash of the scene file and of the scene with all its defaults, without its outputs."""
    scene = load(name).model_dump_json(exclude={"outputs", "expect"})
    return hashlib.sha256((SCENES / f"{name}.yaml").read_bytes() + scene.encode()).hexdigest()


def show(name: str) -> None:
    """Runs a scene and adds its results to the gallery."""
    scene, folder = load(name), RUNS / name
    pictures = tuple(output for output in scene.outputs if isinstance(output, Picture))
    bare = scene.model_copy(update={"outputs": pictures[:1] or (Picture(),)})
    clock = [time.process_time()]
    result = run(
        bare, folder, progress=lambda _: clock.append(time.process_time()), warn=lambda text: print(f"{name}: {text}")
    )
    (picture,) = (path for path in result.written if path.suffix == ".png")
    ffmpeg("-i", picture, "-vf", f"scale={PICTURE_WIDTH}:-2", "-quality", PICTURE_QUALITY, GALLERY / f"{name}.webp")
    make_film(scene, folder, GALLERY / f"{name}.mp4")
    surface, findings = RunFolder(folder).surface(), check(scene.expect, result.report)
    results = {
        "input": fingerprint(name),
        "versions": result.report["versions"],
        "vertices": surface.vertex_count,
        "triangles": len(surface.triangles),
        "seconds": scene.time.frames / scene.time.fps,
        "ms_per_frame": 1e3 * statistics.median(after - before for before, after in pairwise(clock[1:])),
        "summary": {key: value for key, value in result.report["summary"].items() if key != "ms_per_frame"},
        "expect": [vars(finding) for finding in findings],
    }
    (GALLERY / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    unmet = [finding.key for finding in findings if not finding.ok]
    text = f"FAILED: {', '.join(unmet)}" if unmet else "all expectations hold"
    print(f"{name}: {results['ms_per_frame']:.0f} ms a frame, {text}", flush=True)


def make_film(scene: Scene, folder: Path, target: Path) -> None:
    """Makes a film with the camera of the scene's own film or picture, at a low frame rate."""
    drawings = [output for kind in (Video, Picture) for output in scene.outputs if isinstance(output, kind)]
    camera = {key: getattr(drawings[0], key) for key in ("look_from", "look_at", "fov")} if drawings else {}
    done = RunFolder(folder)
    surface = done.surface()
    every = max(1, round(surface.fps / FILM_RATE))
    draft = folder / "film.mp4"
    writer = Video(**FILM, **camera).writer_to(draft, replace(surface, fps=surface.fps / every))
    for frame in done.frames():
        if frame.number % every == 0:
            writer.write(frame)
    writer.close()
    encoding = ("-c:v", "libx264", "-preset", "slower", "-crf", FILM_QUALITY, "-pix_fmt", "yuv420p")
    ffmpeg("-i", draft, *encoding, "-movflags", "+faststart", target)


def make_banner() -> None:
    """Makes the animated picture at the top of the README from some films side by side."""
    films = [RUNS / name / "film.mp4" for name in BANNER]
    target = GALLERY / "toile.gif"
    if not all(film.exists() for film in films):  # older runs may have been deleted; the picture stays as it is
        return
    if target.exists() and all(film.stat().st_mtime < target.stat().st_mtime for film in films):
        return
    # Short films repeat. -t limits the inputs, because the palette is made when they end.
    inputs = [option for film in films for option in ("-stream_loop", "-1", "-t", BANNER_SECONDS, "-i", film)]
    small = [f"[{i}:v]setpts=PTS-STARTPTS,fps=12.5,scale=288:-2:flags=lanczos[v{i}]" for i in range(len(films))]
    beside = "".join(f"[v{i}]" for i in range(len(films))) + f"hstack=inputs={len(films)},split[a][b]"
    colors = "[a]palettegen=max_colors=96:stats_mode=full[p];[b][p]paletteuse=dither=bayer:bayer_scale=5"
    ffmpeg(*inputs, "-filter_complex", ";".join([*small, beside, colors]), "-loop", 0, target)


def ffmpeg(*options: Any) -> None:
    """Runs ffmpeg; the last option is the target, which has a temporary name until it is complete."""
    import imageio_ffmpeg

    target = Path(options[-1])
    part = target.with_name(f"part_{target.name}")
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *map(str, options[:-1]), str(part)]
    subprocess.run(command, check=True)
    part.replace(target)


if __name__ == "__main__":
    sys.exit(main())
