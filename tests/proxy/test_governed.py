"""Governed agents: tokens of ours, providers' keys that only we have, pods and their services."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from memplane.auth.grants import Scope, TokenRequest
from memplane.service.client import local_client
from memplane.service.operations import tokens
from tests.proxy.proxied import Proxied, proxied
from tests.support.answers import (
    Said,
    anthropic_json,
    chat_events,
    chat_json,
    chat_stream,
    cut,
    openai_error,
    whole,
)
from tests.support.upstream import Answer, End

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
KEY = "sk-provider-0123456789abcdef"
HIDDEN = "[redacted]******************"
SECRET = "5ecre7:with-a-colon"
ASKED = [{"role": "user", "content": "What is Ada allergic to?"}]
SAID = Said("Peanuts.")


def write_providers(folder: Path, door: Proxied, **more: dict[str, Any]) -> None:
    base = f"{door.upstream.address}/v1"
    providers: dict[str, Any] = {
        "openai": {"base_url": base, "api_key": KEY},
        "anthropic": {"base_url": base, "api_key": KEY},
        **more,
    }
    (folder / "providers.json").write_text(json.dumps({"providers": providers}))


async def token_of(door: Proxied, agent: str, *scopes: Scope) -> dict[str, str]:
    issued = await local_client(door.services).call(
        tokens.issue_token, TokenRequest(agent=agent, scopes=scopes)
    )
    return {"Authorization": f"Bearer {issued.token}"}


def write_context(root: Path, agent: str = "ada", **files: Any) -> dict[str, str]:
    """What a compile leaves for an agent; returns the headers that the agent sends."""
    folder = root / agent
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {
        "service": agent,
        "pod": "crew",
        "type": "claude",
        "token": f"{agent}:{SECRET}",
        "timezone": "Europe/Berlin",
        **files.pop("metadata", {}),
    }
    for name, body in {"metadata": metadata, **files}.items():
        text = body if isinstance(body, str) else json.dumps(body)
        (folder / f"{name}.json").write_text(text)
    return {"Authorization": f"bearer {agent}:{SECRET}"}


def manifest(door: Proxied, **more: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "service": "mem-svc",
        "base_url": door.upstream.address,
        "recall": {"path": "/recall"},
        "retain": {"path": "/retain"},
        **more,
    }


def memories(*texts: str, **more: Any) -> Answer:
    body = {"memories": [{"text": text, "kind": "profile", **more} for text in texts]}
    return whole(json.dumps(body).encode())


async def test_an_agents_token_stays_here_and_the_providers_key_is_ours(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        door.upstream.at(CHAT, chat_json(SAID))
        door.upstream.at(MESSAGES, anthropic_json(SAID))
        own = await token_of(door, "ada", Scope.PROXY)
        secret = own["Authorization"].removeprefix("Bearer ")
        # Also where it stands in a place of its own.
        sent = {**own, "X-Trace": f"t {secret}", "Cookie": secret}
        body = {"model": "openai/gpt-4o", "messages": ASKED}
        assert (await door.post(CHAT, body, agent="", headers=sent)).status == 200
        by_key = {"Authorization": "", "x-api-key": secret}
        body = {"model": "claude-x", "messages": ASKED}
        assert (await door.post(MESSAGES, body, agent="", headers=by_key)).status == 200
        chat, messages = door.upstream.received
        assert chat.header("authorization") == f"Bearer {KEY}"
        assert messages.header("x-api-key") == KEY
        assert all(secret.encode() not in one.head + one.body for one in (chat, messages))
        assert chat.json()["model"] == "gpt-4o"
        first, second = await door.recorded("ada")
        assert (first["requested_model"], first["effective_model"]) == ("openai/gpt-4o", "gpt-4o")
        assert (first["effective_provider"], second["effective_provider"]) == (
            "openai",
            "anthropic",
        )


async def test_an_agent_that_holds_a_token_is_not_served_without_it(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        own = await token_of(door, "ada", Scope.PROXY)
        refused = await door.chat("hello", agent="ada")
        assert refused.status == 401
        assert "ada holds a token" in json.loads(refused.body)["error"]["message"]
        assert (await door.chat("hello", agent="bob", headers=own)).status == 403
        assert door.upstream.received == []


async def test_only_a_turn_that_came_with_a_token_attests_its_session(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        door.upstream.at(CHAT, chat_json(SAID), chat_json(SAID))
        named = {"X-Session-Id": "a-session"}
        own = await token_of(door, "ada", Scope.PROXY)
        assert (await door.chat("hello", agent="ada", headers={**own, **named})).status == 200
        assert (await door.chat("hello", agent="bob", headers=named)).status == 200
        for agent, attested in (("ada", True), ("bob", False)):
            (entry,) = await door.recorded(agent)
            note = door.note(entry)
            assert (note.session, note.attested) == ("a-session", attested)


async def test_a_token_that_reads_changes_nothing_for_an_agents_turns(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(SAID))
        reading = await token_of(door, "bob", Scope.READ)
        assert (await door.chat("hello", agent="bob")).status == 200
        assert door.upstream.received[0].header("authorization") == "Bearer sk-own"
        refused = await door.chat("hello", agent="bob", headers=reading)
        assert refused.status == 403
        said = json.loads(refused.body)["error"]["message"]
        assert "needs the scope proxy" in said
        assert "memplane token create --agent bob --scope proxy" in said
        assert len(door.upstream.received) == 1


async def test_a_service_is_not_asked_for_a_model_that_nobody_has(tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        own = write_context(root, memory=manifest(door))
        body = {"model": "nobody/x", "messages": ASKED}
        assert (await door.post(CHAT, body, agent="", headers=own)).status == 502
        assert door.upstream.received == []


async def test_an_unroutable_model_is_refused_before_anything_is_recalled(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        own = await token_of(door, "ada", Scope.PROXY)
        answered = await door.post(
            CHAT, {"model": "nobody/x", "messages": ASKED}, agent="", headers=own
        )
        assert answered.status == 502
        assert "nobody/x" in json.loads(answered.body)["error"]["message"]
        answered = await door.post(CHAT, {"messages": ASKED}, agent="", headers=own)
        assert (answered.status, json.loads(answered.body)["error"]["message"]) == (
            400,
            "missing model",
        )
        answered = await door.post(CHAT, b"{", agent="", headers=own)
        assert json.loads(answered.body)["error"]["message"] == "invalid JSON body"
        assert door.recalls() == []
        told = [(one["type"], one["outcome"], one["status_code"]) for one in door.events()]
        assert told == [("error", "refused", status) for status in (502, 400, 400)]


async def test_a_provider_without_a_key_may_be_asked_when_it_says_so(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        local = {"base_url": f"{door.upstream.address}/v1", "auth": "none"}
        write_providers(door.settings.home, door, local=local)
        door.upstream.at(CHAT, chat_json(SAID))
        own = await token_of(door, "ada", Scope.PROXY)
        body = {"model": "local/llama", "messages": ASKED}
        assert (await door.post(CHAT, body, agent="", headers=own)).status == 200
        (received,) = door.upstream.received
        assert received.header("authorization") is None
        assert received.header("x-api-key") is None


async def test_our_key_is_taken_out_of_a_providers_error(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        door.upstream.at(CHAT, openai_error(401, "auth", f"Incorrect API key provided: {KEY}."))
        own = await token_of(door, "ada", Scope.PROXY)
        body = {"model": "gpt-4o", "messages": ASKED}
        answered = await door.post(CHAT, body, agent="", headers=own)
        assert answered.status == 401
        assert KEY.encode() not in answered.body
        assert f"Incorrect API key provided: {HIDDEN}.".encode() in answered.body


async def test_a_pods_agent_is_known_by_its_context(tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        door.upstream.at(CHAT, chat_json(SAID))
        own = write_context(root)
        body = {"model": "openai/gpt-4o", "messages": ASKED}

        async def asked(**headers: str) -> tuple[int, str]:
            answered = await door.post(CHAT, body, agent="", headers=headers)
            error = json.loads(answered.body).get("error", {})
            return answered.status, error.get("message", "")

        assert await asked(**own) == (200, "")
        assert await asked(Authorization="", **{"x-api-key": f"ada:{SECRET}"}) == (200, "")
        assert await asked(Authorization="") == (401, "invalid bearer token")
        assert await asked() == (401, "invalid bearer token")  # a provider's key is no token
        assert await asked(Authorization="Bearer ada:x") == (403, "invalid agent secret")
        assert await asked(Authorization="Bearer bob:x") == (403, "agent context not found")
        (root / "ada" / "metadata.json").write_text("{")
        assert await asked(**own) == (403, "agent context not found")
        # Nobody remembers for an agent without a manifest, and nobody says so.
        assert door.recalls() == []


async def test_a_pods_agent_is_given_its_services_memories(tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        token = {"type": "bearer", "token": "of-the-service"}
        own = write_context(root, memory=manifest(door, auth=token))
        door.upstream.at(CHAT, chat_json(SAID))
        door.upstream.at(MESSAGES, anthropic_json(SAID))
        door.upstream.at("/recall", memories("Ada is allergic to peanuts.", score=0.934))
        history = [
            {"role": "system", "content": "You are kind."},
            {"role": "user", "content": "Hello, key sk-live-123456789"},
            {"role": "assistant", "content": "Hello."},
            *ASKED,
        ]
        await door.post(CHAT, {"model": "openai/m", "messages": history}, agent="", headers=own)
        (recall,) = door.upstream.asked("/recall")
        asked = recall.json()
        assert recall.header("authorization") == "Bearer of-the-service"
        assert (asked["agent_id"], asked["pod"]) == ("ada", "crew")
        assert asked["metadata"] == {
            "path": "openai",
            "requested_model": "openai/m",
            "service": "ada",
            "timezone": "Europe/Berlin",
            "type": "claude",
        }
        assert "123456789" not in recall.body.decode()
        block = (
            "--- BEGIN MEMORY (from mem-svc) ---\n[kind=profile, score=0.93]\n"
            "Ada is allergic to peanuts.\n--- END MEMORY ---"
        )
        sent = door.upstream.asked(CHAT)[0].json()["messages"]
        assert sent == [*history[:3], {"role": "system", "content": block}, *ASKED]
        body = {"model": "c", "system": "Be kind.", "messages": ASKED}
        await door.post(MESSAGES, body, agent="", headers=own)
        sent_there = door.upstream.asked(MESSAGES)[0].json()
        beside = {"role": "user", "content": [{"type": "text", "text": block}]}
        assert sent_there["messages"] == [*ASKED, beside]
        assert sent_there["system"] == "Be kind."
        told = door.recalls()[0]
        assert (told["memory_service"], told["memory_blocks"]) == ("mem-svc", 1)
        assert told["memory_bytes"] == len(block.encode())


async def test_a_service_learns_the_session_and_what_was_taken_out(tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        own = write_context(root, memory=manifest(door))
        door.upstream.at(CHAT, chat_json(SAID))
        door.upstream.at("/recall", memories("Ada is allergic to peanuts."))
        door.upstream.at("/retain", whole(b"", 202))
        said = [{"role": "user", "content": "My key is sk-live-123456789"}]
        headers = {**own, "X-Claude-Code-Session-Id": "s-1"}
        body = {"model": "openai/m", "messages": said}
        await door.post(CHAT, body, agent="", headers=headers)
        assert door.upstream.asked("/recall")[0].json()["metadata"]["session_id"] == "s-1"
        (entry,) = await door.recorded()
        assert "sk-live" not in json.dumps(entry)
        # As it came, and as it went on.
        assert door.note(entry).removed == 2
        await door.upstream.until_asked("/retain", 1)
        retained = door.upstream.asked("/retain")[0].json()
        assert retained["metadata"]["policy_removed"] == 2
    (told,) = [one for one in door.events("memory_op") if one["memory_op"] == "retain"]
    assert told["memory_removed"] == 2


async def test_a_receipt_says_what_was_left_out_and_how_the_recall_went(tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        own = write_context(root, memory=manifest(door))
        door.upstream.at(CHAT, chat_json(SAID))
        found = {"memories": [{"text": "a", "id": "m1", "source": "session_tail"}, {"text": "b"}]}
        door.upstream.at("/recall", whole(json.dumps(found).encode()))
        body = {"model": "openai/m", "messages": ASKED}
        await door.post(CHAT, body, agent="", headers=own)
        await door.post(CHAT, {"model": "openai/m"}, agent="", headers=own)
        first, without = [door.note(entry) for entry in await door.recorded()]
        assert [(one.id, one.why) for one in first.dropped] == [("m1", "blocked source")]
        assert (first.recall, len(first.injected)) == ("succeeded", 1)
        assert (without.recall, without.injected) == ("succeeded", ())


async def test_where_a_hook_was_first_nothing_stands_beside_it_either(tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        own = write_context(root, memory=manifest(door))
        door.upstream.at(CHAT, chat_json(SAID))
        block = "--- BEGIN MEMORY (from hook) ---\nAda is allergic.\n--- END MEMORY ---"
        said = [{"role": "user", "content": f"What is Ada allergic to?\n\n{block}"}]
        body = {"model": "openai/m", "messages": said}
        await door.post(CHAT, body, agent="", headers=own)
        assert door.upstream.asked("/recall") == []
        assert door.upstream.asked(CHAT)[0].json()["messages"] == said


async def test_a_service_is_asked_once_for_a_turn_that_is_sent_again(tmp_path: Path) -> None:
    root = tmp_path / "context"
    settings = {"context_root": str(root), "proxy__injection": "sticky"}
    async with proxied(tmp_path, **settings) as door:
        write_providers(door.settings.home, door)
        own = {**write_context(root, memory=manifest(door)), "X-Session-Id": "s"}
        door.upstream.at("/recall", memories("Ada is allergic to peanuts."))
        door.upstream.at(CHAT, cut(chat_stream(SAID), 3), chat_json(SAID))
        body = {"model": "openai/m", "messages": ASKED}
        with pytest.raises(aiohttp.ClientPayloadError):
            await door.post(CHAT, {**body, "stream": True}, agent="", headers=own)
        assert (await door.post(CHAT, body, agent="", headers=own)).status == 200
        assert len(door.upstream.asked("/recall")) == 1
        first, second = (one.json()["messages"] for one in door.upstream.asked(CHAT))
        assert first == second != ASKED


async def test_without_messages_nothing_is_injected_and_telemetry_says_so(tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        own = write_context(root, memory=manifest(door))
        door.upstream.at(CHAT, chat_json(SAID))
        door.upstream.at("/recall", memories("Ada is allergic to peanuts."))
        await door.post(CHAT, {"model": "openai/m"}, agent="", headers=own)
        assert door.upstream.asked(CHAT)[0].json() == {"model": "m"}
        assert door.recalls()[0]["memory_bytes"] == 0


def body_start(answer: Answer) -> bytes:
    """An answer without its last byte."""
    (sent,) = answer
    assert isinstance(sent, bytes)
    return sent[:-1]


@pytest.mark.parametrize(
    ("script", "status", "error"),
    [
        (whole(b"", 204), "failed", "parse recall response"),
        (whole(b"{}", 503), "failed", "recall returned status 503"),
        (whole(b'{"memories": [{"text": "x", "score": "0.9"}]}'), "failed", "parse recall"),
        (whole(b" " * 16385), "failed", "recall response exceeds 16384 bytes"),
        ((End.STALL,), "timed_out", "no answer within 50 ms"),
        ((body_start(whole(b"{}")), End.STALL), "timed_out", "no answer within 50 ms"),
        ((End.RESET,), "failed", "send recall request"),
    ],
)
async def test_a_sick_memory_service_never_fails_a_turn(
    script: Any, status: str, error: str, tmp_path: Path
) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        # One that answers has time enough for a busy machine.
        patience = 50 if status == "timed_out" else 20_000
        recall = {"path": "/recall", "timeout_ms": patience}
        own = write_context(root, memory=manifest(door, recall=recall))
        door.upstream.at(CHAT, chat_stream(SAID))
        door.upstream.at("/recall", script)
        body = {"model": "openai/m", "stream": True, "messages": ASKED}
        answered = await door.post(CHAT, body, agent="", headers=own)
        assert (answered.status, answered.body) == (200, b"".join(chat_events(SAID)))
        assert b"MEMORY" not in door.upstream.asked(CHAT)[0].body
        (told,) = door.recalls()
        assert told["memory_status"] == status
        assert told["error"].startswith(error)
        assert door.events("error") == []


async def test_a_broken_manifest_does_not_block_its_agent(tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        own = write_context(root, memory="{broken")
        door.upstream.at(CHAT, chat_json(SAID))
        body = {"model": "openai/m", "messages": ASKED}
        assert (await door.post(CHAT, body, agent="", headers=own)).status == 200
        (told,) = door.recalls()
        assert told["memory_status"] == "failed"
        assert told["error"].startswith("memory manifest invalid: ")


async def test_a_manifest_without_recall_is_skipped(tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        only_retain = {k: v for k, v in manifest(door).items() if k != "recall"}
        own = write_context(root, memory=only_retain)
        door.upstream.at(CHAT, chat_json(SAID))
        await door.post(CHAT, {"model": "openai/m", "messages": ASKED}, agent="", headers=own)
        (told,) = door.recalls()
        assert told["memory_status"] == "skipped"
        assert "latency_ms" not in told


async def test_a_model_policy_clamps_and_falls_back(tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(
            door.settings.home,
            door,
            other={"base_url": f"{door.upstream.address}/other/v1", "api_key": KEY},
        )
        allowed = [
            {"slot": "primary", "ref": "openai/small"},
            {"slot": "fallback", "ref": "other/spare"},
        ]
        policy = {"mode": "clamp", "allowed": allowed}
        own = write_context(root, metadata={"model_policy": policy})
        door.upstream.at(CHAT, openai_error(503, "busy"))
        door.upstream.at("/other/v1/chat/completions", chat_json(SAID))
        body = {"model": "openai/huge", "messages": ASKED}
        assert (await door.post(CHAT, body, agent="", headers=own)).status == 200
        first, second = door.upstream.received
        assert (first.json()["model"], second.json()["model"]) == ("small", "spare")
        (entry,) = await door.recorded()
        assert (entry["requested_model"], entry["effective_model"]) == ("openai/huge", "spare")
        assert entry["effective_provider"] == "other"
        told = [(one["type"], one["intervention"]) for one in door.events()]
        assert told == [
            ("request", None),
            ("intervention", "not allowed; openai/small is asked instead"),
            ("failover", "openai/small did not answer; other/spare was asked"),
            ("response", None),
        ]
        assert {one["model"] for one in door.events()} == {"openai/huge"}


async def test_a_candidate_that_says_nothing_is_left_for_the_next_one(tmp_path: Path) -> None:
    root = tmp_path / "context"
    settings = {"context_root": str(root), "proxy__candidate_timeout_ms": "80"}
    async with proxied(tmp_path, **settings) as door:
        spare = {"base_url": f"{door.upstream.address}/other/v1", "api_key": KEY}
        write_providers(door.settings.home, door, other=spare)
        allowed = [
            {"slot": "primary", "ref": "openai/small"},
            {"slot": "fallback", "ref": "other/spare"},
        ]
        own = write_context(root, metadata={"model_policy": {"mode": "clamp", "allowed": allowed}})
        door.upstream.at(CHAT, (End.STALL,))
        door.upstream.at("/other/v1/chat/completions", chat_json(SAID))
        async with asyncio.timeout(30):
            body = {"model": "openai/small", "messages": ASKED}
            assert (await door.post(CHAT, body, agent="", headers=own)).status == 200


async def test_a_model_policy_holds_for_a_pods_agent_whichever_token_it_shows(
    tmp_path: Path,
) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        policy = {"mode": "clamp", "allowed": [{"slot": "primary", "ref": "openai/small"}]}
        write_context(root, metadata={"model_policy": policy})
        own = await token_of(door, "ada", Scope.PROXY)
        door.upstream.at(CHAT, chat_json(SAID))
        body = {"model": "openai/huge", "messages": ASKED}
        assert (await door.post(CHAT, body, agent="", headers=own)).status == 200
        assert door.upstream.asked(CHAT)[0].json()["model"] == "small"


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings"])
@pytest.mark.parametrize("member", ["models", "fallbacks", "MODEL", "Models"])
async def test_further_models_in_a_body_do_not_get_around_a_model_policy(
    member: str, path: str, tmp_path: Path
) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        door.upstream.at(CHAT, chat_json(SAID))
        door.upstream.at("/v1/embeddings", whole(b"{}"))
        body = {"model": "openai/small", "messages": ASKED, member: ["openai/huge"]}
        free = write_context(root)
        assert (await door.post(path, body, agent="", headers=free)).status == 200
        policy = {"mode": "clamp", "allowed": [{"slot": "primary", "ref": "openai/small"}]}
        own = write_context(root, metadata={"model_policy": policy})
        answered = await door.post(path, body, agent="", headers=own)
        assert answered.status == 403
        assert f"leave '{member}' out of the request" in answered.body.decode()
        assert len(door.upstream.received) == 1
        del body[member]
        assert (await door.post(path, body, agent="", headers=own)).status == 200


@pytest.mark.parametrize(
    "unreadable",
    [
        b'{"model": "openai/huge", "model": "openai/huge", "prompt": "x"}',
        b'\xef\xbb\xbf{"model": "openai/huge", "prompt": "x"}',
        gzip.compress(b'{"model": "openai/huge", "prompt": "x"}')[:-20],
    ],
    ids=["a key twice", "a byte order mark", "cut"],
)
async def test_a_body_that_cannot_be_read_does_not_get_around_a_model_policy(
    unreadable: bytes, tmp_path: Path
) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        policy = {"mode": "clamp", "allowed": [{"slot": "primary", "ref": "openai/small"}]}
        own = write_context(root, metadata={"model_policy": policy})
        door.upstream.at("/v1/embeddings", whole(b"{}"))
        packed = unreadable.startswith(b"\x1f")
        headers = {**own, "Content-Encoding": "gzip" if packed else "identity"}
        answered = await door.post("/v1/embeddings", unreadable, agent="", headers=headers)
        assert answered.status == 400
        form = {**own, "Content-Type": "multipart/form-data; boundary=b"}
        answered = await door.post("/v1/embeddings", b"--b--", agent="", headers=form)
        assert (answered.status, door.upstream.received) == (400, [])


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/%63hat/completions", CHAT),
        ("/v1/%2563hat/completions", CHAT),
        ("/v1/chat%2Fcompletions", CHAT),
        ("/v1/chat/completions/", CHAT),
        ("/v1//chat/completions", CHAT),
        ("/v1/chat;x=1/completions", CHAT),
        ("/v1/%6dessages", MESSAGES),
        ("/v1/%6Dessages/count_tokens", "/v1/messages/count_tokens"),
    ],
)
async def test_with_our_key_a_path_has_one_spelling(path: str, meant: str, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        own = await token_of(door, "ada", Scope.PROXY)
        body = {"model": "gpt-4o", "messages": ASKED}
        status, said = await asked_as_spelled(door, "POST", path, own, json.dumps(body).encode())
        assert (status, said) == (
            400,
            f"with a key of memplane's a path has one spelling: ask for {meant}",
        )
        assert door.upstream.connections == []
        (told,) = door.events("error")
        assert (told["outcome"], told["status_code"]) == ("refused", 400)


async def asked_as_spelled(
    door: Proxied, method: str, path: str, headers: dict[str, str], body: bytes = b""
) -> tuple[int, str]:
    """Ask with a path as it is written here; returns the status and why it was refused."""
    url = URL(f"{door.address}{path}", encoded=True)
    async with door.http.request(method, url, data=body, headers=headers) as reply:
        said = await reply.read()
    return reply.status, json.loads(said)["error"]["message"] if reply.status >= 400 else ""


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/batches"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/audio/transcriptions"),
        ("POST", "/v1/images/edits"),
        ("POST", "/v1/completions"),
        ("POST", "/v1/files"),
        ("POST", "/v1/organization/admin_api_keys"),
        ("POST", "/v1/Chat/Completions"),
        ("POST", "/v1/models"),
        ("GET", "/v1/files"),
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/v1/modelsx"),
        ("DELETE", "/v1/files/x"),
        ("DELETE", "/v1/models/ft:x"),
        ("PUT", CHAT),
        ("OPTIONS", CHAT),
    ],
)
async def test_our_key_serves_turns_and_what_a_policy_can_check_and_nothing_else(
    method: str, path: str, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        own = await token_of(door, "ada", Scope.PROXY)
        form = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nexpensive\r\n--b--\r\n'
        bodies = {"application/json": b'{"model": "m"}', "multipart/form-data; boundary=b": form}
        for kind, body in bodies.items() if method == "POST" else [("text/plain", b"")]:
            headers = {**own, "Content-Type": kind}
            status, said = await asked_as_spelled(door, method, path, headers, body)
            assert status == 403
            assert said.startswith(f"{method} {path} is not served with a key of memplane's")
            assert "brings a provider's key of its own" in said
        assert door.upstream.connections == []


async def test_what_is_no_turn_must_name_a_model_that_its_agent_may_use(tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        allowed = [
            {"slot": "primary", "ref": "anthropic/small"},
            {"slot": "embedding", "ref": "openai/tiny"},
        ]
        own = write_context(root, metadata={"model_policy": {"mode": "clamp", "allowed": allowed}})

        async def asked(path: str, body: Any) -> tuple[int, str]:
            door.upstream.at(path, whole(b"{}"))
            answered = await door.post(path, body, agent="", headers=own)
            return answered.status, json.loads(answered.body).get("error", {}).get("message", "")

        assert await asked("/v1/embeddings", {"model": "tiny", "input": "x"}) == (200, "")
        assert await asked("/v1/images/generations", {"model": "dear", "prompt": "x"}) == (
            403,
            "this agent's model policy does not allow 'dear', only anthropic/small, openai/tiny",
        )
        assert await asked("/v1/moderations", {"input": "x"}) == (400, "missing model")
        # What is asked about a turn is asked of the model that would answer the turn.
        assert (await asked("/v1/messages/count_tokens", {"model": "dear"}))[0] == 200
        embedded, counted = door.upstream.received
        assert (embedded.json()["model"], counted.json()["model"]) == ("tiny", "small")


async def test_a_governed_request_that_came_compressed_is_routed_by_its_model_too(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        door.upstream.at("/v1/embeddings", whole(b"{}"))
        own = await token_of(door, "ada", Scope.PROXY)
        packed = gzip.compress(b'{"model": "openai/e", "input": "x"}')
        headers = {**own, "Content-Encoding": "gzip"}
        answered = await door.post("/v1/embeddings", packed, agent="", headers=headers)
        assert answered.status == 200
        (received,) = door.upstream.received
        assert (received.header("content-encoding"), received.json()["model"]) == (None, "e")


async def test_a_governed_request_that_is_no_turn_is_routed_by_its_model_too(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        for path in ("/v1/embeddings", "/v1/models", "/v1/messages/count_tokens"):
            door.upstream.at(path, whole(b"{}"))
        own = await token_of(door, "ada", Scope.PROXY)
        embed = {"model": "openai/text-embedding-3-small", "input": "x"}
        assert (await door.post("/v1/embeddings", embed, agent="", headers=own)).status == 200
        count = {"model": "anthropic/claude-x", "messages": ASKED}
        answered = await door.post("/v1/messages/count_tokens", count, agent="", headers=own)
        assert answered.status == 200
        async with door.http.get(f"{door.address}/v1/models", headers=own) as reply:
            assert reply.status == 200
        embedded, counted, listed = door.upstream.received
        assert embedded.json()["model"] == "text-embedding-3-small"
        assert counted.json()["model"] == "claude-x"
        assert counted.header("x-api-key") == KEY
        assert listed.header("authorization") == f"Bearer {KEY}"
