"""What agents are told about recording memories."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from memplane.errors import InvalidRequest
from memplane.exchange.marker_parser import MemoryMarker, parse_markers
from memplane.observations import vocabulary
from memplane.observations.agent_guide import GuideMode, build_guide, build_output_schema
from memplane.observations.assertion_parser import parse_assertions
from memplane.observations.gate import AcceptedAssertion, RejectedAssertion, judge_assertion
from memplane.observations.model import Assertion, Category, SourceClass
from memplane.observations.reject_reasons import RejectReason
from memplane.redaction.redactor import Redactor

REDACT = Redactor(key=b"of this installation").text
TIERS = pytest.mark.parametrize("tier", [1, 2, 3])
MODES = pytest.mark.parametrize("mode", ["markers", "structured"])


def fenced(text: str) -> list[str]:
    """The lines that stand in code."""
    return [line for block in text.split("```")[1::2] for line in block.splitlines()[1:]]


def unfenced(text: str) -> str:
    return re.sub("(?m)^```.*$", "", text)


@TIERS
def test_markers_are_documented_with_two_examples_each(tier: int) -> None:
    text = build_guide(tier, "markers")
    assert "[MEMORY:<category>] <observation>" in fenced(text)
    assert "[MEMORY:<category>:<service>] <observation>" in fenced(text)
    found = [one for one in parse_markers(unfenced(text)) if one.category in list(Category)]
    assert [one.category for one in found] == [one for one in Category for _ in range(2)]
    assert {one.service for one in found} > {""}


@TIERS
def test_documents_are_documented_without_markers(tier: int) -> None:
    text = build_guide(tier, "structured")
    assert not re.search(r"(?i)\[MEMORY|marker", text)
    found = [json.loads(line) for line in fenced(text)]
    assert [one["category"] for one in found] == [one for one in Category for _ in range(2)]
    assert all(wrong_with({"memories": [one]}) == [] for one in found)
    for name in ("memories", "category", "service", "observation"):
        assert f"`{name}`" in text


def test_both_have_the_same_examples() -> None:
    marked = parse_markers(unfenced(build_guide(1, "markers")))
    returned = [json.loads(line) for line in fenced(build_guide(1, "structured"))]
    assert [
        MemoryMarker(one["category"], one.get("service", ""), one["observation"])
        for one in returned
    ] == [one for one in marked if one.category in list(Category)]


@TIERS
@MODES
def test_an_agent_is_told_to_be_selective(tier: int, mode: GuideMode) -> None:
    text = build_guide(tier, mode)
    assert "Be very selective; most runs record nothing." in text
    assert "no status, health, versions or readings" in text
    assert "turns out to be wrong, record what is true instead" in text


@MODES
def test_each_tier_records_something_else(mode: GuideMode) -> None:
    texts = [build_guide(tier, mode) for tier in (1, 2, 3)]
    words = ("repeatedly", "diagnosis", "how a fix turned out")
    assert [[word in text for word in words] for text in texts] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]


@TIERS
@MODES
def test_nothing_is_recorded_when_a_guide_is_quoted(tier: int, mode: GuideMode) -> None:
    text = build_guide(tier, mode)
    quoted = "".join(f"> {line}\n" for line in text.splitlines())
    for said in (text, f"I was told:\n\n{text}\nThat is all.", quoted, text.replace("\n", "\r\n")):
        assert parse_markers(said) == ()


def test_the_same_examples_outside_of_code_would_be_recorded() -> None:
    assert len(parse_markers(unfenced(build_guide(1, "markers")))) > 10


def test_an_exact_repeat_of_an_example_is_rejected() -> None:
    repeated = unfenced(build_guide(1, "markers"))
    examples = [
        one
        for one in parse_assertions(repeated, source=SourceClass.AGENT)
        if isinstance(one, Assertion)
    ]
    assert len(examples) == 10
    for one in examples:
        for text in (one.text, f"{one.text}.", one.text.upper()):
            verdict = judge_assertion(replace(one, text=text), redact=REDACT)
            assert isinstance(verdict, RejectedAssertion)
            assert verdict.reason is RejectReason.EXAMPLE


def test_what_an_example_says_of_a_real_service_is_accepted() -> None:
    text = "Takes 60s to start after a restart; wait before checking health"
    said = Assertion(category="timing", service="jellyfin", text=text, source=SourceClass.AGENT)
    assert text in build_guide(1, "markers")
    assert isinstance(judge_assertion(said, redact=REDACT), AcceptedAssertion)


def test_the_examples_name_no_service_that_exists() -> None:
    for mode in ("markers", "structured"):
        words = set(re.findall(r"[a-z0-9]+", " ".join(fenced(build_guide(1, mode))).casefold()))
        assert words.isdisjoint(vocabulary.PRODUCTS)


@pytest.mark.parametrize("tier", [-1, 0, 4])
def test_there_is_a_guide_for_agents_only(tier: int) -> None:
    with pytest.raises(InvalidRequest, match=f"tier {tier}"):
        build_guide(tier, "markers")


def test_an_unknown_mode_is_refused() -> None:
    unknown: Any = "both"
    with pytest.raises(InvalidRequest, match="'both'"):
        build_guide(1, unknown)


# The schema


def wrong_with(document: Any) -> list[str]:
    """What the schema does not allow, as far as it uses the language of schemas."""
    return list(_wrong(document, build_output_schema()))


def _wrong(value: Any, rule: Any) -> Iterator[str]:
    kinds: dict[str, type] = {"object": dict, "array": list, "string": str, "null": type(None)}
    names = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    if not isinstance(value, tuple(kinds[one] for one in names)):
        yield "type"
    elif isinstance(value, dict):
        yield from _wrong_members(value, rule)
    elif isinstance(value, list):
        for one in value:
            yield from _wrong(one, rule["items"])
    elif isinstance(value, str):
        yield from _wrong_text(value, rule)


def _wrong_members(value: Any, rule: Any) -> Iterator[str]:
    known = rule["properties"]
    yield from (f"{name} is missing" for name in rule["required"] if name not in value)
    for name in value:
        if name in known:
            yield from _wrong(value[name], known[name])
        elif rule.get("additionalProperties") is False:
            yield f"{name} is not known"


def _wrong_text(value: str, rule: Any) -> Iterator[str]:
    if value not in rule.get("enum", [value]):
        yield "enum"
    if not re.search(rule.get("pattern", ""), value):
        yield "pattern"
    if not rule.get("minLength", 0) <= len(value) <= rule.get("maxLength", 9999):
        yield "length"


GOOD = {"category": "timing", "service": "jellyfin", "observation": "Takes 60s to start"}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, []),
        ({"service": None}, []),
        ({"service": "my.svc"}, ["pattern"]),
        ({"service": "x" * 65}, ["pattern"]),
        ({"category": "misc"}, ["enum"]),
        ({"observation": "x" * 2001}, ["length"]),
        ({"confidence": "1"}, ["confidence is not known"]),
    ],
)
def test_the_schema_knows_good_from_bad(change: dict[str, Any], wrong: list[str]) -> None:
    assert wrong_with({"memories": [GOOD | change]}) == wrong


def test_the_schema_wants_a_list_which_may_be_empty() -> None:
    assert wrong_with({"memories": []}) == []
    assert wrong_with({}) == ["memories is missing"]
    assert wrong_with({"memories": [{"category": "timing"}]}) == ["observation is missing"]


def test_the_schema_can_be_given_inline_and_changed_by_whoever_asked() -> None:
    assert json.loads(json.dumps(build_output_schema())) == build_output_schema()
    own: Any = build_output_schema()
    own["properties"]["memories"]["items"]["properties"].clear()
    assert build_output_schema() != own
