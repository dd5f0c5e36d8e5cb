"""Validation of messages from a page: only those that our pages send are accepted, in exactly their shape.

viser accepts any of its messages from any client. Some are dangerous: `ShareUrlRequest` opens a tunnel to somebody
else's server, uploads fill the memory, and a `GuiUpdateMessage` sets *any* attribute of the server's record of an
element. So messages are decoded here against the types below, validated, and encoded again: viser reads exactly what
was validated.

    malformed                                refused, because no page of ours sends it; the connection is closed after
                                             some of them
    another type that viser's client sends   ignored (its share button does nothing)
    about an unknown or disabled element,    ignored: the element may have been removed meanwhile, and a slider that is
    out of its range, not finite             being replaced is no attack

Source      viser 1.1.1, _messages.py and client/src (what the client sends)
Deviations  none
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
import viser

# Longest text of an element, and longest name of an element or node [characters]
MAX_TEXT = 1000
MAX_NAME = 200

# Largest coordinate of a point in a scene [m]; the camera may be farther away.
MAX_COORDINATE = 1e6

Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
Numbers = Annotated[list[float], msgspec.Meta(max_length=8)]
Vector = tuple[float, float, float]
Pixel = tuple[float, float]
Index = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Modifier = Literal[
    "cmd/ctrl", "alt", "shift", "cmd/ctrl+alt", "cmd/ctrl+shift", "alt+shift", "cmd/ctrl+alt+shift"
]  # fmt: skip


class Refused(Exception):
    """A message that no page of ours sends."""


class Message(msgspec.Struct, tag_field="type", tag=True, forbid_unknown_fields=True):
    """A message; subclasses have the names of viser's classes."""


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


AcceptedMessage = (
    ViewerCameraMessage
    | GuiUpdateMessage
    | GuiButtonHoldMessage
    | CommandTriggerMessage
    | SceneNodeClickMessage
    | SceneNodeDragMessage
    | ScenePointerMessage
)

# Other messages that viser's client sends, for elements that our pages do not have
IGNORED = {
    "ShareUrlRequest", "ShareUrlDisconnect",
    "FileTransferStartUpload", "FileTransferPart", "FileTransferPartAck",
    "GuiFormSubmitMessage", "GuiFormDirtyMessage",
    "TransformControlsUpdateMessage", "TransformControlsDragStartMessage", "TransformControlsDragEndMessage",
    "GetRenderResponseMessage", "LocalStorageGetItemResponseMessage",
}  # fmt: skip


class MessageType(msgspec.Struct):
    type: Name


_decoder: msgspec.msgpack.Decoder[AcceptedMessage] = msgspec.msgpack.Decoder(AcceptedMessage)
_type_decoder = msgspec.msgpack.Decoder(MessageType)
_encoder = msgspec.msgpack.Encoder()

# UnicodeDecodeError: invalid text. RecursionError: nested too deep.
_NOT_DECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def sanitized(raw: bytes, server: viser.ViserServer) -> bytes | None:
    """Returns the message for the server, or None if it is to be ignored; raises `Refused` if it is malformed."""
    try:
        message = _decoder.decode(raw)
    except _NOT_DECODABLE as error:
        if type_of(raw) in IGNORED:
            return None
        raise Refused(str(error)) from None
    return _encoder.encode(message) if is_finite(message) and is_applicable(message, server) else None


def type_of(raw: bytes) -> str | None:
    try:
        return _type_decoder.decode(raw).type
    except _NOT_DECODABLE:
        return None


def is_finite(message: AcceptedMessage) -> bool:
    return all(math.isfinite(number) for number in numbers_in(msgspec.to_builtins(message)))


def numbers_in(value: Any) -> list[float]:
    """Returns the floats in a decoded message, whose types limit the depth of nesting."""
    if isinstance(value, float):
        return [value]
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [number for member in members for number in numbers_in(member)]


def is_applicable(message: AcceptedMessage, server: viser.ViserServer) -> bool:
    """Whether the element or node of the message exists and can have this value."""
    match message:
        case GuiUpdateMessage():
            element = _element(message.uuid, server)
            return element is not None and is_valid_value(message.updates.value, element)
        case GuiButtonHoldMessage():
            return _element(message.uuid, server) is not None
        case SceneNodeClickMessage():
            return _has_node(message.name, message.owner, server) and _is_near(message.ray_origin)
        case SceneNodeDragMessage():
            # The end of a drag must be accepted even if its node is gone: viser keeps the state of the drag.
            known = message.phase != "start" or _has_node(message.name, message.owner, server)
            return known and _is_near(message.start_position) and _is_near(message.end_position)
        case ScenePointerMessage():
            is_click = message.event_type == "click"
            rays = message.ray_origin is not None and message.ray_direction is not None
            return len(message.screen_pos) == (1 if is_click else 2) and (rays or not is_click)
        case _:
            return True


def is_valid_value(value: Any, element: Any) -> bool:
    """Whether an element can have this value: of the type of its current one, in its range, one of its options."""
    state = element._impl
    properties, current = state.props, state.value
    if state.removed or getattr(properties, "disabled", False) or not getattr(properties, "visible", True):
        return False
    match current:
        case bool():
            return isinstance(value, bool)
        case int():
            return is_number(value) and value == int(value) and is_in_range(value, properties)
        case float():
            return is_number(value) and is_in_range(value, properties)
        case str():
            return isinstance(value, str) and value in (getattr(properties, "options", None) or (value,))
        case tuple():
            whole = any(isinstance(number, int) for number in current)  # colors
            return (
                isinstance(value, list)
                and len(value) == len(current)
                and all(is_in_range(number, properties, i) for i, number in enumerate(value))
                and (not whole or all(0 <= number <= 255 and number == int(number) for number in value))
            )
        case _:
            return False  # uploads, and new types of viser


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_in_range(value: float, properties: Any, component: int = 0) -> bool:
    """Whether a number is between the element's `min` and `max`, which may be missing, or have several components."""

    def limit(name: str, default: float) -> float:
        given = getattr(properties, name, None)
        if isinstance(given, tuple):
            given = given[component]
        return default if given is None else float(given)

    low, high = limit("min", -math.inf), limit("max", math.inf)
    tolerance = 1e-9 * max(1.0, abs(value))  # the browser adds up steps
    return low - tolerance <= value <= high + tolerance


def _element(uuid: str, server: viser.ViserServer) -> Any:
    """The input element with this id, shared by all pages or of one page."""
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
    return all(abs(coordinate) <= MAX_COORDINATE for coordinate in position)
