"""Telling memory services what they were not told yet, for as long as a proxy runs."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from memplane.errors import MemplaneError
from memplane.objects.pacing import Attempts, Pacing
from memplane.operate.forgetting import Forgetting
from memplane.operate.queue import QueuedForget
from memplane.operate.targets import Target

_LOOKED_EVERY: Final = 5.0
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 300.0

_log = logging.getLogger(__name__)


async def tell_again(
    forgetting: Forgetting, target_of: Callable[[QueuedForget], Target], pacing: Pacing
) -> None:
    """Send the forgets that wait, at once and whenever some do, until this is cancelled."""
    pauses = _pauses(pacing)
    while True:
        if await _all_sent(forgetting, target_of):
            pauses = _pauses(pacing)
            await pacing.sleep(_LOOKED_EVERY)
        else:
            await pauses.another()


async def _all_sent(forgetting: Forgetting, target_of: Callable[[QueuedForget], Target]) -> bool:
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


def _pauses(pacing: Pacing) -> Attempts:
    # Twenty per cent more or less, where others take fifty.
    narrow = replace(pacing, chance=lambda: 0.3 + 0.4 * pacing.chance())
    return Attempts(narrow, until=math.inf, wait=_FIRST_PAUSE, longest=_LONGEST_PAUSE)
