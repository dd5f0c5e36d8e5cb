"""Who may connect: every request is judged before anything is sent.

    a page that was opened here      Host is a name of this server, Origin is this page, the cookie is there
    a page of somebody else          its Origin is another one (a browser always tells)
    a name that was bent to this     DNS rebinding: Host is the attacker's name, which is none of ours
    machine

Only `/` exists, and what it answers is in memory, so no path reaches the disk. Nothing after a `?` is accepted but the
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

# The names under which a machine reaches itself.
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

# Nothing from outside. The client is one file: its script, style, fonts and wasm are inside it, and a worker is a blob.
# 'unsafe-inline', because a loader makes the script that runs; 'unsafe-eval', because what binds the wasm does. It can
# still talk to nobody but this server.
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
class Visit:
    """What is known of a request besides its text."""

    local_address: str  # the address of this machine that it came to
    pages_open: int  # websockets that are there now


@dataclass
class Door:
    """Judges requests: a `Response` is the answer, None lets the websocket begin."""

    page: bytes  # viser's client, one HTML file
    subprotocol: str  # what that client asks for: it names its version
    port: int
    names: tuple[str, ...]  # host names given by the user, lower case
    token: str | None
    max_pages: int
    open: bool = False  # refuses everybody until the scene is there
    # What the cookie holds. Not the token: browsers send cookies to every port of a host.
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def __post_init__(self) -> None:
        self._zipped = gzip.compress(self.page, mtime=0)

    def answer(self, request: Request, visit: Visit) -> Response | None:
        hosts = request.headers.get_all("Host")
        authority = hosts[0] if len(hosts) == 1 else ""
        if authority.lower() not in self.authorities(visit.local_address):
            return refuse(HTTPStatus.MISDIRECTED_REQUEST, "This server is not known by that name.")
        origins = request.headers.get_all("Origin")
        foreign = any(origin.lower() != f"http://{authority.lower()}" for origin in origins)
        if foreign or len(origins) > 1:
            return refuse(HTTPStatus.FORBIDDEN, "Pages of other origins may not connect.")
        if not self.open:
            return refuse(HTTPStatus.SERVICE_UNAVAILABLE, "Starting. Try again in a moment.")

        path, question_mark, query = request.path.partition("?")
        if path != "/":
            return refuse(HTTPStatus.NOT_FOUND, "There is nothing here.")
        upgrade = "Upgrade" in request.headers
        if question_mark:
            return refuse(HTTPStatus.BAD_REQUEST, "No options here.") if upgrade else self._exchange(query)
        if not self._has_cookie(request):
            return refuse(HTTPStatus.FORBIDDEN, "Open the whole address that `toile view` printed, with its token.")
        if upgrade:
            return self._admit(request, visit, origins)
        return self._send_page(request, authority)

    def authorities(self, local_address: str) -> set[str]:
        """What a browser that came to this address writes as Host: the names and the address, with the port.

        The address that the connection really came to may be named by number: no DNS is involved in it, so none can be
        bent.
        """
        names = [*self.names, bracketed(local_address)]
        if is_loopback(local_address):
            names += LOOPBACK_NAMES
        # Browsers leave out port 80.
        return {f"{name}:{self.port}" for name in names} | (set(names) if self.port == 80 else set())

    def _exchange(self, query: str) -> Response:
        """The token once, for a cookie: it leaves the address bar, and is in no bookmark, history or Referer."""
        try:
            given = parse_qs(query, strict_parsing=True, max_num_fields=4, errors="strict")
        except ValueError:
            given = {}
        tokens = given.pop("token", [])
        if given or len(tokens) != 1 or self.token is None:
            return refuse(HTTPStatus.BAD_REQUEST, "No options here, except the token where one was set.")
        if not hmac.compare_digest(tokens[0].encode(), self.token.encode()):
            return refuse(HTTPStatus.FORBIDDEN, "That is not the token that `toile view` printed.")
        cookie = f"{self._cookie_name}={self.cookie}; Path=/; HttpOnly; SameSite=Lax"
        return respond(HTTPStatus.SEE_OTHER, b"", {"Location": "/", "Set-Cookie": cookie})

    @property
    def _cookie_name(self) -> str:
        return f"toile_{self.port}"  # cookies know no ports: two servers would take each other's away

    def _has_cookie(self, request: Request) -> bool:
        if self.token is None:
            return True
        pairs = "; ".join(request.headers.get_all("Cookie")).split("; ")
        values = [value for name, _, value in (pair.partition("=") for pair in pairs) if name == self._cookie_name]
        return any(hmac.compare_digest(value.encode(errors="replace"), self.cookie.encode()) for value in values)

    def _admit(self, request: Request, visit: Visit, origins: list[str]) -> Response | None:
        if not origins:
            return refuse(HTTPStatus.FORBIDDEN, "Only pages may connect: there is no Origin.")
        if request.headers.get_all("Sec-WebSocket-Protocol") != [self.subprotocol]:
            return refuse(HTTPStatus.BAD_REQUEST, "The page is of another version. Load it again.")
        if visit.pages_open >= self.max_pages:
            return refuse(HTTPStatus.SERVICE_UNAVAILABLE, f"{self.max_pages} pages are open already. Close one.")
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
        return respond(HTTPStatus.OK, self._zipped if zipped else self.page, headers)


def refuse(status: HTTPStatus, why: str) -> Response:
    headers = {"Content-Type": "text/plain; charset=utf-8", "Content-Security-Policy": "default-src 'none'"}
    return respond(status, f"{why}\n".encode(), headers)


def respond(status: HTTPStatus, body: bytes, headers: dict[str, str]) -> Response:
    everything = {**SAFETY_HEADERS, **headers, "Content-Length": str(len(body))}
    return Response(status.value, status.phrase, Headers(everything), body)


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def bracketed(host: str) -> str:
    """A host as it stands in an address: IPv6 numbers in brackets."""
    return f"[{host}]" if ":" in host else host
