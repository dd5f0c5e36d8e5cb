"""Access control for HTTP requests: every request is checked before anything is sent.

    a page that was opened here      accepted: Host is a name of this server, Origin is this page, the cookie is there
    a page from elsewhere            refused: its Origin is another one (browsers always send it)
    DNS rebinding                    refused: Host is the attacker's name, which is none of ours

Only `/` exists, and its content is in memory, so no path reaches the disk. Nothing after a `?` is accepted but the
token, because viser's client would connect elsewhere for `?websocket=...`.

Source      RFC 6455 sec. 10.2 (Origin), RFC 6265bis (SameSite), CSP level 3
Deviations  none
"""

from __future__ import annotations

import gzip
import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qs

from websockets.datastructures import Headers
from websockets.http11 import Request, Response

# The names by which a machine reaches itself
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

# Nothing is loaded from outside. The client is one file that contains its script, style, fonts and wasm, and a worker
# is a blob. Its loader needs 'unsafe-inline', and the bindings of the wasm need 'unsafe-eval'. The page can connect to
# this server only.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "media-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "connect-src 'self' ws://{authority} data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

SAFETY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
    "Connection": "close",
}


@dataclass(frozen=True)
class RequestContext:
    """Facts about a request that its text does not contain."""

    local_address: str  # the address of this machine at which it arrived
    pages_open: int  # current number of websockets


@dataclass
class RequestPolicy:
    """Decides on requests."""

    page: bytes  # viser's client, one HTML file
    subprotocol: str  # of that client; it contains its version
    port: int
    names: tuple[str, ...]  # host names given by the user, lower case
    token: str | None
    max_pages: int
    open: bool = False  # all requests are refused until the scene is ready
    # Value of the cookie. It is not the token, because browsers send cookies to every port of a host.
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def __post_init__(self) -> None:
        self._zipped = gzip.compress(self.page, mtime=0)

    def respond(self, request: Request, context: RequestContext) -> Response | None:
        """Returns the response to a request, or None to accept a websocket."""
        hosts = request.headers.get_all("Host")
        authority = hosts[0] if len(hosts) == 1 else ""
        if authority.lower() not in self.authorities(context.local_address):
            return refuse(HTTPStatus.MISDIRECTED_REQUEST, "This server has no such name.")
        origins = request.headers.get_all("Origin")
        foreign = any(origin.lower() != f"http://{authority.lower()}" for origin in origins)
        if foreign or len(origins) > 1:
            return refuse(HTTPStatus.FORBIDDEN, "Pages from other origins may not connect.")
        if not self.open:
            return refuse(HTTPStatus.SERVICE_UNAVAILABLE, "The server is starting. Try again in a moment.")

        path, question_mark, query = request.path.partition("?")
        if path != "/":
            return refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
        upgrade = "Upgrade" in request.headers
        if question_mark:
            return refuse(HTTPStatus.BAD_REQUEST, "Options are not allowed.") if upgrade else self._exchange(query)
        if not self._has_cookie(request):
            return refuse(HTTPStatus.FORBIDDEN, "Open the complete address that `toile view` printed, with its token.")
        if upgrade:
            return self._admit(request, context, origins)
        return self._send_page(request, authority)

    def authorities(self, local_address: str) -> set[str]:
        """Returns the allowed values of Host for an address of this machine: its names and itself, with the port.

        The address at which the connection really arrived is allowed as a number: no DNS is involved, so nobody can
        spoof it.
        """
        names = [*self.names, bracketed(local_address)]
        if is_loopback(local_address):
            names += LOOPBACK_NAMES
        # Browsers leave out port 80.
        return {f"{name}:{self.port}" for name in names} | (set(names) if self.port == 80 else set())

    def _exchange(self, query: str) -> Response:
        """Exchanges the token for a cookie, so that it is in no address bar, bookmark, history or Referer."""
        try:
            given = parse_qs(query, strict_parsing=True, max_num_fields=4, errors="strict")
        except ValueError:
            given = {}
        tokens = given.pop("token", [])
        if given or len(tokens) != 1 or self.token is None:
            return refuse(HTTPStatus.BAD_REQUEST, "Options are not allowed, except the token if there is one.")
        if not hmac.compare_digest(tokens[0].encode(), self.token.encode()):
            return refuse(HTTPStatus.FORBIDDEN, "This is not the token that `toile view` printed.")
        cookie = f"{self._cookie_name}={self.cookie}; Path=/; HttpOnly; SameSite=Lax"
        return response(HTTPStatus.SEE_OTHER, b"", {"Location": "/", "Set-Cookie": cookie})

    @property
    def _cookie_name(self) -> str:
        return f"toile_{self.port}"  # cookies are shared by all ports: two servers would overwrite each other's

    def _has_cookie(self, request: Request) -> bool:
        if self.token is None:
            return True
        pairs = "; ".join(request.headers.get_all("Cookie")).split("; ")
        values = [value for name, _, value in (pair.partition("=") for pair in pairs) if name == self._cookie_name]
        return any(hmac.compare_digest(value.encode(errors="replace"), self.cookie.encode()) for value in values)

    def _admit(self, request: Request, context: RequestContext, origins: list[str]) -> Response | None:
        if not origins:
            return refuse(HTTPStatus.FORBIDDEN, "Only pages may connect: there is no Origin.")
        if request.headers.get_all("Sec-WebSocket-Protocol") != [self.subprotocol]:
            return refuse(HTTPStatus.BAD_REQUEST, "The page has another version. Load it again.")
        if context.pages_open >= self.max_pages:
            return refuse(HTTPStatus.SERVICE_UNAVAILABLE, f"{self.max_pages} pages are already open. Close one.")
        return None

    def _send_page(self, request: Request, authority: str) -> Response:
        zipped = any("gzip" in value.lower() for value in request.headers.get_all("Accept-Encoding"))
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": CONTENT_SECURITY_POLICY.format(authority=authority),
            "Vary": "Accept-Encoding",
        }
        if zipped:
            headers["Content-Encoding"] = "gzip"
        return response(HTTPStatus.OK, self._zipped if zipped else self.page, headers)


def refuse(status: HTTPStatus, reason: str) -> Response:
    headers = {"Content-Type": "text/plain; charset=utf-8", "Content-Security-Policy": "default-src 'none'"}
    return response(status, f"{reason}\n".encode(), headers)


def response(status: HTTPStatus, body: bytes, headers: dict[str, str]) -> Response:
    everything = {**SAFETY_HEADERS, **headers, "Content-Length": str(len(body))}
    return Response(status.value, status.phrase, Headers(everything), body)


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def bracketed(host: str) -> str:
    """Returns a host as it is written in a URL: IPv6 numbers in brackets."""
    return f"[{host}]" if ":" in host else host
