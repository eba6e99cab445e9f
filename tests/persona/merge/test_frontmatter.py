from __future__ import annotations

import pytest

from memplane.persona.document_kinds import MergeFamily
from memplane.persona.merge import MergeResult, MergeSide, merge
from tests.persona.merge.meeting import EARLIER, LATER, meet

NESTED = (
    '---\nname: role\ndescription: "who: they are"\nmetadata: \n  node_type: memory\n'
    "  type: user\n  originSessionId: {session}\n  modified: {modified}\n---\n\n{body}"
)


def _front(*lines: str) -> str:
    return "---\n" + "".join(f"{line}\n" for line in lines) + "---\nbody\n"


@pytest.mark.parametrize(
    ("base", "newer", "older", "merged", "kept"),
    [
        pytest.param(
            ("name: a", "description: b", "type: user"),
            ("name: A", "description: b", "type: user"),
            ("name: a", "description: B", "type: user"),
            ("name: A", "description: B", "type: user"),
            None,
            id="each side changed another key",
        ),
        pytest.param(
            ("name: a",), ("name: n",), ("name: o",), ("name: n",), "older", id="the same key"
        ),
        pytest.param(
            ("name: a", "x: 1"),
            ("name: a", "x: 1", "custom:   'odd'  # why"),
            ("name: a", "y: |", "  two", "  lines"),
            ("name: a", "custom:   'odd'  # why", "y: |", "  two", "  lines"),
            None,
            id="unknown keys and their formatting survive, removed ones stay away",
        ),
        pytest.param(
            ("name: a", "metadata:", "  type: user", "  a: 1"),
            ("name: a", "metadata:", "  type: user", "  a: 2"),
            ("name: a", "metadata:", "  type: feedback", "  a: 1", "  b: 3"),
            ("name: a", "metadata:", "  type: feedback", "  a: 2", "  b: 3"),
            None,
            id="keys below metadata count one by one",
        ),
        pytest.param(
            ("name: a", "tags: [x, y]"),
            ("name: a", "tags: [y, z]"),
            ("name: a", "tags: [x, y, w]"),
            ("name: a", "tags: [y, z, w]"),
            None,
            id="lists are sets",
        ),
        pytest.param(
            ("name: a", "tags: []"),
            ("name: a", "tags: []", "x: 1"),
            ("name: a", "tags:", "  - one"),
            ("name: a", "tags:", "  - one", "x: 1"),
            None,
            id="a list that only one side filled is written as there",
        ),
        pytest.param(
            ("# about", "name: a"),
            ("# about", "name: a", "b: 1"),
            ("# about it", "name: a"),
            ("# about it", "name: a", "b: 1"),
            None,
            id="comments stay with the keys",
        ),
        pytest.param(
            ("name: a",),
            ("name: a", "m:", "  x: 1"),
            ("name: a", "m:", "    y: 2"),
            ("name: a", "m:", "  x: 1"),
            "older",
            id="what cannot be read together is not put together",
        ),
    ],
)
def test_keys_are_merged_one_by_one(
    base: tuple[str, ...],
    newer: tuple[str, ...],
    older: tuple[str, ...],
    merged: tuple[str, ...],
    kept: str | None,
) -> None:
    met = meet(MergeFamily.FACT, base=_front(*base), newer=_front(*newer), older=_front(*older))

    assert met.text == _front(*merged)
    assert met.kept == kept


def test_the_stamps_of_claude_code_are_no_changes() -> None:
    base = NESTED.format(session="a", modified="2026-07-01T00:00:00Z", body="x\n").encode()
    stamped = NESTED.format(session="b", modified="2026-07-09T00:00:00Z", body="x\n").encode()
    edited = NESTED.format(session="c", modified="2026-07-05T00:00:00Z", body="y\n").encode()

    assert merge(MergeFamily.FACT, base, MergeSide(stamped), MergeSide(edited)) == MergeResult(
        edited
    )
    assert merge(MergeFamily.FACT, base, MergeSide(stamped), MergeSide(base)) == MergeResult(
        stamped
    )


def test_of_two_texts_that_differ_in_stamps_alone_the_later_stays() -> None:
    early = NESTED.format(session="a", modified="2026-07-01T00:00:00Z", body="x\n").encode()
    late = NESTED.format(session="b", modified="2026-07-01T03:00:00+02:00", body="x\n").encode()

    assert merge(MergeFamily.FACT, None, MergeSide(early), MergeSide(late)) == MergeResult(late)
    assert merge(MergeFamily.FACT, b"other", MergeSide(early), MergeSide(late)) == MergeResult(
        late
    )


def test_a_merged_text_was_modified_when_the_later_side_was() -> None:
    body = "a\nb\nc\n"
    base = NESTED.format(session="a", modified="2026-07-01T00:00:00Z", body=body)
    newer = NESTED.format(session="b", modified="2026-07-09T00:00:00Z", body="A\nb\nc\n")
    older = NESTED.format(session="c", modified="2026-07-05T00:00:00Z", body="a\nb\nC\n")

    merged = merge(
        MergeFamily.FACT,
        base.encode(),
        MergeSide(older.encode(), LATER),
        MergeSide(newer.encode()),
    )

    assert merged == MergeResult(
        NESTED.format(session="b", modified="2026-07-09T00:00:00Z", body="A\nb\nC\n").encode()
    )


def test_a_side_without_modified_counts_with_the_time_it_was_seen() -> None:
    base = "---\nname: a\n---\na\nb\nc\n"
    seen = base.replace("c\n", "C\n")
    stamped = "---\nname: a\nmodified: 2026-07-01T00:00:00Z\n---\nA\nb\nc\n"

    merged = merge(
        MergeFamily.FACT,
        base.encode(),
        MergeSide(seen.encode(), LATER),
        MergeSide(stamped.encode(), EARLIER),
    )

    assert merged.data.decode() == f"---\nname: a\nmodified: {LATER}\n---\nA\nb\nC\n"


def test_frontmatter_that_is_no_yaml_is_merged_by_its_lines() -> None:
    met = meet(
        MergeFamily.FACT,
        base=_front("name: a", "description: it is: bad"),
        newer=_front("name: A", "description: it is: bad"),
        older=_front("name: a", "description: it is: worse"),
    )

    assert met.text == _front("name: A", "description: it is: worse")
