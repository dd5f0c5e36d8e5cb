"""Ten runs of every scene with self_contact, from starts a tenth of a millimeter apart: none may fail."""

from __future__ import annotations

import numpy as np
import pytest

from toile.scene.load import load, scene_names
from toile.simulation.simulation import Simulation

SCENES = [name for name in scene_names() if any(item.type_name() == "self_contact" for item in load(name).filters)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", SCENES)
def test_nothing_passes_through_anything(name: str, seed: int, device: str) -> None:
    """After every step no triangles intersect, by an audit that shares no code with toile.contact; a tangled start ends
    without intersections."""
    random = np.random.default_rng(seed)
    scene = load(name)
    overrides = ["outputs=[]"]
    for i, cloth in enumerate(scene.cloth):
        moved = np.array(cloth.translation) + random.uniform(-1e-4, 1e-4, 3)
        overrides.append(f"cloth[{i}].translation={moved.tolist()}")
    simulation = Simulation(load(name, overrides=overrides), device, audit="step")
    for _ in simulation.run():
        pass
    summary = simulation.report()["summary"]
    if name == "tangled":
        assert summary["intersections_start"] > 0
        assert summary["intersections_end"] == 0
    else:
        assert summary["intersections"] == 0
        assert summary["ok"]
