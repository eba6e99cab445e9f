"""`memplane memories`: what was learned, seen and corrected from a terminal."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from memplane.observations.agent_guide import build_guide, build_output_schema
from tests.claude_code.test_claude_ops import LATER, database
from tests.episodes.remembering import entry, raw
from tests.support.in_process import memplane_here
from tests.support.running import environment, memplane, running_memplane

WORDS = "Takes 60s to start after a restart; wait before checking health"
LINES: list[dict[str, Any]] = [
    {"category": "timing", "service": "jellyfin", "observation": WORDS, "confidence": 0.9},
    {"category": "dependency", "service": "caddy", "confidence": 0.45,
     "observation": "Must be started after WireGuard, or it binds to the wrong address"},
    {"category": "remediation", "observation": "Retry DNS once", "confidence": 0.7,
     "pinned": True},
    {"category": "known-issue", "service": "sonarr", "observation": "Forgets its settings"},
    {"category": "maintenance", "service": "postgres", "state": "inactive", "confidence": 0.2,
     "observation": "毎週 VACUUM FULL が必要です。そうしないと検索がとても遅くなります。"},
]  # fmt: skip


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a few memories, which tests only look at."""
    home = tmp_path_factory.mktemp("kept") / "home"
    taken_in(home, *LINES)
    return home


def taken_in(own: Path, *lines: dict[str, Any]) -> None:
    file = own.parent / "lines.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said(own, "import", str(file))


def said(own: Path, *words: str, code: int = 0, agent: str = "a") -> str:
    """What a command prints; it ends as it should."""
    done = memplane_here(own, "memories", *words, env={"MEMPLANE_AGENT": agent})
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def told(own: Path, *words: str) -> Any:
    return json.loads(said(own, *words, "--json"))


def ids(own: Path) -> dict[str, str]:
    """The number of each memory, by the beginning of what it says."""
    memories = told(own, "list", "--state", "any")["memories"]
    return {one["observation"].split()[0]: str(one["id"]) for one in memories}


def added(own: Path, text: str = WORDS, *words: str) -> str:
    options = ("--category", "timing", "--service", "jellyfin", *words)
    return str(told(own, "add", *options, text)["id"])


def at_a_terminal(own: Path, columns: int, *words: str, typed: bytes = b"") -> str:
    """What a command shows on a terminal of so many columns."""
    terminal, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "memplane", "memories", *words, "--agent", "a"],
        env=environment(own),
        stdin=its,
        stdout=its,
        stderr=its,
    ) as process:
        os.close(its)
        if typed:
            os.write(terminal, typed)
        shown = b""
        while True:
            try:
                piece = os.read(terminal, 1 << 16)
            except OSError:  # the end of the program is the end of its terminal
                break
            shown += piece
        process.wait()
    os.close(terminal)
    return shown.decode().replace("\r\n", "\n")


def plain(shown: str) -> str:
    return re.sub(r"\x1b\[\d*m", "", shown)


# Seeing


def test_a_list_is_grouped_by_service_the_surest_first_and_general_last(kept: Path) -> None:
    rows = [line.split("now  ", 1) for line in said(kept, "list").splitlines()]
    assert [row[0].strip() for row in rows] == [
        "jellyfin",
        "1  timing       0.9  ████▌",
        "",
        "sonarr",
        "4  behavior     0.7  ███▌░",
        "",
        "caddy",
        "2  dependency   0.45 ██░░░",
        "",
        "postgres",
        "5  maintenance  0.2  █░░░░",
        "",
        "general",
        "3  remediation  0.7  ███▌░",
    ]
    texts = [row[1] for row in rows if len(row) > 1]
    assert texts[0] == WORDS
    assert texts[1].endswith("  [quarantined (unknown_category), category:known-issue]")
    assert texts[3].endswith("  [inactive]")
    assert texts[4] == "Retry DNS once  [pinned]"


def test_a_list_for_machines_is_the_body_of_the_api(own: Path) -> None:
    added(own)
    body = told(own, "list")
    assert body.keys() == {"memories", "total", "next_cursor"}
    with running_memplane(own) as server:
        asking = HTTPConnection("127.0.0.1", server.port)
        bearer = {"Authorization": f"Bearer {server.token}"}
        asking.request("GET", "/api/v1/memories?agent=a", headers=bearer)
        assert json.load(asking.getresponse()) == body
        asking.close()
        assert told(own, "list") == body


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--service", "jellyfin"], [1]),
        (["--service", "general"], [3]),
        (["--category", "dependency"], [2]),
        (["--state", "quarantined"], [4]),
        (["--q", "WireGuard"], [2]),
        (["--search", "nothing like it"], []),
        (["--pinned"], [3]),
        (["--contested"], []),
        (["--tier", "0"], []),
        (["--stale"], []),
        (["--as-of", "2001-01-01T00:00:00Z"], []),
        (["--known-at", "2001-01-01T00:00:00Z"], []),
        (["--sort", "id"], [1, 2, 3, 4, 5]),
        (["--sort", "id", "--reverse"], [5, 4, 3, 2, 1]),
        (["--sort", "id", "--limit", "2"], [1, 2]),
    ],
)
def test_a_list_can_be_narrowed_and_sorted(kept: Path, words: list[str], found: list[int]) -> None:
    assert [one["id"] for one in told(kept, "list", *words)["memories"]] == found


def test_a_long_list_goes_on_behind_its_cursor(kept: Path) -> None:
    first = told(kept, "list", "--sort", "id", "--limit", "3")
    rest = told(kept, "list", "--sort", "id", "--limit", "3", "--cursor", first["next_cursor"])
    assert [one["id"] for one in rest["memories"]] == [4, 5]
    assert (first["total"], rest["next_cursor"]) == (5, None)


def test_another_agents_memories_are_not_seen_unless_all_are_asked_for(kept: Path) -> None:
    assert "there is no agent b. There are: a" in said(kept, "list", code=1, agent="b")
    assert said(kept, "show", "1", code=1, agent="b")
    assert "a · jellyfin\n" in said(kept, "list", "--all-agents", agent="b")
    assert "say which agent" in said(kept, "list", code=2, agent="")


@pytest.mark.parametrize("columns", [120, 90, 60, 30])
def test_a_list_fits_the_terminal_that_it_is_shown_on(kept: Path, columns: int) -> None:
    from memplane.cli.terminal_text import count_columns

    shown = at_a_terminal(kept, columns, "list")
    assert "\x1b[32m" in shown
    lines = plain(shown).split("\n")
    assert max(map(count_columns, lines)) <= max(columns, 46)
    assert "".join(WORDS.split()) in "".join("".join(lines).split())


def test_what_an_agent_said_does_nothing_to_a_terminal(own: Path) -> None:
    said(
        own,
        "add",
        "--category",
        "timing",
        "--service",
        "x",
        "Waits \x1b[31mred\x07 and \u202eevil",
    )
    shown = said(own, "list") + said(own, "show", "1") + said(own, "history", "1")
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_all_that_is_known_of_a_memory_is_shown(kept: Path) -> None:
    shown = said(kept, "show", "2")
    for words in ("caddy, dependency", "0.45", "from import, tier 1", "goes inactive"):
        assert words in shown
    history = said(kept, "history", "2")
    assert "asserted" in history
    assert "Must be started after WireGuard" in history
    assert said(kept, "stats").startswith("  state")
    assert told(kept, "stats")["quarantined"] == 1


# Correcting


def test_a_memory_is_written_down_by_an_operator(own: Path) -> None:
    body = told(own, "add", "--category", "maintenance", "--service", "postgres",
                "--confidence", "0.9", "Needs", "VACUUM", "FULL", "weekly")  # fmt: skip
    assert (body["observation"], body["confidence"]) == ("Needs VACUUM FULL weekly", 0.9)
    assert (body["tier"], body["session_id"], body["origin"]) == (0, None, "operator")
    assert (body["active"], body["service"]) == (True, "postgres")
    assert (
        told(own, "add", "--category", "timing", "--service", "general", WORDS)["service"] is None
    )


def test_an_undo_without_an_id_takes_back_the_last_change_step_by_step(own: Path) -> None:
    first, second = added(own), added(own, "Leaks memory after a week")
    said(own, "edit", first, "--text", "Takes 90s to start")
    said(own, "retire", first, second)
    shown = memplane_here(own, "memories", "undo", env={"MEMPLANE_AGENT": "a"})
    assert shown.returncode == 0, shown.stderr
    assert "was retired" in shown.stderr
    assert [told(own, "show", one)["state"] for one in (first, second)] == ["active", "active"]
    undone = told(own, "undo")["memories"]
    assert [(str(one["id"]), one["observation"]) for one in undone] == [(first, WORDS)]
    said(own, "undo")  # the second was only written down
    assert told(own, "stats")["by_state"].get("active") == 1
    said(own, "undo")
    assert "nothing was changed that could be undone" in said(own, "undo", code=1)


def test_an_undo_is_about_the_agent_that_is_named(own: Path) -> None:
    mine = added(own)
    said(own, "add", "--category", "timing", "Another one's", agent="b")
    said(own, "pin", mine)
    said(own, "undo", agent="b")
    assert told(own, "show", mine)["pinned"]
    said(own, "undo", agent="")  # whoever's the last change was
    assert not told(own, "show", mine)["pinned"]


@pytest.mark.parametrize("confidence", ["1.5", "-1", "1.01", "80", "nan", "inf", "high", ""])
def test_a_confidence_outside_0_to_1_is_refused_and_nothing_changes(
    own: Path, confidence: str
) -> None:
    number = added(own)
    before = told(own, "show", number)
    for words in (["edit", number], ["add", "--category", "timing", WORDS]):
        shown = said(own, *words, f"--confidence={confidence}", code=2)
        assert f"{confidence!r} is not a number from 0 to 1" in shown
    assert told(own, "show", number) == before
    assert told(own, "stats")["by_state"] == {"active": 1}


@pytest.mark.parametrize("confidence", ["0", "1", "0.95", "0.29"])
def test_a_confidence_within_0_to_1_is_stored(own: Path, confidence: str) -> None:
    number = added(own)
    stored = told(own, "edit", number, f"--confidence={confidence}")["confidence"]
    assert stored == float(confidence)


def test_an_edit_changes_what_it_names_and_nothing_else(own: Path) -> None:
    number = added(own, WORDS, "--confidence", "0.8")
    changed = told(own, "edit", number, "--text", "Takes 90s to start", "--service", "general")
    assert (changed["observation"], changed["service"]) == ("Takes 90s to start", None)
    assert (changed["confidence"], changed["category"]) == (0.8, "timing")
    expiring = told(own, "edit", number, "--expires", "2030-01-01T00:00:00.000Z")
    assert expiring["expires_at"] == "2030-01-01T00:00:00.000Z"
    assert told(own, "edit", number, "--expires", "never")["expires_at"] is None
    assert "was changed meanwhile" in said(
        own, "edit", number, "--text", "x y z", "--version", "1", code=1
    )
    assert "say what to change" in said(own, "edit", number, code=2)


def test_a_memory_goes_to_the_trash_and_comes_back(own: Path) -> None:
    number = added(own)
    assert told(own, "retire", number, "--reason", "wrong")["state"] == "retired"
    assert told(own, "list")["memories"] == []
    assert told(own, "show", number)["state"] == "retired"
    assert told(own, "restore", number)["state"] == "active"
    assert told(own, "undo", number)["state"] == "retired"


def test_several_are_retired_together_and_brought_back_together(own: Path) -> None:
    numbers = [
        added(own, f"Fact {at} about starting up", "--service", f"s{at}") for at in (1, 2, 3)
    ]
    outcome = told(own, "retire", *numbers)
    assert (outcome["done"], len(outcome["results"])) == (True, 3)
    assert told(own, "list")["total"] == 0
    assert len(told(own, "undo", "--batch", outcome["batch"])["memories"]) == 3
    assert told(own, "list")["total"] == 3
    told(own, "pin", *numbers)
    undone = memplane_here(own, "memories", "undo", numbers[1])
    named = f"undone with it, as they were changed together: {numbers[0]}, {numbers[2]}"
    assert named in undone.stderr
    assert [one["pinned"] for one in told(own, "list")["memories"]] == [False] * 3
    told(own, "pin", numbers[0])
    assert "together" not in memplane_here(own, "memories", "undo", numbers[0]).stderr
    failed = memplane_here(own, "memories", "retire", *numbers, "99")
    assert failed.returncode == 1
    assert told(own, "list")["total"] == 3


def test_a_memory_is_pinned_merged_and_approved(own: Path) -> None:
    taken_in(own, *LINES[:4])
    number = ids(own)
    assert told(own, "pin", number["Must"])["pinned"]
    assert not told(own, "unpin", number["Must"])["pinned"]
    assert told(own, "approve", number["Forgets"])["state"] == "active"
    other = added(own, "Needs a minute until it answers")
    told(own, "merge", other, "--into", number["Takes"])
    assert told(own, "show", other)["state"] == "superseded"


def test_a_purge_tells_which_turns_and_logs_still_say_it_and_how_they_go(
    own: Path, tmp_path: Path
) -> None:
    marked = "[MEMORY:behavior:plex] First restart fails on a DB lock; the second succeeds"
    file = tmp_path / "entries.jsonl"
    file.write_bytes(raw(entry("How is plex?", f"Fine.\n{marked}", id="turn-1")))
    memplane_here(own, "retain", "--agent", "a", "--entries", str(file))
    printed = tmp_path / "printed.txt"
    printed.write_text(f"{marked}\n")
    assert memplane(own, "run", "--agent", "a", "--", "cat", str(printed)).returncode == 0
    (number,) = ids(own).values()
    shown = said(own, "purge", number, "--confirm", f"purge {number}")
    erases = "memplane forget --agent a --entry-id turn-1 --purge"
    assert erases in shown
    (log,) = (own / "sessions").glob("*.log")
    assert f"session 2: remove its log, {log}" in shown
    assert memplane_here(own, *erases.split()[1:], "--confirm", "a").returncode == 0
    log.unlink()
    files = [path for path in own.rglob("*") if path.is_file()]
    assert [path for path in files if b"DB lock" in path.read_bytes()] == []


def test_what_speaks_against_a_memory_is_shown_with_its_words(own: Path, tmp_path: Path) -> None:
    file = tmp_path / "entries.jsonl"
    for day, words in enumerate(("Must be", "Can be")):
        rest = "started after WireGuard" if not day else "started independently of WireGuard"
        answer = f"[MEMORY:dependency:caddy] {words} {rest}"
        file.write_bytes(raw(entry("How is caddy?", answer, minutes=day * 1440)))
        memplane_here(own, "retain", "--agent", "a", "--entries", str(file))
    number = ids(own)
    shown = said(own, "evidence", number["Must"])
    assert f"memory {number['Can']}: Can be started independently of WireGuard" in shown
    assert not any(line.strip() == "" for line in shown.splitlines())


def test_a_purge_is_confirmed_in_words_and_leaves_none_behind(own: Path) -> None:
    number = added(own, "The osprey nests on the roof")
    assert f'Add --confirm "purge {number}"' in said(own, "purge", number, code=2)
    assert said(own, "purge", number, "--confirm", "yes", code=2)
    assert told(own, "show", number)["observation"]
    shown = at_a_terminal(own, 80, "purge", number, typed=f"purge {number}\n".encode())
    assert "will be erased from memory for good" in shown
    assert told(own, "show", number)["state"] == "purged"
    files = [path for path in own.rglob("*") if path.is_file()]
    assert [path for path in files if b"osprey" in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["add", "--category", "misc", "x"], 2, "invalid choice"),
        (["add", "x"], 2, "--category"),
        (["add", "--category", "timing", " "], 2, "memories"),
        (["add", "--category", "timing", "--service", "a/b", WORDS], 2, "service"),
        (["add", "--category", "timing", "--expires", "soon", WORDS], 2, ""),
        (["edit", "99", "--text", "abc"], 1, "99"),
        (["show", "99"], 1, "99"),
        (["show", "x"], 2, "invalid int"),
        (["list", "--state", "odd"], 2, "invalid choice"),
        (["list", "--limit", "-1"], 2, "from 0 to 1000"),
        (["list", "--session", "99"], 1, "there is no session 99"),
        (["list", "--cursor", "nonsense"], 2, "cursor"),
        (["resolve", "1-2", "both"], 1, ""),
        (["accept", "nothing"], 1, ""),
        (["preview", "--budget", "40000"], 2, "128 KiB"),
        (["guide", "--tier", "0"], 2, "invalid choice"),
        (["undo"], 1, "nothing was changed"),
        (["undo", "--batch", "nothing"], 1, "there is no change nothing"),
        (["undo", "1", "--batch", "nothing"], 2, "not allowed with"),
        ([], 2, ""),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    kept: Path, words: list[str], code: int, complaint: str
) -> None:
    shown = said(kept, *words, code=code)
    assert complaint in shown
    assert "Traceback" not in shown


# Deciding


def test_a_conflict_is_shown_and_resolved(own: Path) -> None:
    taken_in(own, LINES[1])
    rival = "[MEMORY:dependency:caddy] Can be started independently of WireGuard\n"
    done = subprocess.run(
        [sys.executable, "-m", "memplane", "memories", "learn", "--agent", "a"],
        env=environment(own),
        input=rival.encode(),
        capture_output=True,
        check=False,
    )
    assert b"learned 1, contradicted 1" in done.stderr
    (conflict,) = told(own, "conflicts")["conflicts"]
    shown = said(own, "conflicts")
    assert f"{conflict['id']}  contradiction: caddy, dependency" in shown
    assert "[contested]" in shown
    ended = told(own, "resolve", conflict["id"], "keep_b", "--reason", "it was moved")
    assert (ended["status"], ended["resolution"]) == ("resolved", "keep_b")
    assert said(own, "conflicts") == ""
    (left,) = told(own, "list", "--state", "active")["memories"]
    assert left["observation"] == "Can be started independently of WireGuard"


def test_a_reject_is_shown_with_what_would_have_been_right_and_accepted(own: Path) -> None:
    done = memplane(own, "run", "--agent", "a", "--", "echo", f"[MEMORY:Timing:jellyfin] {WORDS}")
    assert "rejected 1 (malformed): memplane memories rejects" in done.stderr
    shown = said(own, "rejects")
    assert "malformed" in shown
    assert "[MEMORY:timing:jellyfin]" in shown
    (reject,) = told(own, "rejects")["rejects"]
    accepted = told(own, "accept", reject["id"], "--service", "emby")
    assert (accepted["category"], accepted["service"]) == ("timing", "emby")
    assert accepted["observation"] == WORDS


# Telling


def test_a_preview_is_the_block_and_nothing_else(kept: Path) -> None:
    done = memplane_here(kept, "memories", "preview", "--agent", "a", "--budget", "90")
    body = told(kept, "preview", "--budget", "90")
    assert done.stdout == body["block"] + "\n"
    assert done.stdout.startswith("## Operational Memory (2 of 3 memories, ")
    assert re.search(r"^2 of 3 memories, \d+ of 90 tokens$", done.stderr, re.MULTILINE)
    assert "left out (budget): 2" in done.stderr
    shown = at_a_terminal(kept, 80, "preview", "--budget", "90")
    assert body["block"] in plain(shown)
    assert said(kept, "preview", "--budget", "0") == ""


def test_a_preview_knows_what_is_in_scope_and_keeps_its_fence(kept: Path) -> None:
    by_flag = said(kept, "preview", "--service", "caddy", "--budget", "110", "--session", "s")
    by_prompt = said(kept, "preview", "--prompt", "is caddy up?", "--budget", "110",
                     "--session", "s")  # fmt: skip
    assert by_flag == by_prompt
    assert "### caddy" in by_flag
    assert by_flag != said(kept, "preview", "--service", "caddy", "--budget", "110")


@pytest.mark.parametrize("mode", ["markers", "structured"])
@pytest.mark.parametrize("tier", [1, 2, 3])
def test_the_guide_is_printed(kept: Path, tier: int, mode: Any) -> None:
    assert said(kept, "guide", "--tier", str(tier), "--mode", mode) == build_guide(tier, mode)


def test_the_guide_has_its_schema(kept: Path) -> None:
    assert told(kept, "guide", "--mode", "structured")["schema"] == build_output_schema()


# Moving


def test_an_export_is_taken_in_again_and_adds_nothing_twice(kept: Path, own: Path) -> None:
    file = own.parent / "export.jsonl"
    file.write_text(said(kept, "export", "--state", "any"))
    assert "5 added, 1 of them held back" in said(own, "import", str(file))
    assert "0 added; 5 known already" in said(own, "import", str(file))
    shape = ("service", "category", "observation", "confidence", "state", "pinned")
    both = [
        sorted(tuple(str(one[name]) for name in shape) for one in told(home, "list")["memories"])
        for home in (kept, own)
    ]
    assert both[0] == both[1]


def test_an_export_can_be_a_table_or_a_document(kept: Path) -> None:
    rows = list(csv.DictReader(said(kept, "export", "--format", "csv").splitlines()))
    assert rows[0]["observation"] == WORDS
    assert f"- [timing] {WORDS} (confidence: 0.9)" in said(kept, "export", "--format", "md")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"{}\n", "line 1"), (b"no json\n", "line 1"), (b"\xff\xfe\n", "line 1")],
)
def test_a_file_that_is_no_export_is_refused(own: Path, content: bytes, complaint: str) -> None:
    file = own.parent / "other"
    file.write_bytes(content)
    assert complaint in said(own, "import", str(file), code=2)
    assert "cannot be read" in said(own, "import", str(own.parent / "nothing"), code=2)


def test_a_database_of_claude_ops_is_taken_in_once(own: Path) -> None:
    path = database(
        own.parent / "claudeops.db",
        {"session_id": 1, "confidence": 0.85, "updated_at": LATER},
        {"session_id": 2, "confidence": 0.7},
        {"category": "known-issue", "service": "sonarr", "observation": "Forgets its settings"},
        {"category": "remediation", "service": None, "observation": "Retry DNS once",
         "created_at": "2026-02-01T09:00:00Z"},
    )  # fmt: skip
    assert "3 added, 1 of them held back; 0 known already; 0 rejected" in said(
        own, "import", str(path)
    )
    assert "0 added; 3 known already" in said(own, "import", str(path))
    found = {one["observation"]: one for one in told(own, "list")["memories"]}
    starts = found["Takes 60s to start"]
    assert (starts["confidence"], starts["service"]) == (0.85, "jellyfin")
    assert starts["created_at"] == "2026-02-01T10:00:00.000Z"
    assert found["Forgets its settings"]["state"] == "quarantined"
    assert found["Retry DNS once"]["service"] is None
    assert "sessions 1, 2 of claude-ops" in said(own, "evidence", str(starts["id"]))


def test_confidences_and_sessions_of_a_claude_ops_database_are_kept(own: Path) -> None:
    rows = {
        "Takes 60s to start after a restart": (0.9, 17),
        "Takes 30s to start after a restart": (0.7, 18),  # contradicts the one before
        "Transcoding needs the GPU driver 535": (0.9, 19),
        "Waits for the NFS share for 20s": (0.55, None),
        "Needs a manual library scan after an upgrade": (1.0, 20),
    }
    written = [
        {"observation": text, "confidence": confidence, "session_id": session, "updated_at": LATER}
        for text, (confidence, session) in rows.items()
    ]
    path = str(database(own.parent / "claudeops.db", *written))
    said(own, "import", path)
    for again in (("import", path), ("rebuild",)):
        found = {one["observation"]: one for one in told(own, "list")["memories"]}
        assert {text: one["confidence"] for text, one in found.items()} == {
            text: confidence for text, (confidence, _) in rows.items()
        }
        for text, (_, session) in rows.items():
            evidence = said(own, "evidence", str(found[text]["id"]))
            assert (f"sessions {session} of claude-ops" in evidence) is (session is not None)
        said(own, *again)


def test_what_was_rebuilt_is_what_was_there(kept: Path) -> None:
    assert "are as they were" in said(kept, "rebuild")
