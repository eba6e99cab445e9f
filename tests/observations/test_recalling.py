"""Observations in answers: their share, and room for what was said."""

from __future__ import annotations

import pytest

from memplane.episodes.api_types import (
    DEFAULT_RECALL_BYTES,
    MemoryBlock,
    RecallRequest,
    RecallResponse,
)
from memplane.observations.relevance import OBSERVATION_BLOCK_KIND, add_observations, rank_relevant
from tests.observations.test_prompt import learned

QUESTION = "When does api restart?"


@pytest.mark.parametrize(
    ("room", "kept"), [(DEFAULT_RECALL_BYTES, 1), (3 * DEFAULT_RECALL_BYTES, 4)]
)
def test_what_was_said_has_the_room_that_was_asked_for(room: int, kept: int) -> None:
    found = rank_relevant(QUESTION, [learned(1, service="api")])
    said = tuple(
        MemoryBlock(text=f"{number}" * 5000, kind="episode_summary") for number in range(4)
    )
    ask = RecallRequest(agent="a", text=QUESTION, max_bytes=room)
    blocks = add_observations(RecallResponse(memories=said), found, ask).memories
    assert [one.kind for one in blocks] == [OBSERVATION_BLOCK_KIND, *["episode_summary"] * kept]
