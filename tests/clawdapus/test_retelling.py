"""Forgets that were queued, sent for as long as a proxy runs."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from aiohttp import web

from memplane.errors import PodError
from memplane.integrations.clawdapus.memory_service.client import ServiceClient
from memplane.integrations.clawdapus.memory_service.forget import ForgetRunner
from memplane.integrations.clawdapus.memory_service.forget_queue import (
    QueuedForget,
    enqueue_forget,
    list_queued_forgets,
)
from memplane.integrations.clawdapus.memory_service.forget_retry import retry_forgets
from memplane.integrations.clawdapus.memory_service.service_targets import (
    ServiceTarget,
    make_proxied_target,
)
from memplane.integrations.clawdapus.pod.agent_contexts import (
    AgentContext,
    ProxiedAgent,
    read_proxied_agent,
)
from memplane.kit.retry_clock import RetryClock
from tests.clawdapus.memory_pod import WHEN, MemoryPod, Post, Service
from tests.support.turns import NOON

ITEM = QueuedForget("mem", "analyst", ("x",), "", WHEN)


async def test_what_fails_is_tried_again_with_growing_pauses(
    pod: MemoryPod, service: Service, client: ServiceClient
) -> None:
    pod.subscribe("analyst", base_url=service.base_url)
    enqueue_forget(pod.place.state, ITEM)
    context = pod.folder / ".claw-runtime/context"
    slept: list[float] = []
    left = [503, 503, 503]

    async def answer(_post: Post) -> web.StreamResponse | None:
        return web.Response(status=left.pop()) if left else None

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 5:
            raise asyncio.CancelledError
        if len(slept) == 4:
            enqueue_forget(pod.place.state, ITEM)

    def target_of(item: QueuedForget) -> ServiceTarget:
        return make_proxied_target(
            read_proxied_agent(context, item.agent), item.service, item.agent
        )

    service.answer = answer
    forgetting = ForgetRunner(pod.place, client, lambda: NOON)
    with suppress(asyncio.CancelledError):
        await retry_forgets(forgetting, target_of, RetryClock(sleep, lambda: 0.0, lambda: 0.5))
    assert slept == [0.5, 1.0, 2.0, 5.0, 5.0], "then it looks now and then"
    assert [one.body["entry_ids"] for one in service.taken] == [["x"], ["x"]]
    assert list_queued_forgets(pod.place.state) == []


def test_a_service_that_an_agent_does_not_have_any_more_is_not_told() -> None:
    stranger = ProxiedAgent(AgentContext("analyst"))
    for found in (None, stranger):
        with pytest.raises(PodError, match="is not subscribed by agent"):
            make_proxied_target(found, "mem", "analyst")
