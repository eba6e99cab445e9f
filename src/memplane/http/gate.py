"""The second layer: whose token is it?

Without a token of ours every address answers alike, whether there is something at it or not.
Wrong tokens are counted; a right one always works, from the same address too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from memplane.access.grants import Grant
from memplane.access.tokens import TokenStore
from memplane.clock import Clock
from memplane.http.endpoints import Table
from memplane.http.errors import absent, answer_to, too_many, unauthorised
from memplane.http.limits import Buckets, WrongTokens
from memplane.http.principals import remember_grant, token_given

PATH_IN_TABLE: Final = "memplane.path"


def path_in_table(scope: Scope) -> str:
    """Return the path of the endpoint that was asked, as the table writes it."""
    return str(scope.get(PATH_IN_TABLE) or "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Finds out what a request's token grants, and refuses those that grant nothing."""

    app: ASGIApp
    table: Table
    tokens: TokenStore
    clock: Clock
    seconds: Callable[[], float]
    buckets: Buckets
    wrong: WrongTokens
    refused: Callable[[str], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._admit(scope)
        except HTTPException as refusal:
            await answer_to(refusal)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _admit(self, scope: Scope) -> None:
        path = self.table.path_of(scope["path"])
        scope[PATH_IN_TABLE] = path
        given = token_given(scope)
        grant = self.tokens.find(given, self.clock()) if given else None
        remember_grant(scope, grant)
        if grant is not None:
            self._take_one(grant)
            if path is None:
                raise absent()
        elif not self.table.has_no_guard(path, scope["method"]):
            self._refuse(scope, given)

    def _take_one(self, grant: Grant) -> None:
        wait = self.buckets.wait_for(grant.id, self.seconds())
        if wait:
            self.refused("rate")
            raise too_many("this token asks too often", wait)

    def _refuse(self, scope: Scope, given: str) -> None:
        if given:
            self.refused("token")
            client = scope.get("client")
            wait = self.wrong.wait_after(client[0] if client else "", self.seconds())
            if wait:
                raise too_many("too many wrong tokens from this address", wait)
        raise unauthorised()
