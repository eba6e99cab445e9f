"""Which hosts may be asked: as an operator writes them, and as names turn out to be."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import SettingsError
from memplane.proxy.address_policy import (
    AddressReach,
    check_base_url,
    classify_address,
    is_allowed_address,
    is_private_name,
)
from memplane.proxy.dns_resolver import GuardedResolver

PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::5db8:d822"]
PRIVATE = [
    "127.0.0.1",
    "127.9.9.9",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "::1",
    "fd12:3456::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "2002:7f00:1::",
    "::127.0.0.1",
]
NEVER = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%eth0",
    "0.0.0.0",  # noqa: S104
    "0.1.2.3",
    "::",
    "224.0.0.1",
    "ff02::1",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::1",
    "::ffff:0:169.254.169.254",
    "not an address",
    "2852039166",
    "0x7f.1",
    "0251.0376.0251.0376",
]


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        *((one, AddressReach.PUBLIC) for one in PUBLIC),
        *((one, AddressReach.PRIVATE) for one in PRIVATE),
        *((one, AddressReach.NEVER) for one in NEVER),
    ],
)
def test_what_kind_of_place_an_address_is(address: str, kind: AddressReach) -> None:
    assert classify_address(address) is kind


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:{}", "::{}", "64:ff9b::{}"]))
def test_an_address_within_an_address_is_no_better(
    inner: ipaddress.IPv4Address, form: str
) -> None:
    worse = [AddressReach.PUBLIC, AddressReach.PRIVATE, AddressReach.NEVER]
    outer = ipaddress.ip_address(form.format(inner))
    if outer in {ipaddress.ip_address("::"), ipaddress.ip_address("::1")}:
        return
    assert worse.index(classify_address(str(outer))) >= worse.index(classify_address(str(inner)))


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_for_private_names(address: str) -> None:
    for host in (
        "localhost",
        "ollama",
        "gpu.lan",
        "host.docker.internal",
        "a.b.svc.cluster.local",
    ):
        assert is_allowed_address(host, address)
    for host in ("api.openai.com", "localhost.evil.com", "127.0.0.1.nip.io"):
        assert not is_allowed_address(host, address)
        assert is_allowed_address(host, address, [host.upper()])


@pytest.mark.parametrize("address", NEVER)
def test_where_credentials_are_handed_out_nobody_goes(address: str) -> None:
    for host in ("localhost", "api.openai.com", "metadata.google.internal", "metadata"):
        assert not is_allowed_address(host, address)
        assert not is_allowed_address(host, address, [host, address])


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_for_everybody(address: str) -> None:
    assert is_allowed_address("api.openai.com", address)
    assert is_allowed_address("localhost", address)


def test_names_are_compared_whole() -> None:
    assert is_private_name("LocalHost.")
    assert is_private_name("x.home.arpa")
    assert not is_private_name("home.arpa.example.com")
    assert not is_private_name("mylocal.com")
    assert not is_allowed_address("a.example.com", "10.0.0.1", ["example.com"])


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://10.0.0.7/", "http://10.0.0.7"),
        ("http://localhost:11434/v1", "http://localhost:11434/v1"),
        ("http://my_service:80/a/b", "http://my_service:80/a/b"),
        ("https://xn--bcher-kva.example/v1", "https://xn--bcher-kva.example/v1"),
    ],
)
def test_an_operator_may_write(text: str, kept: str) -> None:
    assert check_base_url(text, "it") == kept


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.openai.com/v1",
        "//api.openai.com",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "ftp://127.0.0.1/",
        "https://user:hunter2@api.openai.com/v1",
        "https://hunter2@api.openai.com/v1",
        "https://api.openai.com/v1?key=hunter2",
        "https://api.openai.com/v1#hunter2",
        "https://api.openai.com/v1\r\nHost: hunter2",
        "https://api.openai.com /v1",
        "https://api.openai.com\\@hunter2/v1",
        "https://api.openai.com:hunter2/v1",
        "https://api.openai.com:0/v1",
        "https://api.openai.com:/v1",
        "https://api.openai.com:99999/v1",
        "https://bücher.example/v1",
        "https://api..com/v1",
        "https://-api.com/v1",
        "https://api.openai.com/v1/../hunter2",
        "https://api.openai.com/%2E%2e/hunter2",
        "https://[::1/v1",
        "http://169.254.169.254/",
        "http://169.254.169.254:80/latest",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1%25eth0]/",
        "http://[::ffff:127.0.0.1]/",
        "http://100.100.100.200/",
        "http://0.0.0.0:8000/",
        "http://[::]/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://2852039166/",
        "http://2130706433/",
        "http://0251.0376.0251.0376/",
        "http://127.1/",
        "http://127.0.0.01/",
        "http://1.2.3.4.5/",
    ],
)
def test_an_operator_may_not_write(text: str) -> None:
    with pytest.raises(SettingsError, match="the upstream") as caught:
        check_base_url(text, "the upstream")
    assert "hunter2" not in str(caught.value)


class Names(AbstractResolver):
    """Answers with these addresses."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host, host=one, port=port, family=socket.AF_INET, proto=0, flags=0
            )
            for one in self.addresses
        ]

    async def close(self) -> None:
        self.addresses = ()


async def test_a_name_leads_only_where_it_may() -> None:
    guarded = GuardedResolver((), Names(["10.0.0.1", "1.1.1.1", "169.254.169.254"]))
    found = await guarded.resolve("api.openai.com", 443)
    assert [one["host"] for one in found] == ["1.1.1.1"]
    found = await guarded.resolve("gpu.lan", 443)
    assert [one["host"] for one in found] == ["10.0.0.1", "1.1.1.1"]


async def test_a_name_that_leads_nowhere_else_is_refused() -> None:
    names = Names(["127.0.0.1"])
    guarded = GuardedResolver(["Listed.example"], names)
    with pytest.raises(OSError, match="private address"):
        await guarded.resolve("api.openai.com", 443)
    assert await guarded.resolve("listed.example", 443)
    names.addresses = ["169.254.169.254"]
    with pytest.raises(OSError, match="never asked, such as a metadata service's"):
        await guarded.resolve("listed.example", 443)
    await guarded.close()
    assert not names.addresses
