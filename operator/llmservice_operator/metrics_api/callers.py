"""Who asks: whom the API server's front proxy vouches for, or whoever has a token.

The front proxy is believed by its certificate alone: the connection's, of the authority and with a name that the
API server publishes in a ConfigMap. What others say in those headers counts for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from multidict import CIMultiDictProxy

CONFIGMAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"


class NoFrontProxy(ValueError):
    """The API server publishes no authority for its front proxy: its aggregation layer is off."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A user as Kubernetes knows one."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """How the API server makes itself known, and in which headers it names the user."""

    authority: str  # PEM, one certificate or more
    allowed_names: frozenset[str]  # empty: any that the authority has signed for
    user_headers: tuple[str, ...] = ("X-Remote-User",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    uid_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = field(default=("X-Remote-Extra-",))

    @classmethod
    def parse(cls, configmap: Mapping[str, Any]) -> FrontProxy:
        """Out of the ConfigMap ``extension-apiserver-authentication``.

        Raises:
            NoFrontProxy: it names no authority.
        """
        data = configmap.get("data") or {}
        authority = str(data.get("requestheader-client-ca-file") or "")
        if not authority:
            raise NoFrontProxy(
                "the API server runs without an aggregation layer (requestheader-client-ca-file)"
            )
        return cls(
            authority=authority,
            allowed_names=frozenset(_strings(data, "requestheader-allowed-names")),
            user_headers=_strings(data, "requestheader-username-headers") or ("X-Remote-User",),
            group_headers=_strings(data, "requestheader-group-headers") or ("X-Remote-Group",),
            uid_headers=_strings(data, "requestheader-uid-headers"),
            extra_prefixes=_strings(data, "requestheader-extra-headers-prefix") or ("X-Remote-Extra-",),
        )

    def is_at(self, certificate: Mapping[str, Any] | None) -> bool:
        """Is this the front proxy's certificate? The TLS handshake has checked that the authority signed it."""
        if not certificate:
            return False
        return not self.allowed_names or bool(self.allowed_names & frozenset(_common_names(certificate)))

    def caller(self, headers: CIMultiDictProxy[str]) -> Caller | None:
        """Whom the front proxy names. None where it names nobody."""
        user = _first(headers, self.user_headers)
        if not user:
            return None
        groups = tuple(group for header in self.group_headers for group in headers.getall(header, ()))
        return with_group(Caller(user, _first(headers, self.uid_headers), groups, self._extra(headers)))

    def _extra(self, headers: CIMultiDictProxy[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        found: dict[str, list[str]] = {}
        for header, value in headers.items():
            for prefix in self.extra_prefixes:
                if header.lower().startswith(prefix.lower()):
                    found.setdefault(unquote(header[len(prefix) :].lower()), []).append(value)
        return tuple((key, tuple(values)) for key, values in sorted(found.items()))


def with_group(caller: Caller) -> Caller:
    """As every API server does: whoever is somebody is ``system:authenticated``.

    The aggregator's own requests (``system:kube-aggregator``) come without any group, and would have no rights.
    """
    if caller.user == ANONYMOUS or {AUTHENTICATED, UNAUTHENTICATED} & set(caller.groups):
        return caller
    return Caller(caller.user, caller.uid, (*caller.groups, AUTHENTICATED), caller.extra)


def bearer(headers: CIMultiDictProxy[str]) -> str:
    """The token of a request, or an empty string."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _first(headers: CIMultiDictProxy[str], wanted: Iterable[str]) -> str:
    return next((value for header in wanted if (value := headers.get(header, ""))), "")


def _strings(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A JSON list of strings in a ConfigMap; one that cannot be read is no reason to let more people in."""
    try:
        found = json.loads(data.get(key) or "[]")
    except ValueError as error:
        raise NoFrontProxy(f"{key} is not JSON: {error}") from error
    if not isinstance(found, list):
        raise NoFrontProxy(f"{key} is not a list")
    return tuple(str(one) for one in found)


def _common_names(certificate: Mapping[str, Any]) -> Iterable[str]:
    """Out of what :meth:`ssl.SSLSocket.getpeercert` tells."""
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                yield value
