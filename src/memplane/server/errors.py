"""The only map from errors to HTTP statuses, and the answers that refuse."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Scope

from memplane import errors

PLAIN_TEXT_KEY: Final = "memplane.plain"
"""Set on a request whose endpoint is refused in plain text."""

_log = logging.getLogger(__name__)

_INTERNAL_ERROR: Final = "internal server error"
STATUS_OF: Final[Mapping[type[errors.MemplaneError], int]] = {
    errors.SettingsError: 500,
    errors.HomeError: 500,
    errors.OwnerUnavailable: 503,
    errors.InvalidRequest: 422,
    errors.UnknownToken: 404,
    errors.UnknownMemory: 404,
    errors.PersonaError: 409,
    errors.NotPublished: 409,
    errors.NotBrought: 409,
    errors.UnknownProject: 409,
    errors.PodError: 422,
    errors.LedgerError: 500,
    errors.UnknownAgent: 404,
    errors.InvalidCursor: 400,
    errors.NotRecorded: 503,
    errors.EntryTooLarge: 413,
    errors.InvalidEntry: 422,
    errors.LedgerFull: 503,
    errors.RecordsError: 500,
    errors.IndexUnusable: 503,
    errors.EmbeddingUnavailable: 503,
    errors.TextRefused: 502,
    errors.UpstreamError: 502,
    errors.UpstreamUnreachable: 502,
    errors.UpstreamStalled: 504,
    errors.UpstreamCut: 502,
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
    errors.ProvisioningError: 502,
    errors.AuthError: 502,
    errors.HopError: 502,
    errors.TokenExpiredError: 502,
    errors.SignatureRefused: 502,
}


def status_of(error: errors.MemplaneError) -> int:
    """Return the status for an error: its own, or that of the nearest class above it."""
    kinds = (kind for kind in type(error).__mro__ if issubclass(kind, errors.MemplaneError))
    return next(STATUS_OF[kind] for kind in kinds if kind in STATUS_OF)


class InvalidFieldsError(HTTPException):
    """A request that is wrong in itself, and in which of its fields.

    It is an InvalidRequest for those who ask from Python; a contract fixes its status.
    """

    def __init__(
        self, status: int, message: str, fields: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(status, message)
        self.fields = dict(fields)


def error_response(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer that it is not done, and why."""
    body = {"error": {"code": errors.code_of_status(status), "message": message}}
    return JSONResponse(body, status, headers)


def _render_invalid(status: int, message: str, fields: Mapping[str, str]) -> Response:
    kind = errors.InvalidRequest.__name__
    told = {"code": errors.code_of_status(status), "type": kind, "message": message}
    return JSONResponse({"error": {**told, "fields": dict(fields)} if fields else told}, status)


def unauthorised_error() -> HTTPException:
    """Make the one answer for a token that is missing, wrong or expired."""
    message = "a valid bearer token is needed; this machine's is in the home's token file"
    return HTTPException(401, message, {"WWW-Authenticate": "Bearer"})


def not_found_error() -> HTTPException:
    """Make the one answer for what is not there, or not there for whoever asks."""
    return HTTPException(404, "there is nothing at that address")


def missing_scope_error(scope: str) -> HTTPException:
    """Make the answer for a token that is good for something else."""
    return HTTPException(403, f"this token does not have the scope {scope}")


def too_many_requests_error(message: str, seconds: float) -> HTTPException:
    """Make the answer for too much at once."""
    return HTTPException(429, message, {"Retry-After": str(int(seconds) + 1)})


def render_http_error(error: HTTPException, scope: Scope) -> Response:
    """Turn a refusal that was raised into an answer, in the words that the endpoint uses."""
    if scope.get(PLAIN_TEXT_KEY):
        return PlainTextResponse(error.detail, error.status_code, error.headers)
    if isinstance(error, InvalidFieldsError):
        return _render_invalid(error.status_code, error.detail, error.fields)
    return error_response(error.status_code, error.detail, error.headers)


def render_memplane_error(error: errors.MemplaneError) -> Response:
    """Answer an error of ours."""
    status = status_of(error)
    if status >= 500:  # noqa: PLR2004
        _log.error("%s: %s", type(error).__name__, error)
    if isinstance(error, errors.InvalidRequest):
        return _render_invalid(status, str(error), error.fields)
    # What a database says of itself is for the log alone.
    message = _INTERNAL_ERROR if isinstance(error, errors.RecordsError) else str(error)
    told = {
        "code": errors.code_of_status(status),
        "type": type(error).__name__,
        "message": message,
    }
    return JSONResponse({"error": told}, status)


def render_internal_error() -> Response:
    """Answer what nobody foresaw; the server logs it, the client learns nothing of it."""
    return error_response(500, _INTERNAL_ERROR)
