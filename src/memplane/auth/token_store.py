"""The tokens that were issued, as hashes in one file of the home.

The file is replaced as a whole, durably, before a change counts. Only the owner of the home
changes it, so there is nobody to race with.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from memplane.auth.grants import Grant, Scope, TokenRequest, check_token_request
from memplane.errors import HomeError, InvalidRequest, UnknownToken
from memplane.kit.clock import Clock
from memplane.kit.ids import new_id
from memplane.kit.private_files import read_private_file, replace_private_file
from memplane.secret import Secret

TOKEN_PREFIX: Final = "mpt_"  # noqa: S105 - no token, what one begins with
"""What every token that is issued begins with, behind its agent's name."""

_TOKEN_BYTES: Final = 32
_FORMAT_VERSION: Final = 1
_MAX_TOKENS: Final = 1000
_NO_TOKEN: Final = Secret("")
_SERVICE_GRANT: Final = Grant(
    id="service", name="service", agent=None, scopes=frozenset({Scope.READ, Scope.WRITE})
)


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a token: everything but the token."""

    id: str
    name: str
    agent: str | None
    scopes: tuple[Scope, ...]
    sha256: str
    created: datetime
    expires: datetime | None = None


class _TokenFile(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    tokens: tuple[TokenRecord, ...]


class TokenStore:
    """Issues, finds and revokes tokens.

    `admins` are tokens from elsewhere, by name: the home's own, and one from the settings. They
    are admins' tokens; only their hashes are held, and they are neither listed nor revoked here.
    `service` is the token of those who use this as their memory service: it reads and writes the
    memory of every agent, and nothing else.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        admins: Mapping[str, Secret],
        service: Secret = _NO_TOKEN,
    ) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._admins = tuple(
            (_hash(token.reveal()), _admin(name)) for name, token in admins.items() if token
        )
        if service:
            self._admins += ((_hash(service.reveal()), _SERVICE_GRANT),)
        self._records = _read(path)
        self._issued = _keys(self._records)

    def records(self) -> tuple[TokenRecord, ...]:
        """Return what is known of every token that was issued and not revoked."""
        return self._records

    def find(self, token: str, now: datetime) -> Grant | None:
        """Say what the bearer may do; None when the token is not one of ours, or has expired.

        Every token is compared, so that the time it takes does not tell which one was near.
        """
        token_hash = _hash(token)
        match: Grant | None = None
        for known, grant in (*self._admins, *self._issued):
            if hmac.compare_digest(known, token_hash):
                match = grant
        return match if match and not _is_expired(match, now) else None

    def knows_agent(self, agent: str) -> bool:
        """Say whether a token was issued for that agent."""
        return any(record.agent == agent for record in self._records)

    def governs(self, agent: str, now: datetime) -> bool:
        """Say whether that agent takes its turns with a token: one is good for that now."""
        grants = (grant for _, grant in self._issued if grant.agent == agent)
        return any(
            candidate.allows(Scope.PROXY) and not _is_expired(candidate, now)
            for candidate in grants
        )

    def issue(self, request: TokenRequest) -> tuple[TokenRecord, Secret]:
        """Make a token; it is durable now, and nobody can be told it again.

        Raises:
            InvalidRequest: There may be no such token.
            HomeError: The file cannot be written; the token does not exist.
        """
        check_token_request(request)
        token = _new_token(request.agent)
        now = self._clock()
        life = timedelta(seconds=request.expires_in) if request.expires_in is not None else None
        record = TokenRecord(
            id=new_id(),
            name=request.name or request.agent or "admin",
            agent=request.agent,
            scopes=(Scope.ADMIN,) if request.admin else tuple(sorted(set(request.scopes))),
            sha256=_hash(token.reveal()).hex(),
            created=now,
            expires=now + life if life else None,
        )
        with self._lock:
            if len(self._records) >= _MAX_TOKENS:
                raise InvalidRequest(f"there are {_MAX_TOKENS} tokens already. Revoke some first")
            self._replace((*self._records, record))
        return record, token

    def revoke(self, token_id: str) -> None:
        """Let a token be good for nothing, at once and for ever.

        Raises:
            UnknownToken: There is none with that id.
            HomeError: The file cannot be written; the token is as good as before.
        """
        with self._lock:
            record = self._record(token_id)
            self._replace(tuple(other for other in self._records if other is not record))

    def rotate(self, token_id: str) -> tuple[TokenRecord, Secret]:
        """Put a new token in the place of the old one, which is good for nothing at once.

        A token that expires lives as long from now as it did from when it was made.

        Raises:
            UnknownToken: There is none with that id.
            HomeError: The file cannot be written; the old token is as good as before.
        """
        with self._lock:
            old = self._record(token_id)
            token = _new_token(old.agent)
            now = self._clock()
            new = msgspec.structs.replace(
                old,
                sha256=_hash(token.reveal()).hex(),
                created=now,
                expires=now + (old.expires - old.created) if old.expires else None,
            )
            self._replace(tuple(new if other is old else other for other in self._records))
        return new, token

    def _record(self, token_id: str) -> TokenRecord:
        match = {record.id: record for record in self._records}.get(token_id)
        if match is None:
            raise make_unknown_token(token_id)
        return match

    def _replace(self, records: tuple[TokenRecord, ...]) -> None:
        body = msgspec.json.encode(_TokenFile(version=_FORMAT_VERSION, tokens=records))
        replace_private_file(self._path, msgspec.json.format(body, indent=2) + b"\n")
        self._records, self._issued = records, _keys(records)


def read_token_records(path: Path) -> tuple[TokenRecord, ...]:
    """Read what is kept of the issued tokens, without opening the store.

    Raises:
        HomeError: The file cannot be used.
    """
    return _read(path)


def make_unknown_token(token_id: str) -> UnknownToken:
    """Make the error for an id that no token has."""
    return UnknownToken(f"there is no token {token_id!r}. `memplane token list` shows them")


def _read(path: Path) -> tuple[TokenRecord, ...]:
    body = read_private_file(path)
    if body is None:
        return ()
    remedy = "Put a copy back, or remove it; then every token that was issued is void"
    try:
        file = msgspec.json.decode(body, type=_TokenFile)
        _keys(file.tokens)
    except (msgspec.DecodeError, ValueError) as error:
        raise HomeError(f"{path} is damaged ({error}). {remedy}") from error
    if file.version != _FORMAT_VERSION:
        raise HomeError(f"{path} was written by another version of memplane. {remedy}")
    return file.tokens


def _keys(records: tuple[TokenRecord, ...]) -> tuple[tuple[bytes, Grant], ...]:
    return tuple((bytes.fromhex(record.sha256), _grant(record)) for record in records)


def _grant(record: TokenRecord) -> Grant:
    return Grant(
        id=record.id,
        name=record.name,
        agent=record.agent,
        scopes=frozenset(record.scopes),
        expires=record.expires,
    )


def _admin(name: str) -> Grant:
    return Grant(id=name, name=name, agent=None, scopes=frozenset({Scope.ADMIN}))


def _is_expired(grant: Grant, now: datetime) -> bool:
    return grant.expires is not None and now >= grant.expires


def _new_token(agent: str | None) -> Secret:
    bare = TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    return Secret(bare if agent is None else f"{agent}:{bare}")


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
