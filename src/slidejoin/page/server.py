"""The server of the live page: answers GET on loopback with the page, its data, and metrics; nothing else.

Requests must name a loopback host, or a page of another site could read the data through a name that it lets
point to this machine. Connections are few, and each ends after a few seconds, however slow the other end is.
"""

import ipaddress
import json
import re
import socket
import socketserver
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from slidejoin.errors import SpecError, UsageError
from slidejoin.log import LOGGER
from slidejoin.metrics import content_type
from slidejoin.page.feed import Feed, Point

HISTORY = 300  # points that a new reader gets
EVERY_SECONDS = 1.0  # between two points
CONNECTIONS = 16  # at a time
DEADLINE_SECONDS = 5.0  # of a connection
_LINGER_SECONDS = 2.5  # that a page has to fetch the end

_STATIC = Path(__file__).parent / "static"
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class PageServer:
    """A running live page.

    Attributes
    ----------
    url : str
        Where the page is.

    Notes
    -----
    :meth:`close` stops it, as does the end of a ``with`` block. Pages that are open keep their plots.
    """

    def __init__(self, feed: Feed, host: str, port: int) -> None:
        address = _loopback(host)
        if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port < 2**16:
            raise SpecError(f"port={port!r}; expected a number from 0 (any that is free) to 65535")
        self._feed = feed
        self._points: deque[tuple[int, Point]] = deque(maxlen=HISTORY)
        self._count = 0
        self._taking = threading.Lock()
        self._over = threading.Event()
        self._read_at, self._ended_read = -1e9, threading.Event()
        try:
            self._server = _Server(address, port, self._answer)
        except OSError as error:
            raise UsageError(
                f"port {port} of {host} cannot be used ({error.strerror}); give another one, or port=0 for "
                "one that is free"
            ) from error
        self.port: int = self._server.server_address[1]
        self.url = f"http://{f'[{address}]' if ':' in address else address}:{self.port}/"
        self._threads = [
            threading.Thread(target=target, name=f"slidejoin page, {name}", daemon=True)
            for name, target in (("points", self._collect), ("server", self._server.serve))
        ]
        for thread in self._threads:
            thread.start()

    def close(self, linger: bool = False) -> None:
        """Stop serving, and end all connections. Can be called twice.

        Parameters
        ----------
        linger : bool
            If a page is open, let it read the last figures first, for some seconds at most.
        """
        if linger and not self._over.is_set() and time.monotonic() - self._read_at < 3 * EVERY_SECONDS:
            self._ended_read.clear()
            self._ended_read.wait(_LINGER_SECONDS)
        self._over.set()
        self._server.stop()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> "PageServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<live page at {self.url}{', closed' * self._over.is_set()}>"

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank" rel="noreferrer">{self.url}</a>'

    def _collect(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            self._take()

    def _take(self) -> None:
        with self._taking:
            try:
                points = self._feed.points()
            except Exception:
                LOGGER.exception("the live page has no new figures")
                return
            for point in points:
                self._count += 1
                self._points.append((self._count, point))

    def _answer(self, path: str, query: str, accepted: str) -> tuple[str, bytes] | None:
        """The type and the content of a page; None if there is no such page."""
        if path in _FILES:
            name, type_ = _FILES[path]
            return type_, (_STATIC / name).read_bytes()
        if path == "/data":
            return "application/json", json.dumps(self._data(query), allow_nan=False).encode()
        if path == "/metrics":
            format_ = "openmetrics" if "application/openmetrics-text" in accepted else "prometheus"
            return content_type(format_), self._feed.metrics(format_).encode()
        return None

    def _data(self, query: str) -> dict[str, Any]:
        text = parse_qs(query, max_num_fields=4).get("after", ["0"])[0]
        after = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
        described = self._feed.describe()
        if described["state"] in ("ended", "failed"):
            self._take()  # the last point, if it was not taken yet
            self._ended_read.set()
        self._read_at = time.monotonic()
        points = list(self._points)
        return {
            **described,
            "now": time.time(),
            "every": EVERY_SECONDS,
            "last": points[-1][0] if points else 0,
            "fields": Point._fields,
            "points": [point for number, point in points if number > after],
        }


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Takes connections: a few at a time, none for long."""

    allow_reuse_address = True
    request_queue_size = CONNECTIONS

    def __init__(
        self, address: str, port: int, answer: Callable[[str, str, str], tuple[str, bytes] | None]
    ) -> None:
        self.answer = answer
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._open: dict[socket.socket, float] = {}  # until when
        self._lock = threading.Lock()
        self._workers: set[threading.Thread] = set()
        super().__init__((address, port), _Handler)

    def serve(self) -> None:
        """Answer until :meth:`stop` is called."""
        self.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """End all connections, and wait for their threads. Can be called twice."""
        self.shutdown()
        self.server_close()
        self._end(lambda _: True)
        for worker in list(self._workers):
            worker.join()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            is_full = len(self._open) >= CONNECTIONS
            if not is_full:
                self._open[request] = time.monotonic() + DEADLINE_SECONDS
        if is_full:
            self.shutdown_request(request)
            return
        worker = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="slidejoin page, request",
            daemon=True,
        )
        self._workers.add(worker)
        worker.start()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._workers.discard(threading.current_thread())

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
            super().shutdown_request(request)

    def service_actions(self) -> None:
        now = time.monotonic()
        self._end(lambda until: until < now)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        LOGGER.debug("a connection of the live page broke", exc_info=True)

    def _end(self, is_due: Callable[[float], bool]) -> None:
        with self._lock:  # a socket is not closed meanwhile, so its number is not another one's
            for connection, until in self._open.items():
                if is_due(until):
                    try:
                        connection.shutdown(socket.SHUT_RDWR)
                    except OSError:  # the other end has left
                        continue


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Server
    timeout = DEADLINE_SECONDS

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not _is_ours(hosts[0]):
            self.send_error(
                403, f"this page is for 127.0.0.1 and localhost, not for {', '.join(hosts) or 'no host'}"
            )
            return
        parts = urlsplit(self.path)
        answer = self.server.answer(parts.path, parts.query, self.headers.get("Accept", ""))
        if answer is None:
            self.send_error(
                404, "there is no such page; / has the join, /data its figures, /metrics its metrics"
            )
            return
        self._send(200, *answer)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # another method
            return lambda: self.send_error(405, "only GET is answered")
        raise AttributeError(name)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        text = (message or "the request cannot be read").encode("ascii", "backslashreplace")
        self._send(code, "text/plain; charset=utf-8", text + b"\n")

    def _send(self, code: int, type_: str, content: bytes) -> None:
        self.close_connection = True
        self.send_response(code)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if code == 405:
            self.send_header("Allow", "GET")
        self.send_header("Content-Type", type_)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        return "slidejoin"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        LOGGER.debug("live page: " + format, *args)


def _loopback(host: str) -> str:
    """The address of a loopback host; SpecError for another one."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        raise SpecError(
            f"host={host!r} is not on loopback; the page is for this machine: '127.0.0.1', '::1' or "
            "'localhost'. To read it elsewhere, use a tunnel: ssh -L 8000:127.0.0.1:PORT MACHINE"
        )
    return str(address)


def _is_ours(host: str) -> bool:
    """Whether a Host header names loopback; the port may be that of a tunnel."""
    found = re.fullmatch(r"(localhost|[0-9.]+|\[[0-9a-f:]+\])(:[0-9]+)?", host.lower())
    if found is None:
        return False
    name = found[1].strip("[]")
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
