"""A certificate that renews itself under an authority that stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from llmservice_operator.metrics_api import certificate
from llmservice_operator.metrics_api.certificate import Lives, Material

NAMES = ("metrics.llmservice-system.svc", "metrics.llmservice-system.svc.cluster.local")
NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def first() -> Material:
    return certificate.current(None, NAMES, NOW)


def believed(material: Material) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(material.authority)


def serving(material: Material) -> x509.Certificate:
    return x509.load_pem_x509_certificate(material.certificate)


def test_it_is_for_the_services_names_and_signed_by_the_authority(first: Material) -> None:
    found = serving(first).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == list(NAMES)
    serving(first).verify_directly_issued_by(believed(first)[0])
    assert first.expires - NOW == 90 * DAY


def test_it_survives_the_secret(first: Material) -> None:
    assert Material.of_secret({"data": first.data()}) == first


@pytest.mark.parametrize("data", [None, {}, {"ca.crt": "eA=="}, {"ca.crt": "%%%"}])
def test_an_empty_or_broken_secret_holds_none(data: dict[str, str] | None) -> None:
    assert Material.of_secret({"data": data}) is None


def test_while_it_is_good_it_stays(first: Material) -> None:
    for days in (0, 1, 30, 59):
        assert certificate.current(first, NAMES, NOW + days * DAY) is first


def test_in_the_last_third_of_its_life_it_is_renewed_under_the_same_authority(first: Material) -> None:
    renewed = certificate.current(first, NAMES, NOW + 61 * DAY)
    assert (renewed.authority, renewed.authority_key) == (first.authority, first.authority_key)
    assert renewed.expires == NOW + 151 * DAY
    assert renewed.key != first.key


def test_a_new_authority_is_believed_beside_the_old_one(first: Material) -> None:
    late = NOW + 2500 * DAY
    new = certificate.current(first, NAMES, late)
    assert believed(new)[1:] == believed(first)
    assert believed(new)[0].subject != believed(first)[0].subject
    serving(new).verify_directly_issued_by(believed(new)[0])
    again = certificate.current(new, NAMES, late + 2500 * DAY)
    assert believed(again)[1:] == believed(new)[:1], "what has ended is not believed for ever"


def test_a_certificate_never_outlives_its_authority() -> None:
    short = Lives(authority=10 * DAY, serving=90 * DAY)
    assert certificate.current(None, NAMES, NOW, short).expires == NOW + 10 * DAY


@pytest.mark.parametrize("part", ["authority", "authority_key", "certificate", "key"])
@pytest.mark.parametrize("broken", [b"", b"nonsense"])
def test_whatever_part_is_broken_is_made_anew(first: Material, part: str, broken: bytes) -> None:
    healed = certificate.current(replace(first, **{part: broken}), NAMES, NOW)
    serving(healed).verify_directly_issued_by(believed(healed)[0])
    assert certificate.current(healed, NAMES, NOW) is healed


def test_parts_of_two_certificates_do_not_serve(first: Material) -> None:
    other = certificate.current(None, NAMES, NOW)
    mixed = replace(first, key=other.key)
    assert certificate.current(mixed, NAMES, NOW) != mixed
    mixed = replace(first, certificate=other.certificate, key=other.key)
    assert certificate.current(mixed, NAMES, NOW) != mixed


def test_another_name_of_the_service_asks_for_another_certificate(first: Material) -> None:
    moved = certificate.current(first, ("metrics.elsewhere.svc",), NOW)
    assert moved.authority == first.authority
    assert moved.certificate != first.certificate
