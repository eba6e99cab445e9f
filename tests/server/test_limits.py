"""How much is too much."""

from __future__ import annotations

from memplane.server import limits
from memplane.server.body_progress import BodyProgress
from memplane.server.limits import RequestSlots, TokenRateLimit, WrongTokenLimit


def test_a_hundred_wrong_tokens_in_ten_seconds_are_enough() -> None:
    wrong = WrongTokenLimit()
    assert [wrong.wait_after("a", n * 0.05) for n in range(100)] == [0.0] * 100
    wait = wrong.wait_after("a", 5.0)
    assert 0 < wait <= 10
    assert wrong.wait_after("b", 5.0) == 0


def test_the_window_slides() -> None:
    wrong = WrongTokenLimit(most=3, window=10)
    assert [wrong.wait_after("a", at) for at in (0.0, 1.0, 2.0)] == [0.0] * 3
    assert wrong.wait_after("a", 3.0) > 0
    assert wrong.wait_after("a", 10.5) > 0, "what is refused counts as well"
    assert wrong.wait_after("a", 30.0) == 0


def test_memory_for_addresses_and_tokens_is_bounded() -> None:
    wrong = WrongTokenLimit()
    buckets = TokenRateLimit(1)
    for number in range(3 * limits._MAX_TRACKED_KEYS):
        wrong.wait_after(str(number), 0.0)
        buckets.wait_for(str(number), 0.0)
    assert len(wrong._seen) == limits._MAX_TRACKED_KEYS
    assert len(buckets._buckets) == limits._MAX_TRACKED_KEYS
    for _ in range(1000):
        wrong.wait_after("a", 0.0)
    assert len(wrong._seen["a"]) == 101


def test_a_token_may_ask_twice_as_often_at_once_and_then_at_its_rate() -> None:
    buckets = TokenRateLimit(10)
    assert [buckets.wait_for("a", 0.0) for _ in range(20)] == [0.0] * 20
    assert buckets.wait_for("a", 0.0) == 0.1
    assert buckets.wait_for("b", 0.0) == 0
    assert buckets.wait_for("a", 0.1) == 0
    assert buckets.wait_for("a", 0.1) > 0
    assert [buckets.wait_for("a", 1000.0) for _ in range(20)] == [0.0] * 20
    assert buckets.wait_for("a", 1000.0) > 0


def test_no_rate_is_no_limit() -> None:
    buckets = TokenRateLimit(0)
    assert not any(buckets.wait_for("a", 0.0) for _ in range(10_000))


class Asked:
    """A request that holds a slot."""

    def __init__(self, *, owed: float | None = None, unread: float | None = None) -> None:
        self.owed = owed
        self.unread = unread
        self.ended = False

    def owed_since(self) -> float | None:
        return self.owed

    def unread_since(self) -> float | None:
        return self.unread

    def give_up(self) -> None:
        self.ended = True


def ended(requests: list[Asked]) -> int:
    return sum(one.ended for one in requests)


def test_a_thousand_streams_of_one_address_are_no_withheld_bodies() -> None:
    slots = RequestSlots(2000)
    streams = [Asked() for _ in range(1000)]
    assert all(slots.take(one, "127.0.0.1", 0.0) for one in streams)
    slots.end_withheld(1000.0)
    assert ended(streams) == 0
    # As many that begin at once have a moment for their bodies to come.
    begun = [Asked(owed=1000.0) for _ in range(1000)]
    assert all(slots.take(one, "127.0.0.1", 1000.0) for one in begun)
    slots.end_withheld(1000.9)
    assert ended(begun) == 0


def test_one_address_withholds_a_quarter_and_its_slowest_go_first() -> None:
    slots = RequestSlots(40)
    slow = [Asked(owed=float(number)) for number in range(20)]
    elsewhere = [Asked(owed=0.0) for _ in range(10)]
    for one in slow:
        assert slots.take(one, "a", 20.0)
    for one in elsewhere:
        assert slots.take(one, "b", 20.0)
    slots.end_withheld(30.0)
    assert [one.ended for one in slow] == [True] * 10 + [False] * 10
    assert ended(elsewhere) == 0


def test_when_no_slot_is_left_the_slowest_body_makes_room() -> None:
    slots = RequestSlots(4)
    bodies = [Asked(owed=at) for at in (7.0, 3.0, 5.0, 9.0)]
    for number, one in enumerate(bodies):
        assert slots.take(one, str(number), 9.0)
    assert slots.take(Asked(), "", 9.0)
    assert [one.ended for one in bodies] == [False, True, False, False]
    slots.free(bodies[1])
    slots.free(bodies[0])
    assert slots.take(Asked(), "", 9.0)
    assert ended(bodies) == 1, "there was a slot"


def test_when_no_body_is_owed_a_reader_that_sleeps_makes_room_and_no_other() -> None:
    slots = RequestSlots(2)
    reads, sleeps = Asked(unread=99.0), Asked(unread=50.0)
    assert slots.take(reads, "", 99.0)
    assert slots.take(sleeps, "", 99.0)
    assert slots.take(Asked(), "", 100.0)
    assert (reads.ended, sleeps.ended) == (False, True)
    assert not slots.take(Asked(), "", 100.0)


def test_a_body_is_owed_since_its_last_bytes() -> None:
    body = BodyProgress(10.0)
    assert body.owed_since() == 10.0
    body.add(1_000_000, 12.0)
    assert body.owed_since() == 12.0
    body.restart(50.0)
    assert body.owed_since() == 50.0
    body.is_complete = True
    assert body.owed_since() is None


def test_a_body_that_trickles_is_owed_since_it_began() -> None:
    trickle, slow = BodyProgress(0.0), BodyProgress(0.0)
    for second in range(1, 100):
        trickle.add(1, float(second))
        slow.add(1024, float(second))
    assert (trickle.owed_since() or 0) < 1
    assert slow.owed_since() == 99.0
