"""The guarded server against what is not a page of its own. Real sockets, on this machine only."""

from __future__ import annotations

import gzip
import logging
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

viser = pytest.importorskip("viser")

import msgspec  # noqa: E402
from guarded_server import add_elements  # noqa: E402
from page_messages import CAMERA, CLICK, DRAG, POINTER, VALUES, recorded, update  # noqa: E402
from raw_page import CONTINUATION, PING, TEXT, Page, frame, read_all, request, upgrade  # noqa: E402

from toile.errors import InputError  # noqa: E402
from toile.viewer.server import guard  # noqa: E402
from toile.viewer.server.connection import Bucket  # noqa: E402
from toile.viewer.server.guard import Limits, Served, serve  # noqa: E402
from toile.viewer.server.messages import Refused, passed  # noqa: E402

CLIENT = Path(viser.__file__).parent / "client" / "build" / "index.html"
TOKEN = "correct-horse-battery"


class Host:
    """A server under test, with its port and the elements on it."""

    def __init__(self, served: Served):
        self.served = served
        self.port = served.viser.get_port()
        self.uuids = add_elements(served)
        cloth = served.viser.scene.add_icosphere("/cloth", radius=1.0)
        cloth.on_drag("left")(self._ignore)

    @staticmethod
    async def _ignore(event: object) -> None:
        pass

    def serves_a_page(self) -> bool:
        """Whether a fresh page opens, and what it says is heard."""
        slider = self.served.viser.gui._gui_input_handle_from_uuid[self.uuids["slider"]]
        aim = 9.0 if slider.value < 5.0 else 1.0
        with Page(self.port) as page:
            if page.status != 101:
                return False
            page.send(CAMERA, update(self.uuids["slider"], aim))
            next(page.frames())
            return eventually(lambda: slider.value == aim)


def eventually(condition: Any, within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return bool(condition())


def hosted(**settings: Any) -> Iterator[Host]:
    served = serve("test", **settings)
    yield Host(served)
    served.stop()


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    yield from hosted()


@pytest.fixture(scope="module")
def token_host() -> Iterator[Host]:
    yield from hosted(token=TOKEN)


# --- the page ---


def test_the_page_is_visers_client_and_may_talk_to_nobody_else(host: Host) -> None:
    status, headers, body = request(host.port)
    assert (status, body) == (200, CLIENT.read_bytes())
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == f"'self' ws://127.0.0.1:{host.port} data: blob:"
    assert not re.search(r"https?:|\*", headers["Content-Security-Policy"])
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert "Server" not in headers
    assert gzip.decompress(request(host.port, Accept_Encoding="gzip, br")[2]) == body


def test_a_page_of_its_own_is_served(host: Host) -> None:
    assert host.serves_a_page()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LocalHost"])
def test_names_of_this_machine(host: Host, name: str) -> None:
    assert request(host.port, Host=f"{name}:{host.port}")[0] == 200
    with Page(host.port, Host=f"{name}:{host.port}", Origin=f"http://{name}:{host.port}") as page:
        assert page.status == 101


# --- who may not connect ---

WRONG_HOSTS = [
    None, "", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost", "localhost.evil.example:{port}",
    "localhost.:{port}", "127.0.0.1.nip.example:{port}", "0.0.0.0:{port}", "127.1:{port}", "0x7f000001:{port}",
    "2130706433:{port}", "127.0.0.2:{port}", "127.0.0.1:{port}@evil.example", "evil.example@127.0.0.1:{port}",
    "127.0.0.1:{port}/", " 127.0.0.1:0{port}", ["127.0.0.1:{port}", "evil.example:{port}"],
    ["127.0.0.1:{port}", "127.0.0.1:{port}"],
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_HOSTS, ids=str)
def test_another_host_name_is_refused(host: Host, wrong: Any) -> None:
    """DNS rebinding: the browser believes that it talks to the attacker's name, and writes that name as Host."""
    names = [name and name.format(port=host.port) for name in (wrong if isinstance(wrong, list) else [wrong])]
    assert request(host.port, Host=names)[0] == 421
    with Page(host.port, Host=names, Origin=[f"http://{name}" for name in names]) as page:
        assert page.status == 421


WRONG_ORIGINS = [
    None, "null", "", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1", "http://127.0.0.1:1",
    "http://localhost:{port}", "http://127.0.0.1:{port}/", "http://127.0.0.1:{port}.evil.example", "file://",
    "chrome-extension://abcdefgh", ["http://127.0.0.1:{port}", "http://evil.example"],
    ["http://127.0.0.1:{port}", "http://127.0.0.1:{port}"],
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_ORIGINS, ids=str)
def test_another_origin_is_refused(host: Host, wrong: Any) -> None:
    origins = [origin and origin.format(port=host.port) for origin in (wrong if isinstance(wrong, list) else [wrong])]
    with Page(host.port, Origin=origins) as page:
        assert page.status == 403
    if wrong is not None:  # a person who opens the page sends none
        assert request(host.port, Origin=origins)[0] == 403


PATHS = [
    "/index.html", "/favicon.ico", "/..", "/../index.html", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd",
    "/....//....//etc/passwd", "//etc/passwd", "///", "/./", "/.", "/\\..\\..\\etc\\passwd", "/%5c..%5c", "/%00",
    "/%2f", "/etc/passwd", "/C:/Windows/win.ini", "/~root", "/package.json", "/src/App.tsx", "*", "", "/#",
    "http://127.0.0.1:{port}/", "http://evil.example/", "file:///etc/passwd", "/;x", "/%c0%ae%c0%ae/", "/index.html?",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_path_but_the_page(host: Host, path: str) -> None:
    status, _, body = request(host.port, path.format(port=host.port))
    assert status == 404 or (status, body) == (0, b"")  # 0: not even a request
    with Page(host.port, path=path.format(port=host.port)) as page:
        assert page.status in (404, 0)


@pytest.mark.parametrize(
    "query",
    ["?", "?websocket=ws://evil.example", "?playbackPath=//evil.example/x", "?token=x", "?token", "?a=1&a=2", "?%"],
)
def test_no_options_in_the_address(host: Host, query: str) -> None:
    """viser's client would connect to `?websocket=`, and load `?playbackPath=`."""
    assert request(host.port, "/" + query)[0] == 400
    with Page(host.port, path="/" + query) as page:
        assert page.status == 400


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "get", "X"])
def test_no_method_but_get(host: Host, method: str) -> None:
    assert request(host.port, method=method)[0] in (0, 400, 405)


@pytest.mark.parametrize(
    "garbage",
    [b"\x00" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"\r\n" * 9],
)
def test_what_is_no_request_gets_nothing(host: Host, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", host.port), timeout=10.0) as connection:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        assert b" 200 " not in read_all(connection)[:20]
    assert host.serves_a_page()


def test_heads_that_do_not_end_are_cut_off(host: Host) -> None:
    for head in (b"GET /" + b"a" * 100_000, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000):
        with socket.create_connection(("127.0.0.1", host.port), timeout=10.0) as connection:
            with suppress(ConnectionError):
                connection.sendall(head)
            assert b" 200 " not in read_all(connection)[:20]
    assert host.serves_a_page()


def test_another_version_of_the_client_is_reported_so(host: Host) -> None:
    for protocol in (None, "viser-v0.0.1", "chat", ["viser-v0.0.1", "chat"]):
        with Page(host.port, Sec_WebSocket_Protocol=protocol) as page:
            assert page.status == 400


# --- the token ---


def cookie_of(host: Host) -> str:
    status, headers, _ = request(host.port, f"/?token={TOKEN}")
    assert (status, headers["Location"]) == (303, "/")
    cookie, *attributes = headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(attributes)
    return cookie


def test_the_token_opens_the_page_and_the_socket(token_host: Host) -> None:
    assert token_host.served.url == f"http://127.0.0.1:{token_host.port}/?token={TOKEN}"
    cookie = cookie_of(token_host)
    assert TOKEN not in cookie
    assert request(token_host.port, Cookie=cookie)[0] == 200
    assert request(token_host.port, Cookie=f"other=1; {cookie}; more=2")[0] == 200
    with Page(token_host.port, Cookie=cookie) as page:
        assert page.status == 101


@pytest.mark.parametrize("cookie", [None, "", "toile={c}", "{n}=", "{n}={t}", "{n}={c}x", "{n}=\xff\xfe", "X{n}={c}"])
def test_without_the_cookie_nothing_opens(token_host: Host, cookie: str | None) -> None:
    name, value = cookie_of(token_host).split("=")
    given = cookie and cookie.format(n=name, c=value, t=TOKEN)
    assert request(token_host.port, Cookie=given)[0] == 403
    with Page(token_host.port, Cookie=given) as page:
        assert page.status == 403


@pytest.mark.parametrize(
    ("query", "status"),
    [
        (f"token={TOKEN[:-1]}", 403), (f"token={TOKEN}x", 403), ("token=%00", 403), ("token=%ff", 400), ("token=", 400),
        (f"token={TOKEN}&websocket=ws://evil.example", 400), (f"token={TOKEN}&token={TOKEN}", 400),
        (f"Token={TOKEN}", 400),
    ],
)  # fmt: skip
def test_a_wrong_token_is_refused(token_host: Host, query: str, status: int) -> None:
    answer, headers, _ = request(token_host.port, f"/?{query}")
    assert answer == status
    assert "Set-Cookie" not in headers


def test_the_cookie_of_one_server_does_not_open_another(token_host: Host) -> None:
    value = cookie_of(token_host).partition("=")[2]
    other = serve("other", token=TOKEN)
    try:
        port = other.viser.get_port()
        assert request(port, Cookie=f"toile_{port}={value}")[0] == 403
    finally:
        other.stop()


def test_tokens_are_made_new_and_long() -> None:
    tokens = {guard.make_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 32
    served = serve("test", token="auto")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", served.url)
    served.stop()


# --- where it listens ---


def test_another_address_needs_a_token() -> None:
    for host in ("0.0.0.0", ""):
        with pytest.raises(InputError, match=r"can be reached by others, so it needs a token: add --token auto"):
            serve("test", host=host)


@pytest.mark.parametrize("token", ["", "short", "fifteen letters", "newline\n" * 3, "ünïcödé-ünïcödé-ünïcödé"])
def test_a_token_that_is_none(token: str) -> None:
    with pytest.raises(InputError, match=r"--token: needs 16 printable ASCII characters or more, or `auto`"):
        serve("test", token=token)


def test_every_address_of_the_machine_with_a_token_and_names() -> None:
    served = serve("test", host="0.0.0.0", token=TOKEN, names=["Desk.example.org"])
    try:
        port = served.viser.get_port()
        assert served.url.startswith(f"http://desk.example.org:{port}/?token=")
        for name in ("127.0.0.1", "localhost", "desk.example.org"):
            assert request(port, Host=f"{name}:{port}")[0] == 403  # known; the token is missing
        for name in ("evil.example", "0.0.0.0", "192.0.2.7"):
            assert request(port, Host=f"{name}:{port}")[0] == 421
    finally:
        served.stop()


def test_a_port_that_is_taken(host: Host) -> None:
    with pytest.raises(InputError, match=rf"port {host.port} of 127\.0\.0\.1 is taken\. Give another one, or --port 0"):
        serve("test", port=host.port)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"port": 70000}, "--port 70000: must be between 0 and 65535"),
        ({"port": -1}, "--port -1: must be between 0 and 65535"),
        ({"host": "192.0.2.1"}, "192.0.2.1 is not an address of this machine. Leave out --host"),
        ({"host": "no such host"}, '--host "no such host": no such host'),
        ({"names": ["http://desk"]}, '"http://desk" is not a host name. Give it without http:// and port'),
        ({"names": ["desk:80"]}, '"desk:80" is not a host name'),
        ({"names": ["*"]}, '"*" is not a host name'),
    ],
)
def test_addresses_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        serve("test", **settings)


def test_a_port_is_free_again_after_stop() -> None:
    for _ in range(2):
        served = serve("test", port=(port := free_port()))
        assert request(port)[0] == 200
        served.stop()
        served.stop()
        with pytest.raises(ConnectionRefusedError):
            request(port)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_a_viser_that_starts_otherwise_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    with monkeypatch.context() as changed:
        changed.setattr(guard, "_THE_CALL", "another_library.serve(")
        with pytest.raises(InputError, match=r"starts its server in another way. Install the version"):
            serve("test", port=port)
    with monkeypatch.context() as changed:
        changed.setattr(guard, "_Instead", lambda module, **_: module)  # viser gets past the guard
        with pytest.raises(InputError, match=r"starts its server in another way. Install the version"):
            serve("test", port=port)
    with monkeypatch.context() as changed:
        changed.setattr(guard, "passed", lambda message, server: server.elements_are_no_longer_here)
        with pytest.raises(InputError, match=r"keeps its elements in another way. Install the version"):
            serve("test", port=port)
    with pytest.raises(ConnectionRefusedError):
        request(port)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    served = serve("test")
    port = served.viser.get_port()
    request(port, "/nothing")
    request(port, method="POST")
    with Page(port, Sec_WebSocket_Protocol="viser-v0.0.1"), Page(port, Origin=None):
        pass
    with Page(port) as page:
        page.send(CAMERA, *[b"\xc1"] * 20)
        assert page.close_code() == 1008
    with Page(port) as page:
        page.send(CAMERA)
    time.sleep(0.1)
    served.stop()
    assert capfd.readouterr() == ("", "")


def test_faults_of_the_viewer_itself_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """What strangers send is kept from the terminal; what goes wrong here is not."""
    serve("test").stop()
    logging.getLogger("toile.viewer.live.page").error("The page could not be drawn.")
    assert "could not be drawn" in caplog.text


# --- what may be said ---


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
        passed(filled(MALFORMED[what], host.uuids), host.served.viser)


@pytest.mark.parametrize("what", IGNORED)
def test_messages_that_make_no_sense_are_ignored(host: Host, what: str) -> None:
    assert passed(filled(IGNORED[what], host.uuids), host.served.viser) is None


@pytest.mark.parametrize(
    "raw",
    [b"", b"\x00", b"\xc1", b"\xff" * 50, b"\x91" * 10_000, b"\xdf\xff\xff\xff\xff\xa4type", b"\x81\xa4type\xa1\xff"],
)
def test_what_is_no_message_is_refused(host: Host, raw: bytes) -> None:
    with pytest.raises(Refused):
        passed(raw, host.served.viser)


def test_what_the_server_reads_is_what_was_judged(host: Host) -> None:
    """A key that comes twice: whoever takes the first one and whoever takes the last one must read the same."""
    twice = b"\x84" + b"".join(
        map(msgspec.msgpack.encode, ("type", "GuiUpdateMessage", "uuid", host.uuids["text"], "updates", {"value": "a"}))
    )
    twice += msgspec.msgpack.encode("updates") + msgspec.msgpack.encode({"value": "b"})
    read = msgspec.msgpack.decode(passed(twice, host.served.viser) or b"")
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


# --- how much ---


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(b"a" * 20_000), 1009),
        (frame(b"a" * 5) * 11, 1008),
        (frame(b"hello", TEXT) * 11, 1008),
        (frame(b"a", fin=False), 0),
        (frame(b"a", fin=False) + frame(b"", CONTINUATION, fin=False) * 5000, 0),
        (frame(b"", PING) * 100, 0),
        (frame(b"") * 50_000, 0),
        (b"\xff" * 100, 1002),
    ],
    ids=["too large", "malformed", "text", "in pieces", "in endless pieces", "pings", "empty", "no frame"],
)
def test_what_no_page_does_ends_the_connection(host: Host, sent: bytes, code: int) -> None:
    with Page(host.port) as page:
        with suppress(ConnectionError):
            page.socket.sendall(sent)
        assert page.close_code() in (code, 0)
    assert host.serves_a_page()


def limited(**changes: Any) -> Host:
    return Host(serve("test", limits=replace(Limits(), **changes)))


def test_a_flood_is_slowed_down_and_then_closed() -> None:
    host = limited(messages_per_second=100.0, burst=20, patience=0.5)
    try:
        with Page(host.port) as page:
            start = time.monotonic()
            page.send(*[CAMERA] * 2000)
            assert page.close_code() == 1008
            elapsed = time.monotonic() - start
        assert elapsed > 0.5
        assert host.served.gate.passed <= 20 + 100.0 * elapsed + 1
        assert host.serves_a_page()
    finally:
        host.served.stop()


def test_a_page_at_its_usual_pace_is_not_slowed_down() -> None:
    """150 messages a second, with pauses made up for at once."""
    bucket = Bucket(Limits().messages_per_second, Limits().burst)
    waits = [bucket.take(10.0 + i // 150) for i in range(3000)]
    assert max(waits) == 0.0


def test_only_so_many_pages() -> None:
    host = limited(pages=2)
    try:
        with Page(host.port) as first, Page(host.port) as second, Page(host.port) as third:
            assert [first.status, second.status, third.status] == [101, 101, 503]
        assert eventually(host.serves_a_page)
    finally:
        host.served.stop()


def test_sockets_that_say_nothing_are_few_and_short() -> None:
    host = limited(sockets=5, opening=0.5)
    try:
        silent = [socket.create_connection(("127.0.0.1", host.port), timeout=10.0) for _ in range(10)]
        start = time.monotonic()
        for connection in silent:
            read_all(connection)  # until the server hangs up
            connection.close()
        assert time.monotonic() - start < 3.0
        assert eventually(host.serves_a_page)
    finally:
        host.served.stop()


def test_who_asks_for_the_page_and_does_not_take_it_is_dropped() -> None:
    host = limited(opening=0.5)
    try:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", host.port))
            connection.sendall(upgrade(host.port, Upgrade=None))
            time.sleep(1.5)
            assert len(read_all(connection)) < CLIENT.stat().st_size
        assert host.serves_a_page()
    finally:
        host.served.stop()


def test_who_reads_nothing_is_dropped_and_others_are_not_held_up() -> None:
    host = limited(stall=1.0)
    at_rest, faces = np.zeros((2600, 3), np.float32), np.zeros((1, 3), np.uint32)
    cloth = host.served.viser.scene.add_mesh_simple("/mesh", at_rest, faces)
    live = host.served.viser._websock_server._live_connections
    try:
        with Page(host.port) as reader, Page(host.port, receive_buffer=4096) as stalled:
            assert (reader.status, stalled.status) == (101, 101)
            reader.send(CAMERA)
            stalled.send(CAMERA)
            assert eventually(lambda: len(live) == 2)
            frames, received = reader.frames(), 0
            deadline = time.monotonic() + 20.0
            while len(live) == 2 and time.monotonic() < deadline:
                cloth.vertices = np.random.default_rng(received).random((2600, 3), dtype=np.float32)
                received += len(next(frames)[1]) > 31_200
            assert len(live) == 1
            assert received > 20
    finally:
        host.served.stop()
