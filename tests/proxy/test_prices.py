"""What a turn cost."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.exchange.openai_chat import OpenAIChat
from memplane.exchange.reply_assembler import ReplyAssembler
from memplane.proxy.prices import PRICES, Price, add_cost

TABLE = {
    "openai/gpt-4o": Price(2.5, 10.0, 1.25),
    "openai/gpt-4o-mini": Price(0.15, 0.6, 0.075),
    "anthropic/claude-x": Price(3.0, 15.0, 0.3, 3.75),
    "google/gemini-1": Price(1.0, 2.0, 0.1),
}
MILLION = 1_000_000


def cost(
    provider: str, model: str, usage: object, prices: Mapping[str, Price] = TABLE
) -> float | None:
    """What a turn cost, by the `usage` of its provider's answer."""
    reply = ReplyAssembler(OpenAIChat(), stream=False)
    reply.feed(json.dumps({"usage": usage}).encode())
    ended = reply.finish()
    return add_cost(provider, model, ended.usage, ended.cached, prices=prices).reported_cost_usd


@pytest.mark.parametrize(
    ("provider", "model", "usage", "dollars"),
    [
        ("openai", "gpt-4o", {"prompt_tokens": MILLION, "completion_tokens": MILLION}, 12.5),
        ("openai", "gpt-4o", {"input_tokens": MILLION, "output_tokens": 0}, 2.5),
        ("openai", "gpt-4o-2024-08-06", {"completion_tokens": MILLION}, 10.0),
        ("openai", "gpt-4o-mini-2024-07-18", {"completion_tokens": MILLION}, 0.6),
        ("anthropic", "claude-x-20250929", {"input_tokens": MILLION}, 3.0),
        ("anthropic", "claude-x-latest", {"output_tokens": MILLION}, 15.0),
        (
            "anthropic",
            "claude-x",
            {
                "input_tokens": MILLION,
                "cache_read_input_tokens": MILLION,
                "cache_creation_input_tokens": MILLION,
            },
            3.0 + 0.3 + 3.75,
        ),
        (
            "openai",
            "gpt-4o",
            {"prompt_tokens": MILLION, "prompt_tokens_details": {"cached_tokens": 400_000}},
            0.6 * 2.5 + 0.4 * 1.25,
        ),
        (
            "openai",
            "gpt-4o",
            {"input_tokens": MILLION, "input_tokens_details": {"cached_tokens": 9 * MILLION}},
            1.25,
        ),
        ("gemini", "gemini-1", {"prompt_tokens": MILLION}, 1.0),
        ("google", "gemini-1", {"prompt_tokens": MILLION}, 1.0),
        ("openrouter", "openai/gpt-4o", {"prompt_tokens": MILLION, "cost": 0.5}, 0.5),
        ("openrouter", "openai/gpt-4o", {"prompt_tokens": MILLION}, 2.5),
        ("openrouter", "mystery/x", {"prompt_tokens": MILLION, "cost": 0}, 0.0),
        # The table counts before what others report, and that before nothing.
        ("openai", "gpt-4o", {"prompt_tokens": MILLION, "cost": 99.0}, 2.5),
        ("other", "gpt-4o", {"prompt_tokens": MILLION, "cost": 0.25}, 0.25),
        ("openai", "gpt-4o", {"cost": 0.25}, 0.25),
    ],
)
def test_a_turn_costs(
    provider: str, model: str, usage: Mapping[str, object], dollars: float
) -> None:
    found = cost(provider, model, usage)
    assert found is not None
    assert math.isclose(found, dollars)


@pytest.mark.parametrize(
    ("provider", "model", "usage"),
    [
        ("openai", "gpt-4o-audio-preview-x", {"prompt_tokens": 1}),
        ("openai", "gpt-4o.5", {"prompt_tokens": 1}),
        ("openai", "gpt-4", {"prompt_tokens": 1}),
        ("ollama", "gpt-4o", {"prompt_tokens": 1}),
        ("openai", "gpt-4o", {}),
        ("openai", "gpt-4o", None),
        ("openai", "gpt-4o", [1, 2]),
        ("openai", "gpt-4o", {"prompt_tokens": True}),
        ("openai", "gpt-4o", {"prompt_tokens": -1}),
        ("openai", "gpt-4o", {"prompt_tokens": "9"}),
        ("openai", "gpt-4o", {"prompt_tokens": 10**400}),
        ("openrouter", "mystery/x", {"cost": "0.5"}),
        ("openrouter", "mystery/x", {"cost": True}),
        ("openrouter", "mystery/x", {"cost": -1}),
        ("openrouter", "mystery/x", {"cost": math.nan}),
        ("openrouter", "mystery/x", {"cost": math.inf}),
        ("openrouter", "mystery/x", {"cost": 10**400}),
    ],
)
def test_nobody_knows_what_it_cost(provider: str, model: str, usage: object) -> None:
    assert cost(provider, model, usage) is None


_NAMES = st.sampled_from(
    [
        "cost",
        "prompt_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "prompt_tokens_details",
        "cached_tokens",
    ]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner) | st.dictionaries(_NAMES, inner),
    max_leaves=8,
)


@given(st.dictionaries(_NAMES, _JSON), st.sampled_from(["openai", "openrouter"]))
def test_whatever_a_provider_says_is_a_sum_or_nothing(
    usage: dict[str, object], provider: str
) -> None:
    found = cost(provider, "gpt-4o", usage)
    assert found is None or (math.isfinite(found) and found >= 0)


def test_the_table_is_plausible() -> None:
    assert all(0 < one.cached <= one.prompt < one.completion for one in PRICES.values())
    assert all(name.count("/") == 1 and name == name.lower() for name in PRICES)
    sonnet = cost("anthropic", "claude-sonnet-4-5-20250929", {"input_tokens": MILLION}, PRICES)
    mini = cost("openai", "gpt-4o-mini", {"prompt_tokens": MILLION}, PRICES)
    assert (sonnet, mini) == (3.0, 0.15)
