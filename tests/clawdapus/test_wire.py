"""What is read in a service's answer."""

from __future__ import annotations

import pytest

from memplane.episodes.api_types import RecallResponse
from memplane.integrations.clawdapus.memory_service.wire_format import (
    NamedBlock,
    UnreadableResponse,
    parse_named_blocks,
    parse_recalled,
)


@pytest.mark.parametrize(
    ("answer", "blocks"),
    [
        (b'{"memories":[{"text":"a","entry_ids":["x",5]}]}', [NamedBlock("a", frozenset({"x"}))]),
        (b'{"Memories":[{"TEXT":"a"}],"more":1}', [NamedBlock("a")]),
        (b'{"memories":null}', []),
        (b"{}", []),
        (b'{"memories":5}', None),
        (b"[]", None),
        (b"", None),
        (b"[" * 10_000, None),
        (b'{"memories":[]' + b" " * 16384 + b"}", None),
    ],
)
def test_what_a_recall_answers(answer: bytes, blocks: list[NamedBlock] | None) -> None:
    assert parse_named_blocks(answer) == blocks


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        (b'{"memories":[{"text":"a","score":0.5,"kind":"k","source":"s","ts":"t"}]}', ["a"]),
        (b'{"Memories":[{"TEXT":"a","Score":1,"more":{}}],"MORE":1}', ["a"]),
        (b'{"memories":[{"text":"a","score":null,"kind":null}, null]}', ["a", ""]),
        (b'{"memories":[{"text":"a","score":NaN},{"text":"b","score":1e999}]}', ["a", "b"]),
        (b'{"memories":[{"text":"a","entry_ids":5,"id":7}]}', ["a"]),
        (b'{"memories":[{"text":"caf\xe9"}]}', ["caf\ufffd"]),
        (b'{"memories":null}', []),
        (b'{"memories":[]}', []),
        (b"{}", []),
        (b'{"memories":[]' + b" " * (16384 - 15) + b"}", []),
    ],
)
def test_what_a_turn_reads_in_an_answer(answer: bytes, texts: list[str]) -> None:
    found = parse_recalled(answer)
    assert isinstance(found, RecallResponse)
    assert [one.text for one in found.memories] == texts


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b'{"memories":[{"text":"a","score":"0.9"}]}', "memories[0].score is no number"),
        (b'{"memories":[{"text":"a","score":true}]}', "memories[0].score is no number"),
        (b'{"memories":[{"text":"a"},{"text":5}]}', "memories[1].text is no string"),
        (b'{"memories":[{"text":"a","kind":[]}]}', "memories[0].kind is no string"),
        (b'{"memories":[{"text":"a","ts":1}]}', "memories[0].ts is no string"),
        (b'{"memories":["a"]}', "memories[0] is no object"),
        (b'{"memories":{}}', "memories is no list"),
        (b"[]", "the answer is no object"),
        (b"null", "the answer is no object"),
        (b"", "it is not JSON"),
        (b'{"memories":[]} x', "it is not JSON"),
        (b"[" * 16384, "it is not JSON"),
        (b'{"memories":[{"text":"a","score":' + b"9" * 5000 + b"}]}", "it is not JSON"),
    ],
)
def test_an_answer_of_another_type_fails_as_a_whole(answer: bytes, why: str) -> None:
    assert parse_recalled(answer) == UnreadableResponse(f"parse recall response: {why}")


def test_ids_that_cannot_be_written_down_are_none() -> None:
    found = parse_recalled(
        rb'{"memories":[{"text":"a","id":"\ud83d","entry_ids":["\ud83d","hist1_a","b\n"]}]}'
    )
    assert isinstance(found, RecallResponse)
    assert [(one.id, one.entry_ids) for one in found.memories] == [("", ("hist1_a",))]


def test_trust_that_another_service_made_up_is_none() -> None:
    found = parse_recalled(
        b'{"memories":[{"text":"a","trust":"untrusted","origin":"web","sources":["web:x",3]},'
        b'{"text":"b","trust":"absolute","origin":["web"],"sources":"web:x"}]}'
    )
    assert isinstance(found, RecallResponse)
    assert [(one.trust, one.origin, one.sources) for one in found.memories] == [
        ("untrusted", "web", ("web:x",)),
        ("", "", ()),
    ]


def test_an_answer_that_is_too_long_is_not_read() -> None:
    said = parse_recalled(b'{"memories":[]' + b" " * (16385 - 15) + b"}")
    assert said == UnreadableResponse("recall response exceeds 16384 bytes")
