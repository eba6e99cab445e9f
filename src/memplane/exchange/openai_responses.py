"""OpenAI Responses (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import msgspec

from memplane.exchange.block_insertion import (
    append_part,
    append_to_string,
    encode_text_part,
    insert_blocks,
    is_list,
    is_string,
)
from memplane.exchange.conversation import find_last_user_message, read_conversation
from memplane.exchange.dialect import STORED_ANSWER, STORED_THREAD, ApiFamily, Conversation
from memplane.exchange.error_shapes import describe_error, find_error, is_event_named
from memplane.exchange.request_body import RequestBody
from memplane.exchange.sse import SseEvent
from memplane.kit.json_edits import JsonEdit, JsonSpan, append_edit
from memplane.kit.json_values import as_object, as_string, decode_json_or_none, encode_json_string

_ERROR_EVENTS: Final = frozenset({"error", "response.error"})
_FAILED_STATUSES: Final = frozenset({"failed", "cancelled"})
_WHOLE_INPUT_INDEX: Final = -1
_STORED_MEMBERS: Final = (("previous_response_id", STORED_ANSWER), ("conversation", STORED_THREAD))


class OpenAIResponses(msgspec.Struct, frozen=True):
    """Input items in, output items out; the input may also be one text."""

    path: str = "/v1/responses"
    family: ApiFamily = "openai"
    needs_usage_option: bool = False
    stores_answers: bool = True
    system_member: str = "instructions"
    messages_member: str = "input"
    last: tuple[str, ...] = ("response.completed", "response.incomplete", "response.failed")

    def conversation(self, body: RequestBody) -> Conversation:
        # Services are sent Anthropic's instructions alone, as their contract has it.
        conversation = read_conversation(
            body, messages_member=self.messages_member, system_member=""
        )
        after = tuple(_find_stored_names(body))
        return replace(conversation, after=after) if after else conversation

    def with_blocks(self, body: RequestBody, blocks: Mapping[int, str]) -> bytes:
        span = body.span(self.messages_member)
        if span is not None and is_string(body, span):
            text = blocks.get(_WHOLE_INPUT_INDEX, "")
            return body.with_edits(append_to_string(span, text) if text else ())
        return insert_blocks(body, self.messages_member, blocks, _append_text)

    def with_context(self, body: RequestBody, text: str) -> bytes | None:
        span = body.span(self.messages_member)
        item = b'{"role":"system","content":%s}' % encode_json_string(text)
        if span is not None and is_string(body, span):
            opening = b'[%s,{"role":"user","content":' % item
            return body.with_edits(
                [JsonEdit(span.start, span.start, opening), JsonEdit(span.end, span.end, b"}]")]
            )
        if span is None or not is_list(body, span):
            return None
        last = find_last_user_message(body.messages(self.messages_member))
        if last is None:
            return body.with_edits([append_edit(body.readable, span, item)])
        before = body.items(span)[last].start
        return body.with_edits([JsonEdit(before, before, item + b",")])

    def is_end(self, event: SseEvent) -> bool:
        return is_event_named(event, self.last)

    def failure_in(self, document: object) -> str:
        of = as_object(document)
        if as_string(of.get("type")) in _ERROR_EVENTS:
            return describe_error(of.get("error") or {**of, "type": ""})
        response = as_object(of.get("response")) or of
        failure = find_error(response) or find_error(of)
        if failure:
            return failure
        status = as_string(response.get("status"))
        return f"the response is {status}" if status in _FAILED_STATUSES else ""


def _find_stored_names(body: RequestBody) -> Iterator[str]:
    """Name what the provider keeps of the conversation that a request goes on with."""
    for member, kind in _STORED_MEMBERS:
        if member in body.members:
            value = decode_json_or_none(bytes(body.members[member]))
            if name := as_string(value) or as_string(as_object(value).get("id")):
                yield f"{kind} {name}"


def _append_text(body: RequestBody, content: JsonSpan, text: str) -> list[JsonEdit]:
    if is_string(body, content):
        return append_to_string(content, text)
    if is_list(body, content):
        return append_part(body, content, encode_text_part("input_text", text))
    return []
