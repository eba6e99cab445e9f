"""Which writes an object knows to hold: nothing is forgotten too early, no garbage is believed."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memplane.kit.ids import new_id
from memplane.storage.lineage import LINEAGE_METADATA, Lineage, Stamp

untimed = hypothesis_settings(deadline=None)

WRITERS = st.text("0123456789abcdef", min_size=12, max_size=12)
NUMBERS = st.integers(min_value=0, max_value=2**63)
STAMPS = st.builds(Stamp, WRITERS, NUMBERS)
FEW_STAMPS = st.builds(Stamp, st.sampled_from("abc"), st.integers(0, 5))


def lineage_of(stamps: list[Stamp]) -> Lineage:
    lineage = Lineage()
    for stamp in stamps:
        lineage = lineage.plus(stamp)
    return lineage


@untimed
@given(st.lists(STAMPS, max_size=70))
def test_what_is_written_is_read_back(stamps: list[Stamp]) -> None:
    lineage = lineage_of(stamps)
    assert Lineage.parse(lineage.metadata()) == lineage


@untimed
@given(st.lists(STAMPS, max_size=3), st.dictionaries(st.text(), st.text(), max_size=3))
def test_other_metadata_does_not_disturb(stamps: list[Stamp], others: dict[str, str]) -> None:
    lineage = lineage_of(stamps)
    assert Lineage.parse({**others, **lineage.metadata()}) == lineage


def test_without_metadata_nothing_is_known() -> None:
    assert Lineage.parse({}) == Lineage()
    assert Lineage.parse({LINEAGE_METADATA: ""}) == Lineage()
    assert not Lineage().includes(Stamp("a", 0))


def test_the_format_is_writers_and_numbers() -> None:
    lineage = Lineage().plus(Stamp("a", 1)).plus(Stamp("b", 22))
    assert lineage.metadata() == {"memplane_lineage": "b:22,a:1"}


# Includes


def test_a_write_and_all_before_it_are_included() -> None:
    lineage = Lineage().plus(Stamp("a", 3))
    assert [lineage.includes(Stamp("a", number)) for number in range(6)] == [True] * 4 + [
        False
    ] * 2


def test_a_writer_says_nothing_about_another() -> None:
    assert not Lineage().plus(Stamp("a", 3)).includes(Stamp("b", 1))
    assert not Lineage().plus(Stamp("a", 3)).includes(Stamp("", 1))
    assert not Lineage().plus(Stamp("ab", 3)).includes(Stamp("a", 1))


@untimed
@given(st.lists(STAMPS, max_size=70), STAMPS)
def test_a_write_is_included_once_it_was_added(stamps: list[Stamp], stamp: Stamp) -> None:
    assert lineage_of(stamps).plus(stamp).includes(stamp)


@untimed
@given(st.lists(FEW_STAMPS, max_size=20), FEW_STAMPS)
@example([Stamp("a", 5)], Stamp("a", 3))
def test_what_is_included_stays_included(stamps: list[Stamp], added: Stamp) -> None:
    """A write that arrives late must not make a later one look as if it had never landed."""
    lineage = lineage_of(stamps)
    grown = lineage.plus(added)
    for stamp in stamps:
        assert not lineage.includes(stamp) or grown.includes(stamp)


@untimed
@given(st.lists(FEW_STAMPS, max_size=20))
def test_each_writer_is_listed_once(stamps: list[Stamp]) -> None:
    names = [stamp.writer for stamp in lineage_of(stamps).writers]
    assert len(names) == len(set(names))


@untimed
@given(st.lists(FEW_STAMPS, max_size=20), FEW_STAMPS)
def test_adding_leaves_the_original_as_it_was(stamps: list[Stamp], added: Stamp) -> None:
    lineage = lineage_of(stamps)
    before = lineage.metadata()
    lineage.plus(added)
    assert lineage.metadata() == before


# How many writers


def test_the_newest_64_writers_are_kept_newest_first() -> None:
    stamps = [Stamp(f"writer-{number}", number) for number in range(100)]
    lineage = lineage_of(stamps)
    assert list(lineage.writers) == stamps[:-65:-1]
    assert len(lineage.writers) == 64


def test_a_writer_who_writes_again_is_new_again() -> None:
    stamps = [Stamp(f"writer-{number}", 1) for number in range(64)]
    again = Stamp("writer-0", 2)
    lineage = lineage_of([*stamps, again, Stamp("another", 1)])
    assert lineage.includes(again)
    assert not lineage.includes(Stamp("writer-1", 1))
    assert lineage.includes(Stamp("writer-2", 1))


def test_writing_again_and_again_lets_go_of_nobody() -> None:
    stamps = [Stamp(f"writer-{number}", 1) for number in range(64)]
    lineage = lineage_of([*stamps, *(Stamp("writer-0", number) for number in range(2, 200))])
    assert all(lineage.includes(stamp) for stamp in stamps)


def test_a_full_lineage_fits_into_the_metadata_of_a_blob() -> None:
    lineage = lineage_of([Stamp(new_id(), 10**15 + number) for number in range(100)])
    (value,) = lineage.metadata().values()
    assert len(lineage.writers) == 64
    assert len(value) < 8 * 1024
    assert value.isascii()


# Garbage


@pytest.mark.parametrize(
    "garbage",
    [
        "nonsense",
        ":",
        ",",
        ",,,",
        "a:",
        "a:b",
        "a:-1",
        "a:1.5",
        "a: 1",
        "a:1:2",
        "a:²",
        "a:½",
        "a:0x1",
        "\0",
        pytest.param("a:" + "9" * 5000, id="a number of 5000 digits"),
    ],
)
def test_garbage_is_left_out_and_the_rest_kept(garbage: str) -> None:
    lineage = Lineage.parse({LINEAGE_METADATA: f"good:1,{garbage},better:2"})
    assert lineage.includes(Stamp("good", 1))
    assert lineage.includes(Stamp("better", 2))
    assert not lineage.includes(Stamp("a", 1))


@untimed
@given(st.text() | st.text(st.sampled_from("a1:,-. ²٣\0")))
def test_any_text_can_be_read_and_what_was_read_can_be_written(text: str) -> None:
    lineage = Lineage.parse({LINEAGE_METADATA: text})
    assert Lineage.parse(lineage.metadata()) == lineage
    assert lineage.plus(Stamp("a", 1)).includes(Stamp("a", 1))
