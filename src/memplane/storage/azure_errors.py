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
    SignatureRefused,
    StorageError,
    TokenExpiredError,
    TooLarge,
)
from memplane.storage.azure_access import ContainerAddress

_LOST_RACE_CODES: Final = frozenset({"BlobAlreadyExists", "ContainerAlreadyExists"})
_PERMANENT_CODES: Final = frozenset(
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
_UNAUTHENTICATED_CODES: Final = frozenset(
    {"", "AuthenticationFailed", "AuthorizationFailure", "InvalidAuthenticationInfo"}
)
_NO_CONTAINER_CODES: Final = frozenset({"ContainerNotFound", "ContainerBeingDeleted"})


class BlobNotFound(StorageError):
    """The blob does not exist; callers in this package turn it into a value."""


def unexpected_server_error(status: int, key: str) -> BackendUnavailable:
    """Say that something else answered; whatever it said, nothing is known."""
    return BackendUnavailable(
        f"the answer (status {status}) is not from Azure; "
        "a proxy or a network's log-in page may be in between",
        key=key,
    )


def is_token_refused(status: int, headers: Mapping[str, str]) -> bool:
    """Say whether a fresh token may help. The emulator answers 403 where Azure answers 401."""
    return status == 401 or headers.get("x-ms-error-code") == "AuthenticationFailed"  # noqa: PLR2004


def to_error(
    status: int, headers: Mapping[str, str], key: str, signer: ContainerAddress | None = None
) -> MemplaneError:
    """Say what an answer of Azure's means that is not a success.

    `signer` is the address whose account key or signature let the request in; None for a token.
    """
    code = headers.get("x-ms-error-code", "")
    match status:
        case 404 | 409 if code in _NO_CONTAINER_CODES:
            return ContainerMissing("the container does not exist. Check its name, or create it")
        case 404 if code == "BlobNotFound":
            return BlobNotFound("does not exist", key=key)
        case 412:
            return ConcurrencyError("was changed by someone else", key=key)
        case 409 if code in _LOST_RACE_CODES:
            return ConcurrencyError("exists already", key=key)
        case 413:
            return TooLarge("is larger than Azure takes", key=key)
        case 400 | 405 | 411 | 414 if code in _PERMANENT_CODES:
            return RequestRefused(f"Azure refused ({status} {code})", key=key)
        case 401 | 403:
            return _refusal(code, key) if signer is None else _refused_signature(code, key, signer)
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


def _refused_signature(code: str, key: str, signer: ContainerAddress) -> MemplaneError:
    """Name the credential that was refused, and say what to do; the credential is not shown."""
    if code == "KeyBasedAuthenticationNotPermitted":
        return SignatureRefused(
            "the storage account allows no account keys. Allow shared key access there, or use "
            "MEMPLANE_BLOB_ENDPOINT and MEMPLANE_BLOB_CONTAINER with a token"
        )
    if code not in _UNAUTHENTICATED_CODES:
        return PermissionDenied(
            f"Azure refused ({code}): the signature does not allow it", key=key
        )
    reason = code or "no reason given"
    if code == "AuthorizationFailure":  # the emulator's code for a wrong signature
        reason += ", which can also be the account's network rules"
    if signer.account is None:
        return SignatureRefused(
            f"Azure refused the signature in the address ({reason}): it has expired, or its key "
            "was replaced. Make a new one, and put it into MEMPLANE_BLOB_SAS_URL or "
            "MEMPLANE_BLOB_CONNECTION_STRING"
        )
    return SignatureRefused(
        "wrong account key: Azure refused the AccountKey in MEMPLANE_BLOB_CONNECTION_STRING for "
        f"the storage account {signer.account.name!r} ({reason}). It belongs to another account, "
        "or was replaced, or the clock of this machine is wrong. Copy the connection string again "
        "from the account's access keys"
    )
