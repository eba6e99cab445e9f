"""What a turn cost, in US dollars (pure).

An estimate. The table holds list prices as the vendors publish them on their pages about prices,
for models that many use, as they were known when it was written; discounts, batches, tools, images
and long prompts are not in it. A model that is not in it has no price: none is better than a
wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from memplane.exchange.reply_assembler import CachedTokens
from memplane.ledger.entry import Usage

_TOKENS_PER_PRICE: Final = 1_000_000
_COST_REPORTING_PROVIDER: Final = "openrouter"
# A version of a model is its name and a date, and costs the same.
_VERSION_SUFFIX: Final = re.compile(
    r"-(?:latest|preview|\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|\d{3}|\d{2}-\d{4})", re.ASCII
)


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens; `cached` and `kept` are for a prompt's cached parts.

    `cached` is what was found in a cache, `kept` is what was put into it.
    """

    prompt: float
    completion: float
    cached: float
    kept: float = 0.0


def _claude_price(prompt: float, completion: float) -> Price:
    return Price(prompt, completion, cached=prompt / 10, kept=prompt * 5 / 4)


PRICES: Final[Mapping[str, Price]] = {
    "anthropic/claude-3-haiku": Price(0.25, 1.25, 0.03, 0.30),
    "anthropic/claude-3-5-haiku": _claude_price(0.80, 4.00),
    "anthropic/claude-3-5-sonnet": _claude_price(3.00, 15.00),
    "anthropic/claude-3-7-sonnet": _claude_price(3.00, 15.00),
    "anthropic/claude-haiku-4-5": _claude_price(1.00, 5.00),
    "anthropic/claude-sonnet-4": _claude_price(3.00, 15.00),
    "anthropic/claude-sonnet-4-5": _claude_price(3.00, 15.00),
    "anthropic/claude-opus-4": _claude_price(15.00, 75.00),
    "anthropic/claude-opus-4-1": _claude_price(15.00, 75.00),
    "anthropic/claude-opus-4-5": _claude_price(5.00, 25.00),
    "google/gemini-2.0-flash": Price(0.10, 0.40, 0.025),
    "google/gemini-2.5-flash": Price(0.30, 2.50, 0.03),
    "google/gemini-2.5-flash-lite": Price(0.10, 0.40, 0.01),
    "google/gemini-2.5-pro": Price(1.25, 10.00, 0.125),
    "openai/gpt-4.1": Price(2.00, 8.00, 0.50),
    "openai/gpt-4.1-mini": Price(0.40, 1.60, 0.10),
    "openai/gpt-4.1-nano": Price(0.10, 0.40, 0.025),
    "openai/gpt-4o": Price(2.50, 10.00, 1.25),
    "openai/gpt-4o-mini": Price(0.15, 0.60, 0.075),
    "openai/gpt-5": Price(1.25, 10.00, 0.125),
    "openai/gpt-5-mini": Price(0.25, 2.00, 0.025),
    "openai/gpt-5-nano": Price(0.05, 0.40, 0.005),
    "openai/o3": Price(2.00, 8.00, 0.50),
    "openai/o3-mini": Price(1.10, 4.40, 0.55),
    "openai/o4-mini": Price(1.10, 4.40, 0.275),
    "xai/grok-3": Price(3.00, 15.00, 0.75),
    "xai/grok-3-mini": Price(0.30, 0.50, 0.075),
    "xai/grok-4": Price(3.00, 15.00, 0.75),
}


def add_cost(
    provider: str,
    model: str,
    usage: Usage,
    cached: CachedTokens,
    *,
    prices: Mapping[str, Price] = PRICES,
) -> Usage:
    """Say what a turn cost beside what it used; nothing is said where nobody knows.

    What OpenRouter reports counts before the table, what others report counts after it.

    Args:
        provider: The name of who answered.
        model: As the provider calls it.
        usage: What the provider counted, and the cost that it reported.
        cached: What its cache had to do with it.
        prices: By `<provider>/<model>`.
    """
    if provider == _COST_REPORTING_PROVIDER and usage.reported_cost_usd is not None:
        return usage
    price = _find_price(provider, model, prices)
    if price is None or not (usage.prompt_tokens or usage.completion_tokens):
        return usage
    return replace(usage, reported_cost_usd=_estimate(price, usage, cached))


def _find_price(provider: str, model: str, prices: Mapping[str, Price]) -> Price | None:
    maker = "google" if provider == "gemini" else provider
    # A bridge knows a model by its maker's name and its own.
    ref = model if provider == _COST_REPORTING_PROVIDER else f"{maker}/{model}"
    if ref in prices:
        return prices[ref]
    begun = [
        name
        for name in prices
        if ref.startswith(name) and _VERSION_SUFFIX.fullmatch(ref[len(name) :])
    ]
    return prices[max(begun, key=len)] if begun else None


def _estimate(price: Price, usage: Usage, cached: CachedTokens) -> float:
    # Anthropic counts the cached parts beside the prompt, the others count them into it.
    within = min(cached.within, usage.prompt_tokens)
    dollars = (
        (usage.prompt_tokens - within) * price.prompt
        + (within + cached.beside) * price.cached
        + cached.kept * price.kept
        + usage.completion_tokens * price.completion
    )
    return dollars / _TOKENS_PER_PRICE
