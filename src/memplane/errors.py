"""Every error memplane raises on purpose.

MemplaneError
├── SettingsError              the configuration cannot be used
├── HomeError                  the home folder cannot be used, or another process owns it
├── OwnerUnavailable           the process that owns the home did not answer
├── InvalidRequest             what was asked for cannot be done as it was asked
├── UnknownToken               no token has that id
├── UnknownMemory              there is no such memory, session, change, conflict, reject or entry
├── PodError                   a pod's file, or what was compiled from it, cannot be used
├── PersonaError               the folder of documents cannot be used or synced as asked
│   ├── NotPublished           the document may not leave this machine as it is
│   ├── NotBrought             what the container has at a document's key is not brought here
│   └── UnknownProject         nothing says which project the folder belongs to
├── LedgerError                a ledger file cannot be used
│   ├── UnknownAgent           that is no agent's name, or it has no ledger
│   ├── InvalidCursor          the cursor was not made by this ledger
│   └── NotRecorded            the entry was not written, or may not have been
│       ├── EntryTooLarge      no reader would take a line of that length
│       ├── InvalidEntry       the turn says something that no entry can hold
│       └── LedgerFull         more entries wait than may, because the disk is too slow
├── RecordsError               the database of what was learned cannot be used
├── IndexUnusable              the text index cannot be used; it can be made again
├── EmbeddingUnavailable       no vectors can be had now; what needs none works all the same
│   └── TextRefused            the model will never take one of these texts
├── UpstreamError              a provider did not answer as it should
│   ├── UpstreamUnreachable    there was no answer that could be used
│   ├── UpstreamStalled        it was waited for too long
│   └── UpstreamCut            the answer ended before it was whole
├── StorageError               an object store failed
│   ├── InvalidKey             the key breaks the rules every store shares
│   ├── InvalidText            the bytes at the key are not UTF-8
│   ├── ConcurrencyError       someone else wrote first; read again and merge
│   ├── TooLarge               the store does not take an object of that size
│   ├── RequestRefused         the store will never take this request as it is
│   ├── BackendUnavailable     no answer, or one that cannot be trusted; the outcome is unknown
│   ├── PermissionDenied       the store refused this caller
│   ├── ContainerMissing       the container does not exist
│   └── BackendMisconfigured   the settings name a store that cannot be opened
├── ProvisioningError          Azure refused a step of setting up; earlier steps stay done
└── AuthError                  no token could be had
    ├── HopError               one of the three steps to an Agent User's token failed
    ├── TokenExpiredError      the store refused the token, also after a fresh one
    └── SignatureRefused       the store refused the account key, or the signature in an address

An outcome that callers handle every day is a return value and not an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

_CODE_OF_STATUS: Final = {
    413: "too_large",
    422: "invalid_request",
    500: "internal_error",
}
"""Statuses that are not called by their standard phrase."""


class MemplaneError(Exception):
    """Base class of every error raised on purpose."""


class SettingsError(MemplaneError):
    """The configuration cannot be used."""


class HomeError(MemplaneError):
    """The home folder cannot be used, or another process owns it."""


class OwnerUnavailable(MemplaneError):
    """The process that owns the home did not answer."""


class InvalidRequest(MemplaneError):
    """What was asked for cannot be done as it was asked; `fields` says what is wrong where."""

    def __init__(self, message: str, *, fields: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.fields = dict(fields)


class UnknownToken(MemplaneError):
    """No token has that id."""


class UnknownMemory(MemplaneError):
    """There is no such memory, session, change, conflict, reject or entry of that agent's."""


class PodError(MemplaneError):
    """A pod's file, or what was compiled from it, cannot be used."""


class PersonaError(MemplaneError):
    """The folder of documents cannot be used or synced as asked."""


class NotPublished(PersonaError):
    """The document may not leave this machine as it is; when `harmless`, a copy may be kept."""

    def __init__(self, message: str, *, harmless: bool = False) -> None:
        super().__init__(message)
        self.harmless = harmless


class NotBrought(PersonaError):
    """What the container has at a document's key is not brought here: it is no sound text."""


class UnknownProject(PersonaError):
    """Nothing says which project the folder belongs to, or no project has that name."""


class LedgerError(MemplaneError):
    """A ledger file cannot be used."""


class UnknownAgent(LedgerError):
    """That is no agent's name, or it has no ledger."""


class InvalidCursor(LedgerError):
    """The cursor was not made by this ledger."""


class NotRecorded(LedgerError):
    """The entry was not written, or may not have been. Nothing else was lost."""


class EntryTooLarge(NotRecorded):
    """No reader would take a line of that length."""


class InvalidEntry(NotRecorded):
    """The turn says something that no entry can hold, such as a number beyond every float."""


class LedgerFull(NotRecorded):
    """More entries wait than may, because the disk is too slow."""


class RecordsError(MemplaneError):
    """The database of what was learned cannot be used."""


class IndexUnusable(MemplaneError):
    """The text index cannot be used; it can be made again."""


class EmbeddingUnavailable(MemplaneError):
    """No vectors can be had now; what needs none works all the same."""


class TextRefused(EmbeddingUnavailable):
    """The model will never take one of these texts; others may be fine."""


class UpstreamError(MemplaneError):
    """A provider did not answer as it should. No text of it holds a key or a query."""


class UpstreamUnreachable(UpstreamError):
    """There was no answer that could be used; nothing was given to the client."""


class UpstreamStalled(UpstreamError):
    """It was waited for too long; `phase` is `head`, `first byte` or `idle`."""

    def __init__(self, message: str, phase: str = "head") -> None:
        super().__init__(message)
        self.phase = phase


class UpstreamCut(UpstreamError):
    """The answer ended before it was whole."""


class StorageError(MemplaneError):
    """An object store failed. `key` is the object concerned, empty for the store as a whole."""

    def __init__(self, message: str, *, key: str = "") -> None:
        super().__init__(f"{key!r}: {message}" if key else message)
        self.key = key


class InvalidKey(StorageError):
    """The key breaks the rules every store shares."""


class InvalidText(StorageError):
    """The bytes at the key are not UTF-8."""


class ConcurrencyError(StorageError):
    """Someone else wrote first; read again and merge. Nothing was written."""


class TooLarge(StorageError):
    """The store does not take an object of that size."""


class RequestRefused(StorageError):
    """The store will never take this request as it is."""


class BackendUnavailable(StorageError):
    """No answer, or one that cannot be trusted. A write may or may not have happened."""

    def __init__(self, message: str, *, key: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, key=key)
        self.retry_after = retry_after


class PermissionDenied(StorageError):
    """The store refused this caller."""


class ContainerMissing(StorageError):
    """The container does not exist."""


class BackendMisconfigured(StorageError):
    """The settings name a store that cannot be opened."""


class ProvisioningError(MemplaneError):
    """Azure refused a step of setting up; earlier steps stay done. `code` is Azure's."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class AuthError(MemplaneError):
    """No token could be had."""


class HopError(AuthError):
    """One of the three steps to an Agent User's token failed; `hop` says which, `code` why."""

    def __init__(self, hop: str, code: str = "", description: str = "") -> None:
        super().__init__(f"{hop}: {code}: {description}")
        self.hop = hop
        self.code = code
        self.description = description


class TokenExpiredError(AuthError):
    """The store refused the token, also after a fresh one."""


class SignatureRefused(AuthError):
    """The store refused the account key, or the signature that an address carries."""


def code_of_status(status: int) -> str:
    """Return the `error.code` of an HTTP status: a name for programs."""
    if status in _CODE_OF_STATUS:
        return _CODE_OF_STATUS[status]
    try:
        return HTTPStatus(status).phrase.lower().replace(" ", "_")
    except ValueError:  # a provider may use a status that no standard names
        return "error"
