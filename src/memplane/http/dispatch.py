"""The last layer: from a request to the endpoint at its address, and from errors to answers."""

from __future__ import annotations

import logging

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from memplane.errors import MemplaneError
from memplane.http.bodies import check_head, counted
from memplane.http.endpoints import Access, AnyToken, Needs, Open, OwnRules, Table
from memplane.http.errors import absent, answer_error, answer_surprise, answer_to, out_of_scope
from memplane.http.principals import grant_of
from memplane.http.relaying import NobodyListens

_log = logging.getLogger(__name__)


class Dispatch(msgspec.Struct, frozen=True):
    """Answers from a table of endpoints; what is raised before an answer begins becomes one.

    It asks for the token again, so that a table without a gate before it lets nobody in.
    """

    table: Table

    async def __call__(self, scope: Scope, receive: Receive) -> Response:
        try:
            return await self._answered(scope, receive)
        except HTTPException as refusal:
            return answer_to(refusal, scope)
        except MemplaneError as error:
            return answer_error(error)
        except ClientDisconnect:
            return NobodyListens()  # in the middle of its body
        except Exception:  # noqa: BLE001 - logged here; whoever asked learns nothing of it
            _log.exception("%s %s failed", scope["method"], scope["path"])
            return answer_surprise()

    async def _answered(self, scope: Scope, receive: Receive) -> Response:
        path, parameters = self.table.find(scope["path"])
        if path is None:
            raise absent()
        place = self.table.places[path]
        endpoint = place.get(scope["method"])
        if endpoint is None:
            raise HTTPException(405, "Method Not Allowed", {"Allow": ", ".join(place)})
        scope["path_params"] = parameters
        request = Request(scope, counted(receive, endpoint.body_limit))
        _authorise(endpoint.needs, request)
        check_head(
            scope["headers"],
            limit=endpoint.body_limit,
            json=endpoint.takes is not None,
            encoded=endpoint.encoded,
            lines=endpoint.takes_lines,
            optional=endpoint.body_optional,
        )
        return await endpoint.handler(request)


def _authorise(needs: Access, request: Request) -> None:
    match needs:
        case Open() | OwnRules():
            return
        case AnyToken():
            grant_of(request)
        case Needs(scope):
            if not grant_of(request).allows(scope):
                raise out_of_scope(scope)
