"""What `prune` may remove."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from memplane.errors import PersonaError
from memplane.persona.document_kinds import DOCUMENT_KINDS, DocumentKind, find_kind
from memplane.persona.retention import RetentionVerdict, judge_retention

TODAY = date(2026, 6, 1)
DAY = "session_digest_2026-03-03.md"  # in week 10
WEEK = "weekly_digest_2026-W10.md"


def kind(name: str) -> DocumentKind:
    found = find_kind(name)
    assert found is not None
    return found


def digest(type_name: str, *lines: str, body: str = "## Arcs\n\n- something\n") -> bytes:
    front = "".join(
        f"{line}\n" for line in ("name: N", "description: D", f"type: {type_name}", *lines)
    )
    return f"---\n{front}---\n{body}".encode()


SAID = digest("session_digest")


def judged(
    documents: dict[str, bytes],
    name: str = "session_digest",
    *,
    days: int = 30,
    today: date = TODAY,
    seen: date | None = None,
) -> list[RetentionVerdict]:
    older = timedelta(days=days)
    return judge_retention(kind(name), documents, older_than=older, today=today, seen=seen)


def removable(
    documents: dict[str, bytes], name: str = "session_digest", days: int = 30
) -> list[str]:
    return [one.key for one in judged(documents, name, days=days) if one.is_removable]


@pytest.mark.parametrize(
    "line",
    [
        f"sources: [{DAY}]",
        "sources: [session_digest_2026-03-02, session_digest_2026-03-03]",
        "period: 2026-W10",
        "period: 2026-W10\nsources: []",
    ],
)
def test_a_digest_may_go_when_a_larger_one_covers_it(line: str) -> None:
    (verdict,) = judged({DAY: SAID, WEEK: digest("weekly_digest", line)})
    assert verdict == RetentionVerdict(DAY, is_removable=True, reason=f"{WEEK} covers it")


@pytest.mark.parametrize(
    "week",
    [
        None,
        digest("weekly_digest"),
        digest("weekly_digest", "period: 2026-W09"),
        digest("weekly_digest", "sources: [session_digest_2026-03-04.md]"),
        digest("weekly_digest", "period: 2026-W10", "sources: [session_digest_2026-03-04.md]"),
        digest("weekly_digest", "period: 2026-W10", "sources: session_digest_2026-03-04.md"),
        digest("weekly_digest", "period: 2026-W10", body=""),
        digest("weekly_digest", "period: 2026-W10", body="## Arcs\n\n<!-- later -->\n"),
        digest("monthly_digest", "period: 2026-W10"),
        digest("weekly_digest", "period: [2026-W10"),
        b"period: 2026-W10\n",
        b"\xff",
    ],
)
def test_a_digest_stays_until_something_covers_it(week: bytes | None) -> None:
    documents = {DAY: SAID} if week is None else {DAY: SAID, WEEK: week}
    (verdict,) = judged(documents)
    assert verdict == RetentionVerdict(
        DAY, is_removable=False, reason="no weekly_digest of 2026-W10 covers it"
    )


def test_weeks_need_their_month_and_months_their_year() -> None:
    month = digest("monthly_digest", "period: 2026-03")
    documents = {
        "weekly_digest_2026-W09.md": digest("weekly_digest"),  # its Thursday is in February
        "weekly_digest_2026-W10.md": digest("weekly_digest"),
        "weekly_digest_2026-W14.md": digest("weekly_digest"),  # its Thursday is in April
        "monthly_digest_2026-03.md": month,
        "monthly_digest_2025-01.md": month,
        "monthly_digest_2024-12.md": month,
        "yearly_digest_2025.md": digest("yearly_digest", "period: 2025"),
    }
    assert removable(documents, "weekly_digest") == ["weekly_digest_2026-W10.md"]
    assert removable(documents, "monthly_digest") == ["monthly_digest_2025-01.md"]


def test_a_week_at_the_turn_of_the_year_belongs_to_its_thursday() -> None:
    documents = {
        "session_digest_2025-12-29.md": SAID,
        "session_digest_2025-12-28.md": SAID,
        "weekly_digest_2026-W01.md": digest("weekly_digest", "period: 2026-W01"),
    }
    assert removable(documents) == ["session_digest_2025-12-29.md"]


@pytest.mark.parametrize(
    ("day", "days", "goes"),
    [
        (date(2026, 5, 1), 30, True),
        (date(2026, 5, 2), 30, False),
        (date(2026, 5, 24), 0, True),
        (date(2026, 5, 25), 0, False),  # the kind asks for seven days
        (date(1970, 1, 1), 999_999, False),
    ],
)
def test_only_what_is_old_enough_goes(day: date, days: int, *, goes: bool) -> None:
    key = f"session_digest_{day}.md"
    documents = {key: SAID, "weekly_digest_x.md": digest("weekly_digest", f"sources: [{key}]")}
    assert removable(documents, days=days) == [key] * goes


@pytest.mark.parametrize(
    "key", ["session_digest_2026-02-30.md", "session_digest_march.md", "notes.md"]
)
def test_what_has_no_date_is_skipped_and_told(key: str) -> None:
    (verdict,) = judged({key: SAID, WEEK: digest("weekly_digest", f"sources: [{key}]")})
    assert verdict == RetentionVerdict(
        key, is_removable=False, reason="skipped: its name is not session_digest_YYYY-MM-DD.md"
    )


@pytest.mark.parametrize("one", [one for one in DOCUMENT_KINDS if not one.rolls_into])
def test_other_kinds_are_never_removed(one: DocumentKind) -> None:
    key = one.file.replace("*", "x").replace("<slug>", "x").replace("YYYY", "2001")
    (verdict,) = judged({key: digest(one.name)}, one.name, days=0)
    assert verdict == RetentionVerdict(
        key, is_removable=False, reason=f"never removed: {one.retention}"
    )


def test_only_the_kind_that_was_asked_for_is_judged() -> None:
    documents = {DAY: SAID, WEEK: digest("weekly_digest"), "user_x.md": digest("user")}
    assert [one.key for one in judged(documents)] == [DAY]


# A wrong clock


@pytest.mark.parametrize(
    "documents",
    [
        {"session_digest_2026-06-03.md": SAID},
        {"user_x.md": digest("user", "modified: 2026-06-03T00:00:00Z")},
        {"user_x.md": digest("user", "metadata:\n  modified: 2026-06-03T00:00:00Z")},
    ],
)
def test_a_clock_behind_the_documents_refuses(documents: dict[str, bytes]) -> None:
    (key,) = documents
    with pytest.raises(PersonaError, match=f"{key} is of 2026-06-03"):
        judged({DAY: SAID, **documents})
    judged({DAY: SAID, **documents}, today=date(2026, 6, 2))


def test_a_clock_behind_the_store_refuses() -> None:
    with pytest.raises(PersonaError, match="the store is of 2026-06-03"):
        judged({DAY: SAID}, seen=date(2026, 6, 3))
    judged({DAY: SAID}, seen=date(2026, 6, 2))


def test_strange_dates_are_no_reason_to_fail() -> None:
    strange = {
        "session_digest_0001-01-01.md": SAID,
        "user_x.md": digest("user", "modified: soon"),
        "yearly_digest_0000.md": digest("yearly_digest"),
    }
    assert [one.is_removable for one in judged(strange)] == [False]
    assert judged({}) == []
