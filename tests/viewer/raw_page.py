"""A client that does what a browser does, and what none does: plain sockets, no library that would correct it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import viser

BINARY, TEXT, CONTINUATION, CLOSE, PING = 0x2, 0x1, 0x0, 0x8, 0x9

SUBPROTOCOL = f"viser-v{viser.__version__}"


def request(port: int, path: str = "/", method: str = "GET", **headers: Any) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer; status 0 if there was none. `Host=[...]` sends several, None none."""
    headers = {"Host": f"127.0.0.1:{port}", **headers}
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection:
        connection.sendall(head(method, path, headers))
        return parsed(read_all(connection))


def head(method: str, path: str, headers: dict[str, Any]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1"]
    for name, values in headers.items():
        for value in values if isinstance(values, list) else [values]:
            if value is not None:
                lines.append(f"{name.replace('_', '-')}: {value}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def read_all(connection: socket.socket) -> bytes:
    pieces = []
    with suppress(ConnectionError):
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    if not answer:
        return 0, {}, b""
    text, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = text.decode("latin-1").split("\r\n")
    return int(status.split()[1]), dict(line.split(": ", 1) for line in lines), body


def upgrade(port: int, path: str = "/", **headers: Any) -> bytes:
    """The request of a page for its websocket."""
    usual = {
        "Host": f"127.0.0.1:{port}",
        "Origin": f"http://127.0.0.1:{port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Protocol": SUBPROTOCOL,
    }
    return head("GET", path, {**usual, **headers})


def frame(payload: bytes, opcode: int = BINARY, fin: bool = True) -> bytes:
    """A masked frame; the mask is 0, which leaves the payload as it is."""
    size = len(payload)
    start = bytes([opcode | (0x80 if fin else 0)])
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65536:
        length = bytes([0xFE]) + struct.pack("!H", size)
    else:
        length = bytes([0xFF]) + struct.pack("!Q", size)
    return start + length + bytes(4) + payload


class Page:
    """An open websocket. `status` is that of the answer: 101 if it is open."""

    def __init__(self, port: int, receive_buffer: int | None = None, **headers: Any):
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(10.0)
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(upgrade(port, **headers))
        answer = b""
        while b"\r\n\r\n" not in answer and (piece := self.socket.recv(1 if receive_buffer else 4096)):
            answer += piece
        text, _, self._unread = answer.partition(b"\r\n\r\n")
        self.status = int(text.split()[1]) if text else 0

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *messages: bytes | dict[str, Any]) -> None:
        coded = (m if isinstance(m, bytes) else msgspec.msgpack.encode(m) for m in messages)
        self.socket.sendall(b"".join(map(frame, coded)))

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """What the server sends, until it closes."""
        while True:
            try:
                start = self._read(2)
                size = start[1] & 0x7F
                if size == 126:
                    (size,) = struct.unpack("!H", self._read(2))
                elif size == 127:
                    (size,) = struct.unpack("!Q", self._read(8))
                yield start[0] & 0x0F, self._read(size)
            except (EOFError, ConnectionError):
                return

    def close_code(self) -> int:
        """Reads until the server closes: the code it gives, 0 if it hangs up without a word."""
        for opcode, payload in self.frames():
            if opcode == CLOSE:
                return int(struct.unpack("!H", payload[:2])[0])
        return 0

    def _read(self, size: int) -> bytes:
        while len(self._unread) < size:
            piece = self.socket.recv(65536)
            if not piece:
                raise EOFError
            self._unread += piece
        data, self._unread = self._unread[:size], self._unread[size:]
        return data
