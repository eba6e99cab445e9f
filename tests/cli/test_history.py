"""`memplane history` through its real door."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from memplane.ledger.entry import Entry, entry_of
from memplane.ledger.writer import LedgerOptions
from tests.support.running import memplane, running_memplane
from tests.support.turns import NOON, record, turn

KEY = "sk-live-" + "123456789"


async def filled(home: Path, count: int = 30) -> list[Entry]:
    turns = [turn(f"question {n}", ts=NOON + timedelta(seconds=n)) for n in range(count)]
    return await record(home / "ledger", turns, LedgerOptions(max_bytes=4000))


async def test_show_lists_the_last_turns(home: Path) -> None:
    entries = await filled(home)
    ran = memplane(home, "history", "show", "--limit", "3")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert [line.split()[1] for line in lines] == [entry.id[:18] for entry in entries[-3:]]
    assert all("gpt-4o" in line and "12→3" in line for line in lines)
    assert lines[-1].endswith("question 29")
    assert len(memplane(home, "history", "show").stdout.splitlines()) == 20


async def test_show_prints_one_turn_whole(home: Path) -> None:
    entry = (await filled(home))[4]
    ran = memplane(home, "history", "show", entry.id[:16], "--agent", "analyst")
    assert ran.returncode == 0, ran.stderr
    assert entry.id in ran.stdout
    assert '"content": "question 4"' in ran.stdout
    whole = memplane(home, "history", "show", entry.id.removeprefix("hist1_"), "--json")
    assert whole.stdout.encode() == entry.line + b"\n"


async def test_show_says_what_it_cannot_find(home: Path) -> None:
    await filled(home, 12)
    ran = memplane(home, "history", "show", "hist1_zz")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no turn begins with hist1_zz in the ledger of analyst" in ran.stderr
    many = memplane(home, "history", "show", "hist1_")
    assert "12 turns begin with hist1_" in many.stderr


async def test_the_agent_is_named_chosen_by_setting_or_the_only_one(home: Path) -> None:
    assert "No agent has a ledger yet" in memplane(home, "history", "show").stderr
    await filled(home, 1)
    await record(home / "ledger", [turn("another's", agent="writer")])
    ran = memplane(home, "history", "show")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "There are: analyst, writer" in ran.stderr
    chosen = memplane(home, "history", "show", env={"MEMPLANE_AGENT": "writer"})
    assert chosen.stdout.endswith("another's\n")
    assert "nobody has no ledger" in memplane(home, "history", "show", "--agent", "nobody").stderr
    assert memplane(home, "history", "show", "--agent", "../x").returncode == 1


async def test_export_gives_every_entry_once_page_by_page(home: Path) -> None:
    entries = await filled(home)
    everything = memplane(home, "history", "export", "analyst", "--all")
    assert everything.stdout.encode() == b"".join(entry.line + b"\n" for entry in entries)
    got, cursor = "", list[str]()
    while got.count("\n") != 30:
        ran = memplane(home, "history", "export", "analyst", "--limit", "7", *cursor)
        assert ran.stdout, ran.stderr
        got += ran.stdout
        cursor = ["--cursor", ran.stderr.split("--cursor ")[1].strip()]
    assert got == everything.stdout
    assert memplane(home, "history", "export", "analyst", *cursor).stdout == ""


async def test_export_takes_a_moment_and_refuses_nonsense(home: Path) -> None:
    await filled(home)
    later = memplane(home, "history", "export", "analyst", "--after", "2026-03-01T12:00:24Z")
    assert later.stdout.count("\n") == 5
    for words, complaint in (
        (["--limit", "0"], "limit must be > 0"),
        (["--limit", "2x"], "limit must be an integer"),
        (["--after", "noon"], "after must be RFC3339"),
    ):
        ran = memplane(home, "history", "export", "analyst", *words)
        assert ran.returncode == 2
        assert complaint in ran.stderr
    assert memplane(home, "history", "export", "analyst", "--cursor", "x").returncode == 1
    assert memplane(home, "history", "export", "nobody").returncode == 1


async def test_export_redacts_what_others_recorded(home: Path) -> None:
    await filled(home, 1)
    line = entry_of(turn(f"my key is {KEY}", ts=NOON + timedelta(days=1))).line
    with (home / "ledger" / "analyst" / "history.jsonl").open("ab") as file:
        file.write(line + b"\n")
    assert KEY in memplane(home, "history", "export", "analyst").stdout
    redacted = memplane(home, "history", "export", "analyst", "--redact").stdout
    assert KEY not in redacted
    assert "[redacted:sk-key:" in redacted


async def test_verify_passes_a_ledger_as_recorded_also_beside_its_owner(home: Path) -> None:
    await filled(home)
    ran = memplane(home, "history", "verify")
    assert (ran.returncode, ran.stdout) == (0, "analyst: 30 entries as recorded; 0 findings\n")
    with running_memplane(home):
        assert memplane(home, "history", "verify", "analyst").returncode == 0
    assert memplane(home, "history", "verify", "nobody").returncode == 1


async def test_verify_finds_a_changed_byte_and_a_removed_end(home: Path) -> None:
    await filled(home)
    sealed = home / "ledger" / "analyst" / "segments" / "00000001.jsonl"
    before = sealed.read_bytes()
    sealed.chmod(0o600)
    sealed.write_bytes(before.replace(b"question 1", b"question 9", 1))
    ran = memplane(home, "history", "verify", "--json")
    assert ran.returncode == 1
    report = json.loads(ran.stdout)[0]
    assert report["entries"] == 29
    assert {one["problem"] for one in report["findings"]} == {"changed"}
    assert {one["file"] for one in report["findings"]} == {"00000001.jsonl"}
    sealed.write_bytes(before)
    assert memplane(home, "history", "verify").returncode == 0

    for name in ("history.jsonl", "chain.jsonl"):
        path = home / "ledger" / "analyst" / name
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    ran = memplane(home, "history", "verify")
    assert ran.returncode == 1
    assert "is missing or another one" in ran.stdout


async def test_what_a_turn_says_does_nothing_to_the_terminal(home: Path) -> None:
    escape = "\x1b]0;owned\x07\x1b[2J\u202e\x9b"
    body = json.dumps({"messages": [{"role": "user", "content": "half \ud83d " + escape}]})
    made = await record(home / "ledger", [turn("x", request_original=body.encode())])
    for words in (["show"], ["show", made[0].id]):
        ran = memplane(home, "history", *words)
        assert ran.returncode == 0, ran.stderr
        assert "half" in ran.stdout
        assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(ran.stdout)
