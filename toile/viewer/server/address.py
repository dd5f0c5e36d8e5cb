"""The address at which the viewer listens, and the name by which browsers reach it."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Sequence
from contextlib import suppress

from toile.errors import InputError
from toile.viewer.server.requests import LOOPBACK_NAMES

ANY_ADDRESS = ("0.0.0.0", "::")


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens at this address. Raises an InputError with the reason if that is impossible."""
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port}: must be between 0 and 65535; 0 takes any free port.")
    where = host or "0.0.0.0"
    try:
        family, *_, address = socket.getaddrinfo(where, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f'--host "{host}": no such host. Give an address of this machine, e.g. 127.0.0.1.') from error
    try:
        return socket.create_server(address[:2], family=family, backlog=64)
    except OSError as error:
        reason = {
            errno.EADDRINUSE: f"port {port} of {where} is taken. Give another one, or --port 0 for a free one.",
            errno.EADDRNOTAVAIL: f"{where} is not an address of this machine. Leave out --host to use 127.0.0.1.",
            errno.EACCES: f"port {port} is reserved for the system. Give one above 1023, or --port 0 for a free one.",
        }.get(error.errno or 0, f"cannot listen on {where}, port {port}: {error.strerror}.")
        raise InputError(reason) from error


def checked_names(names: Sequence[str]) -> list[str]:
    """Returns host names in lower case. Raises InputError if one is not a host name."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", name):
            raise InputError(f'"{name}" is not a host name. Give it without http:// and port, e.g. desk.example.org.')
    return [name.lower() for name in names]


def is_number(host: str) -> bool:
    """Whether the host is a numeric address, or empty."""
    with suppress(OSError):
        socket.getaddrinfo(host or "0.0.0.0", 0, flags=socket.AI_NUMERICHOST)
        return True
    return False


def shown_name(host: str, address: str, names: Sequence[str]) -> str:
    """Returns the host in the URL of the page: the first given name, or the address."""
    if names:
        return names[0]
    if address in ANY_ADDRESS:
        return own_address(socket.AF_INET6 if ":" in address else socket.AF_INET)
    return host or address


def own_address(family: socket.AddressFamily) -> str:
    """Returns the address from which the system would send data to the network. Nothing is sent."""
    documentation = "2001:db8::1" if family is socket.AF_INET6 else "192.0.2.1"
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((documentation, 9))
        return str(probe.getsockname()[0])
    return LOOPBACK_NAMES[1] if family is socket.AF_INET else "::1"
