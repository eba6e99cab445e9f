"""`memplane history` as a command; beside its owner and to a terminal, as a process."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from memplane.ledger.entry import Entry, make_entry
from memplane.ledger.tombstones import Tombstone, append_tombstones
from memplane.ledger.turn_note import InjectedBlock, MessageInjection, TurnNote, encode_note
from memplane.ledger.writer import LedgerOptions
from tests.episodes.remembering import entry as received
from tests.episodes.remembering import raw
from tests.support.in_process import memplane_here
from tests.support.running import running_memplane
from tests.support.turns import NOON, record, turn

KEY = "sk-live-" + "123456789"


def filled(home: Path, count: int = 30) -> list[Entry]:
    turns = [turn(f"question {n}", ts=NOON + timedelta(seconds=n)) for n in range(count)]
    return asyncio.run(record(home / "ledger", turns, LedgerOptions(max_bytes=4000)))


def test_show_lists_the_last_turns(home: Path) -> None:
    entries = filled(home)
    ran = memplane_here(home, "history", "show", "--limit", "3")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert [line.split()[1] for line in lines] == [entry.id[:18] for entry in entries[-3:]]
    assert all("gpt-4o" in line and "12→3" in line for line in lines)
    assert lines[-1].endswith("question 29")
    assert len(memplane_here(home, "history", "show").stdout.splitlines()) == 20


def forgetful(home: Path) -> list[Entry]:
    entries = filled(home, 5)
    stone = Tombstone("2026-03-01T12:00:00Z", "analyst", "memplane", entries[2].id)
    append_tombstones(home / "tombstones", "analyst", [stone])
    return entries


def test_what_was_forgotten_is_neither_shown_nor_exported(home: Path) -> None:
    entries = forgetful(home)
    listed = memplane_here(home, "history", "show", "--limit", "3").stdout
    assert [line.rpartition("  ")[2] for line in listed.splitlines()] == [
        *("question 1", "question 3", "question 4")
    ]
    exported = memplane_here(home, "history", "export", "analyst", "--all").stdout
    kept = [one for at, one in enumerate(entries) if at != 2]
    assert exported.encode() == b"".join(one.line + b"\n" for one in kept)
    start = entries[2].id[:16]
    for words in ((start,), (start, "--json"), (start, "--receipt")):
        ran = memplane_here(home, "history", "show", *words)
        assert (ran.returncode, ran.stdout) == (1, "")
        assert "--include-forgotten shows it" in ran.stderr


def test_what_was_forgotten_is_marked_where_it_is_asked_for(home: Path) -> None:
    entries = forgetful(home)
    marked = b'{"forgotten":true,"entry":' + entries[2].line + b"}\n"
    lines = [one.line + b"\n" for one in entries]
    lines[2] = marked
    for words in (("export", "analyst"), ("show", "--json")):
        ran = memplane_here(home, "history", *words, "--include-forgotten")
        assert ran.stdout.encode() == b"".join(lines)
    one = (home, "history", "show", entries[2].id, "--include-forgotten")
    assert memplane_here(*one, "--json").stdout.encode() == marked
    assert "forgotten  " in memplane_here(*one).stdout
    assert '"content": "question 2"' in memplane_here(*one).stdout
    listed = memplane_here(home, "history", "show", "--include-forgotten").stdout.splitlines()
    assert [line.endswith(f"(forgotten) question {at}") for at, line in enumerate(listed)] == [
        *(False, False, True, False, False)
    ]
    # An entry in its envelope is not taken for one by whoever reads ledgers.
    file = home.parent / "exported.jsonl"
    file.write_bytes(marked)
    ran = memplane_here(home, "retain", "--agent", "other", "--entries", str(file))
    assert ran.returncode != 0


def test_a_receipt_does_not_quote_what_was_forgotten(home: Path) -> None:
    entries = forgetful(home)
    block = InjectedBlock(id="b", kind="fact", entry_ids=(entries[1].id, entries[2].id))
    injected = MessageInjection(message=0, service="memplane", bytes=9, blocks=(block,))
    told = turn("And now?", note=encode_note(TurnNote(injected=(injected,))))
    (entry,) = asyncio.run(record(home / "ledger", [told]))
    shown = memplane_here(home, "history", "show", entry.id, "--receipt").stdout
    assert "question 1" in shown
    assert "question 2" not in shown
    assert "(that turn was forgotten)" in shown


def test_show_marks_what_is_no_turn_of_a_users(home: Path) -> None:
    title = turn("Hello", note=encode_note(TurnNote(left_out="title")))
    own = turn("Hello", ts=NOON + timedelta(seconds=1), note=encode_note(TurnNote(session="s")))
    asyncio.run(record(home / "ledger", [title, own]))
    first, second = memplane_here(home, "history", "show").stdout.splitlines()
    assert first.endswith("  (title) Hello")
    assert second.endswith("  Hello")
    ran = memplane_here(home, "history", "show", "--receipt")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Name a turn by its id" in ran.stderr


def test_show_lists_what_the_user_asked_and_not_what_a_client_added(home: Path) -> None:
    reminder = "<system-reminder>\nUse tabs.\n</system-reminder>"
    messages = [
        {
            "role": "user",
            "content": [{"type": "text", "text": reminder}, {"type": "text", "text": "Why?"}],
        },
        {"role": "assistant", "content": "Because."},
        {
            "role": "user",
            "content": "<task-notification>\n<status>done</status>\n</task-notification>",
        },
        {"role": "user", "content": [{"type": "tool_result", "content": "exit 0"}]},
    ]
    turns = [
        turn(
            "",
            ts=NOON + timedelta(seconds=n),
            request_original=json.dumps({"messages": messages[: n + 1]}).encode(),
        )
        for n in range(len(messages))
    ]
    entries = asyncio.run(record(home / "ledger", turns))
    lines = memplane_here(home, "history", "show").stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["Why?"] * 4
    whole = memplane_here(home, "history", "show", entries[2].id).stdout
    assert "question     Why?" in whole
    shown, _, recorded = whole.partition("the entry as recorded")
    assert "notification" not in shown
    assert "<task-notification>" in recorded  # the record itself is shown as it is


def test_show_prints_one_turn_whole(home: Path) -> None:
    entry = filled(home)[4]
    ran = memplane_here(home, "history", "show", entry.id[:16], "--agent", "analyst")
    assert ran.returncode == 0, ran.stderr
    assert entry.id in ran.stdout
    assert '"content": "question 4"' in ran.stdout
    whole = memplane_here(home, "history", "show", entry.id.removeprefix("hist1_"), "--json")
    assert whole.stdout.encode() == entry.line + b"\n"


def test_a_receipt_tells_what_memories_from_received_turns_say(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "given.jsonl"
    file.write_bytes(raw(received("Where does the osprey nest?", id="turn-1")))
    assert memplane_here(home, "retain", "--agent", "analyst", "--entries", str(file)).stdout
    block = InjectedBlock(id="b", kind="episode_summary", entry_ids=("turn-1", "turn-2"))
    injected = MessageInjection(message=0, service="memplane", bytes=9, blocks=(block,))
    told = turn("And now?", note=encode_note(TurnNote(injected=(injected,))))
    (entry,) = asyncio.run(record(home / "ledger", [told]))
    ran = memplane_here(home, "history", "show", "--agent", "analyst", entry.id, "--receipt")
    shown = [line.strip() for line in ran.stdout.splitlines()]
    assert "Where does the osprey nest?" in shown
    assert "(that turn is in no ledger here)" in shown
    assert "" not in shown


def test_show_says_what_it_cannot_find(home: Path) -> None:
    filled(home, 12)
    ran = memplane_here(home, "history", "show", "hist1_zz")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no turn begins with hist1_zz in the ledger of analyst" in ran.stderr
    many = memplane_here(home, "history", "show", "hist1_")
    assert "12 turns begin with hist1_" in many.stderr


def test_the_agent_is_named_chosen_by_setting_or_the_only_one(home: Path) -> None:
    assert "No agent has a ledger yet" in memplane_here(home, "history", "show").stderr
    filled(home, 1)
    asyncio.run(record(home / "ledger", [turn("another's", agent="writer")]))
    ran = memplane_here(home, "history", "show")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "There are: analyst, writer" in ran.stderr
    chosen = memplane_here(home, "history", "show", env={"MEMPLANE_AGENT": "writer"})
    assert chosen.stdout.endswith("another's\n")
    nobody = memplane_here(home, "history", "show", "--agent", "nobody")
    assert "nobody has no ledger" in nobody.stderr
    assert "There are: analyst, writer" in nobody.stderr
    assert memplane_here(home, "history", "show", "--agent", "../x").returncode == 2


def test_export_gives_every_entry_once_page_by_page(home: Path) -> None:
    entries = filled(home)
    everything = memplane_here(home, "history", "export", "analyst", "--all")
    assert everything.stdout.encode() == b"".join(entry.line + b"\n" for entry in entries)
    got, cursor = "", list[str]()
    while got.count("\n") != 30:
        ran = memplane_here(home, "history", "export", "analyst", "--limit", "7", *cursor)
        assert ran.stdout, ran.stderr
        got += ran.stdout
        cursor = ["--cursor", ran.stderr.split("--cursor ")[1].strip()]
    assert got == everything.stdout
    assert memplane_here(home, "history", "export", "analyst", *cursor).stdout == ""


def test_export_takes_a_moment_and_refuses_nonsense(home: Path) -> None:
    filled(home)
    later = memplane_here(home, "history", "export", "analyst", "--after", "2026-03-01T12:00:24Z")
    assert later.stdout.count("\n") == 5
    for words, complaint in (
        (["--limit", "0"], "limit must be > 0"),
        (["--limit", "2x"], "limit must be an integer"),
        (["--after", "noon"], "after must be RFC3339"),
    ):
        ran = memplane_here(home, "history", "export", "analyst", *words)
        assert ran.returncode == 2
        assert complaint in ran.stderr
    assert memplane_here(home, "history", "export", "analyst", "--cursor", "x").returncode == 2
    assert memplane_here(home, "history", "export", "nobody").returncode == 1


def test_export_redacts_what_others_recorded(home: Path) -> None:
    filled(home, 1)
    line = make_entry(turn(f"my key is {KEY}", ts=NOON + timedelta(days=1))).line
    with (home / "ledger" / "analyst" / "history.jsonl").open("ab") as file:
        file.write(line + b"\n")
    assert KEY in memplane_here(home, "history", "export", "analyst").stdout
    redacted = memplane_here(home, "history", "export", "analyst", "--redact").stdout
    assert KEY not in redacted
    assert "[redacted:sk-key:" in redacted


def test_verify_passes_a_ledger_as_recorded_also_beside_its_owner(home: Path) -> None:
    filled(home)
    ran = memplane_here(home, "history", "verify")
    assert (ran.returncode, ran.stdout) == (0, "analyst: 30 entries as recorded; 0 findings\n")
    with running_memplane(home):
        assert memplane_here(home, "history", "verify", "analyst").returncode == 0
    assert memplane_here(home, "history", "verify", "nobody").returncode == 1


def test_verify_finds_a_changed_byte_and_a_removed_end(home: Path) -> None:
    filled(home)
    sealed = home / "ledger" / "analyst" / "segments" / "00000001.jsonl"
    before = sealed.read_bytes()
    sealed.chmod(0o600)
    sealed.write_bytes(before.replace(b"question 1", b"question 9", 1))
    ran = memplane_here(home, "history", "verify", "--json")
    assert ran.returncode == 1
    report = json.loads(ran.stdout)[0]
    assert report["entries"] == 29
    assert {one["problem"] for one in report["findings"]} == {"changed"}
    assert {one["file"] for one in report["findings"]} == {"00000001.jsonl"}
    sealed.write_bytes(before)
    assert memplane_here(home, "history", "verify").returncode == 0

    for name in ("history.jsonl", "chain.jsonl"):
        path = home / "ledger" / "analyst" / name
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    ran = memplane_here(home, "history", "verify")
    assert ran.returncode == 1
    assert "is missing or another one" in ran.stdout


def receive(home: Path, *identifiers: str) -> None:
    file = home.parent / "given.jsonl"
    file.write_bytes(b"".join(raw(received("Hello", id=one)) + b"\n" for one in identifiers))
    ran = memplane_here(home, "retain", "--agent", "analyst", "--entries", str(file))
    assert ran.returncode == 0, ran.stderr


def test_verify_also_checks_what_was_received(home: Path) -> None:
    filled(home, 2)
    receive(home, "turn-1", "hist1_opaque")
    own, other = "analyst: 2 entries as recorded", "received/analyst: 2 entries as recorded"
    for words, lines in (((), (own, other)), (("analyst",), (own, other))):
        ran = memplane_here(home, "history", "verify", *words)
        assert (ran.returncode, tuple(ran.stdout.splitlines())) == (
            0,
            tuple(f"{line}; 0 findings" for line in lines),
        )
    only = memplane_here(home, "history", "verify", "--received")
    assert only.stdout == f"{other}; 0 findings\n"

    path = home / "received" / "analyst" / "history.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Hello", b"Jello", 1))
    ran = memplane_here(home, "history", "verify")
    assert ran.returncode == 1
    assert "changed: received/analyst/history.jsonl at byte 0" in ran.stdout
    told = json.loads(memplane_here(home, "history", "verify", "--json").stdout)
    assert [(one["ledger"], len(one["findings"])) for one in told] == [
        ("turns", 0),
        ("received", 1),
    ]
    assert memplane_here(home, "history", "verify", "nobody").returncode == 1


@pytest.mark.parametrize("kind", ["received", "events"])
def test_verify_says_what_is_intact_and_not_in_the_chain_yet(home: Path, kind: str) -> None:
    """As after a crash between a line and its record: an opaque id says nothing of its bytes."""
    receive(home, "turn-1")
    memplane_here(home, "memories", "add", "--agent", "analyst", "--category", "timing", "Is slow")
    path = home / kind / "analyst" / "history.jsonl"
    before = memplane_here(home, "history", "verify", f"--{kind}").stdout
    path.write_bytes(path.read_bytes() + b'{"id":"turn-2","ts":"2026-03-01T12:00:00Z"}\n')
    ran = memplane_here(home, "history", "verify", f"--{kind}")
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout == before.replace("recorded;", "recorded, 1 not in the chain yet;")
    assert memplane_here(home, "history", "verify").returncode == 0
    path.write_bytes(path.read_bytes() + b"garbage\n")
    ran = memplane_here(home, "history", "verify", f"--{kind}")
    assert ran.returncode == 1
    assert "damaged" in ran.stdout


def test_what_a_turn_says_does_nothing_to_the_terminal(home: Path) -> None:
    escape = "\x1b]0;owned\x07\x1b[2J\u202e\x9b"
    body = json.dumps({"messages": [{"role": "user", "content": "half \ud83d " + escape}]})
    made = asyncio.run(record(home / "ledger", [turn("x", request_original=body.encode())]))
    for words in (["show"], ["show", made[0].id]):
        ran = memplane_here(home, "history", *words)
        assert ran.returncode == 0, ran.stderr
        assert "half" in ran.stdout
        assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(ran.stdout)


def test_a_pods_ledgers_are_read_where_its_file_is(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(home, 2)
    pod = tmp_path / "pod"
    pod.mkdir()
    kept = asyncio.run(record(pod / ".claw-session-history", [turn("hello", agent="morning")]))
    file = str(pod / "claw-pod.yml")
    uncompiled = memplane_here(home, "history", "export", "morning", "-f", file)
    assert "no compose.generated.yml found" in uncompiled.stderr
    (pod / "compose.generated.yml").write_text("{}\n")
    line = kept[0].line.decode() + "\n"
    assert memplane_here(home, "history", "export", "morning", "-f", file).stdout == line
    shown = memplane_here(home, "history", "show", "--file", file, "--json")
    assert shown.stdout == line
    monkeypatch.chdir(pod)
    assert memplane_here(home, "history", "export", "morning").stdout == line
    other = memplane_here(home, "history", "export", "analyst")
    assert f"analyst has no ledger in {pod}" in other.stderr
