"""The proxy: what it adds to a first byte, how it compares, and a thousand streams held."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import proxy_rates, proxy_streams
from bench.litellm_proxy import litellm
from bench.memory import Service, serving, wait_until_settled, write_ledger
from bench.provider import scripted_provider
from bench.proxy_turns import AGENT
from bench.row import Row
from bench.talking import Talk
from bench.watching import on_core, two_cores

EPISODES = 10_000


def run(*, short: bool = False) -> Iterator[Row]:
    ours, theirs = two_cores()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        home = Path(folder) / "home"
        home.mkdir(0o700)
        write_ledger(home, Talk(2), AGENT, EPISODES)
        with scripted_provider() as provider, _proxying(home, provider) as service:
            yield from proxy_streams.first_bytes(service, provider, short=short)
            yield from proxy_streams.holding(service, short=short)
        with on_core(theirs), scripted_provider() as provider, ExitStack() as stack:
            with on_core(ours):
                other = stack.enter_context(litellm(provider))
                service = stack.enter_context(_proxying(home, provider))
            yield from proxy_rates.comparing(service, other, provider, short=short)


@contextmanager
def _proxying(home: Path, provider: int) -> Iterator[Service]:
    with serving(home, "--upstream-openai", f"http://127.0.0.1:{provider}/v1") as service:
        wait_until_settled(service)
        yield service
