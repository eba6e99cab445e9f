"""Entries on their way to other services, without the memory in their prompts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memplane.exchange.outgoing_entry import strip_memory

BLOCK = "--- BEGIN MEMORY (from memplane) ---\n[kind=fact]\nThe osprey nests.\n--- END MEMORY ---"


def entry(effective: object, **more: Any) -> bytes:
    body = {"version": 1, "id": "x", "request_effective": effective, **more}
    return json.dumps(body, separators=(",", ":")).encode()


def said(*contents: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": one} for one in contents], "model": "m"}


@pytest.mark.parametrize(
    ("had", "left"),
    [
        (said(f"Where?\n\n{BLOCK}", "Well?"), said("Where?\n\n", "Well?")),
        (said(BLOCK, "Where?"), said("Where?")),
        (
            said([{"type": "text", "text": BLOCK}], [{"type": "text", "text": "Where?"}]),
            said([{"type": "text", "text": "Where?"}]),
        ),
        (said([{"type": "text", "text": "Where?"}, {"type": "text", "text": BLOCK}]),
         said([{"type": "text", "text": "Where?"}])),
        ({"input": BLOCK, "model": "m"}, {"input": "", "model": "m"}),
        (said(BLOCK), said()),
    ],
)  # fmt: skip
def test_blocks_go_with_the_messages_that_were_nothing_else(had: object, left: object) -> None:
    line = entry(had, response={"format": "json", "json": {"n": 0.70}})
    sent = strip_memory(line)
    assert b"osprey" not in sent
    assert json.loads(sent) == {**json.loads(line), "request_effective": left}


def test_a_clients_own_block_goes_too() -> None:
    assert b"osprey" not in strip_memory(entry({}, request_original=said(f"{BLOCK}\nWhere?")))


@pytest.mark.parametrize(
    "line",
    [
        entry(said("Where does it nest?")),
        entry(said("My memory is bad.", [], {}, ""), request_original=said("memory", None, 0.70)),
        b"memory, and no entry",
        b'{"id":"x","memory":1}',
    ],
)
def test_a_line_without_any_is_as_it_was(line: bytes) -> None:
    assert strip_memory(line) == line


def test_what_no_strict_decoder_reads_is_looked_through_all_the_same() -> None:
    half = entry(said(f"Where \\ud83d?\n{BLOCK}")).replace(b"\\\\ud83d", b"\\ud83d")
    assert b"osprey" not in strip_memory(half)
    raw = entry(said(f"Where ?\n{BLOCK}")).replace(b"Where ?", b"Where \xff?")
    assert b"osprey" not in strip_memory(raw)
    assert json.loads(strip_memory(raw))["request_effective"]["model"] == "m"
