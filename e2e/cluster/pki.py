"""A cluster's keys and certificates: one authority for everybody, one for the front proxy."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=365)

# Client certificates: file name → (common name, organization). RBAC reads them as user and group.
CLIENTS = {
    "admin": ("kubernetes-admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", None),
    "kube-scheduler": ("system:kube-scheduler", None),
    "kube-proxy": ("system:kube-proxy", None),
    "kube-apiserver-kubelet": ("kube-apiserver-kubelet", "system:masters"),
    "coredns": ("system:coredns", None),
    "local-path-provisioner": ("system:local-path-provisioner", None),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A private key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def write(self, folder: Path, name: str) -> None:
        """As ``NAME.crt`` and ``NAME.key`` (readable by the owner only)."""
        (folder / f"{name}.crt").write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        _write_key(folder / f"{name}.key", self.key)


def authority(common_name: str) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        _builder(_name(common_name, None), _name(common_name, None), key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    return Pair(key, builder.sign(key, hashes.SHA256()))


def client(signer: Pair, common_name: str, organization: str | None = None) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(common_name, organization), signer.certificate.subject, key).add_extension(
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
    )
    return Pair(key, builder.sign(signer.key, hashes.SHA256()))


def server(signer: Pair, common_name: str, names: tuple[str, ...], addresses: tuple[str, ...]) -> Pair:
    """A serving certificate for DNS names and IP addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = [
        *(x509.DNSName(name) for name in names),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
    ]
    builder = (
        _builder(_name(common_name, None), signer.certificate.subject, key)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    )
    return Pair(key, builder.sign(signer.key, hashes.SHA256()))


def write_all(folder: Path, node: str, addresses: tuple[str, ...]) -> None:
    """Everything that a cluster's components read, into ``folder``.

    Args:
        node: the node's name; its client certificate is ``kubelet``.
        addresses: of the API server and the kubelet.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ca = authority("llmservice-cluster-ca")
    front = authority("llmservice-cluster-front-proxy-ca")
    ca.write(folder, "ca")
    front.write(folder, "front-proxy-ca")
    client(front, "front-proxy-client").write(folder, "front-proxy-client")
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
             "kubernetes.default.svc.cluster.local")  # fmt: skip
    server(ca, "kube-apiserver", names, addresses).write(folder, "kube-apiserver")
    server(ca, f"system:node:{node}", (node,), addresses).write(folder, "kubelet-server")
    for name, (common_name, organization) in CLIENTS.items():
        client(ca, common_name, organization).write(folder, name)
    client(ca, f"system:node:{node}", "system:nodes").write(folder, "kubelet")
    tokens = ec.generate_private_key(ec.SECP256R1())
    _write_key(folder / "service-account.key", tokens)
    public = tokens.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / "service-account.pub").write_bytes(public)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + VALID)
    )


def _name(common_name: str, organization: str | None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
