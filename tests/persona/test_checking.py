"""What keeps a document from being published, what is merely wrong, and how it is mended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import PersonaError
from memplane.persona.document import parse
from memplane.persona.validation import (
    DEFAULT_LIMIT_BYTES,
    HARD_LIMIT_BYTES,
    DocumentRule,
    add_missing_frontmatter,
    check_document,
    check_documents,
    find_publish_error,
)

GOOD = b"---\nname: Role\ndescription: What they do\ntype: user\n---\n\nAn engineer.\n"
NESTED = (
    b"---\nname: Role\ndescription: What they do\nmetadata: \n  node_type: memory\n"
    b"  type: user\n  originSessionId: 1\n---\nAn engineer.\n"
)


def rules(key: str, data: bytes, limit: int = DEFAULT_LIMIT_BYTES) -> list[DocumentRule]:
    return [one.rule for one in check_document(key, data, limit=limit)]


# The gate


@pytest.mark.parametrize("data", [GOOD, NESTED, GOOD.replace(b"\n", b"\r\n")])
def test_a_proper_document_has_no_problem(data: bytes) -> None:
    assert check_document("user_role.md", data) == ()
    assert check_document("user_role.md", b"\xef\xbb\xbf" + data) == ()
    assert find_publish_error("user_role.md", data) is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "does not begin with frontmatter"),
        (b"Just text.\n", "does not begin with frontmatter"),
        (b"\n" + GOOD, "does not begin with frontmatter"),
        (GOOD.replace(b"name: Role\n", b""), "has no name"),
        (GOOD.replace(b"name: Role\n", b"name:\n"), "has no name"),
        (GOOD.replace(b"name: Role\n", b'name: "  "\n'), "has no name"),
        (GOOD.replace(b"name: Role\n", b"name: [Role]\n"), "has no name"),
        (GOOD.replace(b"description: What they do\n", b""), "has no description"),
        (GOOD.replace(b"type: user\n", b""), "has no type"),
        (b"---\n---\nText\n", "has no name, no description, no type"),
        (b"---\nname: Role\nAn engineer.\n", "does not end"),
        (GOOD.replace(b"name: Role", b"name: [[["), "is not YAML"),
        (GOOD.replace(b"name: Role", b"name: &a Role"), "anchor"),
        (GOOD.replace(b"name: Role", b"name: !!python/name:os.system"), "tag"),
        (GOOD.replace(b"name: Role", b"name: " + b"[" * 3_000), "nested"),
    ],
)
def test_without_proper_frontmatter_it_is_not_published(data: bytes, text: str) -> None:
    refusal = find_publish_error("user_role.md", data)
    assert refusal is not None
    assert refusal.rule is DocumentRule.FRONTMATTER
    assert text in refusal.text
    assert refusal.fix == "memplane persona adopt user_role.md"


@pytest.mark.parametrize("data", [GOOD + b"\0", GOOD + b"\xff", b"\x89PNG\r\n", b"\xff\xfea\0"])
def test_what_is_no_text_is_not_published(data: bytes) -> None:
    assert rules("user_role.md", data) == [DocumentRule.BINARY]
    assert rules("MEMORY.md", data) == [DocumentRule.BINARY]


def test_what_is_too_large_is_not_published() -> None:
    assert rules("user_role.md", GOOD.ljust(DEFAULT_LIMIT_BYTES)) == []
    assert rules("user_role.md", GOOD.ljust(DEFAULT_LIMIT_BYTES + 1)) == [DocumentRule.TOO_LARGE]
    assert (
        rules("user_role.md", GOOD.ljust(DEFAULT_LIMIT_BYTES + 1), limit=DEFAULT_LIMIT_BYTES + 1)
        == []
    )
    assert rules("user_role.md", GOOD.ljust(HARD_LIMIT_BYTES + 1), limit=1 << 40) == [
        DocumentRule.TOO_LARGE
    ]
    assert rules("user_role.md", GOOD.ljust(101), limit=100) == [DocumentRule.TOO_LARGE]


@pytest.mark.parametrize("key", ["../x.md", "CLAUDE.md", "x.txt", "a b.md"])
def test_what_has_an_impossible_name_is_not_published(key: str) -> None:
    assert DocumentRule.BAD_NAME in rules(key, GOOD)
    assert find_publish_error(key, GOOD) is not None


def test_the_index_needs_no_frontmatter() -> None:
    assert check_document("MEMORY.md", b"# Memory\n") == ()
    assert rules("sub/MEMORY.md", b"# Memory\n") == [DocumentRule.FRONTMATTER]


def test_a_part_of_the_index_needs_none_either() -> None:
    assert check_document("index_people.md", b"- [A](a.md)\n") == ()
    assert rules("index_people.md", b"---\nname: People\n") == [DocumentRule.FRONTMATTER]
    assert rules("sub/index_people.md", b"- [A](a.md)\n") == [DocumentRule.FRONTMATTER]


# Warnings


def typed(kind: str, body: str = "") -> bytes:
    return f"---\nname: N\ndescription: D\ntype: {kind}\n---\n{body}".encode()


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        ("user_role.md", "feedback", "called like a user"),
        ("carry_forward.md", "user", "called like a carry_forward"),
        ("notes.md", "voice_calibration", "is called voice_calibration.md"),
        ("session_digest_today.md", "session_digest", "is called session_digest_YYYY-MM-DD.md"),
        ("notes.md", "memo", "none that memplane knows"),
        ("notes.md", "index", ""),
        ("notes.md", "feedback", ""),
        ("sub/user_role.md", "user", ""),
        ("project_x.md", "project", ""),
    ],
)
def test_a_type_that_does_not_fit_the_name_is_noticed(key: str, kind: str, text: str) -> None:
    found = [
        one for one in check_document(key, typed(kind)) if one.rule is DocumentRule.WRONG_TYPE
    ]
    assert [one.severity for one in found] == ["warning"] * bool(text)
    assert all(text in one.text for one in found)
    assert find_publish_error(key, typed(kind)) is None


def test_missing_sections_are_noticed() -> None:
    body = "# Failure modes\n\n### things that worked (so far)\r\n"
    found = check_document("self_observations.md", typed("self_observations", body))
    assert [(one.rule, one.severity) for one in found] == [(DocumentRule.NO_SECTION, "warning")]
    assert "'Open questions'" in found[0].text
    whole = typed("self_observations", body + "## Open questions\n")
    assert check_document("self_observations.md", whole) == ()


# The index


RELATIONSHIP = (
    "---\nname: Ada\ndescription: a colleague\ntype: relationship\nrole: lead\n---\n"
    "Known-for: the billing service\nCommunication register: dry\n\n"
    "Past interactions:\n- 2026-04-17: a call\n\nPatterns to keep:\n- Ask before calling.\n"
)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_inline_labels_are_sections_of_a_relationship(ending: str) -> None:
    whole = RELATIONSHIP.replace("\n", ending)
    assert check_document("relationship_ada.md", whole.encode()) == ()
    without = whole.replace("Past interactions:", "Once:")
    (problem,) = check_document("relationship_ada.md", without.encode())
    assert "'Past interactions'" in problem.text


def test_labels_are_no_sections_of_other_kinds() -> None:
    text = b"---\nname: N\ndescription: d\ntype: carry_forward\n---\nPending:\nConsumed:\n"
    assert rules("carry_forward.md", text) == [DocumentRule.NO_SECTION] * 2


def test_a_long_index_is_noticed() -> None:
    assert rules("MEMORY.md", b"x\n" * 200) == []
    assert rules("MEMORY.md", b"x\n" * 201) == [DocumentRule.TOO_LONG]
    assert rules("MEMORY.md", b"x" * 25_000) == []
    assert rules("MEMORY.md", b"x" * 25_001) == [DocumentRule.TOO_LONG]
    assert find_publish_error("MEMORY.md", b"x\n" * 201) is None


INDEX = b"- [A](a.md)\n- [B](b.md)\n- [A again](a.md)\n"


def test_links_are_checked() -> None:
    assert rules("MEMORY.md", INDEX) == [DocumentRule.DOUBLE_LINK]
    found = check_document("MEMORY.md", INDEX, keys={"a.md"})
    assert [(one.rule, one.severity) for one in found] == [
        (DocumentRule.DOUBLE_LINK, "warning"),
        (DocumentRule.DEAD_LINK, "warning"),
    ]
    assert "b.md" in found[1].text
    assert rules("MEMORY.md", b"- [A](a.md)\n") == []


def test_a_folder_is_checked_as_a_whole() -> None:
    fact = typed("user")
    files = {
        "MEMORY.md": b"- [A](user_a.md)\n- [More](index_more.md)\n- [X](gone.md)\n",
        "index_more.md": b"- [B](user_b.md)\n",
        "user_a.md": fact,
        "user_b.md": fact,
        "user_c.md": fact,
        "user_C.md": fact,
    }
    found = [(one.key, one.rule, one.severity) for one in check_documents(files)]
    assert found == [
        ("MEMORY.md", DocumentRule.DEAD_LINK, "warning"),
        ("user_C.md", DocumentRule.NOT_LINKED, "warning"),
        ("user_c.md", DocumentRule.COLLISION, "error"),
        ("user_c.md", DocumentRule.NOT_LINKED, "warning"),
    ]
    assert check_documents({"MEMORY.md": b"- [A](user_a.md)\n", "user_a.md": fact}) == ()


# Adoption


def test_adoption_adds_frontmatter_and_keeps_the_text() -> None:
    text = b"# How we test\n\nNo mocks. Ever.\n"
    data = add_missing_frontmatter("feedback_how_we_test.md", text)
    assert data == (
        b"---\nname: Feedback how we test\ndescription: How we test\ntype: feedback\n---\n" + text
    )
    assert check_document("feedback_how_we_test.md", data) == ()


@pytest.mark.parametrize(
    ("body", "description"),
    [
        ("One thing. And another.\n", "One thing."),
        ("- *first* item\n- second\n", "first* item"),
        ("text\n\n## A heading ##\r\n", "A heading"),
        ("\n\n---\n\n", "Notes"),
        ("", "Notes"),
        ("x" * 500, "x" * 150),
    ],
)
def test_a_description_is_taken_from_the_text(body: str, description: str) -> None:
    document = parse(add_missing_frontmatter("notes.md", body.encode()))
    assert document.description == description
    assert document.name == "Notes"
    assert document.type == "reference"
    assert document.body == body


def test_adoption_keeps_line_endings_and_the_mark_at_the_start() -> None:
    data = add_missing_frontmatter("notes.md", b"\xef\xbb\xbfOne.\r\nTwo.\r\n")
    assert data.startswith(b"\xef\xbb\xbf---\r\nname: Notes\r\n")
    assert data.endswith(b"---\r\nOne.\r\nTwo.\r\n")
    assert data.count(b"\n") == data.count(b"\r\n")


def test_adoption_fills_in_only_what_is_missing() -> None:
    data = add_missing_frontmatter(
        "user_role.md", GOOD.replace(b"description: What they do\n", b"x: 1 # kept\n")
    )
    assert b"name: Role\n" in data
    assert b"x: 1 # kept\n" in data
    assert parse(data).description == "An engineer."
    assert data.count(b"---\n") == 2


@pytest.mark.parametrize("data", [GOOD, NESTED])
def test_a_proper_document_is_adopted_as_it_is(data: bytes) -> None:
    assert add_missing_frontmatter("user_role.md", data) == data


@pytest.mark.parametrize(
    "data",
    [
        b"---\nname: [[[\nother: kept\n---\nText.\n",
        b"---\nname: Role\nno end\n",
        b"---\nname: [a, b]\nother: kept\n---\nText.\n",
        b"---\nx: &a 1\ny: *a\n---\nText.\n",
    ],
)
def test_frontmatter_that_cannot_be_read_is_kept_as_text(data: bytes) -> None:
    result = add_missing_frontmatter("user_role.md", data)
    assert result.endswith(b"---\n" + data)
    assert check_document("user_role.md", result) == ()


@given(
    st.text(alphabet=st.sampled_from("ab: -#.\n\r\"'[]{}&*!|>%@`é\ufeff\u2028\x7f"), max_size=80)
)
def test_any_text_can_be_adopted(text: str) -> None:
    data = text.encode()
    result = add_missing_frontmatter("user_role.md", data)
    assert check_document("user_role.md", result) == ()
    assert add_missing_frontmatter("user_role.md", result) == result
    before = parse(data)
    if not before.opening:
        assert result.endswith(data.removeprefix(b"\xef\xbb\xbf"))
    assert parse(result).body.endswith(before.body)


@pytest.mark.parametrize(
    ("key", "data"), [("MEMORY.md", b"# M\n"), ("a.md", b"\xff"), ("a.md", b"a\0")]
)
def test_what_cannot_be_adopted_is_refused(key: str, data: bytes) -> None:
    with pytest.raises(PersonaError, match=f"{key} cannot be adopted"):
        add_missing_frontmatter(key, data)
