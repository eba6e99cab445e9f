"""What a document may be called."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import InvalidRequest
from memplane.persona.document_kinds import find_kind
from memplane.persona.document_names import (
    MAX_SEGMENTS,
    explain_invalid_name,
    format_period,
    has_period,
    parse_period_days,
    relationship_key,
    slugify,
    with_hash_suffix,
)
from memplane.storage.keys import find_collisions, fold_key, is_valid

STEM = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}", fullmatch=True)


@pytest.mark.parametrize(
    "key",
    [
        "MEMORY.md",
        "user_role.md",
        "a.md",
        "9.md",
        "a.b-c_d.md",
        "session_digest_2026-03-01.md",
        "sub/x.md",
        "a/b/c/d.md",
        "v1.2/notes.md",
        "x" * 201 + ".md",
        "claude.md.md",
        "my_claude.md",
    ],
)
def test_a_proper_key_is_taken(key: str) -> None:
    assert explain_invalid_name(key) is None
    assert is_valid(key)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "empty"),
        ("../../x", "'..'"),
        ("../x.md", "'..'"),
        ("a/../../x.md", "'..'"),
        ("./x.md", "'.'"),
        ("/etc/x", "relative"),
        ("/etc/x.md", "relative"),
        ("..\\x.md", "backslash"),
        ("C:\\x.md", "backslash"),
        ("C:x.md", "drive letter"),
        ("a\0.md", "control"),
        ("a\n.md", "control"),
        ("x.md\n", "control"),
        ("CON", "device"),
        ("con.md", "device"),
        ("sub/LPT1.x.md", "device"),
        (".git/hooks/post-commit", "ASCII"),
        (".git/x.md", "ASCII"),
        ("x/", "empty"),
        ("a//x.md", "empty"),
        ("x" * 300 + ".md", "201"),
        ("x" * 202 + ".md", "201"),
        ("x" * 202 + "/x.md", "201"),
        ("~/.ssh/authorized_keys", "ASCII"),
        ("~/x.md", "ASCII"),
        (".mcp.json", "'.md'"),
        (".hidden.md", "ASCII"),
        ("-rf.md", "ASCII"),
        ("a b.md", "ASCII"),
        ("caf\u00e9.md", "ASCII"),
        ("cafe\u0301.md", "NFC"),
        ("notes.txt", "'.md'"),
        ("notes.MD", "'.md'"),
        (".md", "ASCII"),
        ("sub./x.md", "dot or a space"),
        ("sub /x.md", "dot or a space"),
        ("a/b/c/d/e.md", "folders deep"),
        ("a.md/b.md", "called like a document"),
        ("a.MD/b.md", "called like a document"),
        (".memplane-persona.md", "memplane's own"),
        ("CLAUDE.md", "instructions"),
        ("claude.md", "instructions"),
        ("sub/Claude.Local.md", "instructions"),
        ("AGENTS.md", "instructions"),
    ],
)
def test_another_key_is_refused_with_its_reason(key: str, why: str) -> None:
    reason = explain_invalid_name(key)
    assert reason is not None
    assert why in reason


def test_the_file_counts_as_a_segment() -> None:
    assert explain_invalid_name("/".join(["a"] * (MAX_SEGMENTS - 1) + ["x.md"])) is None
    assert explain_invalid_name("/".join(["a"] * MAX_SEGMENTS + ["x.md"])) is not None


@given(st.text(max_size=40))
def test_what_is_taken_is_plain_ascii_below_the_folder(key: str) -> None:
    if explain_invalid_name(key) is None:
        assert key.isascii()
        assert is_valid(key)
        assert not {"", ".", ".."} & set(key.split("/"))


# Two keys that are one on some machines


def test_a_rival_gets_a_key_of_its_own() -> None:
    other = with_hash_suffix("sub/A.md", b"text")
    assert other == f"sub/A_{hashlib.sha256(b'sub/A.md' + bytes(1) + b'text').hexdigest()[:6]}.md"
    assert fold_key(other) != fold_key("sub/a.md")
    assert with_hash_suffix("sub/A.md", b"text") == other


@given(STEM, st.binary(max_size=20))
def test_a_suffixed_key_is_a_proper_one(stem: str, data: bytes) -> None:
    key = f"{stem}.md"
    if explain_invalid_name(key) is None:
        assert explain_invalid_name(with_hash_suffix(key, data)) is None


def test_the_longest_key_can_be_suffixed() -> None:
    key = "x" * 201 + ".md"
    assert explain_invalid_name(with_hash_suffix(key, b"")) is None


def test_three_rivals_of_the_same_content_stay_apart() -> None:
    rivals = ["Ab.md", "aB.md", "AB.md"]
    assert find_collisions(rivals)
    assert find_collisions(with_hash_suffix(key, b"same") for key in rivals) == []


# Periods


@pytest.mark.parametrize(
    ("name", "day", "period"),
    [
        ("session_digest", date(2026, 3, 1), "2026-03-01"),
        ("weekly_digest", date(2026, 3, 1), "2026-W09"),
        ("weekly_digest", date(2027, 1, 1), "2026-W53"),
        ("monthly_digest", date(2026, 3, 1), "2026-03"),
        ("yearly_digest", date(2026, 3, 1), "2026"),
    ],
)
def test_a_day_has_a_period_of_each_kind(name: str, day: date, period: str) -> None:
    kind = find_kind(name)
    assert kind is not None
    assert format_period(kind, day) == period
    first, last = parse_period_days(kind, f"{name}_{period}.md") or (date.max, date.min)
    assert first <= day <= last


@pytest.mark.parametrize(
    ("key", "days"),
    [
        ("session_digest_2026-03-01.md", (date(2026, 3, 1), date(2026, 3, 1))),
        ("sub/weekly_digest_2026-W09.md", (date(2026, 2, 23), date(2026, 3, 1))),
        ("monthly_digest_2024-02.md", (date(2024, 2, 1), date(2024, 2, 29))),
        ("yearly_digest_2026.md", (date(2026, 1, 1), date(2026, 12, 31))),
        ("session_digest_2026-02-29.md", None),
        ("weekly_digest_2025-W53.md", None),
        ("weekly_digest_2026-W00.md", None),
        ("monthly_digest_2026-13.md", None),
        ("yearly_digest_0000.md", None),
        ("user_2026.md", None),
        ("session_digest_today.md", None),
    ],
)
def test_a_digest_covers_days(key: str, days: tuple[date, date] | None) -> None:
    name = re.sub(r"^sub/|_[0-9t].*", "", key)
    kind = find_kind(name)
    assert kind is not None
    assert parse_period_days(kind, key) == days
    assert has_period(kind) is (name != "user")


# People


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Ada Lovelace", "ada_lovelace"),
        ("ADA  lovelace", "ada_lovelace"),
        ("O'Brien, Conan", "o_brien_conan"),
        ("Renée Müller", "ren_e_m_ller"),
        ("Straße", "strasse"),
        ("x-1.y", "x_1_y"),
    ],
)
def test_a_slug_is_lower_case_with_underscores(name: str, slug: str) -> None:
    assert slugify(name) == slug
    assert relationship_key(name, "", {}) == f"relationship_{slug}.md"


@given(st.text(min_size=1), st.emails())
def test_every_person_has_a_proper_key(name: str, upn: str) -> None:
    if name.strip():
        assert explain_invalid_name(relationship_key(name, upn, {})) is None


MARK = hashlib.sha256(b"ada@two.example").hexdigest()[:6]


def test_the_second_person_of_a_name_gets_a_mark() -> None:
    people = {"relationship_ada.md": "ada@one.example"}
    assert relationship_key("Ada", "ada@two.example", people) == f"relationship_ada_{MARK}.md"
    assert relationship_key("Ada", " ADA@two.example", people) == f"relationship_ada_{MARK}.md"
    assert relationship_key("Ada", "ada@two.example", {}) == "relationship_ada.md"


def test_a_person_keeps_the_document_whatever_it_is_called() -> None:
    people = {"relationship_ada.md": "ada@one.example", "sub/lovelace.md": "ada@two.example"}
    assert relationship_key("Ada", "ada@one.example", people) == "relationship_ada.md"
    assert relationship_key("Ada", "Ada@Two.Example", people) == "sub/lovelace.md"


def test_a_document_without_upn_is_nobody_in_particular() -> None:
    people = {"relationship_ada.md": ""}
    with pytest.raises(InvalidRequest, match="UPN"):
        relationship_key("Ada", "", people)
    assert relationship_key("Ada", "ada@two.example", people) == f"relationship_ada_{MARK}.md"


def test_a_name_without_latin_letters_needs_the_upn() -> None:
    assert relationship_key("李雷", "ada@two.example", {}) == f"relationship__{MARK}.md"
    with pytest.raises(InvalidRequest, match="UPN"):
        relationship_key("李雷", "", {})


def test_nobody_has_no_document() -> None:
    with pytest.raises(InvalidRequest, match="name of a person"):
        relationship_key("  ", "", {})


def test_composed_and_decomposed_names_are_one_slug_each() -> None:
    composed = unicodedata.normalize("NFC", "Renée")
    decomposed = unicodedata.normalize("NFD", "Renée")
    assert slugify(composed) == slugify(decomposed)
