"""How many secrets are known by their shape, and how much harmless text is taken for one.

Both halves of each list are measured: the one that the rules were tuned on, and the blind one,
which was written before and never tuned on.
"""

from __future__ import annotations

import json

import pytest

from tests.redaction.rates import (
    HARMLESS,
    LEAST,
    LISTS,
    MOST_FALSE,
    REDACTOR,
    false_share,
    found_share,
)
from tests.redaction.samples import Sample, leaks


@pytest.mark.parametrize("name", LISTS)
def test_secrets_are_known_by_their_shape(name: str) -> None:
    rate = found_share(name)
    report = f"{name}: {rate:.2%} of {len(LISTS[name])} found"
    print(report)
    assert rate >= LEAST[name.partition(",")[0]], report


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_text_stays(name: str) -> None:
    rate = false_share(name)
    report = f"{name}: {rate:.2%} of {len(HARMLESS[name])} changed"
    print(report)
    assert rate <= MOST_FALSE, report


def test_a_leak_is_noticed() -> None:
    """The measure can fail: what nothing was taken out of leaks, and a marker doesn't."""
    for samples in LISTS.values():
        assert all(leaks(sample, sample.text) for sample in samples)
        assert not any(leaks(sample, "[redacted:token:00000000]") for sample in samples)
    half = Sample("half", "x", ("abcdefghijklmnop",))
    assert leaks(half, "[redacted:token:00000000]ijklmnop")


def test_secrets_are_found_in_json_as_in_text() -> None:
    """Documents have a quick look of their own, which may not miss what text shows."""
    for name, samples in LISTS.items():
        missed = 0
        for sample in samples[::7]:
            raw = json.dumps({"messages": [{"content": sample.text}]}).encode()
            value = json.loads(REDACTOR.json(raw).value)["messages"][0]["content"]
            missed += leaks(sample, value) and not leaks(sample, REDACTOR.text(sample.text).value)
        assert missed == 0, name
