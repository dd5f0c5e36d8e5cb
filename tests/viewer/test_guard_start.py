"""Start of the guarded server: its address, its port, the version of viser, and what it prints."""

from __future__ import annotations

import logging
import re
import socket
import time
from typing import Any

import pytest

viser = pytest.importorskip("viser")

from hosts import TOKEN, Host  # noqa: E402
from page_messages import CAMERA  # noqa: E402
from raw_page import Page, request  # noqa: E402

from toile.errors import InputError  # noqa: E402
from toile.viewer.server import guarded_server  # noqa: E402
from toile.viewer.server.guarded_server import serve  # noqa: E402


def test_another_address_needs_a_token() -> None:
    for host in ("0.0.0.0", ""):
        with pytest.raises(InputError, match=r"from other machines, so it needs a token: add --token auto"):
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
        changed.setattr(guarded_server, "_THE_CALL", "another_library.serve(")
        with pytest.raises(InputError, match=r"starts its server in another way. Install the version"):
            serve("test", port=port)
    with monkeypatch.context() as changed:
        changed.setattr(guarded_server, "_PatchedModule", lambda module, **_: module)  # viser gets past the guard
        with pytest.raises(InputError, match=r"starts its server in another way. Install the version"):
            serve("test", port=port)
    with monkeypatch.context() as changed:
        changed.setattr(guarded_server, "sanitized", lambda message, server: server.elements_are_no_longer_here)
        with pytest.raises(InputError, match=r"stores its elements in another way. Install the version"):
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
