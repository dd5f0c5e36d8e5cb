"""How much a page may send and how long it may leave unread what it is sent.

A page sends at most about 150 messages of 300 bytes a second (camera, dragging, sliders). A token bucket lets through
`messages_per_second` in the long run and `burst` at once; more is left waiting in the network, and who goes on for
`patience` is closed. With t the time and d the moment up to which messages are paid for:

    d <- max(d, t) + 1 / rate,    wait d - t - burst / rate

What is sent to a page that does not read stays small by itself: viser keeps only the latest value of each thing, and
sends the next message when the last one has left. But websockets' own pings wait behind that message, so a page that
stalls would never be missed. Hence the watch here: who takes nothing for `stall` is dropped.

Source      token bucket as the generic cell rate algorithm, ITU-T I.371 annex A
Symbols     rate [1/s]     burst [messages]     t, d [s]
Deviations  none
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import viser
from websockets.asyncio.server import Server, ServerConnection
from websockets.frames import Frame, Opcode
from websockets.protocol import Event, State
from websockets.server import ServerProtocol

from toile.viewer.server.messages import Refused, passed
from toile.viewer.server.requests import Visit

POLICY_VIOLATION = 1008


@dataclass(frozen=True)
class Limits:
    """Judgments, each an order of magnitude above what pages do."""

    pages: int = 8  # websockets at once
    sockets: int = 64  # connections of any kind, those that have not said anything yet too
    message_bytes: int = 16_384  # largest message from a page; real ones have 300
    mistakes: int = 10  # messages that no page sends, before the connection is closed
    messages_per_second: float = 250.0
    burst: int = 500  # messages at once: a page that was held up for seconds catches up
    patience: float = 10.0  # how long a page may send faster than that [s]
    queue: int = 4000  # frames received and not looked at: a page that sends empty ones
    behind: int = 64  # callbacks waiting for a thread: the page waits until they are done
    opening: float = 20.0  # to send a request and to take the answer, the page of 0.6 MB [s]
    closing: float = 2.0  # to answer a close [s]
    ping_interval: float = 20.0  # between questions whether a silent page is there [s]
    ping_timeout: float = 20.0  # for the answer [s]
    stall: float = 30.0  # without taking anything of what waits for it [s]
    unread: int = 65_536  # what may wait for a page here besides one message [bytes]
    underway: int = 131_072  # what the system may hold for it: more would be old frames in a slow page [bytes]


class Bucket:
    """Tells how long the next message has to wait."""

    def __init__(self, rate: float, burst: int):
        self.interval, self.credit = 1.0 / rate, burst / rate
        self.paid_until = 0.0

    def take(self, now: float) -> float:
        """Seconds to wait for this message: 0 within the rate and the burst."""
        self.paid_until = max(self.paid_until, now) + self.interval
        return max(self.paid_until - now - self.credit, 0.0)

    def is_half_full(self, now: float) -> bool:
        """Whether there was a real pause: a sleep that lasted too long is none."""
        return self.paid_until - now < 0.5 * self.credit


class GuardedConnection(ServerConnection):
    """A connection that hands on only what passes, no faster than allowed."""

    def __init__(self, protocol: ServerProtocol, server: Server, *, gate: Gate, **settings: Any):
        super().__init__(protocol, server, **settings)
        self._gate = gate
        self._limits = gate.limits
        self._messages = Bucket(gate.limits.messages_per_second, gate.limits.burst)
        self._pings = Bucket(rate=1.0, burst=10)
        self._early_since: float | None = None  # since when it sends faster than allowed
        self._refused = 0
        self._dismissed = False  # what still comes is thrown away
        self._watch: asyncio.TimerHandle | None = None

    # --- what comes in ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self.server.handlers) > self._limits.sockets:
            self.transport.abort()

    def process_event(self, event: Event) -> None:
        """Browsers send whole messages and no pings; what others do with pieces and pings would fill the memory."""
        if isinstance(event, Frame):
            if self._dismissed and event.opcode is Opcode.BINARY:
                return
            in_pieces = event.opcode is Opcode.CONT or not event.fin
            too_many_pings = event.opcode is Opcode.PING and self._pings.take(self.loop.time()) > 0.0
            if in_pieces or too_many_pings or len(self.recv_messages.frames) > self._limits.queue:
                self.transport.abort()
                return
        super().process_event(event)

    async def recv(self, decode: bool | None = None) -> Any:
        """The next message that may pass. Closes the connection for what no page sends, or for too much."""
        while True:
            raw = await super().recv(decode)
            await self._keep_pace()
            try:
                if not isinstance(raw, bytes):
                    raise Refused("text")
                message = passed(raw, self._gate.viser)
            except Refused as why:
                await self._refuse(str(why))
            else:
                if message is not None:
                    self._gate.passed += 1
                    return message
                self._gate.ignored += 1

    async def _keep_pace(self) -> None:
        now = self.loop.time()
        wait = self._messages.take(now)
        if self._messages.is_half_full(now):
            self._early_since = None
        elif wait > 0.0:
            self._early_since = self._early_since or now
            if now - self._early_since > self._limits.patience:
                await self._dismiss("too many messages")
        # Also with nothing to wait for: viser's tasks for the message before must get their turn.
        await asyncio.sleep(wait)
        while self._gate.callbacks_waiting() > self._limits.behind:
            await asyncio.sleep(0.05)

    async def _refuse(self, why: str) -> None:
        self._gate.refused += 1
        self._refused += 1
        self.logger.info("refused: %s", why)
        if self._refused > self._limits.mistakes:
            await self._dismiss("not messages of this page")

    async def _dismiss(self, why: str) -> None:
        self._dismissed = True
        self.transport.resume_reading()  # else its goodbye would wait behind what it sent
        await self.close(POLICY_VIOLATION, why)
        raise self.protocol.close_exc

    # --- what goes out ---

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_from(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        super().resume_writing()

    def _watch_from(self, waiting: int) -> None:
        self._watch = self.loop.call_later(self._limits.stall, self._drop_if_stalled, waiting)

    def _drop_if_stalled(self, waiting_before: int) -> None:
        waiting = self.transport.get_write_buffer_size()
        if waiting >= waiting_before:
            self.logger.info("stalled: %d bytes unread", waiting)
            self.transport.abort()
        else:
            self._watch_from(waiting)  # slow, but there

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)


@dataclass
class Gate:
    """What the connections of one server share."""

    limits: Limits
    server: viser.ViserServer | None = None
    # Messages so far
    passed: int = 0
    ignored: int = 0
    refused: int = 0

    @property
    def viser(self) -> viser.ViserServer:
        assert self.server is not None  # the door is shut until it is there
        return self.server

    def callbacks_waiting(self) -> int:
        return self.viser._thread_executor._work_queue.qsize()


def visit_of(connection: ServerConnection) -> Visit:
    address: str = connection.transport.get_extra_info("sockname")[0]
    # Those that are being closed too: they still take memory.
    pages = sum(each.state is not State.CONNECTING for each in connection.server.handlers)
    return Visit(address, pages_open=pages)
