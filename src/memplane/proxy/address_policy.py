"""Which hosts may be asked: what an operator may write, and what a name may turn out to be (pure).

Upstreams come from configuration only. A private address is fine where the operator wrote it, or
wrote a name that can only be private. A public name that leads to a private address is not: names
are answered by others, and may be answered differently tomorrow; an operator may list it all the
same. The addresses at which clouds hand out credentials are refused always, also when listed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from memplane.errors import SettingsError

_IpAddress: TypeAlias = IPv4Address | IPv6Address

_MAX_HOST_CHARS: Final = 253
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)
_NUMERIC: Final = re.compile(r"(?:0[xX][0-9A-Fa-f]*|[0-9]+)", re.ASCII)
_PRINTABLE: Final = re.compile(r"[!-~]+", re.ASCII)
_AMBIGUOUS_CHARS: Final = re.compile(r"[\\\"<>^`{|}]", re.ASCII)
_PRIVATE_ENDINGS: Final = frozenset(
    # Names that nobody can register; the last ones are those that private networks use anyway.
    {"localhost", "local", "internal", "lan", "intranet", "private", "corp", "home"}
)
_HOME_NETWORK: Final = ".home.arpa"

# Metadata services outside the link-local range, by which machines learn their credentials.
_METADATA_ADDRESSES: Final = frozenset(
    ip_address(one)
    for one in (
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
    )
)
_UNROUTABLE_NETWORK: Final = IPv4Network("0.0.0.0/8")
# Where an IPv6 address carries an IPv4 address in its last four bytes.
_IPV4_IN_IPV6_NETWORKS: Final = tuple(
    IPv6Network(one) for one in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")
)
_NAT64_NETWORK: Final = IPv6Network("64:ff9b:1::/48")


class AddressReach(Enum):
    """What kind of place an address is."""

    PUBLIC = "public"
    PRIVATE = "private"
    NEVER = "never"


def classify_address(text: str) -> AddressReach:
    """Say what kind of place an address is; what is no address is never to be asked."""
    try:
        address = ip_address(text)
    except ValueError:
        return AddressReach.NEVER
    kinds = {_classify(one) for one in (address, *_find_embedded_ipv4(address))}
    # Of an address within an address, what is worse counts.
    return next(
        kind
        for kind in (AddressReach.NEVER, AddressReach.PRIVATE, AddressReach.PUBLIC)
        if kind in kinds
    )


def is_allowed_address(host: str, address: str, allowed: Collection[str] = ()) -> bool:
    """Say whether a name may lead to this address; `allowed` may lead to private ones too."""
    match classify_address(address):
        case AddressReach.PUBLIC:
            return True
        case AddressReach.PRIVATE:
            return is_private_name(host) or _normalise_host(host) in map(_normalise_host, allowed)
        case AddressReach.NEVER:
            return False


def is_private_name(host: str) -> bool:
    """Say whether a name can only mean something on this machine or in this network."""
    name = _normalise_host(host)
    return (
        "." not in name
        or name.rpartition(".")[2] in _PRIVATE_ENDINGS
        or (name.endswith(_HOME_NETWORK))
    )


def parse_local_port(address: str) -> int | None:
    """Return which port of this machine an address names; None when it is elsewhere."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    host = _normalise_host(parts.hostname or "")
    try:
        nearby = ip_address(host).is_loopback
    except ValueError:
        nearby = host == "localhost"
    return port if nearby else None


def check_base_url(text: str, what: str, *, own_port: int = 0) -> str:
    """Check the address of an upstream as an operator wrote it; its last slash is taken off.

    Args:
        text: The address.
        what: What it is the address of, for the complaint.
        own_port: Where memplane listens: whoever asks itself never comes to an end.

    Raises:
        SettingsError: It is no such address, or one that is never asked. The complaint does not
            repeat the address: somebody may have written a password into it.
    """
    parts = _split_url(text)
    if parts is None:
        raise SettingsError(
            f"{what} is not an address like https://api.example.com/v1, "
            "with neither a user nor a question mark"
        )
    host = parts.hostname or ""
    complaint = _find_host_problem(host)
    if complaint:
        raise SettingsError(f"{what}: {complaint}")
    if parse_local_port(text) == own_port:
        raise SettingsError(f"{what} is memplane itself: write where the provider is")
    return text.rstrip("/")


def _split_url(text: str) -> SplitResult | None:
    """Take an address apart; None when it is none, or says more than where to ask."""
    if not _PRINTABLE.fullmatch(text) or _AMBIGUOUS_CHARS.search(text):
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    usable = (
        parts.scheme in {"http", "https"}
        and parts.hostname
        and port != 0
        and not set("@?#") & set(text)
        and not parts.netloc.endswith(":")
        and not {".", ".."} & set(parts.path.lower().replace("%2e", ".").split("/"))
    )
    return parts if usable else None


def _find_host_problem(host: str) -> str:
    """Say what is wrong with a host; nothing when nothing is."""
    try:
        address = ip_address(host)
    except ValueError:
        return _find_name_problem(host)
    if isinstance(address, IPv6Address) and (
        address.scope_id or any(_find_embedded_ipv4(address))
    ):
        return "write the address without a zone, and an IPv4 address as such"
    if classify_address(host) is AddressReach.NEVER:
        return (
            "that address is one at which machines get credentials, or no machine's at all. It is "
            "never asked, also where proxy.allowed_private lists it"
        )
    return ""


def _find_name_problem(host: str) -> str:
    labels = host.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        # Resolvers read 0x7f.1 and 2130706433 as addresses.
        return "write an IPv4 address as four decimal numbers"
    if len(host) > _MAX_HOST_CHARS or not all(map(_LABEL.fullmatch, labels)):
        return "that is no host name; one that is not ASCII is written as xn--"
    return ""


def _classify(address: _IpAddress) -> AddressReach:
    if (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address in _METADATA_ADDRESSES
        or (isinstance(address, IPv4Address) and address in _UNROUTABLE_NETWORK)
    ):
        return AddressReach.NEVER
    return AddressReach.PUBLIC if address.is_global else AddressReach.PRIVATE


def _find_embedded_ipv4(address: _IpAddress) -> list[IPv4Address]:
    """Find the IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, IPv4Address) or address in {IPv6Address("::"), IPv6Address("::1")}:
        return []
    found = [address.sixtofour, *(address.teredo or ())]
    if any(address in one for one in _IPV4_IN_IPV6_NETWORKS):
        found.append(IPv4Address(address.packed[-4:]))
    if address in _NAT64_NETWORK:
        # Where in it the address stands depends on the network; it is read in each way.
        packed = address.packed
        found += [
            IPv4Address(packed[6:8] + packed[9:11]),
            IPv4Address(packed[7:8] + packed[9:12]),
            IPv4Address(packed[9:13]),
            IPv4Address(packed[-4:]),
        ]
    return [one for one in found if one is not None]


def _normalise_host(host: str) -> str:
    return host.lower().removesuffix(".")
