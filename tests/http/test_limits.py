"""How much is too much."""

from __future__ import annotations

from memplane.http import limits
from memplane.http.limits import Buckets, WrongTokens


def test_a_hundred_wrong_tokens_in_ten_seconds_are_enough() -> None:
    wrong = WrongTokens()
    assert [wrong.wait_after("a", n * 0.05) for n in range(100)] == [0.0] * 100
    wait = wrong.wait_after("a", 5.0)
    assert 0 < wait <= 10
    assert wrong.wait_after("b", 5.0) == 0


def test_the_window_slides() -> None:
    wrong = WrongTokens(most=3, window=10)
    assert [wrong.wait_after("a", at) for at in (0.0, 1.0, 2.0)] == [0.0] * 3
    assert wrong.wait_after("a", 3.0) > 0
    assert wrong.wait_after("a", 10.5) > 0, "what is refused counts as well"
    assert wrong.wait_after("a", 30.0) == 0


def test_memory_for_addresses_and_tokens_is_bounded() -> None:
    wrong = WrongTokens()
    buckets = Buckets(1)
    for number in range(3 * limits._MOST_KEPT):
        wrong.wait_after(str(number), 0.0)
        buckets.wait_for(str(number), 0.0)
    assert len(wrong._seen) == limits._MOST_KEPT
    assert len(buckets._buckets) == limits._MOST_KEPT
    for _ in range(1000):
        wrong.wait_after("a", 0.0)
    assert len(wrong._seen["a"]) == 101


def test_a_token_may_ask_twice_as_often_at_once_and_then_at_its_rate() -> None:
    buckets = Buckets(10)
    assert [buckets.wait_for("a", 0.0) for _ in range(20)] == [0.0] * 20
    assert buckets.wait_for("a", 0.0) == 0.1
    assert buckets.wait_for("b", 0.0) == 0
    assert buckets.wait_for("a", 0.1) == 0
    assert buckets.wait_for("a", 0.1) > 0
    assert [buckets.wait_for("a", 1000.0) for _ in range(20)] == [0.0] * 20
    assert buckets.wait_for("a", 1000.0) > 0


def test_no_rate_is_no_limit() -> None:
    buckets = Buckets(0)
    assert not any(buckets.wait_for("a", 0.0) for _ in range(10_000))
