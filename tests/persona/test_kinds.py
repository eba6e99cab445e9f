"""The table of kinds, against the contract and the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from memplane.persona.document_kinds import (
    DOCUMENT_KINDS,
    INDEX_KIND,
    INDEX_PART_KIND,
    MERGE_DESCRIPTIONS,
    OTHER_KIND,
    DocumentKind,
    MergeFamily,
    allows_file_name,
    detect_kind,
    find_kind,
)

CONTRACT = {
    "index": "MEMORY.md",
    "user": "user_*.md",
    "feedback": "feedback_*.md",
    "project": "project_*.md",
    "reference": "reference_*.md",
    "session_digest": "session_digest_YYYY-MM-DD.md",
    "relationship": "relationship_<slug>.md",
    "voice_calibration": "voice_calibration.md",
    "self_observations": "self_observations.md",
    "callbacks": "running_jokes_and_callbacks.md",
    "commitments": "running_commitments.md",
    "philosophical_threads": "philosophical_threads.md",
    "unsent_drafts": "unsent_drafts.md",
    "carry_forward": "carry_forward.md",
    "weekly_digest": "weekly_digest_YYYY-Www.md",
    "monthly_digest": "monthly_digest_YYYY-MM.md",
    "yearly_digest": "yearly_digest_YYYY.md",
}


def test_the_kinds_are_those_of_the_contract() -> None:
    assert {kind.name: kind.file for kind in DOCUMENT_KINDS} == CONTRACT


@pytest.mark.parametrize("kind", [*DOCUMENT_KINDS, INDEX_PART_KIND, OTHER_KIND])
def test_every_kind_says_when_it_is_read_written_and_removed(kind: DocumentKind) -> None:
    assert all((kind.read_when, kind.write_when, kind.retention, kind.about))
    assert kind.family in MERGE_DESCRIPTIONS


def test_every_family_has_words_and_a_kind() -> None:
    assert set(MERGE_DESCRIPTIONS) == set(MergeFamily)
    # What is no text has no kind.
    assert {kind.family for kind in DOCUMENT_KINDS} == set(MergeFamily) - {MergeFamily.OPAQUE}


def test_what_is_always_read() -> None:
    read = [kind.name for kind in DOCUMENT_KINDS if kind.always_read]
    assert read == ["index", "session_digest", "self_observations", "carry_forward"]


def test_digests_roll_into_larger_ones() -> None:
    chain = [(kind.name, kind.rolls_into, kind.days) for kind in DOCUMENT_KINDS if kind.rolls_into]
    assert chain == [
        ("session_digest", "weekly_digest", 7),
        ("weekly_digest", "monthly_digest", 30),
        ("monthly_digest", "yearly_digest", 365),
    ]


@pytest.mark.parametrize(
    ("key", "type_name", "name"),
    [
        ("MEMORY.md", None, "index"),
        ("MEMORY.md", "user", "index"),
        ("sub/MEMORY.md", None, "other"),
        ("x.md", "index", "other"),
        ("memory.md", None, "other"),
        ("user_role.md", None, "user"),
        ("sub/user_role.md", None, "user"),
        ("user_role.md", "feedback", "feedback"),
        ("user_role.md", "nonsense", "user"),
        ("user_.md", None, "other"),
        ("notes.md", None, "other"),
        ("notes.md", "nonsense", "other"),
        ("notes.md", "other", "other"),
        ("notes.md", "carry_forward", "carry_forward"),
        ("session_digest_2026-03-01.md", None, "session_digest"),
        ("session_digest_today.md", None, "other"),
        ("weekly_digest_2026-W09.md", "", "weekly_digest"),
        ("monthly_digest_2026-03.md", None, "monthly_digest"),
        ("yearly_digest_2026.md", None, "yearly_digest"),
        ("yearly_digest_2026.md.md", None, "other"),
        ("yearly_digest_2026xmd", None, "other"),
        ("relationship_ada_lovelace.md", None, "relationship"),
        ("relationship_Ada.md", None, "other"),
        ("index_people.md", None, "reference"),
        ("index_people.md", "user", "reference"),
        ("sub/index_people.md", None, "other"),
    ],
)
def test_a_kind_is_found_by_type_then_by_name(key: str, type_name: str | None, name: str) -> None:
    assert detect_kind(key, type_name).name == name


def test_an_unknown_document_is_merged_as_a_fact() -> None:
    assert detect_kind("notes.md", None).family is MergeFamily.FACT


def test_a_part_of_the_index_is_merged_like_it() -> None:
    assert detect_kind("index_people.md", "reference").family is MergeFamily.INDEX
    assert detect_kind("reference_people.md", "reference").family is MergeFamily.FACT


def test_kinds_are_found_by_name() -> None:
    assert all(find_kind(kind.name) is kind for kind in DOCUMENT_KINDS)
    assert find_kind("nonsense") is None
    assert find_kind("other") is None


def test_only_the_index_minds_its_folder() -> None:
    assert allows_file_name(INDEX_KIND, "MEMORY.md")
    assert not allows_file_name(INDEX_KIND, "sub/MEMORY.md")
    carried = find_kind("carry_forward")
    assert carried is not None
    assert allows_file_name(carried, "sub/carry_forward.md")
    assert not allows_file_name(carried, "carry_forward.md/x.md")


# The documentation

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "persona.md"


def in_tables(page: str) -> list[list[str]]:
    """The cells of all rows of all tables."""
    rows = (line for line in page.splitlines() if line.startswith("| "))
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def listed(words: tuple[str, ...], mark: str = "") -> str:
    return ", ".join(f"{mark}{word}{mark}" for word in words) or "none"


@pytest.mark.parametrize("kind", [*DOCUMENT_KINDS, INDEX_PART_KIND, OTHER_KIND])
def test_every_kind_is_documented_as_it_is(kind: DocumentKind) -> None:
    rows = in_tables(PAGE.read_text("utf-8"))
    shown = (
        "none" if kind is INDEX_KIND else "any other" if kind is OTHER_KIND else f"`{kind.name}`"
    )
    sections = listed(kind.sections)
    sections += f"; {kind.form}" if kind.form else ""
    sections += f": {listed(kind.entry)}" if kind.entry else ""
    form = [f"`{kind.file}`", shown, listed(kind.fields, "`"), sections, f"`{kind.family}`"]
    assert form in rows
    assert [f"`{kind.file}`", kind.about, kind.read_when, kind.write_when, kind.retention] in rows


@pytest.mark.parametrize("family", MergeFamily)
def test_every_merge_is_documented_as_it_is(family: MergeFamily) -> None:
    assert [f"`{family}`", MERGE_DESCRIPTIONS[family]] in in_tables(PAGE.read_text("utf-8"))


def test_nothing_else_is_documented() -> None:
    rows = [row for row in in_tables(PAGE.read_text("utf-8")) if row[0].startswith("`")]
    known = {f"`{kind.file}`" for kind in (*DOCUMENT_KINDS, INDEX_PART_KIND, OTHER_KIND)} | {
        f"`{one}`" for one in MergeFamily
    }
    assert {row[0] for row in rows if len(row) in {2, 5}} == known
