"""OpenAI Chat Completions (pure)."""

from __future__ import annotations

from collections.abc import Mapping
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
from memplane.exchange.dialect import ApiFamily, Conversation
from memplane.exchange.error_shapes import describe_error, find_error
from memplane.exchange.request_body import RequestBody
from memplane.exchange.sse import SseEvent
from memplane.kit.json_edits import JsonEdit, JsonSpan, append_edit
from memplane.kit.json_values import as_list, as_object, encode_json_string

_FAILED_FINISH: Final = "error"


class OpenAIChat(msgspec.Struct, frozen=True):
    """Messages in, choices out."""

    path: str = "/v1/chat/completions"
    family: ApiFamily = "openai"
    needs_usage_option: bool = True
    stores_answers: bool = False
    system_member: str = ""
    messages_member: str = "messages"
    last: tuple[str, ...] = ("[DONE]",)

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
        message = b'{"role":"system","content":%s}' % encode_json_string(text)
        last = find_last_user_message(body.messages(self.messages_member))
        if last is None:
            return body.with_edits([append_edit(body.readable, span, message)])
        before = body.items(span)[last].start
        return body.with_edits([JsonEdit(before, before, message + b",")])

    def is_end(self, event: SseEvent) -> bool:
        return event.data.strip() in self.last

    def failure_in(self, document: object) -> str:
        failure = find_error(document)
        if failure:
            return failure
        for choice in as_list(as_object(document).get("choices")):
            # Some gateways end a choice like this when the provider behind them broke off.
            if as_object(choice).get("finish_reason") == _FAILED_FINISH:
                return describe_error(as_object(choice).get("error"))
        return ""


def _append_text(body: RequestBody, content: JsonSpan, text: str) -> list[JsonEdit]:
    if is_string(body, content):
        return append_to_string(content, text)
    if is_list(body, content):
        return append_part(body, content, encode_text_part("text", text))
    return []
