"""What a recall request asks about, out of its conversation (pure)."""

from __future__ import annotations

from itertools import islice
from typing import Final

import msgspec

from memplane.episodes.episode import cap_text
from memplane.exchange.conversation_parser import iterate_user_texts_backwards

_MAX_CONTEXT_QUESTIONS: Final = 2


class Question(msgspec.Struct, frozen=True):
    """What is asked, and what the user said before, the oldest last; empty when nobody asks."""

    text: str
    context: tuple[str, ...] = ()


def extract_question(messages: object) -> Question:
    """Return the question of a request's `messages`, which may also be a text or `input` items."""
    said = [
        cap_text(text)
        for text in islice(iterate_user_texts_backwards(messages), 1 + _MAX_CONTEXT_QUESTIONS)
    ]
    return Question(said[0], tuple(said[1:])) if said else Question("")
