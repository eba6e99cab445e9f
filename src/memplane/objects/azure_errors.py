"""What Azure's answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memplane.errors import (
    BackendUnavailable,
    ConcurrencyError,
    ContainerMissing,
    MemplaneError,
    PermissionDenied,
    RequestRefused,
    StorageError,
    TokenExpiredError,
    TooLarge,
)

_LOST_RACES: Final = frozenset({"BlobAlreadyExists", "ContainerAlreadyExists"})
_REFUSED_FOR_GOOD: Final = frozenset(
    {
        "InvalidInput",
        "InvalidMetadata",
        "InvalidResourceName",
        "InvalidUri",
        "MetadataTooLarge",
        "OutOfRangeInput",
        "RequestUrlFailedToParse",
        "UnsupportedHttpVerb",
    }
)
_NO_CONTAINER: Final = frozenset({"ContainerNotFound", "ContainerBeingDeleted"})


class NotThere(StorageError):
    """The blob does not exist; callers in this package turn it into a value."""


def not_azure(status: int, key: str) -> BackendUnavailable:
    """Say that something else answered; whatever it said, nothing is known."""
    return BackendUnavailable(
        f"the answer (status {status}) is not from Azure; "
        "a proxy or a network's log-in page may be in between",
        key=key,
    )


def means_token_refused(status: int, headers: Mapping[str, str]) -> bool:
    """Say whether a fresh token may help. The emulator answers 403 where Azure answers 401."""
    return status == 401 or headers.get("x-ms-error-code") == "AuthenticationFailed"  # noqa: PLR2004


def meaning(status: int, headers: Mapping[str, str], key: str) -> MemplaneError:
    """Say what an answer of Azure's means that is not a success."""
    code = headers.get("x-ms-error-code", "")
    match status:
        case 404 | 409 if code in _NO_CONTAINER:
            return ContainerMissing("the container does not exist. Check its name, or create it")
        case 404 if code == "BlobNotFound":
            return NotThere("does not exist", key=key)
        case 412:
            return ConcurrencyError("was changed by someone else", key=key)
        case 409 if code in _LOST_RACES:
            return ConcurrencyError("exists already", key=key)
        case 413:
            return TooLarge("is larger than Azure takes", key=key)
        case 400 | 405 | 411 | 414 if code in _REFUSED_FOR_GOOD:
            return RequestRefused(f"Azure refused ({status} {code})", key=key)
        case 401 | 403:
            return _refusal(code, key)
        case _:
            wait = headers.get("retry-after", "")
            return BackendUnavailable(
                f"Azure answered {status} {code}".rstrip(),
                key=key,
                retry_after=float(wait) if wait.isdecimal() else None,
            )


def _refusal(code: str, key: str) -> MemplaneError:
    # The emulator answers AuthenticationFailed with 403, Azure with 401.
    if not code or code in {"AuthenticationFailed", "InvalidAuthenticationInfo"}:
        return TokenExpiredError(
            "Azure refused the credentials, also after a fresh token: they have expired, or are "
            "not for this account"
        )
    return PermissionDenied(
        f"Azure refused ({code}): a role or consent is missing, or has not propagated yet "
        "(1-5 minutes)",
        key=key,
    )


def kind_of(error: Exception) -> str:
    """Name an error without its text, which may hold a signed address."""
    reason = getattr(error, "strerror", None)
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__
