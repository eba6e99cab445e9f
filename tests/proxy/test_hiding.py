"""A key in pieces of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.proxy.provider_key_mask import ProviderKeyMask
from memplane.secret import Secret

KEY = "sk-sk-0123456789-sk"
PIECES = st.lists(st.sampled_from(["s", "k", "-", "sk-", "sk-sk-", KEY[:7], KEY[7:], KEY, "x\n"]))


@given(PIECES)
def test_a_key_is_hidden_wherever_it_is_cut(pieces: list[str]) -> None:
    hiding = ProviderKeyMask(Secret(KEY), in_error=False)
    sent = b"".join([*(hiding.feed(one.encode()) for one in pieces), hiding.end()])
    assert sent == "".join(pieces).replace(KEY, "[redacted]*********").encode()


def test_nothing_is_held_back_that_no_key_begins_with() -> None:
    hiding = ProviderKeyMask(Secret(KEY), in_error=False)
    for event in (b"data: skies\n\n", b"s", b"ky", b"data: sk-sk-01\n\n"):
        hiding.feed(event)
        assert len(hiding.end()) == (event == b"s")


@pytest.mark.parametrize(
    ("key", "in_error", "expected"),
    [
        ("ollama", False, b"I am ollama."),
        ("ollama", True, b"I am [redac."),
        ("", True, b"I am ollama."),
        (None, True, b"I am ollama."),
    ],
)
def test_a_word_for_a_key_is_hidden_in_errors_only(
    key: str | None, *, in_error: bool, expected: bytes
) -> None:
    hiding = ProviderKeyMask(None if key is None else Secret(key), in_error=in_error)
    assert hiding.feed(b"I am ollama.") + hiding.end() == expected
