"""Signatures that stand in an address, and let a request in that carries no token (pure).

What is signed is short and has no headers in it: shared access signatures spare us the order in
which the service sorts those. The tests compare each with what Azure's own library makes.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

API_VERSION: Final = "2021-08-06"
_ALL_PERMISSIONS: Final = "rcwdl"
"""Read, create, write, delete, list: in the order that the service wants."""


class StorageAccount(msgspec.Struct, frozen=True):
    """An account of the storage service, and the key that signs for it."""

    name: str
    key: bytes

    def __repr__(self) -> str:
        return f"Account({self.name!r})"


def parse_account(name: str, key: str) -> StorageAccount:
    """Read an account's key.

    Raises:
        ValueError: It is no key.
    """
    return StorageAccount(name, b64decode(key, validate=True))


def sign_container_access(account: StorageAccount, container: str, expiry: datetime) -> str:
    """Return the query that opens one container until then."""
    parameters = {"sp": _ALL_PERMISSIONS, "se": _format_time(expiry), "sv": API_VERSION, "sr": "c"}
    resource = f"/blob/{account.name}/{container}"
    # Left out: start, policy, address, protocol, snapshot, scope, and what an answer may say.
    signed = (
        parameters["sp"],
        "",
        parameters["se"],
        resource,
        "",
        "",
        "",
        parameters["sv"],
        parameters["sr"],
        *[""] * 7,
    )
    return _sign(account, parameters, signed)


def sign_container_creation(account: StorageAccount, expiry: datetime) -> str:
    """Return the query that lets one create containers until then, and nothing else."""
    parameters = {"sp": "c", "se": _format_time(expiry), "sv": API_VERSION, "ss": "b", "srt": "c"}
    # Left out: start, address, protocol, scope. It ends with a line break, unlike the other.
    signed = (
        account.name,
        parameters["sp"],
        parameters["ss"],
        parameters["srt"],
        "",
        parameters["se"],
        "",
        "",
    )
    return _sign(account, parameters, (*signed, parameters["sv"], "", ""))


def _sign(account: StorageAccount, parameters: dict[str, str], lines: tuple[str, ...]) -> str:
    digest = hmac.digest(account.key, "\n".join(lines).encode(), "sha256")
    return urlencode(parameters | {"sig": b64encode(digest).decode()}, quote_via=quote)


def _format_time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
