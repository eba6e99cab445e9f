"""Telling memory services what they were not told yet, for as long as a proxy runs."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from memplane.errors import MemplaneError
from memplane.integrations.clawdapus.memory_service.forget import ForgetRunner
from memplane.integrations.clawdapus.memory_service.forget_queue import QueuedForget
from memplane.integrations.clawdapus.memory_service.service_targets import ServiceTarget
from memplane.kit.retry_clock import RetryAttempts, RetryClock

_POLL_INTERVAL_S: Final = 5.0
_MIN_RETRY_DELAY_S: Final = 0.5
_MAX_RETRY_DELAY_S: Final = 300.0

_log = logging.getLogger(__name__)


async def retry_forgets(
    forgetting: ForgetRunner,
    target_of: Callable[[QueuedForget], ServiceTarget],
    pacing: RetryClock,
) -> None:
    """Send the forgets that wait, at once and whenever some do, until this is cancelled."""
    pauses = _make_attempts(pacing)
    while True:
        if await _send_queued(forgetting, target_of):
            pauses = _make_attempts(pacing)
            await pacing.sleep(_POLL_INTERVAL_S)
        else:
            await pauses.wait_for_next()


async def _send_queued(
    forgetting: ForgetRunner, target_of: Callable[[QueuedForget], ServiceTarget]
) -> bool:
    """Send what waits; False when some of it has to be tried again."""
    try:
        drained = await forgetting.drain(target_of)
    except (MemplaneError, OSError) as error:
        _log.warning("forgets wait to be sent: %s", error)
        return False
    for item, _ in drained.left:
        _log.warning("a forget of %s waits for %s", item.agent, item.service)
    if drained.sent:
        _log.info("%d forgets that waited were sent", drained.sent)
    return not drained.left


def _make_attempts(pacing: RetryClock) -> RetryAttempts:
    # Twenty per cent more or less, where others take fifty.
    narrow = replace(pacing, chance=lambda: 0.3 + 0.4 * pacing.chance())
    return RetryAttempts(
        narrow, until=math.inf, wait=_MIN_RETRY_DELAY_S, max_wait_s=_MAX_RETRY_DELAY_S
    )
