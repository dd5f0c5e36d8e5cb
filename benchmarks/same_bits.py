"""Checks that a change leaves every result the same, bit for bit, by the hash of cache.pc2 of all shipped scenes.

    OPENBLAS_NUM_THREADS=1 python benchmarks/same_bits.py --save before.json      # before the change
    OPENBLAS_NUM_THREADS=1 python benchmarks/same_bits.py --compare before.json   # after it; exit code 1 if any differs

Hashes are those of one machine: other processors and other versions of libraries round differently.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import toile
from toile.scene.load import scene_names


def hash_of_scene(name: str, frames: int) -> str:
    """The SHA-256 of the cache of the first frames of a scene."""
    with tempfile.TemporaryDirectory() as folder:
        scene = toile.load(name, overrides=["outputs=[]"])
        toile.run(scene, folder, frames=frames, warn=lambda message: None)
        return hashlib.sha256((Path(folder) / "cache.pc2").read_bytes()).hexdigest()


def hashes(names: list[str], frames: int, workers: int) -> dict[str, str]:
    """The hash of every scene, or the error that ended its run; scenes run side by side."""
    found = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        running = {pool.submit(hash_of_scene, name, frames): name for name in names}
        for done in as_completed(running):
            error = done.exception()
            found[running[done]] = done.result() if error is None else f"{type(error).__name__}: {error}"
    return dict(sorted(found.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenes", nargs="*", help="some scenes; all shipped ones by default")
    parser.add_argument("--frames", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--compare", type=Path, metavar="FILE")
    options = parser.parse_args()
    found = hashes(options.scenes or scene_names(), options.frames, options.workers)
    if options.save is not None:
        options.save.write_text(json.dumps({"frames": options.frames, "hashes": found}, indent=1) + "\n")
    if options.compare is None:
        print("\n".join(f"{digest[:16]}  {name}" for name, digest in found.items()))
        return 0
    before = json.loads(options.compare.read_text())
    if before["frames"] != options.frames:
        parser.error(f"{options.compare} has {before['frames']} frames: give --frames {before['frames']}.")
    other = [name for name, digest in found.items() if before["hashes"].get(name) != digest]
    print(f"{len(found) - len(other)} of {len(found)} scenes have the same bits.")
    for name in other:
        print(f"  {name}: {before['hashes'].get(name, 'not there before')[:60]} -> {found[name][:60]}")
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
