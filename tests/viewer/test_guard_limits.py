"""Limits of the guarded server: rates, sizes, numbers of pages, and pages that stall."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

viser = pytest.importorskip("viser")

from hosts import CLIENT, Host, eventually  # noqa: E402
from page_messages import CAMERA  # noqa: E402
from raw_page import CONTINUATION, PING, TEXT, Page, frame, read_all, upgrade  # noqa: E402

from toile.viewer.server.connection import TokenBucket  # noqa: E402
from toile.viewer.server.guarded_server import Limits, serve  # noqa: E402


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
        assert host.served.guard.accepted <= 20 + 100.0 * elapsed + 1
        assert host.serves_a_page()
    finally:
        host.served.stop()


def test_a_page_at_its_usual_pace_is_not_slowed_down() -> None:
    """150 messages a second, with pauses made up for at once."""
    bucket = TokenBucket(Limits().messages_per_second, Limits().burst)
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
