"""`/mcp` from outside: who is let in, what a token allows, and messages that are wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from memplane.auth.grants import Scope, TokenRequest
from memplane.service.client import SyncClient
from memplane.service.operations import tokens
from memplane.settings import load_settings
from tests.server.door import JSON, Reply, ask, bearer, fresh_address, own_host
from tests.support.running import Running, running_memplane

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("mcp") / "home"
    env = {"MEMPLANE_AGENT": "ops", "MEMPLANE_PERSONA_DIR": str(home.parent / "documents")}
    with running_memplane(home, env=env) as started:
        yield started


def post(running: Running, message: object, *headers: str, path: str = "/mcp") -> Reply:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    given = headers or (own_host(running), bearer(running))
    return ask(running, f"POST {path}", JSON, *given, body=body, source=fresh_address())


def token_of(running: Running, agent: str, *scopes: Scope) -> str:
    with SyncClient(load_settings({"home": str(running.home)}, {})) as admin:
        wanted = TokenRequest(agent=agent, scopes=scopes)
        return admin.call(tokens.issue_token, wanted).token


def with_token(running: Running, token: str) -> tuple[str, str]:
    return own_host(running), f"Authorization: Bearer {token}"


def call(tool: str, **arguments: object) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


def text_of(reply: Reply) -> str:
    return str(reply.json()["result"]["content"][0]["text"])


def stateless(method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 3, "method": method, "params": {**params, "_meta": META}}


def routing(method: str, *more: str, version: str = VERSION) -> tuple[str, ...]:
    return (f"MCP-Protocol-Version: {version}", f"Mcp-Method: {method}", *more)


def test_without_a_token_nobody_learns_what_is_there(running: Running) -> None:
    for headers in ((), ("Authorization: Bearer wrong",), ("Authorization: Bearer",)):
        reply = post(running, LIST, own_host(running), *headers)
        assert reply.status == 401
        assert "recall" not in reply.text
    reply = post(running, LIST, own_host(running), path=f"/mcp?token={running.token}")
    assert reply.status == 401
    assert post(running, LIST).status == 200


def test_another_host_or_origin_is_refused_with_a_right_token(running: Running) -> None:
    assert post(running, LIST, "Host: evil.example", bearer(running)).status == 421
    for origin in ("https://evil.example", "null", "http://127.0.0.1:3000"):
        headers = (own_host(running), bearer(running), f"Origin: {origin}")
        assert post(running, LIST, *headers).status == 403
    own = f"Origin: http://127.0.0.1:{running.port}"
    assert post(running, LIST, own_host(running), bearer(running), own).status == 200


def test_there_is_no_stream_and_no_session(running: Running) -> None:
    for method in ("GET", "DELETE"):
        reply = ask(running, f"{method} /mcp", own_host(running), bearer(running))
        assert (reply.status, reply.headers["allow"]) == (405, "POST")
    reply = post(running, LIST)
    assert "mcp-session-id" not in reply.headers
    assert reply.headers["content-type"] == "application/json"


def test_a_client_that_takes_no_json_is_told_so(running: Running) -> None:
    asked = (own_host(running), bearer(running))
    assert post(running, LIST, *asked, "Accept: text/event-stream").status == 406
    both = "Accept: application/json, text/event-stream"
    assert post(running, LIST, *asked, both).status == 200


def test_a_token_has_the_tools_of_its_scopes_and_no_others(running: Running) -> None:
    reader = with_token(running, token_of(running, "ops", Scope.READ))
    names = [tool["name"] for tool in post(running, LIST, *reader).json()["result"]["tools"]]
    assert names == ["recall", "persona_list", "persona_read"]
    refused = post(running, call("retain", text="a note"), *reader).json()
    assert refused["error"]["code"] == -32602
    writer = with_token(running, token_of(running, "ops", Scope.WRITE))
    assert post(running, call("forget", ids=["x"]), *writer).json()["error"]["code"] == -32602
    listed = {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}
    resources = post(running, listed, *writer).json()["result"]["resources"]
    assert [one["name"] for one in resources] == ["guide"]


def test_an_agent_reaches_its_own_memory_and_documents_alone(running: Running) -> None:
    both = (Scope.READ, Scope.WRITE)
    hers = with_token(running, token_of(running, "ops", *both))
    theirs = with_token(running, token_of(running, "other", *both))
    document = "---\nname: A\ndescription: B\ntype: user\n---\n\nwagtail\n"
    post(running, call("retain", text="The wagtail rollout is on Thursday"), *hers)
    assert "Created" in text_of(
        post(running, call("persona_write", key="user_a.md", text=document), *hers)
    )
    question = call("recall", text="When is the wagtail rollout?")
    assert "Thursday" in text_of(post(running, question, *hers))
    assert "Thursday" not in post(running, question, *theirs).text
    for message in (
        call("persona_list"),
        call("persona_read", key="user_a.md"),
        call("persona_write", key="user_b.md", text=document),
        {"jsonrpc": "2.0", "id": 1, "method": "resources/list"},
        stateless("resources/read", uri="memplane://documents/user_a.md"),
    ):
        reply = post(running, message, *theirs)
        assert "wagtail" not in reply.text
        assert "user_a.md" not in reply.text.replace("memplane://documents/user_a.md", "")
    assert post(running, question, *theirs, path="/mcp?agent=ops").status == 404
    assert not (running.home.parent / "documents" / "user_b.md").exists()


def test_what_is_kept_for_one_user_is_recalled_for_no_other(running: Running) -> None:
    note, question = "The dunlin passphrase hint is heron", "What is the dunlin passphrase hint?"
    post(running, call("retain", text=note), path="/mcp?agent=ops&user=ada")
    for user, is_there in (("&user=ada", True), ("&user=eve", False), ("", False)):
        path = f"/mcp?agent=ops{user}"
        assert (
            "heron" in post(running, call("recall", text=question), path=path).text
        ) is is_there


def test_whose_memory_it_is_has_to_be_known(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_memplane(tmp_path_factory.mktemp("nobody") / "home") as running:
        result = post(running, call("recall", text="x")).json()["result"]
        assert result["isError"]
        assert "MEMPLANE_AGENT" in result["content"][0]["text"]
        named = post(running, call("recall", text="x"), path="/mcp?agent=ops").json()["result"]
        assert not named["isError"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', -32700),
        (b'"text"', -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600),
    ],
)
def test_what_is_no_message_is_refused_with_its_code(
    running: Running, body: bytes, code: int
) -> None:
    reply = post(running, body)
    assert (reply.status, reply.json()["error"]["code"], reply.json()["id"]) == (400, code, None)


def test_a_notification_and_a_response_are_taken_without_a_word(running: Running) -> None:
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 4, "result": {}},
    ):
        reply = post(running, message)
        assert (reply.status, reply.body) == (202, b"")


def test_headers_of_the_stateless_version_repeat_the_body(running: Running) -> None:
    own = (own_host(running), bearer(running))
    listing = stateless("tools/list")
    result = post(running, listing, *own, *routing("tools/list")).json()["result"]
    assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
    assert result["ttlMs"] > 0
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "memplane"
    recall = stateless("tools/call", name="recall", arguments={"text": "x"})
    named = routing("tools/call", "Mcp-Name: recall")
    assert post(running, recall, *own, *named).status == 200
    encoded = routing("tools/call", "Mcp-Name: =?base64?cmVjYWxs?=")
    assert post(running, recall, *own, *encoded).status == 200
    for message, headers in (
        (listing, ()),
        (listing, routing("tools/call")),
        (listing, routing("tools/list", version="2025-11-25")),
        (recall, routing("tools/call")),
        (recall, routing("tools/call", "Mcp-Name: forget")),
        (listing, (*routing("tools/list"), "Mcp-Method: tools/list")),
    ):
        reply = post(running, message, *own, *headers)
        assert (reply.status, reply.json()["error"]["code"]) == (400, -32020), headers


def test_a_version_that_is_not_served_is_named_with_those_that_are(running: Running) -> None:
    own = (own_host(running), bearer(running))
    reply = post(running, LIST, *own, "MCP-Protocol-Version: 2031-01-01")
    assert reply.status == 400
    wanted = stateless("tools/list")
    wanted["params"]["_meta"] = {**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    reply = post(running, wanted, *own, *routing("tools/list", version="2031-01-01"))
    error = reply.json()["error"]
    assert (reply.status, error["code"]) == (400, -32022)
    assert error["data"]["supported"][:2] == [VERSION, "2025-11-25"]
    wanted["params"]["_meta"] = {"io.modelcontextprotocol/protocolVersion": VERSION}
    for message in (wanted, LIST):
        reply = post(running, message, *own, *routing("tools/list"))
        assert (reply.status, reply.json()["error"]["code"]) == (400, -32602)


def test_what_does_not_exist_is_an_error_of_its_kind(running: Running) -> None:
    own = (own_host(running), bearer(running))
    unknown = post(running, stateless("tools/explode"), *own, *routing("tools/explode"))
    assert (unknown.status, unknown.json()["error"]["code"]) == (404, -32601)
    legacy = post(running, {**LIST, "method": "tools/explode"})
    assert (legacy.status, legacy.json()["error"]["code"]) == (200, -32601)
    for uri in (
        "memplane://documents/user_none.md",
        "memplane://documents/..%2Fx.md",
        "file:///x",
    ):
        read = {**LIST, "method": "resources/read", "params": {"uri": uri}}
        assert post(running, read).json()["error"]["code"] == -32002


def test_wrong_arguments_are_a_result_that_a_model_can_correct(running: Running) -> None:
    for arguments, why in (
        ({}, "text"),
        ({"text": 5}, "text"),
        ({"text": "x", "limit": 1000}, "limit"),
        ({"text": "x", "agent": "other"}, "agent"),
    ):
        message = call("recall")
        message["params"]["arguments"] = arguments
        result = post(running, message).json()["result"]
        assert result["isError"]
        assert why in result["content"][0]["text"]
