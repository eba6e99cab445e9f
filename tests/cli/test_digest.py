"""`memplane digest` and `memplane claude import`: past sessions, without a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memplane import Client
from memplane.cli import main
from memplane.home import Home
from memplane.ledger.entry import JsonReply, Turn
from memplane.ledger.turn_note import TurnNote, encode_note
from memplane.service.claude_jobs import end_sessions
from memplane.service.composition.ledger import open_ledger_service
from memplane.service.spool import SpooledJob
from memplane.settings import load_settings
from tests.claude_code.test_session_transcript import line, text

ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
FACT = "The staging database listens on port 5433."
KEY = "session_digest_2026-03-01.md"
ENVIRONMENT = {"MEMPLANE_TIMEZONE": "UTC"}


@dataclass(frozen=True, slots=True)
class Desk:
    """A project with transcripts, and memplane's home."""

    home: Path
    transcripts: Path
    capture: pytest.CaptureFixture[str]

    @property
    def folder(self) -> Path:
        return self.transcripts / "memory"

    def run(self, *words: str) -> tuple[int, str, str]:
        self.capture.readouterr()
        code = main(["--home", str(self.home), *words])
        return (code, *self.capture.readouterr())

    def keep(self, session: str, *lines: bytes) -> Path:
        path = self.transcripts / f"{session}.jsonl"
        path.write_bytes(b"\n".join(lines) + b"\n")
        return path


@pytest.fixture
def desk(
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Desk:
    project = tmp_path / "user" / "shop"
    project.mkdir()
    monkeypatch.chdir(project)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    slug = "".join(c if c.isalnum() else "-" for c in str(project))
    transcripts = tmp_path / "user" / ".claude" / "projects" / slug
    transcripts.mkdir(parents=True)
    made = Desk(home, transcripts, capsys)
    made.keep(ONE, line("user", f"Remember: {FACT}"), line("assistant", text("Noted. Kept."), 40))
    made.keep(TWO, line("user", "Which port?", 10), line("assistant", text("Port 5433."), 11))
    return made


def test_a_day_has_a_block_for_each_of_its_sessions(desk: Desk) -> None:
    code, out, _ = desk.run("digest", "--day", "2026-03-01")
    assert code == 0
    assert out.index(f"### Session {TWO}, 09:10") < out.index(f"### Session {ONE}, 09:30")
    assert "Outcome: Port 5433." in out
    assert not desk.folder.exists()
    code, one, _ = desk.run("digest", "--session", ONE)
    assert (code, TWO in one, ONE in one) == (0, False, True)


def test_a_digest_is_written_into_the_folder_and_never_over_what_somebody_wrote(
    desk: Desk,
) -> None:
    code, out, _ = desk.run("digest", "--day", "2026-03-01", "--write")
    assert (code, out.splitlines()) == (0, [str(desk.folder / KEY)] * 2)
    written = (desk.folder / KEY).read_text().replace(", draft: true", "")
    (desk.folder / KEY).write_text(written)
    code, out, err = desk.run("digest", "--session", ONE, "--write")
    assert (code, out) == (0, "")
    assert f"{ONE} has a block that is no draft" in err
    assert (desk.folder / KEY).read_text() == written


def test_a_session_that_is_not_there_is_an_error_with_words(desk: Desk) -> None:
    code, out, err = desk.run("digest", "--session", "nobody")
    assert (code, out) == (1, "")
    assert "there is no transcript of a session nobody" in err
    assert desk.run("digest", "--day", "2026-03-02")[0] == 1


def test_secrets_do_not_get_into_a_digest(desk: Desk) -> None:
    secret = "ghp_" + "a1B2" * 9
    desk.keep("secret-1", line("user", f"Use {secret} for it."))
    _, out, _ = desk.run("digest", "--session", "secret-1")
    assert secret not in out
    assert "[redacted:" in out


async def test_a_session_that_ended_without_a_digest_gets_a_draft_once(desk: Desk) -> None:
    settings = load_settings({"home": str(desk.home)}, ENVIRONMENT)
    Home(desk.home).create()
    details = {"folder": str(desk.folder), "transcript": str(desk.transcripts / f"{ONE}.jsonl")}
    job = SpooledJob("session-end", details, desk.home / "job")
    await end_sessions(settings, [job])
    draft = (desk.folder / KEY).read_text()
    assert draft.count(", draft: true") == 3
    # The session's own block, as the skill writes it, is not touched any more.
    own = draft.replace(", draft: true", "").replace("Noted", "Mine")
    (desk.folder / KEY).write_text(own)
    await end_sessions(settings, [job])
    assert (desk.folder / KEY).read_text() == own
    gone = SpooledJob("session-end", details | {"transcript": "/nowhere.jsonl"}, job.path)
    await end_sessions(settings, [gone])


async def test_a_day_of_the_ledger_is_a_digest_as_well(desk: Desk) -> None:
    settings = load_settings({"home": str(desk.home)}, ENVIRONMENT)
    Home(desk.home).create()
    async with open_ledger_service(settings) as service:
        for session, hour in ((ONE, 9), (TWO, 11), (ONE, 12)):
            await service.ledger.append(make_turn(session, hour))
    import asyncio

    code, out, _ = await asyncio.to_thread(
        desk.run, "digest", "--day", "2026-03-01", "--agent", "a"
    )
    assert code == 0
    assert f"### Session {ONE}, 09:00" in out
    assert f"### Session {TWO}, 11:00" in out
    assert out.count("Asked: “Question at 12.”") == 1


def make_turn(session: str, hour: int) -> Turn:
    request = {"messages": [{"role": "user", "content": f"Question at {hour}."}]}
    reply = {"role": "assistant", "content": [{"type": "text", "text": "Answer."}]}
    return Turn(
        ts=datetime(2026, 3, 1, hour, tzinfo=UTC),
        agent="a",
        path="/v1/messages",
        requested_model="m",
        effective_provider="p",
        effective_model="m",
        status_code=200,
        stream=False,
        request_original=json.dumps(request).encode(),
        request_effective=b"",
        reply=JsonReply(json.dumps(reply).encode()),
        note=encode_note(TurnNote(session=session)),
    )


# Importing


def test_past_sessions_are_remembered_and_a_second_import_adds_nothing(desk: Desk) -> None:
    code, out, err = desk.run("claude", "import", "--agent", "a")
    assert (code, out) == (0, "2 turns of 2 sessions imported for a\n"), err
    _, found, _ = desk.run("recall", "--agent", "a", "Which port has the staging database?")
    assert FACT in found
    assert desk.run("claude", "import", "--agent", "a")[1].startswith("0 turns of 0 sessions")
    # A session that went on is read again; its old turns are known.
    desk.keep(
        TWO,
        *(line("user", "Which port?", 10), line("assistant", text("Port 5433."), 11)),
        *(line("user", "And the host?", 12), line("assistant", text("db-2."), 13)),
    )
    code, out, _ = desk.run("claude", "import", "--agent", "a", "--json")
    report = json.loads(out)
    assert (report["sessions"], report["retained"], report["known"]) == (1, 1, 1)


@pytest.mark.parametrize("switch", ["on", "off"])
async def test_a_session_is_remembered_when_it_ends_unless_that_is_switched_off(
    desk: Desk, switch: str
) -> None:
    environ = {**ENVIRONMENT, "MEMPLANE_CLAUDE_RECORD": switch}
    settings = load_settings({"home": str(desk.home)}, environ)
    details = {
        "folder": str(desk.folder),
        "transcript": str(desk.transcripts / f"{ONE}.jsonl"),
        "agent": "a",
    }
    for _ in range(2):
        await end_sessions(settings, [SpooledJob("session-end", details, desk.home / "job")])
    async with Client(settings) as client:
        found = await client.recall("Which port has the staging database?", agent="a")
    assert [FACT in block.text for block in found.memories] == [True] * (switch == "on")


async def test_a_session_that_the_proxy_recorded_is_not_imported_again(desk: Desk) -> None:
    settings = load_settings({"home": str(desk.home)}, ENVIRONMENT)
    Home(desk.home).create()
    async with open_ledger_service(settings) as service:
        await service.ledger.append(make_turn(ONE, 9))
    import asyncio

    code, out, _ = await asyncio.to_thread(desk.run, "claude", "import", "--agent", "a", "--json")
    report = json.loads(out)
    assert (code, report["recorded"], report["retained"]) == (0, 1, 1)
