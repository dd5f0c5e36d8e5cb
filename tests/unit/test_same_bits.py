"""The number of threads changes no bit of a result."""

import numpy as np
import pytest

from toile.device import launcher, threads
from toile.scene.load import load
from toile.simulation.simulation import Simulation


@pytest.fixture(autouse=True)
def same_threads_afterwards(monkeypatch):
    """Restores the number of threads; all launches are shared, also short ones."""
    monkeypatch.setattr(launcher, "FEWEST_SHARES", 1)
    before = threads.count()
    yield
    threads.use(before)


SCENES = {
    "hang": ["cloth[0].shape.resolution=[75,75]", "solver.preconditioner=multigrid"],
    "drape": ["cloth[0].shape.resolution=[51,51]", "cloth[0].translation=[0.0,0.0,0.61]"],
    "layers": [],
}


@pytest.mark.parametrize("name", SCENES)
def test_the_number_of_threads_changes_no_bit(name):
    found = []
    for count in (1, 2, 3):
        threads.use(count)
        simulation = Simulation(load(name, overrides=["outputs=[]", *SCENES[name]]))
        *_, frame = simulation.run(4)
        found.append((frame.positions, frame.velocities))
    for x, v in found[1:]:
        assert np.array_equal(x, found[0][0])
        assert np.array_equal(v, found[0][1])
