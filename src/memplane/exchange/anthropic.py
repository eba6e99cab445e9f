"""Anthropic Messages (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from memplane.exchange.block_insertion import (
    append_part,
    encode_text_part,
    insert_blocks,
    is_list,
    is_string,
)
from memplane.exchange.conversation import find_last_user_message, read_conversation
from memplane.exchange.dialect import ApiFamily, Conversation
from memplane.exchange.error_shapes import describe_error, find_error, is_event_named
from memplane.exchange.request_body import RequestBody
from memplane.exchange.sse import SseEvent
from memplane.kit.json_edits import JsonEdit, JsonSpan, append_edit
from memplane.kit.json_values import as_object

_ERROR: Final = "error"


class AnthropicMessages(msgspec.Struct, frozen=True):
    """Messages in, content blocks out; tools answer under the user's role."""

    path: str = "/v1/messages"
    family: ApiFamily = "anthropic"
    needs_usage_option: bool = False
    stores_answers: bool = False
    system_member: str = "system"
    messages_member: str = "messages"
    last: tuple[str, ...] = ("message_stop",)

    def conversation(self, body: RequestBody) -> Conversation:
        return read_conversation(
            body, messages_member=self.messages_member, system_member=self.system_member
        )

    def with_blocks(self, body: RequestBody, blocks: Mapping[int, str]) -> bytes:
        return insert_blocks(body, self.messages_member, blocks, _append_text)

    def with_context(self, body: RequestBody, text: str) -> bytes | None:
        span = body.span(self.messages_member)
        if span is None or not is_list(body, span):
            return None
        message = b'{"role":"user","content":[%s]}' % encode_text_part("text", text)
        last = find_last_user_message(body.messages(self.messages_member))
        if last is None:
            return body.with_edits([append_edit(body.readable, span, message)])
        after = body.items(span)[last].end
        return body.with_edits([JsonEdit(after, after, b"," + message)])

    def is_end(self, event: SseEvent) -> bool:
        return is_event_named(event, self.last)

    def failure_in(self, document: object) -> str:
        failure = find_error(document)
        if failure or as_object(document).get("type") != _ERROR:
            return failure
        return describe_error(None)


def _append_text(body: RequestBody, content: JsonSpan, text: str) -> list[JsonEdit]:
    part = encode_text_part("text", text)
    if is_string(body, content):
        opening = JsonEdit(content.start, content.start, b'[{"type":"text","text":')
        return [opening, JsonEdit(content.end, content.end, b"},%s]" % part)]
    return append_part(body, content, part) if is_list(body, content) else []
