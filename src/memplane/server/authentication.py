"""The second layer: whose token is it?

Without a token of ours every address answers alike, whether there is something at it or not.
Wrong tokens are counted; a right one always works, from the same address too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from memplane.auth.grants import Grant
from memplane.auth.token_store import TokenStore
from memplane.kit.clock import Clock
from memplane.server.endpoints import EndpointTable
from memplane.server.errors import (
    PLAIN_TEXT_KEY,
    not_found_error,
    render_http_error,
    too_many_requests_error,
    unauthorised_error,
)
from memplane.server.limits import TokenRateLimit, WrongTokenLimit
from memplane.server.request_auth import read_token, store_grant
from memplane.server.response_stream import is_relayed
from memplane.server.responses import AppLayer

_UNAUTHORISED: Final = 401
_REFUSAL_STATUSES: Final = frozenset({_UNAUTHORISED, 403})
ENDPOINT_PATH_KEY: Final = "memplane.path"


def endpoint_path(scope: Scope) -> str:
    """Return the path of the endpoint that was asked, as the table writes it."""
    return str(scope.get(ENDPOINT_PATH_KEY) or "other")


class TokenAuthentication(msgspec.Struct, frozen=True, kw_only=True):
    """Finds out what a request's token grants, and refuses those that grant nothing."""

    app: AppLayer
    table: EndpointTable
    tokens: TokenStore
    clock: Clock
    seconds: Callable[[], float]
    buckets: TokenRateLimit
    wrong: WrongTokenLimit
    refused: Callable[[str], None]

    async def __call__(self, scope: Scope, receive: Receive) -> Response:
        try:
            judged = self._admit(scope)
        except HTTPException as refusal:
            return await self._elsewhere(scope, refusal) or render_http_error(refusal, scope)
        answer = await self.app(scope, receive)
        return answer if judged else self._counted(scope, answer)

    async def _elsewhere(self, scope: Scope, refusal: HTTPException) -> Response | None:
        """Let a person who signed in know that there is no such page; others learn nothing."""
        handler, is_known = self.table.elsewhere, scope[ENDPOINT_PATH_KEY] is not None
        is_stranger = refusal.status_code == _UNAUTHORISED and not read_token(scope)
        if handler is None or is_known or not is_stranger or scope["method"] != "GET":
            return None
        try:
            return await handler(Request(scope))
        except HTTPException:
            return None

    def _counted(self, scope: Scope, answer: Response) -> Response:
        """Count the tokens that a handler with rules of its own finds wrong, too."""
        if is_relayed(scope) or answer.status_code not in _REFUSAL_STATUSES:
            return answer
        wait = self._count_wrong(scope)
        return render_http_error(_too_many_wrong_tokens(wait), scope) if wait else answer

    def _admit(self, scope: Scope) -> bool:
        """Refuse whom the token does not let in; False leaves the token to the handler."""
        path, _ = self.table.find(scope["path"])
        scope[ENDPOINT_PATH_KEY] = path
        scope[PLAIN_TEXT_KEY] = self.table.refuses_in_plain_text(path)
        given = read_token(scope)
        grant = self.tokens.find(given, self.clock()) if given else None
        store_grant(scope, grant)
        if grant is not None:
            self._take_one(grant)
            if path is None:
                raise not_found_error()
        elif not self.table.allows_without_token(path, scope["method"]):
            wait = self._count_wrong(scope) if given else 0.0
            raise _too_many_wrong_tokens(wait) if wait else unauthorised_error()
        return grant is not None or not given

    def _take_one(self, grant: Grant) -> None:
        wait = self.buckets.wait_for(grant.id, self.seconds())
        if wait:
            self.refused("rate")
            raise too_many_requests_error("this token asks too often", wait)

    def _count_wrong(self, scope: Scope) -> float:
        self.refused("token")
        client = scope.get("client")
        return self.wrong.wait_after(client[0] if client else "", self.seconds())


def _too_many_wrong_tokens(wait: float) -> HTTPException:
    return too_many_requests_error("too many wrong tokens from this address", wait)
