"""Memories for a prompt, as text: what a hook puts beside it, and the proxy recognises."""

from __future__ import annotations

from pathlib import Path

from memplane import Client
from memplane.exchange.prompt_cleanup import strip_client_text
from memplane.service.model import PromptMemoryQuery
from memplane.service.operations.memory import recall_for_prompt
from memplane.settings import load_settings

FACT = "The staging database listens on port 5433."
QUESTION = "Which port has the staging database?"


async def test_the_memories_of_a_prompt_come_in_the_block_that_the_proxy_knows(home: Path) -> None:
    async with Client(load_settings({"home": str(home)}, {})) as client:
        await client.retain(FACT, agent="a")
        query = PromptMemoryQuery(agent="a", prompt=QUESTION)
        found = await client.call(recall_for_prompt, query)
        assert FACT in found.text
        assert found.text.startswith("--- BEGIN MEMORY (from memplane) ")
        assert strip_client_text(f"{QUESTION}\n{found.text}") == QUESTION
        assert len(found.entry_ids) == 1
        # What the session was given before is not given again, and another agent knows nothing.
        for other in (
            PromptMemoryQuery(agent="a", prompt=QUESTION, without=found.entry_ids),
            PromptMemoryQuery(agent="b", prompt=QUESTION),
            PromptMemoryQuery(agent="a", prompt=f"<system-reminder>{QUESTION}</system-reminder>"),
        ):
            assert (await client.call(recall_for_prompt, other)).text == ""
