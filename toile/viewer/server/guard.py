"""viser's server, guarded: who may connect, what may be said, how much and how fast.

viser is made for notebooks of one user. Its server checks neither Host nor Origin, takes 50 MB from anybody, obeys any
of its messages, moves to the next port when one is taken, and prints. Here it starts with three things replaced:

    the socket              bound here: a port that is taken is an error, and where it listens is known before it does
    the answer to requests  `guard_requests.Door`
    the connections         `guard_connection.GuardedConnection`, which looks at messages by `guard_messages.passed`

How: viser starts `websockets.asyncio.server.serve(handler, host, port, ...)` on a thread of its own, with no parameters
for any of this. While it starts, its module sees a `websockets` whose `serve` is ours. A subclass of its server would
have to copy the 200 lines around that call. That viser still makes this call is checked before, and that it came by
here is checked after: a viser that does otherwise is not started, rather than left unguarded.

Source      viser 1.1.1, infra/_infra.py `WebsockServer._background_worker`; websockets 16, asyncio/server.py
Deviations  none
"""

from __future__ import annotations

import errno
import functools
import inspect
import logging
import re
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from toile.errors import InputError

try:
    import msgspec
    import rich
    import viser
    import viser.infra._infra
    import websockets.asyncio.server
    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response
except ImportError as error:
    raise InputError('the viewer needs viser, which is not installed: pip install "toile[viewer]"') from error

from toile.viewer.server.connection import Gate, GuardedConnection, Limits, visit_of
from toile.viewer.server.messages import GuiButtonHoldMessage, GuiUpdateMessage, Updates, passed
from toile.viewer.server.requests import LOOPBACK_NAMES, Door, bracketed, is_loopback

if TYPE_CHECKING:
    from websockets.typing import LoggerLike

# A token that can be guessed is none. [characters]
SHORTEST_TOKEN = 16

ANY_ADDRESS = ("0.0.0.0", "::")

_starting = threading.Lock()

# viser's module that starts the server: what it calls `websockets` is replaced, which no type allows for.
_viser_infra: Any = viser.infra._infra


class Served:
    """A server that listens. `url` is what to open; it holds the token, if there is one."""

    def __init__(self, server: viser.ViserServer, url: str, gate: Gate):
        self.viser, self.url, self.gate = server, url, gate
        self._stopped = False

    def stop(self) -> None:
        """Close all pages and stop listening. Twice is as good as once."""
        if not self._stopped:
            self._stopped = True
            self.viser.stop()


def make_token() -> str:
    """A token that nobody guesses: 192 bits."""
    return secrets.token_urlsafe(24)


def serve(
    label: str,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    names: Sequence[str] = (),
    limits: Limits | None = None,
) -> Served:
    """Start viser's server behind the guard.

    host    loopback, or another address of this machine, which needs a token
    token   what a browser has to bring; `auto` makes one
    port    0 is any free one
    names   host names under which browsers reach this machine, when they do not use its address
    """
    limits = limits or Limits()
    token = make_token() if token == "auto" else token
    check_token(token)
    bound = listen(host, port)
    try:
        address, port = bound.getsockname()[:2]
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.underway)  # connections take it over
        if token is None and not is_loopback(address):
            raise InputError(
                f"--host {host} can be reached by others, so it needs a token: add --token auto, or --token with "
                f"{SHORTEST_TOKEN} characters or more."
            )
        names = [*checked_names(names), *([] if is_number(host) else checked_names([host]))]
        door = Door(client_page(), f"viser-v{viser.__version__}", port, tuple(names), token, limits.pages)
        gate = Gate(limits)
        with _starting, _guarded_start(bound, door, gate) as has_started:
            server = viser.ViserServer(host=address, port=port, label=label, verbose=False)
            if not has_started():
                server.stop()
                raise InputError(f"viser {viser.__version__} starts its server in another way. {_VERSION_ADVICE}")
    except BaseException:
        bound.close()
        raise
    gate.server = server
    _check_inside(gate)
    _disarm(server)
    door.open = True
    query = "" if token is None else "?" + urlencode({"token": token})
    return Served(server, f"http://{bracketed(shown_name(host, address, names))}:{port}/{query}", gate)


# --- where it listens ---


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there, or an error that tells why not."""
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port}: must be between 0 and 65535; 0 is any free one.")
    where = host or "0.0.0.0"
    try:
        family, *_, address = socket.getaddrinfo(where, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f'--host "{host}": no such host. Give an address of this machine, e.g. 127.0.0.1.') from error
    try:
        return socket.create_server(address[:2], family=family, backlog=64)
    except OSError as error:
        reason = {
            errno.EADDRINUSE: f"port {port} of {where} is taken. Give another one, or --port 0 for any that is free.",
            errno.EADDRNOTAVAIL: f"{where} is not an address of this machine. Leave out --host to use 127.0.0.1.",
            errno.EACCES: f"port {port} is kept for the system. Give one above 1023, or --port 0 for any that is free.",
        }.get(error.errno or 0, f"cannot listen on {where}, port {port}: {error.strerror}.")
        raise InputError(reason) from error


def check_token(token: str | None) -> None:
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isprintable() or not token.isascii()):
        raise InputError(
            f"--token: needs {SHORTEST_TOKEN} printable ASCII characters or more, or `auto`, which makes a good one."
        )


def checked_names(names: Sequence[str]) -> list[str]:
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", name):
            raise InputError(f'"{name}" is not a host name. Give it without http:// and port, e.g. desk.example.org.')
    return [name.lower() for name in names]


def is_number(host: str) -> bool:
    """Whether the host is an address already, or left open."""
    with suppress(OSError):
        socket.getaddrinfo(host or "0.0.0.0", 0, flags=socket.AI_NUMERICHOST)
        return True
    return False


def shown_name(host: str, address: str, names: Sequence[str]) -> str:
    """The name to open the page by: one that was given, else the address."""
    if names:
        return names[0]
    if address in ANY_ADDRESS:
        return own_address(socket.AF_INET6 if ":" in address else socket.AF_INET)
    return host or address


def own_address(family: socket.AddressFamily) -> str:
    """The address under which this machine goes out: where the system would send from. Nothing is sent."""
    documentation = "2001:db8::1" if family is socket.AF_INET6 else "192.0.2.1"
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((documentation, 9))
        return str(probe.getsockname()[0])
    return LOOPBACK_NAMES[1] if family is socket.AF_INET else "::1"


# --- viser, as far as it has to be known ---

_VERSION_ADVICE = 'Install the version that Toile was tested with: pip install "viser>=1.1.1,<1.2"'

_THE_CALL = "websockets.asyncio.server.serve("


def client_page() -> bytes:
    """viser's client: one HTML file with everything in it."""
    build = Path(viser.__file__).parent / "client" / "build"
    files = sorted(path.name for path in build.iterdir()) if build.is_dir() else []
    if files != ["index.html"]:
        raise InputError(f"viser {viser.__version__} has another client than one index.html. {_VERSION_ADVICE}")
    return (build / "index.html").read_bytes()


@contextmanager
def _guarded_start(bound: socket.socket, door: Door, gate: Gate) -> Iterator[Callable[[], bool]]:
    """While inside, a viser server that starts does so on `bound` and behind `door`. Yields: has it?"""
    worker = _viser_infra.WebsockServer._background_worker
    if _THE_CALL not in inspect.getsource(worker) or _viser_infra.websockets is not websockets:
        raise InputError(f"viser {viser.__version__} starts its server in another way. {_VERSION_ADVICE}")
    _silence_viser()
    started = False

    def answer(connection: ServerConnection, request: Request) -> Response | None:
        return door.answer(request, visit_of(connection))

    def guarded_serve(handler: Any, host: str, port: int, **settings: Any) -> websockets.asyncio.server.serve:
        nonlocal started
        started = True
        limits = gate.limits
        return websockets.asyncio.server.serve(
            handler,
            sock=bound,
            process_request=answer,
            select_subprotocol=settings["select_subprotocol"],
            create_connection=functools.partial(GuardedConnection, gate=gate),  # type: ignore[arg-type]
            compression=None,  # also: nothing that unpacks to more than was sent
            max_size=limits.message_bytes,
            write_limit=limits.unread,
            open_timeout=limits.opening,
            close_timeout=limits.closing,
            ping_interval=limits.ping_interval,
            ping_timeout=limits.ping_timeout,
            server_header=None,
            logger=_quiet_logger(),
        )

    _viser_infra.websockets = _Instead(websockets, asyncio=_Instead(websockets.asyncio, server=_Instead(
        websockets.asyncio.server, serve=guarded_serve
    )))  # fmt: skip
    try:
        yield lambda: started
    finally:
        _viser_infra.websockets = websockets


class _Instead:
    """A module with some of its names replaced."""

    def __init__(self, module: Any, **replaced: Any):
        self._module = module
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _check_inside(gate: Gate) -> None:
    """Once through what judges messages: a viser that keeps its elements elsewhere would make every page fail."""
    button = gate.viser.gui.add_button("")
    uuid = button._impl.uuid
    messages = (GuiUpdateMessage(uuid, Updates(True)), GuiButtonHoldMessage(uuid, 1.0))
    try:
        works = all(passed(msgspec.msgpack.encode(message), gate.viser) for message in messages)
        works = works and gate.callbacks_waiting() == 0 and "" not in gate.viser.scene._handle_from_node_name
    except AttributeError:
        works = False
    button.remove()
    if not works:
        gate.viser.stop()
        raise InputError(f"viser {viser.__version__} keeps its elements in another way. {_VERSION_ADVICE}")


def _disarm(server: viser.ViserServer) -> None:
    """What no message may start, once more: no message of that kind passes, and if one did nothing would hear it."""
    from viser import _messages

    for kind in (
        _messages.ShareUrlRequest,
        _messages.ShareUrlDisconnect,
        _messages.FileTransferStartUpload,
        _messages.FileTransferPart,
    ):
        server._websock_server._incoming_handlers.pop(kind, None)
    # And no button offers it, whoever sets the theme later.
    themed = functools.partial(server.gui.configure_theme, show_share_button=False)
    server.gui.configure_theme = themed  # type: ignore[method-assign]
    themed()


def _quiet_logger() -> LoggerLike:
    """What strangers send is no news for the terminal: only who asks for this logger hears of it."""
    logger = logging.getLogger("toile.viewer.server.connections")  # not the viewer's own: its faults are to be seen
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def _silence_viser() -> None:
    """viser prints by `rich.print`, also when told to be quiet. The command line says itself what there is to say."""
    if getattr(rich.print, "without_viser", False):
        return
    printing = rich.print

    @functools.wraps(printing)
    def quieter(*objects: Any, **settings: Any) -> None:
        if not sys._getframe(1).f_globals.get("__name__", "").startswith("viser."):
            printing(*objects, **settings)

    quieter.without_viser = True  # type: ignore[attr-defined]
    rich.print = quieter
