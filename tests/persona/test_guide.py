"""What agents are told about their documents."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import InvalidRequest, PersonaError
from memplane.persona.document_kinds import DOCUMENT_KINDS, INDEX_KIND, DocumentKind
from memplane.persona.guide import (
    SECTION_BEGIN,
    SECTION_END,
    GuideReader,
    build_guide,
    with_section,
)
from memplane.persona.index_file import read_links
from memplane.persona.validation import check_document

READERS = pytest.mark.parametrize("reader", ["claude", "agent"])


def part(text: str, heading: str) -> str:
    """What stands below a heading."""
    found = re.search(rf"(?ms)^### {heading}\n(.*?)(?=^### |^<!-- |\Z)", text)
    return found[1] if found else ""


@READERS
@pytest.mark.parametrize("kind", DOCUMENT_KINDS)
def test_every_type_is_told_with_its_triggers(kind: DocumentKind, reader: GuideReader) -> None:
    rows = [line for line in build_guide(reader).splitlines() if f"| `{kind.file}` |" in line]
    assert len(rows) == 1
    assert kind.read_when in rows[0]
    assert kind.write_when in rows[0]
    assert f"`{kind.name}`" in rows[0] or kind is INDEX_KIND


@READERS
def test_what_is_always_read_is_listed(reader: GuideReader) -> None:
    told = part(build_guide(reader), "Always")
    assert [kind.file in told for kind in DOCUMENT_KINDS] == [
        kind.always_read for kind in DOCUMENT_KINDS
    ]


@READERS
def test_after_a_compaction_the_order_is_that_of_the_contract(reader: GuideReader) -> None:
    told = part(build_guide(reader), "After a compaction")
    order = ["MEMORY.md", "session_digest_YYYY-MM-DD.md", "carry_forward.md", "task at hand"]
    places = [told.index(f"\n{number}. ") for number in range(1, 5)]
    steps = [told[place:].splitlines()[1] for place in places]
    assert [name in step for name, step in zip(order, steps, strict=True)] == [True] * 4
    assert "begins with a summary" in told


@READERS
def test_every_section_is_told(reader: GuideReader) -> None:
    told = part(build_guide(reader), "How a document looks")
    for kind in DOCUMENT_KINDS:
        assert all(f"`## {section}`" in told for section in kind.sections)
        assert all(name in told for name in kind.entry)


@READERS
def test_the_examples_are_proper(reader: GuideReader) -> None:
    document, line = re.findall(r"```markdown\n(.*?)```", build_guide(reader), re.DOTALL)
    assert check_document("feedback_how_we_test.md", document.encode()) == ()
    assert [one.key for one in read_links(line.encode())] == ["feedback_how_we_test.md"]
    assert "A new document needs a line in `MEMORY.md`" in build_guide(reader)


def test_only_messaging_agents_are_told_about_messages() -> None:
    told = part(build_guide("agent"), "Messages")
    triggers = {
        "A message comes in": "relationship_<slug>.md",
        "Banter in a group": "voice_calibration.md",
        'A promise, or "done"': "running_commitments.md",
    }
    for trigger, file in triggers.items():
        assert re.search(rf"\*\*{re.escape(trigger)}\.\*\*[^*]*`{re.escape(file)}`", told)
    assert part(build_guide("claude"), "Messages") == ""


def test_only_claude_has_a_managed_section() -> None:
    claude = build_guide("claude")
    assert claude.startswith(f"{SECTION_BEGIN}\n")
    assert claude.endswith(f"\n{SECTION_END}\n")
    assert claude.count("memplane:persona:") == 2
    assert "memplane:persona:" not in build_guide("agent")


def test_an_unknown_reader_is_refused() -> None:
    unknown: Any = "nobody"
    with pytest.raises(InvalidRequest, match="'nobody'"):
        build_guide(unknown)


# The managed section

SECTION = f"{SECTION_BEGIN}\nnew\n{SECTION_END}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", SECTION),
        ("# Mine\n", f"# Mine\n\n{SECTION}"),
        ("# Mine", f"# Mine\n\n{SECTION}"),
        (f"a\n{SECTION_BEGIN}\nold\nolder\n{SECTION_END}\nb\n", f"a\n{SECTION}b\n"),
        (f"a\n  {SECTION_BEGIN}  \n{SECTION_END}", f"a\n{SECTION}"),
        (
            f"a\r\n{SECTION_BEGIN}\r\nold\r\n{SECTION_END}\r\nb",
            f"a\r\n{SECTION_BEGIN}\r\nnew\r\n{SECTION_END}\r\nb",
        ),
        ("a\r\nb\r\n", f"a\r\nb\r\n\r\n{SECTION_BEGIN}\r\nnew\r\n{SECTION_END}\r\n"),
        (f"`{SECTION_BEGIN}` is a marker\n", f"`{SECTION_BEGIN}` is a marker\n\n{SECTION}"),
    ],
)
def test_a_section_is_put_in_or_replaced(before: str, after: str) -> None:
    assert with_section(before, SECTION) == after
    assert with_section(before, "new\n") == after
    assert with_section(after, SECTION) == after


@pytest.mark.parametrize(
    "text",
    [
        f"{SECTION_BEGIN}\nold\n",
        f"old\n{SECTION_END}\n",
        f"{SECTION_END}\nold\n{SECTION_BEGIN}\n",
        f"{SECTION_BEGIN}\n{SECTION_END}\n{SECTION_BEGIN}\n{SECTION_END}\n",
        f"{SECTION_BEGIN}\n{SECTION_BEGIN}\n{SECTION_END}\n",
    ],
)
def test_markers_that_are_no_pair_are_left_to_a_person(text: str) -> None:
    with pytest.raises(PersonaError, match="not one pair"):
        with_section(text, SECTION)


@given(st.text(), st.text(), st.text())
def test_text_outside_is_never_touched(before: str, old: str, after: str) -> None:
    if before and before[-1:] != "\n":
        before += "\n"
    text = f"{before}{SECTION_BEGIN}\n{old}\n{SECTION_END}\n{after}"
    result = with_section(text, SECTION)
    assert result.startswith(before)
    assert result.endswith(after)
    assert with_section(before + after, SECTION).startswith(before + after)
