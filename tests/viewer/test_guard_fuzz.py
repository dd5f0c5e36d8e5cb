"""The guarded server under 100,000 random and mutated messages, and with a page that stops reading: its memory stays.

The server runs in a process of its own, whose resident memory is what is measured.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("viser")
if not Path("/proc/self/statm").exists():
    pytest.skip("memory is measured by /proc", allow_module_level=True)

import msgspec
from page_messages import CAMERA, recorded, update
from raw_page import Page

MEGABYTE = 2**20
UNLIMITED = {"messages_per_second": 1e9, "burst": 1_000_000_000}  # else 100,000 messages take 400 s


class Remote:
    """The server in its process."""

    def __init__(self, process: subprocess.Popen[str]):
        assert process.stdin is not None and process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.process = process
        ready = json.loads(self._out.readline())
        self.uuids: dict[str, str] = ready["uuids"]
        self.port = int(ready["url"].rstrip("/").rpartition(":")[2])

    def ask(self, command: str = "stats") -> dict[str, int]:
        self._in.write(command + "\n")
        self._in.flush()
        answer: dict[str, int] = json.loads(self._out.readline())
        return answer

    def judged(self) -> int:
        stats = self.ask()
        return stats["accepted"] + stats["ignored"] + stats["refused"]


@contextmanager
def remote(**limits: Any) -> Iterator[Remote]:
    script = Path(__file__).with_name("guarded_server.py")
    process = subprocess.Popen(
        [sys.executable, str(script), json.dumps(limits)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Remote(process)
        _, errors = process.communicate(timeout=20.0)
        assert (process.returncode, errors) == (0, "")
    finally:
        process.kill()


# --- mutations ---

ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, -(2**63), 2**64 - 1, 0.0, -0.0, 1e-320, 1e308, -1e308,
    float("nan"), float("inf"), -float("inf"), "", "value", "../../etc/passwd", "\x00", "é" * 50, "a" * 5000, b"",
    b"\xff" * 99, [], {}, [[]],
    [[[[[[[[1]]]]]]]], {"value": {"value": {}}}, [0.0] * 1000, {"__binary_index": 0, "dtype": "<f4"},
    "ShareUrlRequest", "GuiUpdateMessage", "constructor", "__class__",
]  # fmt: skip


class Mutator:
    """Messages as pages send them, with something wrong."""

    def __init__(self, uuids: dict[str, str], seed: int):
        self.random = random.Random(seed)
        self.seeds = recorded(uuids)

    def messages(self, count: int) -> list[bytes]:
        return [self.one() for _ in range(count)]

    def one(self) -> bytes:
        broken = [self.noise, self.flipped, self.cut, self.longer, self.odd_key, self.nested]
        shaped = [self.odd_value, self.odd_value, self.other_number, self.other_number, self.untouched]
        return self.random.choice(broken + shaped)()

    def seed(self) -> dict[str, Any]:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(self.random.choice(self.seeds)))  # a deep copy

    def noise(self) -> bytes:
        return self.random.randbytes(self.random.choice([0, 1, 2, 8, 64, 300, 4000]))

    def untouched(self) -> bytes:
        return msgspec.msgpack.encode(self.seed())

    def flipped(self) -> bytes:
        raw = bytearray(self.untouched())
        for _ in range(self.random.randint(1, 4)):
            raw[self.random.randrange(len(raw))] ^= 1 << self.random.randrange(8)
        return bytes(raw)

    def cut(self) -> bytes:
        raw = self.untouched()
        return raw[: self.random.randrange(len(raw))]

    def longer(self) -> bytes:
        raw = self.untouched()
        return raw + self.random.choice([b"\x00", raw, self.noise()])

    def odd_value(self) -> bytes:
        message = self.seed()
        message[self.random.choice(list(message))] = self.random.choice(ODD_VALUES)
        if "updates" in message and self.random.random() < 0.5:
            message = update(message["uuid"], self.random.choice(ODD_VALUES))
        return msgspec.msgpack.encode(message)

    def odd_key(self) -> bytes:
        message = self.seed()
        if self.random.random() < 0.5:
            del message[self.random.choice(list(message))]
        else:
            key = self.random.choice(["owner", "props", "__class__", "a" * 300, "updates"])
            message[key] = self.random.choice(ODD_VALUES)
        return msgspec.msgpack.encode(message)

    def other_number(self) -> bytes:
        """Shaped as it should be, with other numbers."""

        def changed(value: Any) -> Any:
            if isinstance(value, list):
                return [changed(member) for member in value]
            if isinstance(value, dict):
                return {name: changed(member) for name, member in value.items()}
            if isinstance(value, float) and self.random.random() < 0.3:
                return self.random.choice([float("nan"), float("inf"), 1e308, -1e308, 0.0, self.random.gauss(0.0, 1e3)])
            return value

        return msgspec.msgpack.encode(changed(self.seed()))

    def nested(self) -> bytes:
        depth = self.random.choice([10, 100, 1000, 5000])
        message = self.seed() | {"updates": 0}
        return msgspec.msgpack.encode(message)[:-1] + b"\x91" * depth + b"\x00"


def fuzz(server: Remote, count: int, seed: int, pages: int = 4) -> None:
    """Sends at least so many messages, by pages that come back when they are closed, until all were judged."""
    aim = server.judged() + count
    done = threading.Event()

    def work(seed: int) -> None:
        mutator = Mutator(server.uuids, seed)
        while not done.is_set():
            with Page(server.port) as page:
                if page.status != 101:
                    continue  # the closed ones are not gone yet
                page.send(CAMERA)
                try:
                    page.send(*mutator.messages(100))
                    page.close_code()
                except (ConnectionError, TimeoutError):
                    pass

    workers = [threading.Thread(target=work, args=(seed + i,)) for i in range(pages)]
    for worker in workers:
        worker.start()
    try:
        deadline = time.monotonic() + 60.0 + count * 0.01
        while server.judged() < aim:
            assert time.monotonic() < deadline
            assert server.process.poll() is None
            time.sleep(0.2)
    finally:
        done.set()
        for worker in workers:
            worker.join()


def is_alive(server: Remote) -> bool:
    """Whether a fresh page opens, gets the scene, and is heard."""
    before = server.ask()["accepted"]
    with Page(server.port) as page:
        page.send(CAMERA, update(server.uuids["slider"], 5.0))
        first = next(page.frames())
        time.sleep(0.5)
    return page.status == 101 and len(first[1]) > 100 and server.ask()["accepted"] == before + 2


def fuzzed(count: int, first: int) -> dict[str, int]:
    """What became of so many messages and how much the memory has grown, after `first` others."""
    with remote(**UNLIMITED) as server:
        fuzz(server, first, seed=1)
        before = server.ask("collect")
        fuzz(server, count, seed=100)
        after = server.ask("collect")
        assert is_alive(server)
    kinds = {kind: after[kind] - before[kind] for kind in ("accepted", "ignored", "refused")}
    assert min(kinds.values()) > count // 100  # every fate was met
    return kinds | {"grown": after["resident"] - before["resident"]}


def test_5_000_odd_messages() -> None:
    """Python collects its garbage now and then: memory settles 10 MB above the start, after about 10,000 messages."""
    assert fuzzed(5000, first=1000)["grown"] < 16 * MEGABYTE


@pytest.mark.slow
def test_100_000_odd_messages() -> None:
    """Settled, it stays where it is: a byte kept of each message would be 0.1 MB."""
    result = fuzzed(100_000, first=15_000)
    print(result)
    assert result["grown"] < 1 * MEGABYTE


# --- a page that stops reading ---


def stalled(frames: int, pause: float, stall: float) -> dict[str, int]:
    """Pushes so many frames of a cloth past a page that reads and one that does not."""
    limits = {"stall": stall, "ping_interval": 3600.0}  # neither of the pages here answers pings
    with remote(**limits) as server, Page(server.port) as reader, Page(server.port, receive_buffer=4096) as sleeper:
        reader.send(CAMERA)
        sleeper.send(CAMERA)
        received = [0]

        def read() -> None:
            for _, payload in reader.frames():
                received[0] += len(payload) > 31_200

        thread = threading.Thread(target=read)
        thread.start()
        server.ask(f"push 100 {pause}")
        before = server.ask()
        after = server.ask(f"push {frames} {pause}")
        reader.socket.shutdown(2)
        thread.join()
    return {"grown": after["resident"] - before["resident"], "pages": after["pages"], "received": received[0]}


def test_a_page_that_stops_reading_costs_nothing() -> None:
    """It is kept, and 1000 frames of 31 kB go by: 31 MB if they were kept for it."""
    result = stalled(1000, pause=0.002, stall=600.0)
    assert result["pages"] == 2
    assert result["grown"] < 4 * MEGABYTE
    assert result["received"] > 50


@pytest.mark.slow
def test_a_page_that_stops_reading_costs_nothing_for_long() -> None:
    """The frames of 10 minutes at 30 a second: 560 MB if they were kept."""
    result = stalled(18_000, pause=0.004, stall=600.0)
    print(result)
    assert result["pages"] == 2
    assert result["grown"] < 8 * MEGABYTE
    assert result["received"] > 1000
