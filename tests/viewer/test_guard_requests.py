"""Requests to the guarded server: which page is served, who may not connect, and what the token opens."""

from __future__ import annotations

import gzip
import re
import socket
from contextlib import suppress
from typing import Any

import pytest

viser = pytest.importorskip("viser")

from hosts import CLIENT, TOKEN, Host  # noqa: E402
from raw_page import Page, read_all, request  # noqa: E402

from toile.viewer.server.guarded_server import make_token, serve  # noqa: E402

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
    tokens = {make_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 32
    served = serve("test", token="auto")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", served.url)
    served.stop()
