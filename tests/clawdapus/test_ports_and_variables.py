"""Ports in every form, and values put in their places."""

from __future__ import annotations

import pytest

from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.compose_ports import (
    PortMapping,
    choose_container_port,
    read_ports,
)
from memplane.integrations.clawdapus.pod.variable_expansion import expand_variables, read_dotenv

ANY = "0.0.0.0"  # noqa: S104 - a text


@pytest.mark.parametrize(
    ("entry", "ports"),
    [
        ("80", [PortMapping(80)]),
        (80, [PortMapping(80)]),
        ("8080:80", [PortMapping(80, 8080)]),
        ("127.0.0.1:8080:80/tcp", [PortMapping(80, 8080, "127.0.0.1")]),
        ("127.0.0.1::80", [PortMapping(80, 0, "127.0.0.1")]),
        ("[::1]:8080:80", [PortMapping(80, 8080, "::1")]),
        ("::1:8080:80", [PortMapping(80, 8080, "::1")]),
        ("80/udp", [PortMapping(80)]),
        ("3000-3001", [PortMapping(3000), PortMapping(3001)]),
        ("9000-9001:3000-3001", [PortMapping(3000, 9000), PortMapping(3001, 9001)]),
        ("9000-9001:3000", [PortMapping(3000)]),
        ({"target": 80}, [PortMapping(80)]),
        ({"target": "80", "published": "8080"}, [PortMapping(80, 8080)]),
        ({"target": 80, "published": 8080, "host_ip": ANY}, [PortMapping(80, 8080, ANY)]),
    ],
)
def test_every_form_of_a_port(entry: object, ports: list[PortMapping]) -> None:
    assert list(read_ports([entry], "ports")) == ports


@pytest.mark.parametrize(
    "entry", ["", "x", "0", "65536", "80:", "5-4", True, None, {}, {"target": "x"}, [80], "80:x:y"]
)
def test_what_is_no_port(entry: object) -> None:
    with pytest.raises(PodError, match=r"^here"):
        read_ports([entry], "here")


def test_ports_must_be_a_list() -> None:
    assert read_ports(None, "here") == ()
    with pytest.raises(PodError, match="here must be a list"):
        read_ports("80", "here")


def test_the_exposed_port_comes_first_and_80_last() -> None:
    exposed, published = (PortMapping(1), PortMapping(2)), (PortMapping(3, 9),)
    assert choose_container_port(exposed, published) == 1
    assert choose_container_port((), published) == 3
    assert choose_container_port((), ()) == 80


@pytest.mark.parametrize(
    ("host", "reachable"),
    [
        ("", "127.0.0.1"),
        (ANY, "127.0.0.1"),
        ("::", "127.0.0.1"),
        ("10.0.0.7", "10.0.0.7"),
        ("::1", "[::1]"),
    ],
)
def test_where_a_published_port_is_reached(host: str, reachable: str) -> None:
    assert PortMapping(80, 8080, host).reachable_host == reachable


VARIABLES = {"A": "one", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("$A/${A}", "one/one"),
        ("$$A", "$A"),
        ("${NONE}", ""),
        ("${NONE:-x}", "x"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY-x}", ""),
        ("${A:-x}", "one"),
        ("${A:+x}", "x"),
        ("${EMPTY:+x}", ""),
        ("${EMPTY+x}", "x"),
        ("${A:?x}", "one"),
        ("100%", "100%"),
        ("$ {A} ${", "$ {A} ${"),
    ],
)
def test_values_are_put_in_their_places(text: str, value: str) -> None:
    assert expand_variables(text, VARIABLES) == value


@pytest.mark.parametrize("text", ["${NONE:?say it}", "${EMPTY:?say it}", "${NONE?say it}"])
def test_a_value_that_is_insisted_on(text: str) -> None:
    with pytest.raises(PodError, match="has no value: say it"):
        expand_variables(text, VARIABLES)


def test_a_dotenv() -> None:
    text = """
    # comment
    A=1
    export B = two words # no part of it
    C='as # it is'
    D="x\\n\\"y\\""   # after
    E=
    F=a#b
    no equals
    =nameless
    """
    assert read_dotenv(text) == {
        "A": "1",
        "B": "two words",
        "C": "as # it is",
        "D": 'x\n"y"',
        "E": "",
        "F": "a#b",
    }
