"""Which entry an operator means by an id, or by the beginning of one."""

from __future__ import annotations

import pytest

from memplane.episodes.id_resolver import resolve_prefixes
from memplane.errors import InvalidRequest, UnknownMemory

FIRST = "hist1_2a1771ed08f5" + "0" * 52
SECOND = "hist1_2a17" + "f" * 60
KNOWN = {FIRST, SECOND, "turn-1", "turn-10", "2a17"}


def test_whole_ids_and_beginnings_of_hashes_are_found() -> None:
    assert resolve_prefixes([FIRST], KNOWN) == [FIRST]
    assert resolve_prefixes(["hist1_2a1771ed08f5", "2a17ff", "turn-1"], KNOWN) == [
        FIRST,
        SECOND,
        "turn-1",
    ]
    assert resolve_prefixes(["2a1771", FIRST], KNOWN) == [FIRST], "one entry, named twice"
    assert resolve_prefixes(["2a17"], KNOWN) == ["2a17"], (
        "a whole id is never the beginning of another"
    )


def test_a_beginning_that_more_than_one_entry_has_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="2 entries begin with hist1_2a17: hist1_2a1771ed"):
        resolve_prefixes(["hist1_2a17"], KNOWN)


@pytest.mark.parametrize("given", ["turn-", "hist1_", "hist1_ff", "hist1_2A1771", "", "3"])
def test_what_nothing_is_known_of_is_refused(given: str) -> None:
    with pytest.raises(UnknownMemory) as raised:
        resolve_prefixes([FIRST, given, "x"], KNOWN)
    assert str(raised.value) == f"history does not contain entry id(s) {given}, x"
