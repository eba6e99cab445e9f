"""A turn in a few words, for people who look through a ledger (pure)."""

from __future__ import annotations

import msgspec

from memplane.ledger.canonical import reencoded


class _Part(msgspec.Struct):
    text: str = ""


class _Message(msgspec.Struct):
    role: str = ""
    content: str | list[_Part] | None = None


class _Request(msgspec.Struct):
    messages: list[_Message] = []
    input: str | list[_Message] = ""


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Summary(msgspec.Struct):
    """What a line of the ledger tells at a glance."""

    id: str = ""
    ts: str = ""
    status: str = ""
    claw_id: str = ""
    path: str = ""
    requested_model: str = ""
    effective_provider: str = ""
    effective_model: str = ""
    usage: _Usage = msgspec.field(default_factory=_Usage)
    request_original: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def question(self) -> str:
        """The last thing that a user said, on one line; empty when it cannot be told."""
        try:
            request = msgspec.json.decode(self.request_original, type=_Request)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""
        if isinstance(request.input, str) and request.input:
            return " ".join(request.input.split())
        messages = request.messages or request.input
        said = (_text(one) for one in reversed(messages) if isinstance(one, _Message))
        return next((text for text in said if text), "")


def _text(message: _Message) -> str:
    if message.role != "user" or not message.content:
        return ""
    content = message.content
    whole = content if isinstance(content, str) else " ".join(part.text for part in content)
    return " ".join(whole.split())


def summary_of(line: bytes) -> Summary:
    """Summarise a line; what it does not tell is empty."""
    for attempt in (bytes, reencoded):
        try:
            return msgspec.json.decode(attempt(line), type=Summary)
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue  # half a surrogate pair, say; written anew it can be read
    return Summary()
