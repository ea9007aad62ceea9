"""The API server as its admin sees it, cheaply: the benchmark shares the machine with what it measures."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

Body = dict[str, Any]

SERVICES = "/apis/serving.llmservice.dev/v1alpha1{}/llmservices"
DEPLOYMENTS = "/apis/apps/v1{}/deployments"
CREATORS = 4  # connections that create at the same time
PATIENCE = 30.0  # seconds for a request
MERGE = "application/merge-patch+json"


class Refused(Exception):
    """The API server said no."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text[:300]}")
        self.code = code


class Api:
    """One kept connection for each thread."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server: str = cluster["server"]
        self.ca: str = cluster["certificate-authority-data"]
        self._host = urlsplit(self.server).netloc
        self._tls = ssl.create_default_context(cadata=base64.b64decode(self.ca).decode())
        pem = kubeconfig.with_name("bench.pem")
        pem.touch(mode=0o600)
        pem.write_bytes(
            base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"])
        )
        self._tls.load_cert_chain(pem)
        self._kept = threading.local()

    def call(
        self, method: str, path: str, body: Body | None = None, content: str = "application/json"
    ) -> Body:
        """
        Raises:
            Refused: any answer of 300 and more.
        """
        kept: http.client.HTTPSConnection | None = getattr(self._kept, "connection", None)
        connection = kept or self._connect(PATIENCE)
        headers = {"Content-Type": content, "User-Agent": "bench"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self._kept.connection = None
            if kept is None:
                raise
            return self.call(method, path, body, content)  # the server had closed it meanwhile
        self._kept.connection = connection
        if answer.status >= 300:
            raise Refused(answer.status, text.decode(errors="replace"))
        read: Body = json.loads(text)
        return read

    def get(self, path: str) -> Body | None:
        """None for 404."""
        try:
            return self.call("GET", path)
        except Refused as error:
            if error.code == 404:
                return None
            raise

    def create_all(self, bodies: list[tuple[str, Body]]) -> None:
        """Each ``(path of the collection, object)``, in one go."""
        with ThreadPoolExecutor(CREATORS) as pool:
            for _ in pool.map(lambda one: self.call("POST", *one), bodies):
                pass

    def merge(self, path: str, change: Body) -> Body:
        return self.call("PATCH", path, change, MERGE)

    def version(self, path: str) -> str:
        """What a watch of the collection begins after."""
        return str(self.call("GET", f"{path}?limit=1")["metadata"]["resourceVersion"])

    def watch(self, path: str, version: str) -> Iterator[Body]:
        """Objects as they become, until the connection ends."""
        connection = self._connect(None)
        connection.request("GET", f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=3600")
        answer = connection.getresponse()
        while line := answer.readline():
            yield json.loads(line)["object"]

    def _connect(self, timeout: float | None) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, timeout=timeout, context=self._tls)
