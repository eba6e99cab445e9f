"""OpenAI Responses (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import msgspec

from memplane.proxy.body import Body
from memplane.proxy.candidate import Family
from memplane.proxy.dialects.contract import ANSWER, THREAD, Conversation
from memplane.proxy.dialects.conversing import conversation_in, last_of_user
from memplane.proxy.dialects.failing import described, error_in, is_named
from memplane.proxy.dialects.placing import (
    at_end_of_parts,
    at_end_of_string,
    is_list,
    is_string,
    text_part,
    with_blocks_in,
)
from memplane.proxy.json_values import decoded_or_none, encoded, members, string
from memplane.proxy.splicing import Edit, Span, appended
from memplane.proxy.sse import Event

_ERRORS: Final = frozenset({"error", "response.error"})
_FAILED: Final = frozenset({"failed", "cancelled"})
_WHOLE_INPUT: Final = -1
_KEPT: Final = (("previous_response_id", ANSWER), ("conversation", THREAD))


class OpenAIResponses(msgspec.Struct, frozen=True):
    """Input items in, output items out; the input may also be one text."""

    path: str = "/v1/responses"
    family: Family = "openai"
    counts_on_request: bool = False
    keeps_answers: bool = True
    told: str = "instructions"
    listed: str = "input"
    last: tuple[str, ...] = ("response.completed", "response.incomplete", "response.failed")

    def conversation(self, body: Body) -> Conversation:
        # Services are sent Anthropic's instructions alone, as their contract has it.
        conversation = conversation_in(body, listed=self.listed, told="")
        after = tuple(_kept(body))
        return replace(conversation, after=after) if after else conversation

    def with_blocks(self, body: Body, blocks: Mapping[int, str]) -> bytes:
        span = body.span(self.listed)
        if span is not None and is_string(body, span):
            text = blocks.get(_WHOLE_INPUT, "")
            return body.edited(at_end_of_string(span, text) if text else ())
        return with_blocks_in(body, self.listed, blocks, _ending)

    def with_context(self, body: Body, text: str) -> bytes | None:
        span = body.span(self.listed)
        item = b'{"role":"system","content":%s}' % encoded(text)
        if span is not None and is_string(body, span):
            opening = b'[%s,{"role":"user","content":' % item
            return body.edited(
                [Edit(span.start, span.start, opening), Edit(span.end, span.end, b"}]")]
            )
        if span is None or not is_list(body, span):
            return None
        last = last_of_user(body.messages(self.listed))
        if last is None:
            return body.edited([appended(body.readable, span, item)])
        before = body.items(span)[last].start
        return body.edited([Edit(before, before, item + b",")])

    def ended_by(self, event: Event) -> bool:
        return is_named(event, self.last)

    def failure_in(self, document: object) -> str:
        of = members(document)
        if string(of.get("type")) in _ERRORS:
            return described(of.get("error") or {**of, "type": ""})
        response = members(of.get("response")) or of
        failure = error_in(response) or error_in(of)
        if failure:
            return failure
        status = string(response.get("status"))
        return f"the response is {status}" if status in _FAILED else ""


def _kept(body: Body) -> Iterator[str]:
    """Name what the provider keeps of the conversation that a request goes on with."""
    for member, kind in _KEPT:
        if member in body.members:
            value = decoded_or_none(bytes(body.members[member]))
            if name := string(value) or string(members(value).get("id")):
                yield f"{kind} {name}"


def _ending(body: Body, content: Span, text: str) -> list[Edit]:
    if is_string(body, content):
        return at_end_of_string(content, text)
    if is_list(body, content):
        return at_end_of_parts(body, content, text_part("input_text", text))
    return []
