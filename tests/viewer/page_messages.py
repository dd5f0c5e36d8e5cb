"""What a page in Chromium sent while it was used: connecting, orbiting, dragging the cloth, every kind of element."""

from __future__ import annotations

from typing import Any

CAMERA: dict[str, Any] = {
    "type": "ViewerCameraMessage",
    "wxyz": [0.504896477114669, -0.7925287180643269, 0.2884568631765664, -0.18376728905560666],
    "position": [-1.9218406915231867, -2.290360548516494, 1.3941915163053358],
    "image_height": 900,
    "image_width": 1100,
    "fov": 1.3089969389957472,
    "near": 0.01,
    "far": 1000,
    "look_at": [0, 0, 0],
    "up_direction": [0, 2.220446049250313e-16, 1],
}
DRAG: dict[str, Any] = {
    "type": "SceneNodeDragMessage",
    "phase": "start",
    "name": "/cloth",
    "instance_index": None,
    "start_position": [-0.7234428221164991, -6.661338147750939e-16, -5.473822126268817e-48],
    "start_screen_pos": [0.36363636363636265, 0.5000000000000002],
    "end_position": [-0.4798837386706068, 0.16881193735536373, 0.16881193735536512],
    "end_screen_pos": [0.40954545454545455, 0.445],
    "button": "left",
    "modifier": None,
    "owner": "",
}
CLICK: dict[str, Any] = {
    "type": "SceneNodeClickMessage",
    "name": "/cloth",
    "instance_index": None,
    "ray_origin": [-1.647738167896018, -1.9636978812446775, 1.1953449549204787],
    "ray_direction": [0.41178723213191387, 0.8272502518369004, -0.38221498700197776],
    "screen_pos": [0.38227272727272726, 0.47833333333333333],
    "modifier": None,
    "owner": "",
}
POINTER: dict[str, Any] = {
    "type": "ScenePointerMessage",
    "event_type": "click",
    "ray_origin": [-1.647738167896018, -1.9636978812446775, 1.1953449549204787],
    "ray_direction": [0.4122838496391539, 0.8266172490988205, -0.38304823562968937],
    "screen_pos": [[0.38227272727272726, 0.47833333333333333]],
    "modifier": None,
}

# The value that was sent for each element of `guarded_server.add_elements`
VALUES: dict[str, Any] = {
    "button": True,
    "checkbox": True,
    "slider": 3.1,
    "count": 4,
    "dropdown": "denim",
    "text": "hello ünï",
    "vector": [2, 0, -9.81],
    "color": [1, 20, 255],
    "range": [1, 5.5],
}


def update(uuid: str, value: Any) -> dict[str, Any]:
    return {"type": "GuiUpdateMessage", "uuid": uuid, "updates": {"value": value}}


def recorded(uuids: dict[str, str]) -> list[dict[str, Any]]:
    drags = [DRAG | {"phase": phase} for phase in ("start", "update", "end")]
    return [CAMERA, *drags, CLICK, POINTER, *(update(uuids[name], value) for name, value in VALUES.items())]
