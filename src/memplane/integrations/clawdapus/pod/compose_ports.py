"""Ports in all the forms that Docker Compose takes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec

from memplane.errors import PodError

DEFAULT_PORT: Final = 80
_WILDCARD_HOSTS: Final = {"", "0.0.0.0", "::", "*"}  # noqa: S104 - recognised, not listened on
_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_MAX_PORT: Final = 65535


class PortMapping(msgspec.Struct, frozen=True):
    """A port of a container, and where it is published; 0 when that is left to Docker."""

    target: int
    published: int = 0
    host: str = ""

    @property
    def reachable_host(self) -> str:
        """The host to ask, from this machine."""
        if self.host in _WILDCARD_HOSTS:
            return "127.0.0.1"
        return f"[{self.host}]" if ":" in self.host else self.host


def read_ports(ports: object, where: str) -> tuple[PortMapping, ...]:
    """Read a service's `ports` or `expose`; `where` names it in errors.

    Raises:
        PodError: One of them is in no form that Docker Compose knows.
    """
    if ports is None:
        return ()
    if not isinstance(ports, list):
        raise PodError(f"{where} must be a list")
    return tuple(
        mapping for entry in cast("list[object]", ports) for mapping in _read(entry, where)
    )


def choose_container_port(expose: Iterable[PortMapping], ports: Iterable[PortMapping]) -> int:
    """Choose the port that others in the pod ask: the first exposed, the first published, 80."""
    return next((mapping.target for mapping in (*expose, *ports)), DEFAULT_PORT)


def _read(entry: object, where: str) -> Iterable[PortMapping]:
    if isinstance(entry, Mapping):
        long = cast("Mapping[str, object]", entry)
        host = str(long.get("host_ip") or "")
        return _pairs(str(long.get("target", "")), str(long.get("published") or ""), host, where)
    if isinstance(entry, bool) or not isinstance(entry, (int, str)):
        raise PodError(f"{where}: {entry!r} is no port")
    text, _, _protocol = str(entry).strip().partition("/")
    *before, target = text.rsplit(":", 2)
    published = before.pop() if before else ""
    return _pairs(target, published, "".join(before).strip("[]"), where)


def _pairs(target: str, published: str, host: str, where: str) -> list[PortMapping]:
    targets = _range(target, where)
    if not published or published == "0":
        return [PortMapping(target_port, host=host) for target_port in targets]
    outside = _range(published, where)
    if len(outside) != len(targets):
        # A range for one port: Docker takes any that is free.
        return [PortMapping(target_port, host=host) for target_port in targets]
    return [
        PortMapping(target_port, published_port, host)
        for target_port, published_port in zip(targets, outside, strict=True)
    ]


def _range(text: str, where: str) -> range:
    match = _RANGE.fullmatch(text)
    first = int(match[1]) if match else 0
    last = int(match[2] or first) if match else 0
    if not 1 <= first <= last <= _MAX_PORT:
        raise PodError(f"{where}: {text!r} is no port")
    return range(first, last + 1)
