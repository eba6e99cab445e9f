"""New documents."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import InvalidRequest
from memplane.persona.document import parse
from memplane.persona.document_kinds import (
    DOCUMENT_KINDS,
    INDEX_KIND,
    OTHER_KIND,
    DocumentKind,
    allows_file_name,
    detect_kind,
    find_kind,
)
from memplane.persona.templates import new_document
from memplane.persona.validation import check_document

NOW = datetime(2027, 1, 1, 0, 30, tzinfo=ZoneInfo("Europe/Zurich"))
NAMED = {"user", "feedback", "project", "reference", "relationship"}


def kind(name: str) -> DocumentKind:
    found = find_kind(name)
    assert found is not None
    return found


def made(name: str, title: str = "", **more: Any) -> tuple[str, bytes]:
    return new_document(kind(name), name=title, now=NOW, **more)


@pytest.mark.parametrize("one", DOCUMENT_KINDS)
def test_a_new_document_of_each_kind_has_no_problem(one: DocumentKind) -> None:
    key, data = made(one.name, "Some Name" if one.name in NAMED else "")
    assert check_document(key, data) == ()
    assert allows_file_name(one, key)
    document = parse(data)
    assert detect_kind(key, document.type) is one
    assert set(one.fields) <= document.values.keys()


@pytest.mark.parametrize("one", DOCUMENT_KINDS)
def test_a_new_document_says_nothing_yet(one: DocumentKind) -> None:
    _, data = made(one.name, "Some Name" if one.name in NAMED else "")
    body = parse(data).body.splitlines()
    assert all(not line or line.startswith(("#", "<!-- ")) for line in body)


@pytest.mark.parametrize("one", [one for one in DOCUMENT_KINDS if one.sections])
def test_without_its_sections_it_would_have_one(one: DocumentKind) -> None:
    key, data = made(one.name, "Some Name" if one.name in NAMED else "")
    assert check_document(key, data.replace(b"## ", b"")) != ()


@pytest.mark.parametrize(
    ("name", "title", "key"),
    [
        ("index", "", "MEMORY.md"),
        ("user", "Role & Team", "user_role_team.md"),
        ("feedback", "feedback_testing", "feedback_testing.md"),
        ("relationship", "Ada Lovelace", "relationship_ada_lovelace.md"),
        ("session_digest", "", "session_digest_2027-01-01.md"),
        ("session_digest", "2026-02-28", "session_digest_2026-02-28.md"),
        ("weekly_digest", "", "weekly_digest_2026-W53.md"),
        ("weekly_digest", "2026-W09", "weekly_digest_2026-W09.md"),
        ("monthly_digest", "", "monthly_digest_2027-01.md"),
        ("yearly_digest", "", "yearly_digest_2027.md"),
        ("callbacks", "", "running_jokes_and_callbacks.md"),
    ],
)
def test_a_new_document_is_called_by_the_rules(name: str, title: str, key: str) -> None:
    assert made(name, title)[0] == key


@pytest.mark.parametrize(
    ("name", "title", "why"),
    [
        ("user", "", "needs a name"),
        ("user", "…", "needs a name"),
        ("relationship", "", "name of a person"),
        ("carry_forward", "mine", "takes no name"),
        ("index", "mine", "takes no name"),
        ("session_digest", "yesterday", "YYYY-MM-DD"),
        ("session_digest", "2026-02-29", "YYYY-MM-DD"),
        ("session_digest", "../x", "YYYY-MM-DD"),
        ("weekly_digest", "2025-W53", "YYYY-Www"),
        ("weekly_digest", "2026-09", "YYYY-Www"),
        ("monthly_digest", "2026-13", "YYYY-MM"),
        ("yearly_digest", "0000", "YYYY"),
    ],
)
def test_a_wrong_name_is_refused(name: str, title: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        made(name, title)


def test_there_is_no_document_of_no_kind() -> None:
    with pytest.raises(InvalidRequest, match="'other'"):
        new_document(OTHER_KIND, name="x", now=NOW)


def test_a_digest_knows_its_zone_and_period() -> None:
    assert parse(made("session_digest")[1]).value("tz") == "Europe/Zurich"
    utc = new_document(kind("session_digest"), now=NOW.astimezone(UTC))
    assert utc[0] == "session_digest_2026-12-31.md"
    assert parse(utc[1]).value("tz") == "UTC"
    week = parse(made("weekly_digest", "2026-W09")[1])
    assert (week.value("period"), week.value("sources")) == ("2026-W09", ())
    assert week.name == "Weekly digest 2026-W09"


def test_a_person_is_their_upn() -> None:
    people = {"relationship_ada.md": "ada@one.example"}
    key, data = new_document(
        kind("relationship"), name="Ada", upn="ada@two.example", people=people, now=NOW
    )
    assert key.startswith("relationship_ada_")
    assert parse(data).value("upn") == "ada@two.example"
    assert check_document(key, data) == ()


def test_the_index_has_no_frontmatter() -> None:
    assert new_document(INDEX_KIND, now=NOW) == ("MEMORY.md", b"# Memory\n")


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=30))
def test_any_words_make_a_proper_document(title: str, description: str, upn: str) -> None:
    for name in ("feedback", "relationship"):
        try:
            key, data = made(name, title, description=description, upn=upn)
        except InvalidRequest:
            continue
        assert check_document(key, data) == ()
        said = parse(data)
        assert said.name == " ".join("".join(c if c.isprintable() else " " for c in title).split())
