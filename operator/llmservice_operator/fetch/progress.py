"""``GET /progress``: how far the copy is, for the operator's status."""

from __future__ import annotations

import json
import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from llmservice_operator.fetch.transfer import Tally

logger = logging.getLogger(__name__)


def serve(tally: Tally, port: int) -> ThreadingHTTPServer | None:
    """In a thread that ends with the process. None where the port is taken: the copy goes on without."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 5  # seconds that a silent client may hold a thread

        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/progress"
            body = (
                json.dumps({"bytesDone": tally.done, "bytesTotal": tally.total}).encode() if found else b"{}"
            )
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing: it is asked every few seconds."""

    try:
        server = _Server(("", port), Handler)
    except OSError as error:
        logger.warning("no progress is served: port %d: %s", port, error.strerror)
        return None
    threading.Thread(target=server.serve_forever, args=(0.1,), name="progress", daemon=True).start()
    return server


class _Server(ThreadingHTTPServer):
    """On IPv4 and IPv6 where the machine has both."""

    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    allow_reuse_address = True

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()
