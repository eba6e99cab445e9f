from __future__ import annotations

from memplane.persona.document_kinds import MergeFamily
from memplane.persona.merge import MergeSide, merge
from tests.persona.merge.meeting import EARLIER, LATER, meet, text

BASE = "# Threads\n\n## On names\n\nFirst raised: May\n\nMy position: unsure\n"
NEWER = BASE.replace("unsure", "they matter")
OLDER = BASE.replace("unsure", "they do not")
BOTH = text("""\
    # Threads

    ## On names

    First raised: May

    My position: they matter

    > **Earlier**
    > First raised: May
    >
    > My position: they do not
    """)


def test_the_newer_text_stands_and_the_older_is_history() -> None:
    met = meet(MergeFamily.THREADS, base=BASE, newer=NEWER, older=OLDER)

    assert met.text == BOTH
    assert met.kept is None


def test_the_same_history_is_not_kept_twice() -> None:
    met = meet(
        MergeFamily.THREADS, base=BASE, newer=BOTH.replace("matter", "do matter"), older=OLDER
    )

    assert met.text == BOTH.replace("matter", "do matter")


def test_what_a_third_machine_thought_is_history_too() -> None:
    third = BASE.replace("unsure", "ask Ada")
    merged = merge(
        MergeFamily.THREADS,
        BASE.encode(),
        MergeSide(BOTH.encode(), LATER),
        MergeSide(third.encode(), EARLIER),
    )

    assert merged.data.decode().count("> **Earlier**") == 2
    assert b"> My position: ask Ada" in merged.data
    assert merged.lost is None


def test_a_thread_that_only_one_side_changed_has_no_history() -> None:
    met = meet(MergeFamily.THREADS, base=BASE, newer=NEWER, older=BASE + "\n## On rest\n\nNew.\n")

    assert met.text == NEWER + "\n## On rest\n\nNew.\n"


def test_history_that_was_removed_stays_away() -> None:
    met = meet(MergeFamily.THREADS, base=BOTH, newer=NEWER, older=BOTH + "\n## On rest\n\nNew.\n")

    assert met.text == NEWER + "\n## On rest\n\nNew.\n"
