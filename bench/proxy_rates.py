"""Requests in a second, and what each takes: directly, through LiteLLM and through memplane.

Both proxies have one core, the same, and who asks and who answers share the other one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.litellm_proxy import MODEL, VERSION, LiteLLM
from bench.memory import Service, in_another_process, wait_until_settled
from bench.provider import asked_so_far
from bench.proxy_turns import COMPLETIONS, THROUGH, Turns
from bench.row import Row
from bench.watching import cpu_seconds

CLIENTS = 16
FASTER = 5.0
ROUNDS = 4
SECONDS = 3.0
ALONE = 150
MOST = 5_000

_OFF = "X-Memplane-Memory: off"


@dataclass(frozen=True, slots=True)
class Direct:
    """The provider itself."""

    port: int
    token: str = "sk-bench"


@dataclass(slots=True)
class _Way:
    """A way to the provider, and what was measured on it."""

    to: Direct | LiteLLM
    path: str
    lines: tuple[str, ...] = ()
    a_second: float = 100.0
    asked: int = 0
    seconds: float = 0.0
    alone: list[float] = field(default_factory=list[float])

    def ask(self, turns: Turns, *, alone: int) -> None:
        """Ask for some seconds with many clients, and then with one."""
        count = min(int(self.a_second * SECONDS), MOST)
        bodies = turns.made(count, model=MODEL, stream=False)
        took, _ = in_another_process(self.to, self.path, bodies, CLIENTS, *self.lines)
        self.asked, self.seconds = self.asked + len(bodies), self.seconds + took
        self.a_second = len(bodies) / took
        bodies = turns.made(alone, model=MODEL, stream=False)
        _, each = in_another_process(self.to, self.path, bodies, 1, *self.lines)
        self.alone += each

    @property
    def rate(self) -> float:
        return self.asked / self.seconds

    @property
    def median(self) -> float:
        return sorted(self.alone)[len(self.alone) // 2]


def comparing(service: Service, other: LiteLLM, provider: int, *, short: bool) -> Iterator[Row]:
    """Ask all of them in turn, again and again."""
    turns = Turns(13)
    own = Direct(service.port)
    direct = _Way(Direct(provider), COMPLETIONS)
    theirs = _Way(other, COMPLETIONS)
    ours = _Way(own, THROUGH)
    plain = _Way(own, THROUGH, (_OFF,))
    ways = (direct, theirs, ours, plain)
    _warm_up(ways, turns)
    computed, remembering = 0.0, 0
    for _ in range(2 if short else ROUNDS):
        for way in ways:
            cpu, before = cpu_seconds(service.process.pid), asked_so_far(provider)
            way.ask(turns, alone=ALONE)
            # What is left to take in would slow the next one down, which has the same core.
            wait_until_settled(service)
            if way is ours:
                computed += cpu_seconds(service.process.pid) - cpu
                remembering += asked_so_far(provider)[1] - before[1]
    yield from _rates(direct, theirs, ours, plain)
    turned = ours.asked + len(ours.alone)
    yield Row(
        f"turns with memories among those {turned:,}, and the CPU of one in all",
        f"{100 * remembering / turned:.1f} %, {computed / turned * 1000:.2f} ms",
        ">= 99 %",
        remembering >= 0.99 * turned,
    )


def _warm_up(ways: tuple[_Way, ...], turns: Turns) -> None:
    """Ask each a little, so that nothing is opened for the first time, and its rate is known."""
    for way in ways:
        for _ in range(2):
            way.ask(turns, alone=10)
        way.asked, way.seconds, way.alone = 0, 0.0, []


def _rates(direct: _Way, theirs: _Way, ours: _Way, plain: _Way) -> Iterator[Row]:
    """Compare like with like, a turn that is passed on and recorded; then one with memories."""
    others = theirs.median - direct.median
    for what, way, goal in (
        ("passed on and recorded", plain, FASTER),
        ("with memories, which the other has not", ours, None),
    ):
        ratio, added = way.rate / theirs.rate, way.median - direct.median
        yield Row(
            f"requests a second on one core, {what}, to LiteLLM's",
            f"{ratio:.1f} x ({way.rate:,.0f}/s, {theirs.rate:,.0f}/s; {direct.rate:,.0f} direct)",
            f">= {goal:.0f} x" if goal else "-",
            ratio >= goal if goal else None,
        )
        yield Row(
            f"time that a request takes longer, {what}, median",
            f"1/{others / added:.1f} ({added * 1000:.2f} ms, {others * 1000:.2f} ms)",
            f"<= 1/{goal:.0f} of LiteLLM {VERSION}'s" if goal else "-",
            added * goal <= others if goal else None,
        )
