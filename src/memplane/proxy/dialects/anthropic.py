"""Anthropic Messages (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from memplane.proxy.body import Body
from memplane.proxy.candidate import Family
from memplane.proxy.dialects.contract import Conversation
from memplane.proxy.dialects.conversing import conversation_in, last_of_user
from memplane.proxy.dialects.failing import described, error_in, is_named
from memplane.proxy.dialects.placing import (
    at_end_of_parts,
    is_list,
    is_string,
    text_part,
    with_blocks_in,
)
from memplane.proxy.json_values import members
from memplane.proxy.splicing import Edit, Span, appended
from memplane.proxy.sse import Event

_ERROR: Final = "error"


class Anthropic(msgspec.Struct, frozen=True):
    """Messages in, content blocks out; tools answer under the user's role."""

    path: str = "/v1/messages"
    family: Family = "anthropic"
    counts_on_request: bool = False
    keeps_answers: bool = False
    told: str = "system"
    listed: str = "messages"
    last: tuple[str, ...] = ("message_stop",)

    def conversation(self, body: Body) -> Conversation:
        return conversation_in(body, listed=self.listed, told=self.told)

    def with_blocks(self, body: Body, blocks: Mapping[int, str]) -> bytes:
        return with_blocks_in(body, self.listed, blocks, _ending)

    def with_context(self, body: Body, text: str) -> bytes | None:
        span = body.span(self.listed)
        if span is None or not is_list(body, span):
            return None
        message = b'{"role":"user","content":[%s]}' % text_part("text", text)
        last = last_of_user(body.messages(self.listed))
        if last is None:
            return body.edited([appended(body.readable, span, message)])
        after = body.items(span)[last].end
        return body.edited([Edit(after, after, b"," + message)])

    def ended_by(self, event: Event) -> bool:
        return is_named(event, self.last)

    def failure_in(self, document: object) -> str:
        failure = error_in(document)
        if failure or members(document).get("type") != _ERROR:
            return failure
        return described(None)


def _ending(body: Body, content: Span, text: str) -> list[Edit]:
    part = text_part("text", text)
    if is_string(body, content):
        opening = Edit(content.start, content.start, b'[{"type":"text","text":')
        return [opening, Edit(content.end, content.end, b"},%s]" % part)]
    return at_end_of_parts(body, content, part) if is_list(body, content) else []
