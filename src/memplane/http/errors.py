"""The only map from errors to HTTP statuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memplane import errors

STATUS_OF: Final[Mapping[type[errors.MemplaneError], int]] = {
    errors.SettingsError: 500,
    errors.HomeError: 500,
    errors.OwnerUnavailable: 503,
    errors.LedgerError: 500,
    errors.StorageError: 500,
    errors.InvalidKey: 422,
    errors.InvalidText: 422,
    errors.ConcurrencyError: 409,
    errors.TooLarge: 413,
    errors.RequestRefused: 502,
    errors.BackendUnavailable: 503,
    errors.PermissionDenied: 502,
    errors.ContainerMissing: 502,
    errors.BackendMisconfigured: 500,
    errors.AuthError: 502,
    errors.TokenExpiredError: 502,
}


def status_of(error: errors.MemplaneError) -> int:
    """Return the status for an error: its own, or that of the nearest class above it."""
    kinds = (kind for kind in type(error).__mro__ if issubclass(kind, errors.MemplaneError))
    return next(STATUS_OF[kind] for kind in kinds if kind in STATUS_OF)
