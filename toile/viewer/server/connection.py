"""Guarded websocket connections: limits on what a page may send, and on how long it may leave data unread.

A page sends at most about 150 messages of 300 bytes a second (camera, dragging, sliders). A token bucket accepts
`messages_per_second` in the long run and `burst` at once. Further messages wait in the network, and a page that
exceeds the rate for `patience` is closed. With t the time and d the time up to which messages are paid for:

    d <- max(d, t) + 1 / rate,    wait d - t - burst / rate

The data queued for a page that does not read stays small: viser keeps only the latest value of each property, and
sends a message when the previous one has left. But the pings of websockets queue behind that message, so they do not
detect a page that stalls. Therefore a watchdog here drops a page that reads nothing for `stall`.

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

from toile.viewer.server.messages import Refused, sanitized
from toile.viewer.server.requests import RequestContext

POLICY_VIOLATION = 1008


@dataclass(frozen=True)
class Limits:
    """Limits on connections. They are judgments, each an order of magnitude above what pages need."""

    pages: int = 8  # websockets at once
    sockets: int = 64  # connections of any kind, including those that have not sent anything yet
    message_bytes: int = 16_384  # largest message from a page; real ones have 300
    mistakes: int = 10  # malformed messages, before the connection is closed
    messages_per_second: float = 250.0
    burst: int = 500  # messages at once: a page that was held up for seconds catches up
    patience: float = 10.0  # time for which a page may exceed that rate [s]
    queue: int = 4000  # frames received and not read yet: a page may send empty ones
    behind: int = 64  # callbacks waiting for a thread: the page waits until they are done
    opening: float = 20.0  # to send a request and to read the response, a page of 0.6 MB [s]
    closing: float = 2.0  # to confirm a close [s]
    ping_interval: float = 20.0  # between pings to a silent page [s]
    ping_timeout: float = 20.0  # for the response to a ping [s]
    stall: float = 30.0  # time for which a page may read nothing of its queued data [s]
    unread: int = 65_536  # data queued here for a page besides one message [bytes]
    underway: int = 131_072  # data buffered by the system: more would be old frames in a slow page [bytes]


class TokenBucket:
    """Computes how long the next message has to wait."""

    def __init__(self, rate: float, burst: int):
        self.interval, self.credit = 1.0 / rate, burst / rate
        self.paid_until = 0.0

    def take(self, now: float) -> float:
        """Returns the seconds to wait for this message: 0 within the rate and the burst."""
        self.paid_until = max(self.paid_until, now) + self.interval
        return max(self.paid_until - now - self.credit, 0.0)

    def is_half_full(self, now: float) -> bool:
        """Whether the page has paused for real, and not only while this side slept too long."""
        return self.paid_until - now < 0.5 * self.credit


class GuardedConnection(ServerConnection):
    """A connection that forwards only sanitized messages, no faster than allowed."""

    def __init__(self, protocol: ServerProtocol, server: Server, *, guard: GuardState, **settings: Any):
        super().__init__(protocol, server, **settings)
        self._guard = guard
        self._limits = guard.limits
        self._messages = TokenBucket(guard.limits.messages_per_second, guard.limits.burst)
        self._pings = TokenBucket(rate=1.0, burst=10)
        self._early_since: float | None = None  # time since which it exceeds the rate
        self._refused = 0
        self._dismissed = False  # further messages are discarded
        self._watchdog: asyncio.TimerHandle | None = None

    # --- incoming data ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self.server.handlers) > self._limits.sockets:
            self.transport.abort()

    def process_event(self, event: Event) -> None:
        """Aborts on fragments and frequent pings, which fill the memory: browsers send whole messages and no pings."""
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
        """Returns the next sanitized message. Closes the connection after malformed messages, or too many."""
        while True:
            raw = await super().recv(decode)
            await self._keep_pace()
            try:
                if not isinstance(raw, bytes):
                    raise Refused("text")
                message = sanitized(raw, self._guard.viser)
            except Refused as error:
                await self._refuse(str(error))
            else:
                if message is not None:
                    self._guard.accepted += 1
                    return message
                self._guard.ignored += 1

    async def _keep_pace(self) -> None:
        now = self.loop.time()
        wait = self._messages.take(now)
        if self._messages.is_half_full(now):
            self._early_since = None
        elif wait > 0.0:
            self._early_since = self._early_since or now
            if now - self._early_since > self._limits.patience:
                await self._dismiss("too many messages")
        # Even if there is nothing to wait for: viser's tasks for the previous message must get their turn.
        await asyncio.sleep(wait)
        while self._guard.callbacks_waiting() > self._limits.behind:
            await asyncio.sleep(0.05)

    async def _refuse(self, reason: str) -> None:
        self._guard.refused += 1
        self._refused += 1
        self.logger.info("refused: %s", reason)
        if self._refused > self._limits.mistakes:
            await self._dismiss("not messages of this page")

    async def _dismiss(self, reason: str) -> None:
        self._dismissed = True
        self.transport.resume_reading()  # otherwise the page's confirmation would wait behind its messages
        await self.close(POLICY_VIOLATION, reason)
        raise self.protocol.close_exc

    # --- outgoing data ---

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_watchdog(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        super().resume_writing()

    def _start_watchdog(self, unread: int) -> None:
        self._watchdog = self.loop.call_later(self._limits.stall, self._drop_if_stalled, unread)

    def _drop_if_stalled(self, unread_before: int) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread >= unread_before:
            self.logger.info("stalled: %d bytes unread", unread)
            self.transport.abort()
        else:
            self._start_watchdog(unread)  # the page is slow, but reads

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        super().connection_lost(exc)


@dataclass
class GuardState:
    """Limits, server and message counters that the connections of one server share."""

    limits: Limits
    server: viser.ViserServer | None = None
    # Messages so far
    accepted: int = 0
    ignored: int = 0
    refused: int = 0

    @property
    def viser(self) -> viser.ViserServer:
        assert self.server is not None  # requests are refused until it is set
        return self.server

    def callbacks_waiting(self) -> int:
        return self.viser._thread_executor._work_queue.qsize()


def context_of(connection: ServerConnection) -> RequestContext:
    address: str = connection.transport.get_extra_info("sockname")[0]
    # Connections that are being closed count: they still take memory.
    pages = sum(each.state is not State.CONNECTING for each in connection.server.handlers)
    return RequestContext(address, pages_open=pages)
