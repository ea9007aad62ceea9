"""A server that speaks the hub's protocol, with what goes wrong on real ones."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "c0ffee" + "0" * 34
Fault = Callable[["Request"], None]


@dataclass
class Repo:
    files: dict[str, bytes]
    commit: str = COMMIT
    lfs: set[str] = field(default_factory=set)  # the names that are large files
    safetensors: dict[str, Any] | None = None
    gated: bool = False
    private: bool = False
    metadata: bool = True  # whether the listing has sizes and hashes; some mirrors have none


class Hub:
    """``requests`` are (method, path); ``served`` counts the bytes of each file's content that were sent."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.repos: dict[str, Repo] = {}
        self.tokens: set[str] = set()
        self.requests: list[tuple[str, str]] = []
        self.served: Counter[str] = Counter()
        self.fault: Fault | None = None  # asked before each answer
        self.cut: dict[str, list[float]] = {}  # of a file: after which share the next connections end
        self.delay = 0.0  # seconds for each block of content
        self.wrong: dict[str, int] = {}  # of a file: how many times its content is wrong
        self.ranges = True
        self.cdn: Hub | None = None  # large files are redirected to it, as the hub does
        outer = self

        class Handler(Request):
            hub = outer

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://{host}:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def etag(repo: Repo, path: str) -> str:
    content = repo.files[path]
    return hashlib.sha256(content).hexdigest() if path in repo.lfs else git_sha1(content)


class Request(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        self.hub.requests.append((self.command, path))
        if self.hub.fault:
            self.hub.fault(self)
            if self.close_connection:
                return
        if found := re.fullmatch(r"/api/models/(.+?)(?:/revision/(.+))?", path):
            self._model(found[1], found[2])
        elif found := re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", path):
            self._file(found[1], found[2], found[3])
        else:
            self.refuse(404, "EntryNotFound")

    def refuse(self, status: int, code: str = "", message: str = "", **headers: str) -> None:
        self.close_connection = True
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        if message:
            self.send_header("X-Error-Message", message)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", "2")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"{}")

    def _allowed(self, name: str, *, content: bool) -> Repo | None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in self.hub.tokens:
            self.refuse(401, message="Invalid credentials in Authorization header")
            return None
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and not token):
            self.refuse(404 if token else 401, "RepoNotFound", "Invalid username or password.")
            return None
        if content and repo.gated and token != "hf_accepted":
            self.refuse(403 if token else 401, "GatedRepo", "Access is restricted")
            return None
        return repo

    def _model(self, name: str, revision: str | None) -> None:
        if (repo := self._allowed(name, content=False)) is None:
            return None
        if revision not in (None, "main", repo.commit):
            return self.refuse(404, "RevisionNotFound")
        siblings = []
        for path, content in repo.files.items():
            entry: dict[str, Any] = {"rfilename": path}
            if repo.metadata:
                entry |= {"size": len(content), "blobId": git_sha1(content)}
                if path in repo.lfs:
                    entry["lfs"] = {"sha256": etag(repo, path), "size": len(content), "pointerSize": 134}
            siblings.append(entry)
        body: dict[str, Any] = {"id": name, "sha": repo.commit, "siblings": siblings}
        body |= {"gated": "manual" if repo.gated else False, "private": repo.private}
        if repo.safetensors:
            body["safetensors"] = repo.safetensors
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        return None

    def _file(self, name: str, revision: str, path: str) -> None:
        if (repo := self._allowed(name, content=True)) is None:
            return None
        if revision not in ("main", repo.commit):
            return self.refuse(404, "RevisionNotFound")
        if path not in repo.files:
            return self.refuse(404, "EntryNotFound")
        if self.hub.cdn and path in repo.lfs and self.command == "GET":
            where = f"{self.hub.cdn.url}/{name}/resolve/{revision}/{path}?X-Amz-Signature=SIGNEDMARKER"
            return self.refuse(302, Location=where)
        content = repo.files[path]
        if self.hub.wrong.get(path, 0) > 0 and self.command == "GET":
            self.hub.wrong[path] -= 1
            content = bytes(len(content))
        start, end = 0, len(content)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted and self.hub.ranges:
            start, end = int(wanted[1]), int(wanted[2] or end - 1) + 1
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("ETag", f'"{etag(repo, path)}"')
        self.send_header("X-Repo-Commit", repo.commit)
        if path in repo.lfs:
            self.send_header("X-Linked-Etag", f'"{etag(repo, path)}"')
            self.send_header("X-Linked-Size", str(len(content)))
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if self.command == "GET":
            self._send(path, content[start:end], len(content))
        return None

    def _send(self, path: str, content: bytes, size: int) -> None:
        cuts = self.hub.cut.get(path)
        limit = int(size * cuts.pop(0)) if cuts else len(content)
        sent = 0
        while sent < min(limit, len(content)):
            block = content[sent : min(sent + 65536, limit)]
            try:
                self.wfile.write(block)
            except OSError:
                break
            sent += len(block)
            self.hub.served[path] += len(block)
            time.sleep(self.hub.delay)
        if sent < len(content):
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Nothing."""
