"""OpenAI Chat Completions (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from memplane.proxy.body import Body
from memplane.proxy.candidate import Family
from memplane.proxy.dialects.contract import Conversation
from memplane.proxy.dialects.conversing import conversation_in, last_of_user
from memplane.proxy.dialects.failing import described, error_in
from memplane.proxy.dialects.placing import (
    at_end_of_parts,
    at_end_of_string,
    is_list,
    is_string,
    text_part,
    with_blocks_in,
)
from memplane.proxy.json_values import encoded, items, members
from memplane.proxy.splicing import Edit, Span, appended
from memplane.proxy.sse import Event

_FAILED: Final = "error"


class OpenAIChat(msgspec.Struct, frozen=True):
    """Messages in, choices out."""

    path: str = "/v1/chat/completions"
    family: Family = "openai"
    counts_on_request: bool = True
    keeps_answers: bool = False
    told: str = ""
    listed: str = "messages"
    last: tuple[str, ...] = ("[DONE]",)

    def conversation(self, body: Body) -> Conversation:
        return conversation_in(body, listed=self.listed, told=self.told)

    def with_blocks(self, body: Body, blocks: Mapping[int, str]) -> bytes:
        return with_blocks_in(body, self.listed, blocks, _ending)

    def with_context(self, body: Body, text: str) -> bytes | None:
        span = body.span(self.listed)
        if span is None or not is_list(body, span):
            return None
        message = b'{"role":"system","content":%s}' % encoded(text)
        last = last_of_user(body.messages(self.listed))
        if last is None:
            return body.edited([appended(body.readable, span, message)])
        before = body.items(span)[last].start
        return body.edited([Edit(before, before, message + b",")])

    def ended_by(self, event: Event) -> bool:
        return event.data.strip() in self.last

    def failure_in(self, document: object) -> str:
        failure = error_in(document)
        if failure:
            return failure
        for choice in items(members(document).get("choices")):
            # Some gateways end a choice like this when the provider behind them broke off.
            if members(choice).get("finish_reason") == _FAILED:
                return described(members(choice).get("error"))
        return ""


def _ending(body: Body, content: Span, text: str) -> list[Edit]:
    if is_string(body, content):
        return at_end_of_string(content, text)
    if is_list(body, content):
        return at_end_of_parts(body, content, text_part("text", text))
    return []
