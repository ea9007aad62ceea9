"""API keys: who may ask. Only their digests are kept; a key is in no log and no error."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from hashlib import sha256
from pathlib import Path

from llmservice_planner.settings import EngineSettings

from llmservice_engine.core.errors import InvalidSettings

log = logging.getLogger("llmservice.api")

VARIABLE = "VLLM_API_KEY"
REREAD_SECONDS = 5  # a rotated Secret reaches its file within a minute; this comes on top


class Keys:
    """The keys that are taken. Those of a file change with it."""

    def __init__(self, settings: EngineSettings) -> None:
        """Raises InvalidSettings where the file cannot be read or holds no key."""
        given = settings.api_key or (() if settings.api_key_file else (os.environ.get(VARIABLE, ""),))
        self._fixed = frozenset(_digest(key.encode()) for key in given if key)
        self._file = None if settings.api_key_file is None else Path(settings.api_key_file)
        self._read: frozenset[bytes] = frozenset()
        if self._file is not None:
            self._read = _of_file(self._file)

    @property
    def wanted(self) -> bool:
        return bool(self._fixed or self._read)

    def allow(self, authorization: str) -> bool:
        """Whether this header carries one of the keys. Takes as long for a nearly right one as for any other."""
        scheme, _, key = authorization.partition(" ")
        asked = _digest(key.strip().encode("utf-8", "surrogateescape"))
        # A list: `any` of a generator would stop at the first match.
        found = [hmac.compare_digest(asked, known) for known in self._fixed | self._read]
        return scheme.lower() == "bearer" and any(found)

    async def follow(self) -> None:
        """Keep up with the file, for ever. While it cannot be used, the keys that were there last count."""
        complained = False
        while self._file is not None:
            await asyncio.sleep(REREAD_SECONDS)
            try:
                read = await asyncio.to_thread(_of_file, self._file)
            except InvalidSettings as error:
                if not complained:
                    log.warning("%s; the keys of before still count", error.message)
                complained = True
                continue
            complained = False
            if read != self._read:
                log.info("API keys read again: %d keys", len(read))
            self._read = read


def _of_file(file: Path) -> frozenset[bytes]:
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise InvalidSettings(
            f"--api-key-file {file} cannot be read: {error.strerror or type(error).__name__}",
            hint="give the path of a file with one key a line",
        ) from None
    keys = frozenset(_digest(line.strip()) for line in lines if line.strip())
    if not keys:
        raise InvalidSettings(f"--api-key-file {file} holds no key", hint="write one key a line into it")
    return keys


def _digest(key: bytes) -> bytes:
    return sha256(key).digest()
