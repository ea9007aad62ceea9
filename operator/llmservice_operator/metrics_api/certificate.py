"""An authority of our own, and the serving certificate that it signs. Pure: the time is an argument.

The API server believes the authority (``caBundle``), which lasts for years; the serving certificate is renewed under
it, so a renewal changes nothing for the API server. A new authority is believed beside the old one until that ends.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY = "llmservice-operator-metrics-api"  # common name
EARLIER = timedelta(hours=1)  # clocks differ: valid from before it was made
LEFT = 1 / 3  # of its life: less, and it is renewed

_FIELDS = {
    "authority": "ca.crt",
    "authority_key": "ca.key",
    "certificate": "tls.crt",
    "key": "tls.key",
}


@dataclass(frozen=True, slots=True)
class Lives:
    """How long each certificate lasts."""

    authority: timedelta = timedelta(days=3650)
    serving: timedelta = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Material:
    """What the Secret holds, each part as PEM."""

    authority: bytes  # what is believed: the authority, and before it ends its predecessor
    authority_key: bytes
    certificate: bytes
    key: bytes

    @classmethod
    def of_secret(cls, secret: Mapping[str, Any]) -> Material | None:
        """None where the Secret does not hold all of it (the chart makes it empty)."""
        data = secret.get("data") or {}
        try:
            parts = {part: base64.b64decode(data[key], validate=True) for part, key in _FIELDS.items()}
        except (KeyError, TypeError, binascii.Error):
            return None
        return cls(**parts)

    def data(self) -> dict[str, str]:
        """As the ``data`` of a Secret."""
        return {key: base64.b64encode(getattr(self, part)).decode() for part, key in _FIELDS.items()}

    @property
    def expires(self) -> datetime:
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc


def current(
    kept: Material | None, names: Sequence[str], now: datetime, lives: Lives | None = None
) -> Material:
    """What to serve with: ``kept`` itself while it is good for a while, else a renewed or a new one."""
    lives = lives or Lives()
    authority = _authority(kept, now)
    if kept is None or authority is None:
        return _new(kept, names, now, lives)
    if _serves(kept, authority, names, now):
        return kept
    key = serialization.load_pem_private_key(kept.authority_key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey), "as _authority has seen"
    certificate, own_key = _serving(authority, key, names, now, lives)
    return Material(kept.authority, kept.authority_key, certificate, own_key)


def _authority(kept: Material | None, now: datetime) -> x509.Certificate | None:
    """The authority, where it has time left and its key is there."""
    if kept is None:
        return None
    try:
        first = x509.load_pem_x509_certificates(kept.authority)[0]
        key = serialization.load_pem_private_key(kept.authority_key, None)
    except (ValueError, TypeError):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != first.public_key():
        return None
    return first if _has_time(first, now) else None


def _serves(kept: Material, authority: x509.Certificate, names: Sequence[str], now: datetime) -> bool:
    """Is the serving certificate of this authority, for these names, with its key, and with time left?"""
    try:
        certificate = x509.load_pem_x509_certificate(kept.certificate)
        key = serialization.load_pem_private_key(kept.key, None)
        certificate.verify_directly_issued_by(authority)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # noqa: BLE001 (whatever is wrong with a certificate, the cure is another one)
        return False
    if key.public_key() != certificate.public_key():
        return False
    return set(names) <= set(found.get_values_for_type(x509.DNSName)) and _has_time(certificate, now)


def _has_time(certificate: x509.Certificate, now: datetime) -> bool:
    """Not whether it has begun: replicas whose clocks differ would replace each other's for ever."""
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now <= ends - LEFT * (ends - begins)


def _new(kept: Material | None, names: Sequence[str], now: datetime, lives: Lives) -> Material:
    """A new authority and its first certificate; the old authority is believed until it ends."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{AUTHORITY}-{now:%Y%m%d%H%M%S}")])
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    authority = (
        _builder(name, name, key, now, lives.authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, own_key = _serving(authority, key, names, now, lives)
    believed = _pem(authority) + b"".join(_pem(old) for old in _still_good(kept, now))
    return Material(believed, _key_pem(key), certificate, own_key)


def _still_good(kept: Material | None, now: datetime) -> list[x509.Certificate]:
    try:
        found = x509.load_pem_x509_certificates(kept.authority) if kept is not None else []
    except ValueError:
        return []
    return [old for old in found[:1] if old.not_valid_after_utc > now]


def _serving(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    names: Sequence[str],
    now: datetime,
    lives: Lives,
) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    # A common name has 64 characters at most; nobody looks at it where there are alternative names.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    ends = min(lives.serving, authority.not_valid_after_utc - now)
    certificate = (
        _builder(subject, authority.subject, key, now, ends)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    return _pem(certificate), _key_pem(key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - min(EARLIER, life / 10))
        .not_valid_after(now + life)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
