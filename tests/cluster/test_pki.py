"""Certificates say who their holder is, and are believed by whoever trusts the cluster's authority."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from e2e.cluster import pki


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pki")
    pki.write_all(made, "node-1", ("127.0.0.1", "10.213.0.2", "10.96.0.1"))
    return made


def certificate(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())


def subject(folder: Path, name: str) -> tuple[str | bytes, str | bytes | None]:
    names = certificate(folder, name).subject
    organizations = names.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    common = names.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    return common, organizations[0].value if organizations else None


def test_every_certificate_is_signed_by_the_cluster_authority(folder: Path) -> None:
    ca = certificate(folder, "ca")
    for name in (*pki.CLIENTS, "kubelet", "kube-apiserver", "kubelet-server"):
        certificate(folder, name).verify_directly_issued_by(ca)


def test_the_front_proxy_has_an_authority_of_its_own(folder: Path) -> None:
    certificate(folder, "front-proxy-client").verify_directly_issued_by(certificate(folder, "front-proxy-ca"))
    with pytest.raises(ValueError, match="Issuer"):
        certificate(folder, "front-proxy-client").verify_directly_issued_by(certificate(folder, "ca"))


@pytest.mark.parametrize(
    ("name", "user", "group"),
    [
        ("admin", "kubernetes-admin", "system:masters"),
        ("kubelet", "system:node:node-1", "system:nodes"),
        ("kube-scheduler", "system:kube-scheduler", None),
    ],
)
def test_a_client_certificate_names_user_and_group(
    folder: Path, name: str, user: str, group: str | None
) -> None:
    assert subject(folder, name) == (user, group)


def test_the_server_certificate_names_every_address_it_is_reached_by(folder: Path) -> None:
    extension = certificate(folder, "kube-apiserver").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert [str(one) for one in extension.value.get_values_for_type(x509.IPAddress)] == [
        "127.0.0.1",
        "10.213.0.2",
        "10.96.0.1",
    ]
    assert "kubernetes.default.svc" in extension.value.get_values_for_type(x509.DNSName)


def test_keys_are_readable_by_their_owner_only(folder: Path) -> None:
    for key in folder.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600, key.name
