"""Two clusters never get the same subnet, and no cluster gets one that this machine routes."""

from __future__ import annotations

import ipaddress

import pytest

from e2e.cluster import addresses
from e2e.cluster.errors import ClusterError


def test_the_first_link_takes_the_first_subnet() -> None:
    link = addresses.free_link([])
    assert link == addresses.Link("10.213.0.0/30", "10.213.0.1", "10.213.0.2")


def test_a_used_subnet_is_passed_over() -> None:
    assert addresses.free_link(["10.213.0.0/30"]).subnet == "10.213.0.4/30"


@pytest.mark.parametrize("used", ["10.213.0.2", "10.213.0.1/32", "10.213.0.0/31"])
def test_a_subnet_with_one_used_address_is_passed_over(used: str) -> None:
    assert addresses.free_link([used]).subnet == "10.213.0.4/30"


@pytest.mark.parametrize("used", ["10.213.0.0/16", "10.0.0.0/8", "0.0.0.0/0"])
def test_a_route_over_everything_leaves_no_link(used: str) -> None:
    with pytest.raises(ClusterError, match="no free subnet"):
        addresses.free_link([used], ipaddress.IPv4Network("10.213.0.0/29"))


def test_a_link_is_known_again_by_one_of_its_addresses() -> None:
    link = addresses.free_link(["10.213.0.0/24"])
    assert addresses.Link.of(f"{link.node_address}/30") == link


def test_device_names_fit_into_fifteen_characters() -> None:
    last = list(addresses.LINKS.subnets(new_prefix=30))[-1]
    assert len(addresses.Link.of(str(last)).device) <= 15


def test_free_ports_are_distinct() -> None:
    assert len(set(addresses.free_ports(20))) == 20
