"""Tokens: who may call this memplane, and for what."""

from __future__ import annotations

import asyncio

from memplane.auth.grants import Scope, TokenRequest
from memplane.auth.token_store import TokenRecord, make_unknown_token
from memplane.secret import Secret
from memplane.service.model import IssuedToken, Token
from memplane.service.operation import SMALL_BODY_BYTES, Context, operation


@operation(
    "GET",
    "/api/v1/tokens",
    scope=Scope.ADMIN,
)
async def list_tokens(context: Context) -> tuple[Token, ...]:
    """List the tokens that were issued, without the tokens themselves."""
    return tuple(map(_describe, context.services.issued.records()))


@operation(
    "POST",
    "/api/v1/tokens",
    scope=Scope.ADMIN,
    status=201,
    max_body_bytes=SMALL_BODY_BYTES,
)
async def issue_token(context: Context, body: TokenRequest) -> IssuedToken:
    """Issue a token for one agent, or for an admin; it is shown once."""
    return _issued(*await asyncio.to_thread(context.services.issued.issue, body))


@operation(
    "DELETE",
    "/api/v1/tokens/{id}",
    scope=Scope.ADMIN,
    status=204,
    make_unknown=make_unknown_token,
    max_body_bytes=SMALL_BODY_BYTES,
)
async def revoke_token(context: Context, id: str) -> None:
    """Revoke a token, at once."""
    await asyncio.to_thread(context.services.issued.revoke, id)


@operation(
    "POST",
    "/api/v1/tokens/{id}/rotate",
    scope=Scope.ADMIN,
    make_unknown=make_unknown_token,
    max_body_bytes=SMALL_BODY_BYTES,
)
async def rotate_token(context: Context, id: str) -> IssuedToken:
    """Replace a token by a new one, at once."""
    return _issued(*await asyncio.to_thread(context.services.issued.rotate, id))


def _describe(record: TokenRecord) -> Token:
    return Token(
        id=record.id,
        name=record.name,
        agent=record.agent,
        scopes=record.scopes,
        created=record.created,
        expires=record.expires,
    )


def _issued(record: TokenRecord, token: Secret) -> IssuedToken:
    return IssuedToken(about=_describe(record), token=token.reveal())
