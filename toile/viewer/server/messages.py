"""Which messages of a page pass: those that our pages send, of exactly their shape, about things that exist.

viser takes any of its messages from any client. Some are dangerous in the wrong hands: `ShareUrlRequest` opens a tunnel
to a server of others, uploads keep what is sent in memory, and a `GuiUpdateMessage` sets *any* attribute of what the
server keeps of an element. So messages are decoded here against the types below, judged, and written anew: what viser
reads is what was judged.

    not of this shape                        no page of ours sends it: refused, and after some the connection is closed
    of another kind that viser's page has    ignored (its share button does nothing)
    about an unknown or disabled element,    ignored: it may have been removed in between, and a slider that is being
    out of its range, not finite             replaced is no attack

Source      viser 1.1.1, _messages.py and client/src (what the client sends)
Deviations  none
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
import viser

# Longest text that an element may hold, and longest name of anything. [characters]
LONGEST_TEXT = 1000
LONGEST_NAME = 200

# Nothing in a scene is farther away than this [m]; the camera may be.
FARTHEST = 1e6

Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
Numbers = Annotated[list[float], msgspec.Meta(max_length=8)]
Vector = tuple[float, float, float]
Pixel = tuple[float, float]
Index = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Modifier = Literal[
    "cmd/ctrl", "alt", "shift", "cmd/ctrl+alt", "cmd/ctrl+shift", "alt+shift", "cmd/ctrl+alt+shift"
]  # fmt: skip


class Refused(Exception):
    """No page of ours sends this."""


class Message(msgspec.Struct, tag_field="type", tag=True, forbid_unknown_fields=True):
    """A message; the class is named as viser's."""


class ViewerCameraMessage(Message):
    wxyz: tuple[float, float, float, float]
    position: Vector
    fov: float
    near: float
    far: float
    image_height: Index
    image_width: Index
    look_at: Vector
    up_direction: Vector


class Updates(msgspec.Struct, forbid_unknown_fields=True):
    value: bool | float | Text | Numbers


class GuiUpdateMessage(Message):
    uuid: Name
    updates: Updates


class GuiButtonHoldMessage(Message):
    uuid: Name
    frequency: float


class CommandTriggerMessage(Message):
    uuid: Name


class SceneNodeClickMessage(Message):
    name: Name
    instance_index: Index | None
    ray_origin: Vector
    ray_direction: Vector
    screen_pos: Pixel
    modifier: Modifier | None
    owner: Name = ""


class SceneNodeDragMessage(Message):
    phase: Literal["start", "update", "end"]
    name: Name
    instance_index: Index | None
    start_position: Vector
    start_screen_pos: Pixel
    end_position: Vector
    end_screen_pos: Pixel
    button: Literal["left", "middle", "right"]
    modifier: Modifier | None
    owner: Name = ""


class ScenePointerMessage(Message):
    event_type: Literal["click", "rect-select"]
    ray_origin: Vector | None
    ray_direction: Vector | None
    screen_pos: Annotated[list[Pixel], msgspec.Meta(min_length=1, max_length=2)]
    modifier: Modifier | None


Served = (
    ViewerCameraMessage
    | GuiUpdateMessage
    | GuiButtonHoldMessage
    | CommandTriggerMessage
    | SceneNodeClickMessage
    | SceneNodeDragMessage
    | ScenePointerMessage
)

# What else viser's client sends, for things that our pages do not have.
IGNORED = {
    "ShareUrlRequest", "ShareUrlDisconnect",
    "FileTransferStartUpload", "FileTransferPart", "FileTransferPartAck",
    "GuiFormSubmitMessage", "GuiFormDirtyMessage",
    "TransformControlsUpdateMessage", "TransformControlsDragStartMessage", "TransformControlsDragEndMessage",
    "GetRenderResponseMessage", "LocalStorageGetItemResponseMessage",
}  # fmt: skip


class Kind(msgspec.Struct):
    type: Name


_decoder: msgspec.msgpack.Decoder[Served] = msgspec.msgpack.Decoder(Served)
_kind_decoder = msgspec.msgpack.Decoder(Kind)
_encoder = msgspec.msgpack.Encoder()

# UnicodeDecodeError: a text that is none. RecursionError: nested deeper than anything is.
_NOT_DECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def passed(raw: bytes, server: viser.ViserServer) -> bytes | None:
    """The message as the server may have it, None if it is to be ignored; raises `Refused`."""
    try:
        message = _decoder.decode(raw)
    except _NOT_DECODABLE as error:
        if kind_of(raw) in IGNORED:
            return None
        raise Refused(str(error)) from None
    return _encoder.encode(message) if is_finite(message) and makes_sense(message, server) else None


def kind_of(raw: bytes) -> str | None:
    try:
        return _kind_decoder.decode(raw).type
    except _NOT_DECODABLE:
        return None


def is_finite(message: Served) -> bool:
    return all(math.isfinite(number) for number in numbers_in(msgspec.to_builtins(message)))


def numbers_in(value: Any) -> list[float]:
    """The floats in a message that was decoded, so it is not nested deep."""
    if isinstance(value, float):
        return [value]
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [number for member in members for number in numbers_in(member)]


def makes_sense(message: Served, server: viser.ViserServer) -> bool:
    """Whether what the message is about exists and can take this value."""
    match message:
        case GuiUpdateMessage():
            element = _element(message.uuid, server)
            return element is not None and can_be(message.updates.value, element)
        case GuiButtonHoldMessage():
            return _element(message.uuid, server) is not None
        case SceneNodeClickMessage():
            return _has_node(message.name, message.owner, server) and _is_near(message.ray_origin)
        case SceneNodeDragMessage():
            # The end of a drag must come through even when its node is gone meanwhile: viser remembers the drag.
            known = message.phase != "start" or _has_node(message.name, message.owner, server)
            return known and _is_near(message.start_position) and _is_near(message.end_position)
        case ScenePointerMessage():
            is_click = message.event_type == "click"
            rays = message.ray_origin is not None and message.ray_direction is not None
            return len(message.screen_pos) == (1 if is_click else 2) and (rays or not is_click)
        case _:
            return True


def can_be(value: Any, element: Any) -> bool:
    """Whether an element can take this value: the type of its present one, in its range, one of its options."""
    state = element._impl
    properties, present = state.props, state.value
    if state.removed or getattr(properties, "disabled", False) or not getattr(properties, "visible", True):
        return False
    match present:
        case bool():
            return isinstance(value, bool)
        case int():
            return is_number(value) and value == int(value) and is_in_range(value, properties)
        case float():
            return is_number(value) and is_in_range(value, properties)
        case str():
            return isinstance(value, str) and value in (getattr(properties, "options", None) or (value,))
        case tuple():
            whole = any(isinstance(number, int) for number in present)  # colors
            return (
                isinstance(value, list)
                and len(value) == len(present)
                and all(is_in_range(number, properties, i) for i, number in enumerate(value))
                and (not whole or all(0 <= number <= 255 and number == int(number) for number in value))
            )
        case _:
            return False  # uploads, and what viser may invent


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_in_range(value: float, properties: Any, component: int = 0) -> bool:
    """Whether a number is between the element's `min` and `max`, which may be missing, or be one for each component."""

    def limit(name: str, without: float) -> float:
        given = getattr(properties, name, None)
        if isinstance(given, tuple):
            given = given[component]
        return without if given is None else float(given)

    low, high = limit("min", -math.inf), limit("max", math.inf)
    slack = 1e-9 * max(1.0, abs(value))  # the browser adds up steps
    return low - slack <= value <= high + slack


def _element(uuid: str, server: viser.ViserServer) -> Any:
    """The input element of that name, shared by all pages or of one page."""
    owners: list[Any] = [server, *server.get_clients().values()]
    for owner in owners:
        element = owner.gui._gui_input_handle_from_uuid.get(uuid)
        if element is not None:
            return element
    return None


def _has_node(name: str, owner: str, server: viser.ViserServer) -> bool:
    owners: dict[str, Any] = {"": server, **{str(number): client for number, client in server.get_clients().items()}}
    return owner in owners and name in owners[owner].scene._handle_from_node_name


def _is_near(position: Vector) -> bool:
    return all(abs(coordinate) <= FARTHEST for coordinate in position)
