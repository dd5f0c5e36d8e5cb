"""[BMF03] 5.2 and 5.3: interface forecasting, and folds that survive the projection out of a solid.

The response to a solid has a closed form. With phi the distance less the thickness, N the normal and v the velocity of
the solid there, a point that would end inside gets

    v_pN = v_N - phi/dtau,    |v_T,rel| reduced by mu |change of v_pN|, and not below 0

so that phi = 0 after the step when dtau = dt, and phi shrinks by 1 - dt/dtau in each step otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference.filtering import Filtering

from toile.filters.forecast import STRETCH, Forecast
from toile.model.motion import Motion, rotation_matrix
from toile.model.state import State
from toile.post.fold_projection import FoldProjection
from toile.scene.load import load
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

H = 1.0 / 60.0
THICKNESS = 2e-3
RADIUS = 0.3
COUNT = 400
TIME = 0.4  # [s]  start of the step, in the middle of the motion
# A fast rotation of up to 40 degrees in a step of 1/60 s, and a translation of 4 cm.
MOTION = {
    "interpolation": "linear",
    "keyframes": [{"time": 0.0}, {"time": 1.0, "translation": [1.0, -2.0, 1.5], "rotation": [700.0, -400.0, 2000.0]}],
}
STILL = {"keyframes": [{"time": 0.0}]}
SHAPES: dict[str, dict[str, Any]] = {
    "plane": {"type": "plane", "rotation": [20.0, 50.0, 0.0], "translation": [0.1, 0.2, 0.3]},
    "sphere": {"type": "sphere", "radius": RADIUS, "translation": [0.1, 0.2, 0.3]},
}


class Body:
    """A moving plane or sphere in closed form: the motion of its points in the step, and distances from it."""

    def __init__(self, shape: str, motion: dict[str, Any]):
        self.shape = shape
        self.settings = {**SHAPES[shape], "motion": motion}
        self.origin = np.array(SHAPES[shape]["translation"])
        self.R0 = rotation_matrix(np.radians(SHAPES[shape].get("rotation", [0.0, 0.0, 0.0])))
        self.motion = Motion.model_validate(motion)

    def frame(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        R, shift = self.motion.pose(time)
        return R @ self.R0, self.origin + shift

    def phi(self, x: np.ndarray, time: float) -> np.ndarray:
        R, o = self.frame(time)
        if self.shape == "plane":
            return (x - o) @ R[:, 2] - THICKNESS
        return np.linalg.norm(x - o, axis=1) - RADIUS - THICKNESS

    def normal(self, x: np.ndarray, time: float) -> np.ndarray:
        R, o = self.frame(time)
        if self.shape == "plane":
            return np.broadcast_to(R[:, 2], x.shape)
        return (x - o) / np.linalg.norm(x - o, axis=1)[:, None]

    def carried(self, x: np.ndarray, start: float, end: float) -> np.ndarray:
        """The positions of points fixed to the solid at the end of the step."""
        (R0, o0), (R1, o1) = self.frame(start), self.frame(end)
        return (x - o0) @ R0 @ R1.T + o1

    def points(self, depth: float, seed: int = 5) -> np.ndarray:
        """Points near its surface at the start of the step, at most `depth` inside and outside."""
        random = np.random.default_rng(seed)
        R, o = self.frame(TIME)
        height = random.uniform(-depth, depth, COUNT)
        if self.shape == "plane":
            return np.column_stack([random.uniform(-1.0, 1.0, (COUNT, 2)), height + THICKNESS]) @ R.T + o
        out = random.normal(size=(COUNT, 3))
        return out / np.linalg.norm(out, axis=1)[:, None] * (RADIUS + THICKNESS + height)[:, None] + o


class Response:
    """One step of the filter with a body, in terms of the paper: normal and tangential, relative to the solid."""

    def __init__(self, device: str, body: Body, mu: float, relaxation: float | None = None):
        x = body.points(0.01)
        fields = {"type": "forecast", "thickness": THICKNESS, "relaxation": relaxation}
        filtering = Filtering(device, [fields], [{**body.settings, "friction": mu}], COUNT)
        carried = body.carried(x, TIME, TIME + H)
        v = (carried - x) / H  # of the solid, over the step
        N = body.normal(carried, TIME + H)
        v_p = v + np.random.default_rng(6).normal(scale=2.0, size=x.shape)
        self.x_out, self.v_out = filtering.correct(x, v_p, H, TIME)
        self.phi, self.straight = body.phi(x, TIME), x + H * v_p
        self.phi_out = body.phi(self.x_out, TIME + H)
        before, after = v_p - v, self.v_out - v
        self.normal, self.normal_out = (np.einsum("ij,ij->i", of, N) for of in (before, after))
        self.slip, self.slip_out = before - self.normal[:, None] * N, after - self.normal_out[:, None] * N
        self.hit = self.phi + H * self.normal < 0.0  # the paper's forecast
        self.x, self.v_p = x, v_p


BODIES = [(shape, motion) for shape in SHAPES for motion in ("still", "moving")]


@pytest.fixture(params=BODIES, ids=[" ".join(reversed(pair)) for pair in BODIES])
def body(request: pytest.FixtureRequest) -> Body:
    shape, motion = request.param
    return Body(shape, MOTION if motion == "moving" else STILL)


def length(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=1)


@pytest.mark.parametrize("mu", [0.0, 0.3, 1e3])
def test_a_point_ends_on_the_surface(device: str, body: Body, mu: float) -> None:
    """phi = 0 after the step; on a sphere a point that slides by s ends on the tangent plane, s^2/2r above it."""
    found = Response(device, body, mu)
    assert 0.2 < found.hit.mean() < 0.8
    slide = H * length(found.slip_out) if body.shape == "sphere" else np.zeros(COUNT)
    above = np.hypot(RADIUS + THICKNESS, slide) - (RADIUS + THICKNESS)
    np.testing.assert_allclose(found.phi_out[found.hit], above[found.hit], rtol=0, atol=1e-12)
    if mu == 1e3:
        np.testing.assert_allclose(found.phi_out[found.hit], 0.0, rtol=0, atol=1e-12)


def test_a_point_that_stays_outside_is_not_changed(device: str, body: Body) -> None:
    """To the last bit."""
    found = Response(device, body, 0.3)
    assert np.array_equal(found.x_out[~found.hit], found.straight[~found.hit])
    assert np.array_equal(found.v_out[~found.hit], found.v_p[~found.hit])


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0])
def test_friction_reduces_slip_by_mu_times_the_normal_change(device: str, body: Body, mu: float) -> None:
    """Slip loses exactly mu |change of v_pN|, in its own direction, or stops. Velocities here are some tens of m/s."""
    found = Response(device, body, mu)
    hit = found.hit
    loss = mu * np.abs(found.normal_out - found.normal)
    left = np.maximum(0.0, length(found.slip) - loss)
    np.testing.assert_allclose(length(found.slip_out)[hit], left[hit], rtol=0, atol=1e-12)
    along = np.einsum("ij,ij->i", found.slip_out, found.slip)
    np.testing.assert_allclose(along[hit], (left * length(found.slip))[hit], rtol=0, atol=1e-10)
    if mu > 0.0:
        assert (left[hit] == 0.0).any() and (left[hit] > 0.1).any()  # some stick, some slide


@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0, 20.0])
def test_relaxation_covers_phi_in_dtau(device: str, body: Body, ratio: float) -> None:
    """v_pN = v_N - phi/dtau: relative to the solid a point moves by phi in dtau, whatever its velocity."""
    found = Response(device, body, 1e3, relaxation=ratio * H)
    expected = -found.phi / (ratio * H)
    np.testing.assert_allclose(found.normal_out[found.hit], expected[found.hit], rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.phi_out[found.hit], (1.0 - 1.0 / ratio) * found.phi[found.hit], atol=1e-12)
    # The other printed form, v_pN - phi_new/dtau, is the same only at dtau = dt.
    other = found.normal - (found.phi + H * found.normal) / (ratio * H)
    assert (np.abs(other - expected)[found.hit].max() < 1e-10) == (ratio == 1.0)


def test_depth_shrinks_geometrically(device: str) -> None:
    """The depth of points at rest inside a solid at rest shrinks by the factor 1 - dt/dtau in each step."""
    ratio, steps = 4.0, 12
    body = Body("plane", STILL)
    fields = {"type": "forecast", "thickness": THICKNESS, "relaxation": ratio * H}
    filtering = Filtering(device, [fields], [body.settings], COUNT)
    x = body.points(0.01)
    x = x[body.phi(x, TIME) < 0.0][: COUNT // 4]
    x = np.concatenate([x] * 4)
    start = body.phi(x, TIME)
    for step in range(1, steps + 1):
        x, _ = filtering.correct(x, np.zeros_like(x), H, TIME)
        np.testing.assert_allclose(body.phi(x, TIME), start * (1.0 - 1.0 / ratio) ** step, rtol=0, atol=1e-13)


def test_the_velocity_after_a_step_is_that_of_the_response(device: str) -> None:
    """This also holds where the final velocity of the scheme differs from the mean: the paper has only one, v_p."""
    body = Body("plane", STILL)
    filtering = Filtering(device, [{"type": "forecast", "thickness": THICKNESS}], [body.settings], COUNT)
    x, random = body.points(0.01), np.random.default_rng(8)
    mean, end = random.normal(size=x.shape), random.normal(size=x.shape)
    x_out, v_out = filtering.correct(x, end, H, TIME, x_out=x + H * mean)
    hit = body.phi(x, TIME) + H * mean @ body.normal(x, TIME)[0] < 0.0
    np.testing.assert_allclose(v_out[hit], (x_out - x)[hit] / H, rtol=0, atol=1e-12)
    assert np.array_equal(v_out[~hit], end[~hit]) and 0.2 < hit.mean() < 0.8


def test_points_end_on_a_moving_part_of_a_level_set(device: str) -> None:
    """The ball of a level set moves towards points at rest, by 3 cm in the step: they end on its surface.

    On cells of 2 cm, a sphere of 30 cm is flattened by less than (2 cm)^2/8r = 0.2 mm.
    """
    throw = {"interpolation": "linear", "keyframes": [{"time": 0.0}, {"time": 1.0, "translation": [0.0, 0.0, 2.0]}]}
    ball = {"type": "sphere", "radius": RADIUS, "motion": throw}
    solid = {"type": "level_set", "cell": 0.02, "friction": 1e3, "parts": [ball]}  # so that nothing slides off it
    filtering = Filtering(device, [{"type": "forecast", "thickness": THICKNESS}], [solid], COUNT)
    random = np.random.default_rng(9)
    out = random.normal(size=(COUNT, 3))
    x = out / length(out)[:, None] * (RADIUS + random.uniform(0.0, 0.05, (COUNT, 1))) + [0.0, 0.0, 2.0 * TIME]
    x_out, _ = filtering.correct(x, np.zeros_like(x), H, TIME)
    (distance,) = filtering.distances(x_out, TIME + H)
    corrected = (x_out != x).any(axis=1)
    assert corrected.sum() > 50 and (~corrected).sum() > 50
    np.testing.assert_allclose(distance[corrected] - THICKNESS, 0.0, atol=3e-4)
    assert (distance[~corrected] > THICKNESS - 3e-4).all()


def test_large_steps_give_a_warning() -> None:
    model = Simulation(load("hang", overrides=["outputs=[]"]), "cpu").model
    (advice,) = Forecast().advice(model, 1.0 / 60.0)
    assert "1/60" in advice and "10 %" in advice and "max_step" in advice
    assert Forecast().advice(model, 1.0 / 240.0) == []


def test_cloth_stretches_in_proportion_to_the_step(device: str) -> None:
    """The basis of the warning: cloth over a ball with steps of 1/120 and 1/240 s, without a limit of stretch."""
    strains = []
    for steps in (120.0, 240.0):
        scene = Scene(
            time={"frames": 30, "fps": 30.0, "max_step": 1.0 / steps},
            cloth=[
                {
                    "shape": {"type": "grid", "size": [1.0, 1.0], "resolution": [21, 21]},
                    "translation": [0.0, 0.0, 0.52],
                    "fabric": "cotton",
                    "energies": [{"type": "stretch", "limit_stiffness": 0.0}, "shear", "bend_mode"],
                }
            ],
            solids=[{"type": "sphere", "radius": 0.25, "translation": [0.0, 0.0, 0.26]}],
            forces=[{"type": "drag", "quadratic": 0.6}],
            filters=["forecast"],
            integrator="implicit_euler",
        )
        simulation = Simulation(scene, device)
        *_, last = simulation.run()
        assert last.certificate is not None
        strains.append(last.certificate["strain"]["warp_max"])
    assert strains[1] == pytest.approx(STRETCH, rel=0.3)
    assert strains[0] / strains[1] == pytest.approx(2.0, rel=0.2)


LIMBS = {
    "type": "level_set",
    "cell": 0.015,
    "friction": 0.5,
    "translation": [0.0, 0.0, 0.2],
    "parts": [
        {"type": "sphere", "radius": 0.15},
        {
            "type": "capsule",
            "radius": 0.07,
            "length": 0.3,
            "rotation": [0.0, 90.0, 0.0],
            "motion": {"keyframes": [{"time": 0.0}, {"time": 1.0, "rotation": [0.0, 0.0, 60.0]}]},
        },
    ],
    "motion": {"keyframes": [{"time": 0.3}, {"time": 1.0, "translation": [0.15, 0.1, 0.1], "rotation": [0, 0, 45]}]},
}


def test_cloth_is_carried_by_moving_limbs(device: str) -> None:
    """A cloth falls on a level set whose parts move, and is carried: its depth, frame by frame.

    The forecast is linear and the body is not. For a point that slides by s in a step along a surface of radius r, or
    a surface that turns under it, the error is s^2/2r: 1 m/s at 1/240 s on the capsule of 7 cm is 0.12 mm.
    """
    thickness = 2e-3
    scene = Scene(
        time={"frames": 60, "fps": 60.0, "max_step": 1.0 / 240.0},
        cloth=[
            {
                "shape": {"type": "grid", "size": [0.5, 0.5], "resolution": [21, 21]},
                "translation": [0.0, 0.0, 0.36],
                "fabric": "cotton",
            }
        ],
        solids=[LIMBS],
        filters=[{"type": "forecast", "thickness": thickness}],
    )
    simulation = Simulation(scene, device)
    phi = []
    for frame in simulation.run():
        (found,) = simulation.solids.closest_points(simulation.state.x, frame.time)
        phi.append(found["distance"][found["pinched"] == 0] - thickness)
    vertices_in_contact = np.concatenate([values[values < 0.5 * thickness] for values in phi])
    assert len(vertices_in_contact) > 1000
    assert vertices_in_contact.min() > -0.1 * thickness  # deepest: 0.2 mm
    assert np.quantile(vertices_in_contact, 0.01) > -0.05 * thickness
    assert np.median(vertices_in_contact) == pytest.approx(0.0, abs=1e-6)  # most of it is at the forecast position
    assert (phi[-1] < 0.5 * thickness).sum() > 20  # it still lies there


def wrinkled(shape: str, lowest: float, highest: float) -> tuple[np.ndarray, np.ndarray]:
    """A sheet with waves between two distances from a plane or a sphere: positions and distances."""
    u, w = (of.ravel() for of in np.meshgrid(np.linspace(-0.2, 0.2, 60), np.linspace(-0.2, 0.2, 60)))
    wave = 0.5 + 0.25 * (np.sin(70.0 * u + 9.0 * w) + np.cos(31.0 * w - 12.0 * u))
    phi = lowest + (highest - lowest) * wave
    if shape == "plane":
        return np.column_stack([u, w, phi]), phi
    out = np.column_stack([u, w, np.full_like(u, 0.4)])
    return out / length(out)[:, None] * (RADIUS + phi)[:, None], phi


def projected(device: str, shape: str, x: np.ndarray, post: FoldProjection) -> np.ndarray:
    """Distances after the post-process, in closed form."""
    scene = Scene(solids=[{"type": shape, **({"radius": RADIUS} if shape == "sphere" else {})}], post=[post])
    x = Simulation(scene, device).parts.post[0].apply(x, 0.0)
    return x[:, 2] if shape == "plane" else length(x) - RADIUS


@pytest.mark.parametrize(
    ("lowest", "highest"), [(-5e-3, 0.0), (-5e-3, 15e-3), (-2e-3, 8e-3)], ids=["all inside", "half", "some inside"]
)
@pytest.mark.parametrize("shape", ["plane", "sphere"])
def test_wrinkles_are_kept(device: str, shape: str, lowest: float, highest: float) -> None:
    """Figure 2: in front of the solid, in the same order of depth, and with more than half of the variance of heights.

    A line of slope m keeps m^2 of the variance; with a band of 15 mm for depths of 5 mm that is 0.53. Projection to
    the surface keeps nothing of the part inside.
    """
    x, phi = wrinkled(shape, lowest, highest)
    post = FoldProjection(epsilon=0.0, tau=15e-3, deepest=5e-3)
    phi_out = projected(device, shape, x, post)
    order = np.argsort(phi, kind="stable")
    rise, rise_out = np.diff(phi[order]), np.diff(phi_out[order])
    assert (rise_out[rise > 1e-12] > 0.0).all()  # rank correlation 1, except for points at the same depth to rounding
    assert phi_out.min() > 0.0 and phi_out.max() <= 15e-3 + 1e-12
    assert phi_out.var() > 0.5 * phi.var()
    if highest <= 0.0:
        assert np.maximum(phi, 0.0).var() == 0.0  # plain projection


@pytest.mark.slow
def test_tight_cloth_does_not_let_the_body_through(device: str) -> None:
    """Figure 5, on the scene `stretched_over`: whole triangles are in front of the body, and without the map are not.

    Triangles are sampled at 15 points each. Between corners that are `epsilon` in front, edges of 9 to 12 mm cut less
    than l^2/8r = 0.5 mm into bumps of 4 cm. The map reduces heights in the band by about a tenth.
    """
    # With self_contact the faces of the body take part, and nothing is left for the map to do.
    scene = load("stretched_over", overrides=["post=[]", "outputs=[]", "filters=[]"])
    simulation = Simulation(scene, device)
    *_, last = simulation.run()
    (post,) = load("stretched_over").post
    finished = post.start(simulation.solids, device).apply(last.positions, last.time)
    shares = np.array([(i, j, 4 - i - j) for i in range(5) for j in range(5 - i)]) / 4.0

    def lowest(positions: np.ndarray) -> float:
        points = np.einsum("sc,tck->tsk", shares, positions[simulation.surface.triangles]).reshape(-1, 3)
        body, _ = simulation.solids.closest_points(State.of(points, points, device).x, last.time)
        return float(body["distance"][body["pinched"] == 0].min())

    assert lowest(last.positions) < -1e-4
    assert lowest(finished) > 5e-4
    body, _ = simulation.solids.closest_points(State.of(last.positions, finished, device).x, last.time)
    after, _ = simulation.solids.closest_points(State.of(finished, finished, device).x, last.time)
    near = (body["distance"] < 0.008) & (body["pinched"] == 0)
    before, height = body["distance"][near], after["distance"][near]
    assert near.sum() > 500
    assert np.corrcoef(before.argsort().argsort(), height.argsort().argsort())[0, 1] > 0.999
    assert height.var() > 0.5 * before.var()
