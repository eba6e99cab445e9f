"""Observations in answers: their share, and room for what was said."""

from __future__ import annotations

import pytest

from memplane.memory.contract import MOST_BYTES, Ask, Block, Recalled
from memplane.observations.recalling import KIND, beside, relevant
from tests.observations.test_prompt import learned

QUESTION = "When does api restart?"


@pytest.mark.parametrize(("room", "kept"), [(MOST_BYTES, 1), (3 * MOST_BYTES, 4)])
def test_what_was_said_has_the_room_that_was_asked_for(room: int, kept: int) -> None:
    found = relevant(QUESTION, [learned(1, service="api")])
    said = tuple(Block(text=f"{number}" * 5000, kind="episode_summary") for number in range(4))
    ask = Ask(agent="a", text=QUESTION, max_bytes=room)
    blocks = beside(Recalled(memories=said), found, ask).memories
    assert [one.kind for one in blocks] == [KIND, *["episode_summary"] * kept]
