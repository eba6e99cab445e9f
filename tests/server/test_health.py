"""What `/health` says while turns are not recorded, or entries are not kept."""

from __future__ import annotations

from pathlib import Path

from tests.proxy.proxied import proxied
from tests.server.door import Reply, ask, own_host, post_json
from tests.support.answers import Said, chat_json
from tests.support.running import Running, memplane, running_memplane


def retain(running: Running, agent: str, entry: str) -> Reply:
    body = {"agent_id": agent, "entry": {"id": entry, "request_original": {"messages": []}}}
    return post_json(running, "/retain", body)


def health(running: Running) -> Reply:
    return ask(running, "GET /health", own_host(running))


def test_health_is_503_with_the_reason_while_entries_are_not_kept(tmp_path: Path) -> None:
    with running_memplane(tmp_path / "home") as running:
        well = health(running)
        assert (well.status, well.json()["ok"]) == (200, True)
        assert {*well.json()} == {"ok", "version"}

        # Where the agent's entries would lie, there is a file: nothing can be written below it.
        blocked = running.home / "received" / "ada"
        blocked.parent.mkdir(exist_ok=True)
        blocked.write_bytes(b"")
        assert retain(running, "ada", "e1").status == 503
        sick = health(running)
        assert (sick.status, sick.json()["ok"]) == (503, False)
        assert sick.json()["error"]["code"] == "service_unavailable"
        assert "not kept" in sick.json()["error"]["message"]
        assert "ada" not in sick.text, "agents are not named to those without a token"
        assert ask(running, "HEAD /health", own_host(running)).status == 503
        told = memplane(running.home, "status")
        assert (told.returncode, "entries of ada are not kept" in told.stdout) == (0, True)

        # What is wrong with an entry, or works for somebody else, does not change it.
        assert retain(running, "ada", "").status == 400
        assert retain(running, "bob", "e1").status == 202
        assert health(running).status == 503
        blocked.unlink()
        assert retain(running, "ada", "e1").status == 202
        assert health(running).status == 200


def test_a_wrong_entry_is_no_failure(tmp_path: Path) -> None:
    with running_memplane(tmp_path / "home") as running:
        assert retain(running, "ada", "").status == 400
        assert retain(running, "no/agent", "e1").status == 400
        assert health(running).status == 200


async def test_turns_that_are_not_recorded_are_a_failure(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at("/v1/chat/completions", chat_json(Said("Peanuts.")))
        blocked = door.settings.ledger.dir / "ada"
        blocked.parent.mkdir(parents=True, exist_ok=True)
        blocked.write_bytes(b"")
        assert (await door.chat("hello")).status == 200
        assert await door.recorded("bob") == []
        assert door.services.failing() == ("turns are not recorded",)
        blocked.unlink()
        await door.chat("hello")
        assert len(await door.recorded()) == 1
        assert door.services.failing() == ()
