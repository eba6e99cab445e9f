"""Every endpoint says who may ask, and the door holds them to it."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from memplane.auth.grants import Scope, TokenRequest
from memplane.auth.token_store import TokenStore
from memplane.errors import BackendUnavailable, HomeError, OwnerUnavailable
from memplane.home import Home
from memplane.ledger.writer import Ledger
from memplane.redaction.redactor import Redactor
from memplane.secret import Secret
from memplane.server.app import RequestLimits, build_table, create_app
from memplane.server.dispatcher import Dispatcher
from memplane.server.endpoints import (
    AnyTokenAuth,
    Endpoint,
    EndpointTable,
    HandlerAuth,
    NoAuth,
    ScopeAuth,
)
from memplane.server.history_api import history_endpoints
from memplane.server.metrics import Metrics, MetricSample
from memplane.server.operation_endpoints import operation_endpoints
from memplane.server.request_auth import find_grant, require_agent
from memplane.server.request_body import convert_json, read_value
from memplane.server.system_api import system_endpoints
from memplane.service.lazy_memory import LazyMemory
from memplane.service.ledger_service import LedgerService
from memplane.service.services import HomeFiles, Services, StorageSummary
from memplane.service.table import OPERATIONS
from tests.server.door import Reply, call, sending

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROOT = "the home's own token"


def no_memory() -> NoReturn:
    raise OwnerUnavailable("nothing here opens memory")


class Door:
    """An application over a home of its own, with tokens for every purpose."""

    def __init__(self, home: Path, *, history: bool = False, **more: Any) -> None:
        home.mkdir(mode=0o700, exist_ok=True)
        self.tokens = TokenStore(
            home / "tokens.json", clock=lambda: NOON, admins={"home": Secret(ROOT)}
        )
        storage = StorageSummary("local", "x", "y", None, None)
        ledger = Ledger(home / "ledger", scrub=lambda turn: turn, clock=lambda: NOON)
        redactor = Redactor(key=b"key")
        recording = LedgerService(
            home / "ledger", ledger, lambda: redactor, Counter(), verbatim=False
        )
        files = HomeFiles(no_memory)
        services = Services(
            Home(home), storage, self.tokens, recording, LazyMemory(no_memory), files
        )
        histories = history_endpoints(
            recording, self.tokens, context_root=None, tombstones=home / "tombstones"
        )
        besides = [*(histories if history else ()), *more.pop("endpoints", ())]
        operations = operation_endpoints(OPERATIONS, services)
        self.endpoints = [*system_endpoints(Metrics(), tuple), *operations, *besides]
        self.app: ASGIApp = create_app(
            services,
            hosts=("localhost",),
            tokens=self.tokens,
            clock=lambda: NOON,
            endpoints=besides,
            **more,
        )

    def token(self, agent: str, *scopes: Scope) -> str:
        return self.tokens.issue(TokenRequest(agent=agent, scopes=scopes))[1].reveal()

    async def ask(self, line: str, token: str | None = ROOT, **more: Any) -> Reply:
        headers = [("Authorization", f"Bearer {token}")] if token is not None else []
        return await call(self.app, line, *headers, **more)


@pytest.fixture
def door(home: Path) -> Door:
    return Door(home)


async def say_yes(_request: Request) -> Response:
    return PlainTextResponse("yes")


def endpoint(needs: Any, path: str = "/things", method: str = "GET", **more: Any) -> Endpoint:
    given: dict[str, Any] = {"handler": say_yes, "summary": "x", **more}
    return Endpoint(method=method, path=path, needs=needs, **given)


# Default deny


def address_of(path: str) -> str:
    return re.sub(r"{\w+(:\w+)?}", "something", re.sub(r"{\w+:int}", "1", path))


OF_AGENTS = {
    "an agent that reads": (ScopeAuth(Scope.READ),),
    "an agent with all that agents have": (ScopeAuth(Scope.READ), ScopeAuth(Scope.WRITE)),
}


def may_send(who: str, endpoint: Endpoint) -> set[int]:
    """The statuses for those who may ask, and here name nothing and meet no memory."""
    return {415, 422, 503} if endpoint.needs in OF_AGENTS.get(who, ()) else set()


async def complaints(app: ASGIApp, table: EndpointTable, tokens: dict[str, str]) -> list[str]:
    """Ask every endpoint as people who may not, and say where that went differently."""
    found: list[str] = []
    for path, place in table.places.items():
        for method, endpoint in place.items():
            if (path, method) in {("/health", "GET"), ("/health", "HEAD")}:
                continue
            for who, token in tokens.items():
                headers = [("Authorization", f"Bearer {token}")] if token else []
                reply = await call(app, f"{method} {address_of(path)}", *headers)
                allowed = {401} if who in {"nobody", "a stranger", "expired"} else {403, 404}
                anybody = path in {"/api/v1/whoami", "/openapi.json"}
                if anybody and who.startswith("an agent"):
                    allowed = {200}
                if path.startswith("/history"):
                    # Its contract says first that an agent is unknown, and lets it read its own.
                    own = path == "/history" and who.startswith("an agent")
                    allowed = {200} if own else {401, 403, 404}
                if reply.status not in allowed | may_send(who, endpoint):
                    found.append(f"{method} {path} answers {reply.status} to {who}")
    return found


def those_who_may_not(door: Door) -> dict[str, str]:
    return {
        "nobody": "",
        "a stranger": "wrong",
        "an agent that reads": door.token("a", Scope.READ),
        "an agent with all that agents have": door.token(
            "b", Scope.READ, Scope.WRITE, Scope.PROXY
        ),
    }


async def test_no_route_answers_those_who_may_not_ask(home: Path) -> None:
    # Each question comes a second later: so many wrong tokens at once would be too many.
    door = Door(home, history=True, seconds=partial(next, count(1.0)))
    table = build_table(door.endpoints)
    assert {"/history", "/history/{agent}", "/metrics"} <= table.places.keys()
    assert await complaints(door.app, table, those_who_may_not(door)) == []


async def test_a_route_without_auth_is_noticed(home: Path) -> None:
    forgotten = [endpoint(NoAuth()), endpoint(HandlerAuth("none"), "/own", "POST")]
    door = Door(home, endpoints=forgotten)
    found = await complaints(door.app, build_table(door.endpoints), those_who_may_not(door))
    assert "GET /things answers 200 to nobody" in found
    assert "POST /own answers 200 to a stranger" in found
    assert not [one for one in found if "/api/v1" in one]


async def test_a_table_without_the_gate_still_refuses(door: Door) -> None:
    """Two locks: what answers from the table asks for the token, too."""
    table = build_table(door.endpoints)
    assert await complaints(sending(Dispatcher(table)), table, {"nobody": ""}) == []


def test_an_endpoint_cannot_be_written_without_saying_who_may_ask() -> None:
    with pytest.raises(TypeError, match="needs"):
        Endpoint(method="GET", path="/x", handler=say_yes, summary="x")  # type: ignore[call-arg]


def test_an_endpoint_is_in_the_table_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        EndpointTable([endpoint(NoAuth()), endpoint(AnyTokenAuth())])


@pytest.mark.parametrize(
    ("scope", "held", "status"),
    [
        (Scope.READ, (Scope.READ,), 200),
        (Scope.READ, (Scope.WRITE, Scope.PROXY), 403),
        (Scope.WRITE, (Scope.READ,), 403),
        (Scope.PROXY, (Scope.PROXY,), 200),
        (Scope.ADMIN, (Scope.READ, Scope.WRITE, Scope.PROXY), 403),
    ],
)
async def test_a_scope_is_needed(
    scope: Scope, held: tuple[Scope, ...], status: int, home: Path
) -> None:
    door = Door(home, endpoints=[endpoint(ScopeAuth(scope))])
    reply = await door.ask("GET /things", door.token("a", *held))
    assert reply.status == status
    if status == 403:
        assert reply.json()["error"]["message"] == f"this token does not have the scope {scope}"
    assert (await door.ask("GET /things")).status == 200


async def test_another_agents_things_are_as_if_absent(home: Path) -> None:
    async def read(request: Request) -> Response:
        require_agent(request, request.path_params["agent"])
        return PlainTextResponse("hers")

    own = endpoint(ScopeAuth(Scope.READ), "/agents/{agent}", handler=read)
    door = Door(home, endpoints=[own])
    token = door.token("a", Scope.READ)
    assert (await door.ask("GET /agents/a", token)).status == 200
    assert (await door.ask("GET /agents/a")).status == 200
    absent = await door.ask("GET /nothing", token)
    for other in ("b", "*", "..", "A", "a "):
        reply = await door.ask(f"GET /agents/{other}", token)
        assert (reply.status, reply.body) == (404, absent.body)


async def test_rules_of_its_own_see_every_request_and_what_was_granted(home: Path) -> None:
    async def decide(request: Request) -> Response:
        grant = find_grant(request)
        return PlainTextResponse(grant.name if grant else "no token of ours")

    own = endpoint(HandlerAuth("a contract"), "/history/{agent}", handler=decide)
    door = Door(home, endpoints=[own])
    assert (await door.ask("GET /history/a")).body == b"home"
    assert (await door.ask("GET /history/a", None)).body == b"no token of ours"
    assert (await door.ask("GET /history/a", "a:pod")).body == b"no token of ours"
    assert (await door.ask("POST /history/a", "a:pod")).status == 405
    assert (await door.ask("GET /history/a/b", "a:pod")).status == 401


async def test_a_revoked_or_expired_token_is_refused_like_any_other(door: Door) -> None:
    wanted = TokenRequest(agent="a", scopes=(Scope.READ,), expires_in=1)
    record, token = door.tokens.issue(wanted)
    assert (await door.ask("GET /api/v1/whoami", token.reveal())).status == 200
    door.tokens.revoke(record.id)
    revoked = await door.ask("GET /api/v1/whoami", token.reveal())
    assert revoked == await door.ask("GET /api/v1/whoami", "wrong")
    assert revoked == await door.ask("GET /nothing", None)


async def test_who_am_i(door: Door) -> None:
    told = (await door.ask("GET /api/v1/whoami", door.token("a", Scope.WRITE, Scope.READ))).json()
    assert told == {"name": "a", "agent": "a", "scopes": ["read", "write"], "expires": None}
    assert (await door.ask("GET /api/v1/whoami")).json()["scopes"] == ["admin"]


# Tokens over HTTP


async def test_tokens_are_issued_listed_rotated_and_revoked(door: Door) -> None:
    json_body: dict[str, Any] = {"body": (b'{"agent":"a","scopes":["read"],', b'"name":"n"}')}
    kind = ("Content-Type", "application/json")
    root = ("Authorization", f"Bearer {ROOT}")
    made = await call(door.app, "POST /api/v1/tokens", root, kind, **json_body)
    assert made.status == 201
    about, token = made.json()["about"], made.json()["token"]
    assert (await door.ask("GET /api/v1/tokens")).json() == [about]
    rotated = (await door.ask(f"POST /api/v1/tokens/{about['id']}/rotate")).json()
    assert rotated["about"]["id"] == about["id"]
    assert (await door.ask("GET /api/v1/whoami", token)).status == 401
    assert (await door.ask("GET /api/v1/whoami", rotated["token"])).status == 200
    assert (await door.ask(f"DELETE /api/v1/tokens/{about['id']}")).status == 204
    assert (await door.ask("GET /api/v1/whoami", rotated["token"])).status == 401
    gone = await door.ask(f"DELETE /api/v1/tokens/{about['id']}")
    assert gone.status == 404
    assert gone.json()["error"]["type"] == "UnknownToken"


# Errors


async def failing(error: Exception, home: Path) -> Reply:
    async def fail(_request: Request) -> Response:
        raise error

    door = Door(home, endpoints=[endpoint(AnyTokenAuth(), handler=fail)])
    return await door.ask("GET /things")


async def test_an_error_of_ours_is_told(home: Path) -> None:
    reply = await failing(BackendUnavailable("nobody answers", key="k"), home)
    assert reply.status == 503
    told = {"type": "BackendUnavailable", "message": "'k': nobody answers"}
    assert reply.json() == {"error": {"code": "service_unavailable", **told}}
    assert (await failing(HomeError("gone"), home)).status == 500


async def test_a_surprise_is_500_and_tells_nothing(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_request: Request) -> Response:
        raise KeyError("a secret detail")

    door = Door(home, endpoints=[endpoint(AnyTokenAuth(), handler=fail)])
    reply = await door.ask("GET /things")
    assert reply.status == 500
    told = {"code": "internal_error", "message": "internal server error"}
    assert reply.json() == {"error": told}
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "a secret detail" in caplog.text
    assert 'status="500"' in (await door.ask("GET /metrics")).body.decode()


# Bodies


class Thing(msgspec.Struct):
    text: str
    number: int = 0


async def echo_length(request: Request) -> Response:
    thing = convert_json(await read_value(request), Thing)
    return PlainTextResponse(str(len(thing.text)))


async def post(door: Door, *parts: bytes, kind: str = "application/json") -> Reply:
    headers = (("Authorization", f"Bearer {ROOT}"), ("Content-Type", kind))
    return await call(door.app, "POST /things", *headers, body=parts)


@pytest.fixture
def taking(home: Path) -> Door:
    one = endpoint(
        AnyTokenAuth(), method="POST", handler=echo_length, takes=Thing, body_limit=1_000_000
    )
    return Door(home, endpoints=[one])


async def test_a_body_in_parts_is_counted_to_the_byte(taking: Door) -> None:
    frame = len(b'{"text":""}')
    body = b'{"text":"' + b"x" * (1_000_000 - frame) + b'"}'
    parts = [body[start : start + 1000] for start in range(0, len(body), 1000)]
    assert (await post(taking, *parts)).body == str(1_000_000 - frame).encode()
    assert (await post(taking, *parts, b" ")).status == 413


async def test_a_body_is_of_the_type_that_was_asked_for(taking: Door) -> None:
    assert (await post(taking, b'{"text":"\\ud83d"}')).body == b"1"
    assert (await post(taking, b'{"text":"","more":1}')).body == b"0"
    wrong = await post(taking, b'{"text":"","number":"1"}')
    assert wrong.status == 422
    assert "$.number" in wrong.json()["error"]["message"]
    assert (await post(taking, b"{}", kind="text/plain")).status == 415


# Limits


async def test_a_token_that_asks_too_often_is_told_when_to_come_back(home: Path) -> None:
    door = Door(home, limits=RequestLimits(requests_per_second=5), seconds=lambda: 0.0)
    token = door.token("a", Scope.READ)
    statuses = [(await door.ask("GET /api/v1/whoami", token)).status for _ in range(11)]
    assert statuses == [200] * 10 + [429]
    refused = await door.ask("GET /api/v1/whoami", token)
    assert refused.headers["retry-after"] == "1"
    assert (await door.ask("GET /api/v1/whoami")).status == 200


async def test_more_requests_at_once_than_it_takes_are_told_so(home: Path) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def wait(_request: Request) -> Response:
        entered.set()
        await leave.wait()
        return PlainTextResponse("done")

    slow = endpoint(AnyTokenAuth(), handler=wait)
    door = Door(home, endpoints=[slow], limits=RequestLimits(concurrent_requests=1))
    first = asyncio.create_task(door.ask("GET /things"))
    await entered.wait()
    busy = await door.ask("GET /health", None)
    assert (busy.status, busy.headers["retry-after"]) == (503, "1")
    leave.set()
    assert (await first).body == b"done"
    assert (await door.ask("GET /health", None)).status == 200


async def test_other_kinds_of_connection_are_refused(door: Door) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await door.app({"type": "websocket", "path": "/health", "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        ("GET http://evil/health", (), 400),
        ("GET *", (), 400),
        ("POST /health", (("Content-Length", "1"), ("Transfer-Encoding", "chunked")), 400),
    ],
)
async def test_the_boundary_does_not_rely_on_the_parser(
    line: str, headers: tuple[tuple[str, str], ...], status: int, door: Door
) -> None:
    root = ("Authorization", f"Bearer {ROOT}")
    assert (await call(door.app, line, root, *headers)).status == status


# The description


async def test_the_description_and_the_table_have_the_same_endpoints(door: Door) -> None:
    described = (await door.ask("GET /openapi.json")).json()
    table = build_table(door.endpoints)
    routed = {
        (re.sub(r"{(\w+)(:\w+)?}", r"{\1}", path), method)
        for path, place in table.places.items()
        for method in place.keys() - {"HEAD"}
    }
    told = {
        (path, method.upper())
        for path, operations in described["paths"].items()
        for method in operations
    }
    assert told == routed
    assert described["openapi"] == "3.1.0"


async def test_the_description_says_who_may_ask(door: Door) -> None:
    paths = (await door.ask("GET /openapi.json")).json()["paths"]
    assert paths["/health"]["get"]["security"] == []
    for path, operations in paths.items():
        for operation in operations.values():
            assert bool(operation["security"]) == (path != "/health"), path
    assert paths["/api/v1/tokens"]["post"]["security"][0] == {"bearer": ["admin"]}
    assert paths["/api/v1/whoami"]["get"]["security"][0] == {"bearer": []}


async def test_the_description_is_whole(home: Path) -> None:
    more = [
        endpoint(HandlerAuth("its contract"), "/history/{agent}"),
        endpoint(AnyTokenAuth(), "/files/{rest:path}"),
    ]
    body = (await Door(home, endpoints=more).ask("GET /openapi.json")).json()
    schemas, schemes = body["components"]["schemas"], body["components"]["securitySchemes"]
    for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(body)):
        assert name in schemas
    names: list[str] = []
    for path, operations in body["paths"].items():
        for operation in operations.values():
            names.append(operation["operationId"])
            assert operation["responses"]
            assert operation["summary"]
            assert all(scheme in schemes for one in operation["security"] for scheme in one)
            parameters = operation.get("parameters", [])
            given = [one["name"] for one in parameters if one["in"] == "path"]
            assert given == re.findall(r"{(\w+)}", path)
    assert len(names) == len(set(names))
    assert body["paths"]["/files/{rest}"]
    assert body["paths"]["/history/{agent}"]["get"]["description"] == "its contract"


# Figures


async def test_figures_count_endpoints_and_never_name_agents(home: Path) -> None:
    door = Door(home)
    token = door.token("very-private-agent", Scope.READ)
    await door.ask("GET /api/v1/whoami", token)
    await door.ask("GET /api/v1/tokens/very-private-agent", token)
    await door.ask("GET /nothing/very-private-agent", token)
    await door.ask("GET /api/v1/whoami", "very-private-agent:wrong")
    await door.ask("GET /health", None, host="very-private-agent")
    await door.ask("BREW /api/v1/whoami")
    text = (await door.ask("GET /metrics")).body.decode()
    assert "very-private-agent" not in text
    for line in (
        'memplane_http_requests_total{endpoint="/api/v1/whoami",method="GET",status="200"} 1.0',
        'memplane_http_requests_total{endpoint="/api/v1/whoami",method="GET",status="401"} 1.0',
        'memplane_http_requests_total{endpoint="/api/v1/whoami",method="other",status="405"} 1.0',
        'memplane_http_requests_total{endpoint="/api/v1/tokens/{id}",method="GET",status="405"} 1',
        'memplane_http_requests_total{endpoint="other",method="GET",status="404"} 1.0',
        'memplane_http_refused_total{reason="host"} 1.0',
        'memplane_http_refused_total{reason="token"} 1.0',
        "memplane_http_wrong_tokens_total 1.0",
        'memplane_http_request_seconds_count{endpoint="/api/v1/whoami"} 3.0',
        "memplane_build_info{version=",
    ):
        assert line in text, line


async def test_other_parts_add_figures(home: Path) -> None:
    def figures() -> list[MetricSample]:
        made: Callable[..., MetricSample] = MetricSample
        return [
            made(name="memplane_ledger_entries", help="Kept.", kind="counter", value=3),
            made(name="memplane_rules", help="By.", kind="gauge", value=1, labels={"kind": "a"}),
            made(name="memplane_rules", help="By.", kind="gauge", value=2, labels={"kind": "b"}),
        ]

    text = (await Door(home, figures=[figures]).ask("GET /metrics")).body.decode()
    assert "memplane_ledger_entries_total 3.0" in text
    assert 'memplane_rules{kind="a"} 1.0' in text
    assert 'memplane_rules{kind="b"} 2.0' in text
    assert text.count("# TYPE memplane_rules gauge") == 1


async def test_two_applications_count_for_themselves(home: Path, tmp_path: Path) -> None:
    first, second = Door(home), Door(tmp_path / "other")
    await first.ask("GET /api/v1/whoami", "wrong")
    assert "wrong_tokens_total 1.0" in (await first.ask("GET /metrics")).body.decode()
    assert "wrong_tokens_total 0.0" in (await second.ask("GET /metrics")).body.decode()
