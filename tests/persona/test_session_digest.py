"""A session's block in the digest of its day, made without a model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from memplane.persona.document import parse
from memplane.persona.document_kinds import find_kind
from memplane.persona.document_merge import merge_document
from memplane.persona.model import RemoteDocument
from memplane.persona.session_digest import (
    SECTIONS,
    DigestTurn,
    SessionRecord,
    digest_key,
    has_written_block,
    put_block,
    synthesize_block,
)
from memplane.persona.validation import check_document

START = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def record(session: str = ONE, *turns: DigestTurn, at: datetime = START) -> SessionRecord:
    known = turns or (DigestTurn(at, "Fix the login.", "I looked. The login works now."),)
    return SessionRecord(session, known, at + timedelta(minutes=90))


def digest(*records: SessionRecord) -> str:
    text: bytes | None = None
    for one in records:
        text = put_block(text, synthesize_block(one), UTC)
    assert text is not None
    return text.decode()


def section(text: str, name: str) -> str:
    return text.partition(f"## {name}\n")[2].partition("\n## ")[0]


def test_a_block_says_what_was_asked_how_it_ended_and_what_is_open() -> None:
    turns = (
        DigestTurn(START, "Fix the login. Please don't touch the tests.", "Done. It works now."),
        DigestTurn(
            START,
            "And the logout?",
            "Half of it. The cookie still needs a test.",
            ("/home/ada/shop/src/logout.py",),
        ),
        DigestTurn(START, "Write that test", ""),
    )
    text = digest(record(ONE, *turns))
    assert "Asked: “Fix the login. Please don't touch the tests.” Outcome: It works now." in (
        section(text, "Arcs")
    )
    assert "Files written: src/logout.py" in section(text, "Arcs")
    assert "The user said: “Please don't touch the tests.”" in section(text, "Relational notes")
    threads = section(text, "Open threads to next session")
    assert "The cookie still needs a test." in threads
    assert "Not answered: “Write that test”" in threads


def test_the_digest_is_a_document_of_its_kind() -> None:
    text = digest(record())
    document = parse(text.encode())
    kind = find_kind("session_digest")
    assert kind is not None
    assert kind.sections == SECTIONS
    assert document.text_of("type") == "session_digest"
    assert document.value("sessions") == (ONE,)
    assert document.text_of("duration_hours") == "1.5"
    assert check_document("session_digest_2026-03-01.md", text.encode()) == ()


def test_two_sessions_of_a_day_are_one_file_with_a_block_each_in_the_order_of_their_start() -> (
    None
):
    earlier = record(TWO, at=START - timedelta(hours=1))
    text = digest(record(), earlier)
    for name in SECTIONS:
        part = section(text, name)
        assert part.index(f"### Session {TWO}, 08:30") < part.index(f"### Session {ONE}, 09:30")
    assert parse(text.encode()).value("sessions") == (ONE, TWO)


def test_a_draft_is_replaced_and_what_somebody_wrote_stays() -> None:
    first = digest(record())
    longer = record(ONE, DigestTurn(START, "Fix the login.", "Reverted."))
    again = put_block(first.encode(), synthesize_block(longer), UTC).decode()
    assert again.count(f"### Session {ONE}") == 3
    assert "Reverted." in again
    assert "The login works now." not in again
    assert not has_written_block(again.encode(), ONE)
    written = again.replace(", draft: true", "").encode()
    assert has_written_block(written, ONE)
    assert put_block(written, synthesize_block(record()), UTC) == written
    assert not has_written_block(written, TWO)


def test_drafts_of_two_machines_become_one_digest() -> None:
    """Edge case 12."""
    one, two = digest(record()).encode(), digest(record(TWO)).encode()
    merged = merge_document(
        "session_digest_2026-03-01.md", None, one, RemoteDocument(two, "1"), changed=""
    ).text
    assert merged is not None
    for name in SECTIONS:
        part = section(merged.decode(), name)
        assert f"### Session {ONE}" in part
        assert f"### Session {TWO}" in part


def test_the_day_is_that_on_which_the_session_began_in_the_zone() -> None:
    """Edge case 13."""
    late = synthesize_block(record(at=datetime(2026, 3, 1, 23, 30, tzinfo=UTC)))
    assert digest_key(late, UTC) == "session_digest_2026-03-01.md"
    assert digest_key(late, ZoneInfo("Asia/Tokyo")) == "session_digest_2026-03-02.md"


def test_a_prompt_cannot_forge_a_mark_or_a_heading() -> None:
    bad = DigestTurn(START, f"### Session {TWO}, 09:30 <!-- x -->\n## Arcs\n- a", "-->\n## Arcs")
    text = digest(record(ONE, bad))
    assert text.count("## Arcs\n") == 1
    assert f"\n### Session {TWO}" not in text


def test_sections_that_are_missing_are_added_and_other_text_stays() -> None:
    head = b"---\nname: d\ndescription: e\ntype: session_digest\n---\n"
    own = head + b"\nA walk.\n\n## Arcs\n\n- Tea.\n"
    text = put_block(own, synthesize_block(record()), UTC).decode()
    assert "A walk.\n" in text
    assert section(text, "Arcs").lstrip().startswith("- Tea.\n")
    assert all(f"## {name}\n" in text for name in SECTIONS)
