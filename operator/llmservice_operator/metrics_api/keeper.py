"""The certificate's Secret: read, filled and renewed by whichever replica comes first, and shared by all."""

from __future__ import annotations

import logging
import ssl
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import Gauge

from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.metrics_api import certificate
from llmservice_operator.metrics_api.callers import FrontProxy
from llmservice_operator.metrics_api.certificate import Lives, Material

EXPIRES = Gauge("llmservice_metrics_api_certificate_expires_seconds", "When, as a Unix time")

logger = logging.getLogger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class Keeper:
    """Keeps one Secret; it can neither make nor list one."""

    def __init__(
        self,
        client: Client,
        path: str,
        names: Sequence[str],
        lives: Lives | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self._client = client
        self._path = path
        self._names = tuple(names)
        self._lives = lives or Lives()
        self._clock = clock
        self._held: Material | None = None

    async def look(self) -> Material:
        """What to serve with now. Written back where it is new, so that every replica finds the same.

        Raises:
            ApiError: the Secret cannot be read or written; what was held before is still good for a while.
        """
        for _ in range(5):
            secret = await self._client.get(self._path)
            kept = Material.of_secret(secret)
            # Where somebody has emptied it, what we have is put back.
            wanted = certificate.current(kept or self._held, self._names, self._clock(), self._lives)
            if kept == wanted:
                break
            try:
                await self._client.replace(self._path, secret | {"data": wanted.data()})
                logger.info("wrote a certificate that ends on %s", f"{wanted.expires:%Y-%m-%d}")
                break
            except ApiError as error:
                if error.code != 409:
                    raise
                logger.info("another replica has written the certificate")
        else:
            raise ApiError(409, "Conflict", f"{self._path} is written by somebody else all the time")
        self._held = wanted
        EXPIRES.set(wanted.expires.timestamp())
        return wanted


def context(material: Material, proxy: FrontProxy) -> ssl.SSLContext:
    """TLS that shows this certificate, and takes one of the front proxy's authority where the peer has one.

    No ``create_default_context``: from Python 3.13 it refuses certificates without an authority key identifier, and
    many a cluster's front proxy has such a one.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.verify_mode = ssl.CERT_OPTIONAL
    made.load_verify_locations(cadata=proxy.authority)
    # The library loads a key from a file only.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tls.pem")  # in a folder that nobody else may enter
        path.write_bytes(material.certificate + material.key)
        made.load_cert_chain(path)
    return made
