"""viser's server with access control, message validation and rate limits.

viser is made for notebooks of one user. Its server checks neither Host nor Origin, accepts 50 MB from anybody, executes
any of its messages, moves to the next port if one is taken, and prints. Here it starts with three replacements:

    socket        bound here: a port that is taken is an error, and the address is known before the server starts
    requests      decided by `requests.RequestPolicy`
    connections   of the class `connection.GuardedConnection`, which validates messages by `messages.sanitized`

viser calls `websockets.asyncio.server.serve(handler, host, port, ...)` on a thread of its own, and has no parameters
for any of this. While it starts, its module sees a `websockets` whose `serve` is ours. A subclass of its server would
have to copy the 200 lines around that call. Before the start, viser's source is checked for this call, and after it,
whether the call came here: a viser that starts in another way is stopped rather than left unguarded.

Source      viser 1.1.1, infra/_infra.py `WebsockServer._background_worker`; websockets 16, asyncio/server.py
Deviations  none
"""

from __future__ import annotations

import functools
import inspect
import logging
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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

from toile.viewer.server.address import checked_names, is_number, listen, shown_name
from toile.viewer.server.connection import GuardedConnection, GuardState, Limits, context_of
from toile.viewer.server.messages import GuiButtonHoldMessage, GuiUpdateMessage, Updates, sanitized
from toile.viewer.server.requests import RequestPolicy, bracketed, is_loopback

if TYPE_CHECKING:
    from websockets.typing import LoggerLike

# A shorter token could be guessed. [characters]
MIN_TOKEN_LENGTH = 16

_starting = threading.Lock()

# viser's module that starts the server. Its name `websockets` is replaced, which its type does not allow.
_viser_infra: Any = viser.infra._infra


class GuardedServer:
    """A running server. `url` opens the page; it contains the token, if there is one."""

    def __init__(self, server: viser.ViserServer, url: str, guard: GuardState):
        self.viser, self.url, self.guard = server, url, guard
        self._stopped = False

    def stop(self) -> None:
        """Closes all pages and stops listening. A second call does nothing."""
        if not self._stopped:
            self._stopped = True
            self.viser.stop()


def make_token() -> str:
    """Returns a random token of 192 bits."""
    return secrets.token_urlsafe(24)


def check_token(token: str | None) -> None:
    if token is not None and (len(token) < MIN_TOKEN_LENGTH or not token.isprintable() or not token.isascii()):
        raise InputError(
            f"--token: needs {MIN_TOKEN_LENGTH} printable ASCII characters or more, or `auto`, which makes a good one."
        )


def serve(
    label: str,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    names: Sequence[str] = (),
    limits: Limits | None = None,
) -> GuardedServer:
    """Starts viser's server behind the guard.

    host    loopback, or another address of this machine, which needs a token
    token   secret that a browser must send; `auto` makes one
    port    0 takes any free port
    names   host names by which browsers reach this machine, if they do not use its address
    """
    limits = limits or Limits()
    token = make_token() if token == "auto" else token
    check_token(token)
    bound = listen(host, port)
    try:
        address, port = bound.getsockname()[:2]
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.underway)  # connections inherit it
        if token is None and not is_loopback(address):
            raise InputError(
                f"--host {host} can be reached from other machines, so it needs a token: add --token auto, or --token "
                f"with {MIN_TOKEN_LENGTH} characters or more."
            )
        names = [*checked_names(names), *([] if is_number(host) else checked_names([host]))]
        policy = RequestPolicy(client_page(), f"viser-v{viser.__version__}", port, tuple(names), token, limits.pages)
        guard = GuardState(limits)
        with _starting, _guarded_start(bound, policy, guard) as has_started:
            server = viser.ViserServer(host=address, port=port, label=label, verbose=False)
            if not has_started():
                server.stop()
                raise InputError(f"viser {viser.__version__} starts its server in another way. {_VERSION_ADVICE}")
    except BaseException:
        bound.close()
        raise
    guard.server = server
    _check_validation(guard)
    _disable_sharing_and_uploads(server)
    policy.open = True
    query = "" if token is None else "?" + urlencode({"token": token})
    return GuardedServer(server, f"http://{bracketed(shown_name(host, address, names))}:{port}/{query}", guard)


# --- code that depends on the inside of viser ---

_VERSION_ADVICE = 'Install the version that Toile was tested with: pip install "viser>=1.1.1,<1.2"'

_THE_CALL = "websockets.asyncio.server.serve("


def client_page() -> bytes:
    """Returns viser's client, one HTML file that contains everything."""
    build = Path(viser.__file__).parent / "client" / "build"
    files = sorted(path.name for path in build.iterdir()) if build.is_dir() else []
    if files != ["index.html"]:
        raise InputError(f"the client of viser {viser.__version__} is not one index.html. {_VERSION_ADVICE}")
    return (build / "index.html").read_bytes()


@contextmanager
def _guarded_start(bound: socket.socket, policy: RequestPolicy, guard: GuardState) -> Iterator[Callable[[], bool]]:
    """Within the block, a viser server starts on `bound` with `policy`. Yields a function: whether one has started."""
    worker = _viser_infra.WebsockServer._background_worker
    if _THE_CALL not in inspect.getsource(worker) or _viser_infra.websockets is not websockets:
        raise InputError(f"viser {viser.__version__} starts its server in another way. {_VERSION_ADVICE}")
    _silence_viser()
    started = False

    def respond(connection: ServerConnection, request: Request) -> Response | None:
        return policy.respond(request, context_of(connection))

    def guarded_serve(handler: Any, host: str, port: int, **settings: Any) -> websockets.asyncio.server.serve:
        nonlocal started
        started = True
        limits = guard.limits
        return websockets.asyncio.server.serve(
            handler,
            sock=bound,
            process_request=respond,
            select_subprotocol=settings["select_subprotocol"],
            create_connection=functools.partial(GuardedConnection, guard=guard),  # type: ignore[arg-type]
            compression=None,  # so that no message unpacks to more than was sent
            max_size=limits.message_bytes,
            write_limit=limits.unread,
            open_timeout=limits.opening,
            close_timeout=limits.closing,
            ping_interval=limits.ping_interval,
            ping_timeout=limits.ping_timeout,
            server_header=None,
            logger=_quiet_logger(),
        )

    server = _PatchedModule(websockets.asyncio.server, serve=guarded_serve)
    _viser_infra.websockets = _PatchedModule(websockets, asyncio=_PatchedModule(websockets.asyncio, server=server))
    try:
        yield lambda: started
    finally:
        _viser_infra.websockets = websockets


class _PatchedModule:
    """A module with some of its names replaced."""

    def __init__(self, module: Any, **replaced: Any):
        self._module = module
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _check_validation(guard: GuardState) -> None:
    """Validates two messages as a test: if viser stored its elements elsewhere, every page would fail."""
    button = guard.viser.gui.add_button("")
    uuid = button._impl.uuid
    messages = (GuiUpdateMessage(uuid, Updates(True)), GuiButtonHoldMessage(uuid, 1.0))
    try:
        works = all(sanitized(msgspec.msgpack.encode(message), guard.viser) for message in messages)
        works = works and guard.callbacks_waiting() == 0 and "" not in guard.viser.scene._handle_from_node_name
    except AttributeError:
        works = False
    button.remove()
    if not works:
        guard.viser.stop()
        raise InputError(f"viser {viser.__version__} stores its elements in another way. {_VERSION_ADVICE}")


def _disable_sharing_and_uploads(server: viser.ViserServer) -> None:
    """Removes the handlers of these messages, as a second barrier: validation does not accept them either."""
    from viser import _messages

    for kind in (
        _messages.ShareUrlRequest,
        _messages.ShareUrlDisconnect,
        _messages.FileTransferStartUpload,
        _messages.FileTransferPart,
    ):
        server._websock_server._incoming_handlers.pop(kind, None)
    # The share button stays hidden whenever the theme is set.
    themed = functools.partial(server.gui.configure_theme, show_share_button=False)
    server.gui.configure_theme = themed  # type: ignore[method-assign]
    themed()


def _quiet_logger() -> LoggerLike:
    """Returns a logger that prints nothing, because anybody can send bad messages; handlers may be added to it."""
    logger = logging.getLogger("toile.viewer.server.connections")  # separate from the viewer's own errors, which print
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def _silence_viser() -> None:
    """Suppresses viser's output, which it prints by `rich.print` even if it is not verbose."""
    if getattr(rich.print, "without_viser", False):
        return
    original = rich.print

    @functools.wraps(original)
    def filtered(*objects: Any, **settings: Any) -> None:
        if not sys._getframe(1).f_globals.get("__name__", "").startswith("viser."):
            original(*objects, **settings)

    filtered.without_viser = True  # type: ignore[attr-defined]
    rich.print = filtered
