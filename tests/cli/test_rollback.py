"""`memplane forget --source` and `--session` through the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.clawdapus.memory_pod import memplane
from tests.episodes.proofs.test_p17 import QUESTION, honest, poisoned


async def test_a_source_is_listed_before_it_is_rolled_back(tmp_path: Path) -> None:
    home, entries = tmp_path / "home", tmp_path / "entries.jsonl"
    turns = [poisoned(1), *(honest(at, minutes=60 * at) for at in range(6))]
    entries.write_text("\n".join(map(json.dumps, turns)))
    whose = ("--agent", "analyst")
    await memplane(home, "retain", *whose, "--entries", str(entries))
    recalled = await memplane(home, "recall", *whose, "--explain", "--limit", "9", QUESTION)
    assert "from web:evil1.example  untrusted" in recalled.stdout
    preview = await memplane(home, "forget", *whose, "--source", "web:evil1.example")
    assert preview.returncode == 2
    assert preview.stdout.splitlines()[0] == "1 turns of analyst would be forgotten:"
    assert "repeats web:evil1.example" in preview.stdout
    assert "nothing was rolled back" in preview.stderr
    done = await memplane(home, "forget", *whose, "--source", "web", "--yes", "--verify")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "Forgot 1 entries for analyst"
    assert "0 still have something" in done.stdout
    after = await memplane(home, "recall", *whose, "--limit", "50", "--json", QUESTION)
    assert len(json.loads(after.stdout)["memories"]) == 6
    assert "blackbird" not in after.stdout
    both = await memplane(home, "forget", *whose, "--source", "web", "--session", "s")
    assert both.stderr.endswith("roll back a source or a session, one after the other\n")


async def test_what_is_imported_says_so(tmp_path: Path) -> None:
    home, whose = tmp_path / "home", ("--agent", "analyst")
    await memplane(home, "retain", *whose, "--source", "mail", "The kestrel lands at noon.")
    asked = ("recall", *whose, "--json", "--source", "import:mail", "When does the kestrel land?")
    (block,) = json.loads((await memplane(home, *asked)).stdout)["memories"]
    assert (block["origin"], block["trust"]) == ("import", "untrusted")
    assert block["sources"] == ["import:mail"]
