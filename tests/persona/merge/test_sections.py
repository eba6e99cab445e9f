from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, combinations, product

import pytest

from memplane.persona.document_kinds import MergeFamily
from memplane.persona.merge.conflict_resolver import ConflictResolver
from memplane.persona.merge.outline import OutlineBlock, OutlineSection
from memplane.persona.merge.sections import MergeOutlines, collect_base_items, merge_outlines
from tests.persona.merge.meeting import meet, text

BASE = """\
    # Self observations

    ## Failure modes

    - too long
    - too fast

    ## Open questions

    - why?
    """


def test_bullets_of_both_sides_stay_and_removed_ones_go() -> None:
    met = meet(
        MergeFamily.SECTIONS,
        base=BASE,
        newer="""\
            # Self observations

            ## Failure modes

            - too long
            - too fast
            - too loud

            ## Open questions
            """,
        older="""\
            # Self observations

            ## Failure modes

            - too fast
            - too late

            ## Things that worked

            - asking

            ## Open questions

            - why?
            """,
    )

    assert met.kept is None
    assert met.text == text("""\
        # Self observations

        ## Failure modes

        - too fast
        - too loud
        - too late

        ## Things that worked

        - asking

        ## Open questions
        """)


def test_a_bullet_counts_by_its_words() -> None:
    met = meet(
        MergeFamily.SECTIONS,
        base=None,
        newer="## A\n\n- Too  long\n",
        older="## A\n\n* too long\n- too fast\n",
    )

    assert met.text == "## A\n\n- Too  long\n- too fast\n"
    assert met.kept is None


def test_the_same_words_in_two_sections_are_two_things() -> None:
    met = meet(
        MergeFamily.SECTIONS,
        base="## A\n\n- x\n\n## B\n\n- x\n",
        newer="## A\n\n- x\n\n## B\n",
        older="## A\n\n- x\n\n## B\n\n- x\n- y\n",
    )

    assert met.text == "## A\n\n- x\n\n## B\n\n- y\n"


def test_prose_and_code_between_bullets_stay() -> None:
    code = "```py\n# not a heading\n\n- not a bullet\n```"
    met = meet(
        MergeFamily.SECTIONS,
        base="## A\n\n- x\n",
        newer=f"## A\n\n- x\n\nSome prose\nover two lines.\n\n{code}\n",
        older="Above all.\n\n## A\n\n- x\n  with more\n\n  and more\n- y\n",
    )

    assert met.text == (
        f"Above all.\n\n## A\n\nSome prose\nover two lines.\n\n{code}\n\n"
        "- x\n  with more\n\n  and more\n- y\n"
    )


def test_a_removed_section_takes_along_only_what_was_in_it() -> None:
    met = meet(
        MergeFamily.SECTIONS,
        base="## A\n\n- a\n\n## B\n\n- b\n",
        newer="## A\n\n- a\n",
        older="## A\n\n- a\n\n## B\n\n- b\n- new\n",
    )

    assert met.text == "## A\n\n- a\n\n## B\n\n- new\n"


def test_a_title_that_one_side_adds_does_not_make_its_sections_others() -> None:
    met = meet(
        MergeFamily.SECTIONS,
        base="## A\n\n- a\n- b\n",
        newer="# Title\n\n## A\n\n- a\n- b\n- c\n",
        older="## A\n\n- b\n- d\n",
    )

    assert met.text == "# Title\n\n## A\n\n- b\n- c\n- d\n"


def _subsets(things: str) -> list[tuple[str, ...]]:
    return list(chain.from_iterable(combinations(things, size) for size in range(len(things) + 1)))


def _bullets(chosen: tuple[str, ...]) -> OutlineSection:
    return OutlineSection("", blocks=tuple(OutlineBlock(key, f"- {key}") for key in chosen))


def _sections(chosen: tuple[str, ...]) -> OutlineSection:
    children = (
        OutlineSection(key, 2, f"## {key}", (OutlineBlock(f"{key}b", "- x"),)) for key in chosen
    )
    return OutlineSection("", children=tuple(children))


def _keys(section: OutlineSection) -> Iterator[str]:
    yield from (block.key for block in section.blocks)
    for child in section.children:
        yield child.key
        yield from _keys(child)


@pytest.mark.parametrize("made", [_bullets, _sections])
def test_sets_of_four_are_merged_as_sets_and_in_any_order_of_meetings(
    made: Callable[[tuple[str, ...]], OutlineSection],
) -> None:
    # What an element is called does not matter, so of every size one base is enough.
    bases = [tuple("abcd"[:size]) for size in range(5)]
    subsets = _subsets("abcd")
    for base in bases:
        known = collect_base_items(made(base))

        def joined(
            one: OutlineSection, other: OutlineSection, known: object = known
        ) -> OutlineSection:
            return merge_outlines(MergeOutlines(known, one, other), ConflictResolver())  # type: ignore[arg-type]

        merged = {
            (one, other): joined(made(one), made(other))
            for one, other in product(subsets, subsets)
        }
        for (one, other), section in merged.items():
            removed = (set(base) - set(one)) | (set(base) - set(other))
            assert set(_keys(section)) == set(_keys(made(tuple({*one, *other} - removed))))
        for one, other, third in product(subsets, subsets, subsets):
            if one > third:
                continue  # The same meetings the other way round.
            left = joined(merged[one, other], made(third))
            right = joined(made(one), merged[other, third])
            assert set(_keys(left)) == set(_keys(right))
