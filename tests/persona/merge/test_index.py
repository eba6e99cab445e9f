from __future__ import annotations

import pytest

from memplane.persona.document_kinds import MergeFamily
from memplane.persona.merge import MergeSide, merge
from tests.persona.merge.meeting import EARLIER, LATER, meet

ONE = "- [One](one.md) — first\n"
TWO = "- [Two](two.md) — second\n"
NEW = "- [New](new.md) — new\n"


@pytest.mark.parametrize(
    ("base", "newer", "older", "merged"),
    [
        pytest.param(ONE, ONE + TWO, ONE + NEW, ONE + TWO + NEW, id="links of both stay"),
        pytest.param(ONE + TWO, ONE, ONE + TWO + NEW, ONE + NEW, id="a removed link goes"),
        pytest.param(
            ONE,
            "- [One](one.md) — better\n",
            "- [One](one.md) — other\n",
            "- [One](one.md) — better — also: other\n",
            id="both hooks stay, the newer first",
        ),
        pytest.param(
            "- [One](one.md) — better — also: other\n",
            "- [One](one.md) — better\n" + NEW,
            "- [One](one.md) — better — also: other\n" + TWO,
            "- [One](one.md) — better\n" + NEW + TWO,
            id="one of two hooks was chosen",
        ),
        pytest.param(
            None,
            ONE,
            "- [First](./one.md): first\n",
            ONE,
            id="the same target and hook, set differently",
        ),
        pytest.param(
            ONE,
            ONE + NEW + ONE.replace("first", "again"),
            ONE + TWO,
            "- [One](one.md) — first — also: again\n" + NEW + TWO,
            id="what is linked twice becomes one line",
        ),
        pytest.param(
            f"{ONE}\n## Work\n\n{TWO}",
            f"## Work\n\n{ONE}{TWO}",
            f"{ONE.replace('first', 'edited')}\n## Work\n\n{TWO}{NEW}",
            f"## Work\n\n{ONE.replace('first', 'edited')}{TWO}{NEW}",
            id="a link that moved to a group is in no other",
        ),
    ],
)
def test_the_index(base: str | None, newer: str, older: str, merged: str) -> None:
    assert meet(MergeFamily.INDEX, base=base, newer=newer, older=older).text == merged


def test_links_to_documents_that_are_gone_are_dropped_with_all_that_hangs_on_them() -> None:
    met = meet(
        MergeFamily.INDEX,
        base=ONE,
        newer=ONE + "  more about it\n" + TWO,
        older=ONE + NEW + "See [One](one.md).\n",
        gone=frozenset({"one.md", "two.md"}),
    )

    assert met.text == NEW + "See [One](one.md).\n"


def test_a_dead_link_is_dropped_also_where_nothing_else_has_to_be_merged() -> None:
    index = (ONE + "\r\nodd   text\r\n" + TWO).encode()

    merged = merge(
        MergeFamily.INDEX,
        index,
        MergeSide(index, LATER),
        MergeSide(index, EARLIER),
        gone=frozenset({"one.md"}),
    )

    assert merged.data == ("\r\nodd   text\r\n" + TWO).encode()


def test_a_line_that_also_leads_elsewhere_stays() -> None:
    both = "- [One](one.md) — see also [Two](two.md)\n"

    met = meet(
        MergeFamily.INDEX, base=None, newer=both, older=both + NEW, gone=frozenset({"one.md"})
    )

    assert met.text == both + NEW
