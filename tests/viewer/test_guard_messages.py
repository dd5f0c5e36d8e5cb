"""Messages to the guarded server: which are accepted, ignored and refused."""

from __future__ import annotations

from typing import Any

import pytest

viser = pytest.importorskip("viser")

import msgspec  # noqa: E402
from hosts import Host, eventually  # noqa: E402
from page_messages import CAMERA, CLICK, DRAG, POINTER, VALUES, recorded, update  # noqa: E402
from raw_page import Page  # noqa: E402

from toile.viewer.server.messages import Refused, sanitized  # noqa: E402


def test_what_a_page_sends_passes(host: Host) -> None:
    elements = host.served.viser.gui._gui_input_handle_from_uuid
    with Page(host.port) as page:
        page.send(*recorded(host.uuids))
        assert eventually(lambda: elements[host.uuids["range"]].value == (1.0, 5.5))
    values = {name: elements[host.uuids[name]].value for name in VALUES}
    assert values == VALUES | {"vector": (2.0, 0.0, -9.81), "color": (1, 20, 255), "range": (1.0, 5.5)}


def without(message: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != key}


NESTED: list[Any] = []
for _ in range(200):
    NESTED = [NESTED]

MALFORMED = {
    "an unknown type": {"type": "NoSuchMessage"},
    "no type": without(CAMERA, "type"),
    "a type that is no text": CAMERA | {"type": 1},
    "a type of the server": {"type": "RunJavascriptMessage", "source": "alert(1)"},
    "a field too many": CAMERA | {"excluded_self_client": 1},
    "a field too few": without(CAMERA, "wxyz"),
    "two numbers for three": CAMERA | {"position": [0, 0]},
    "four numbers for three": CAMERA | {"position": [0, 0, 0, 0]},
    "text for a number": CAMERA | {"fov": "1"},
    "nothing for a number": CAMERA | {"fov": None},
    "a list for a number": CAMERA | {"fov": [1.0]},
    "a negative size": CAMERA | {"image_height": -1},
    "a huge size": CAMERA | {"image_width": 2**40},
    "a fraction of a pixel": CAMERA | {"image_width": 0.5},
    "deep nesting": CAMERA | {"position": NESTED},
    "deep nesting in a field too many": CAMERA | {"more": NESTED},
    "a name that is too long": CLICK | {"name": "/" + "a" * 300},
    "another phase": DRAG | {"phase": "again"},
    "another button": DRAG | {"button": "fourth"},
    "another modifier": DRAG | {"modifier": "shift+alt"},
    "another event": POINTER | {"event_type": "hover"},
    "too many points": POINTER | {"screen_pos": [[0, 0]] * 3},
    "no point": POINTER | {"screen_pos": []},
    "an attribute of the server": {"type": "GuiUpdateMessage", "uuid": "{button}", "updates": {"update_cb": []}},
    "two attributes": {"type": "GuiUpdateMessage", "uuid": "{button}", "updates": {"value": True, "removed": True}},
    "no attribute": {"type": "GuiUpdateMessage", "uuid": "{button}", "updates": {}},
    "a value of no type": update("{text}", {"a": 1}),
    "nothing as value": update("{text}", None),
    "bytes as value": update("{text}", b"abc"),
    "a text that is too long": update("{text}", "a" * 1001),
    "a list that is too long": update("{vector}", [0.0] * 9),
    "a list of texts": update("{vector}", ["a", "b", "c"]),
}

IGNORED = {
    "sharing": {"type": "ShareUrlRequest"},
    "no more sharing": {"type": "ShareUrlDisconnect"},
    "an upload": {"type": "FileTransferStartUpload", "source_component_uuid": "{button}", "transfer_uuid": "1",
                  "filename": "a", "mime_type": "b", "part_count": 10**9, "size_bytes": 10**15},
    "a part of one": {"type": "FileTransferPart", "source_component_uuid": None, "transfer_uuid": "1", "part_index": 0,
                      "content": b"a" * 1000},
    "a form": {"type": "GuiFormDirtyMessage", "uuid": "{button}"},
    "a picture": {"type": "GetRenderResponseMessage", "payload": b"a", "render_uuid": "1"},
    "a camera nowhere": CAMERA | {"position": [float("nan"), 0, 0]},
    "a camera at infinity": CAMERA | {"position": [0, float("inf"), 0]},
    "no node of that name": CLICK | {"name": "/nothing"},
    "a node of another page": CLICK | {"owner": "7"},
    "a drag to the moon": DRAG | {"end_position": [3.8e8, 0, 0]},
    "a drag to nowhere": DRAG | {"end_position": [0, float("nan"), 0]},
    "a click without a ray": POINTER | {"ray_origin": None},
    "half a rectangle": POINTER | {"event_type": "rect-select"},
    "no such element": update("00000000-0000-0000-0000-000000000000", 1),
    "a disabled element": update("{disabled}", True),
    "a number for a checkbox": update("{checkbox}", 1),
    "a text for a checkbox": update("{checkbox}", "yes"),
    "a text for a slider": update("{slider}", "5"),
    "a truth for a slider": update("{slider}", True),
    "above a slider": update("{slider}", 10.5),
    "below a slider": update("{slider}", -1e300),
    "no number": update("{slider}", float("nan")),
    "a fraction of a count": update("{count}", 2.5),
    "a list for a slider": update("{slider}", [1.0]),
    "no option": update("{dropdown}", "velvet"),
    "a number for an option": update("{dropdown}", 1),
    "a vector too short": update("{vector}", [1.0, 2.0]),
    "a vector too long": update("{vector}", [1.0] * 4),
    "a vector out of range": update("{vector}", [0.0, 0.0, 21.0]),
    "no color": update("{color}", [0, 0, 256]),
    "half a color": update("{color}", [0, 0, 0.5]),
    "out of a range": update("{range}", [1.0, 11.0]),
}  # fmt: skip


def filled(message: Any, uuids: dict[str, str]) -> bytes:
    if "uuid" in message:
        message = message | {"uuid": message["uuid"].format(**uuids)}
    return msgspec.msgpack.encode(message)


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_messages_are_refused(host: Host, what: str) -> None:
    with pytest.raises(Refused):
        sanitized(filled(MALFORMED[what], host.uuids), host.served.viser)


@pytest.mark.parametrize("what", IGNORED)
def test_messages_that_make_no_sense_are_ignored(host: Host, what: str) -> None:
    assert sanitized(filled(IGNORED[what], host.uuids), host.served.viser) is None


@pytest.mark.parametrize(
    "raw",
    [b"", b"\x00", b"\xc1", b"\xff" * 50, b"\x91" * 10_000, b"\xdf\xff\xff\xff\xff\xa4type", b"\x81\xa4type\xa1\xff"],
)
def test_what_is_no_message_is_refused(host: Host, raw: bytes) -> None:
    with pytest.raises(Refused):
        sanitized(raw, host.served.viser)


def test_what_the_server_reads_is_what_was_judged(host: Host) -> None:
    """A key that comes twice: whoever takes the first one and whoever takes the last one must read the same."""
    twice = b"\x84" + b"".join(
        map(msgspec.msgpack.encode, ("type", "GuiUpdateMessage", "uuid", host.uuids["text"], "updates", {"value": "a"}))
    )
    twice += msgspec.msgpack.encode("updates") + msgspec.msgpack.encode({"value": "b"})
    read = msgspec.msgpack.decode(sanitized(twice, host.served.viser) or b"")
    assert list(read) == ["type", "uuid", "updates"]


def test_no_message_shares_the_server(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share URL is a tunnel through somebody else's machine to this one."""
    shared = []
    monkeypatch.setattr(host.served.viser, "request_share_url", lambda *_, **__: shared.append(1))
    with Page(host.port) as page:
        page.send(CAMERA, *[{"type": "ShareUrlRequest"}] * 5, update(host.uuids["count"], 7))
        count = host.served.viser.gui._gui_input_handle_from_uuid[host.uuids["count"]]
        assert eventually(lambda: count.value == 7)  # the page lives on
    assert not shared
    assert viser._messages.ShareUrlRequest not in host.served.viser._websock_server._incoming_handlers


def test_a_bad_page_is_closed_and_others_stay(host: Host) -> None:
    with Page(host.port) as good, Page(host.port) as bad:
        good.send(CAMERA)
        bad.send(CAMERA, *[b"\xc1"] * 11)
        assert bad.close_code() == 1008
        good.send(update(host.uuids["slider"], 7.5))
        slider = host.served.viser.gui._gui_input_handle_from_uuid[host.uuids["slider"]]
        assert eventually(lambda: slider.value == 7.5)
