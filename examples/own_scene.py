"""A custom scene.

The objects of a scene file are Python objects too. Values that are not given have defaults, and all errors are reported
at once.
"""

# %%
import os

import toile

SMALL = os.environ.get("TOILE_EXAMPLE_SIZE") == "small"

# %% [markdown]
# A napkin falls on a ball and slides off. Objects with a `type` can be given as dictionaries, as in a YAML file.

# %%
resolution = (17, 17) if SMALL else (51, 51)
scene = toile.Scene(
    name="napkin",
    time=toile.Time(frames=10 if SMALL else 60),
    cloth=[
        toile.Cloth(
            name="napkin",
            shape={"type": "grid", "size": (0.5, 0.5), "resolution": resolution},
            translation=(0.06, 0.0, 0.42),
            fabric="cotton",
        )
    ],
    solids=[
        {"type": "sphere", "name": "ball", "radius": 0.15, "translation": (0, 0, 0.25), "friction": 0.2},
        {"type": "plane", "name": "floor"},
    ],
    outputs=[{"type": "picture", "width": 320, "height": 240, "samples": 1} if SMALL else "picture"],
    expect={"ok": {"equals": True}, "solid_depth": {"max": 0.001}},
)

# %% [markdown]
# `toile.run` simulates into a folder: the cache, the outputs of the scene, and the certificate.

# %%
result = toile.run(scene, "out/napkin")
for path in result.written:
    print(path)

# %% [markdown]
# `toile check out/napkin` compares the certificate with the expectations of the scene. The same in Python:

# %%
from toile.runs.expectations import check  # noqa: E402

for finding in check(scene.expect, result.report):
    print(f"{finding.key} {finding.bound}: {finding.value} {'met' if finding.ok else 'NOT MET'}")

# %% [markdown]
# Errors are reported together, each with its place and a remedy:

# %%
from pydantic import ValidationError  # noqa: E402

try:
    toile.Scene(cloth=[{"shape": "gird", "fabric": "coton"}], time={"frames": -1})
except ValidationError as error:
    for mistake in error.errors():
        print(".".join(map(str, mistake["loc"])), "-", mistake["msg"])
