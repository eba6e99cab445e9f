"""What operators do about the end users of an agent: list them, share their turns, delete them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeAlias

from memplane.auth.memory_scope import MemoryScope
from memplane.database.interface import Database
from memplane.episodes import injection_store, user_deletion
from memplane.episodes import store as table
from memplane.episodes.api_types import ForgetCheck, ForgetReceipt, ForgetRequest
from memplane.episodes.id_resolver import resolve_entry_ids
from memplane.episodes.ledger_follower import OWN_LEDGER, RECEIVED_LEDGER, MemorySources
from memplane.episodes.scope_store import (
    ScopeCounts,
    delete_empty_scopes,
    get_entry_scopes,
    list_entry_ids,
    list_scope_counts,
)
from memplane.episodes.user_deletion import UserForgetReceipt
from memplane.errors import LedgerError
from memplane.kit.clock import Clock, format_timestamp
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note_changes import share_turns
from memplane.ledger.segments import FileModes

ForgetLearned: TypeAlias = Callable[[str, str, Sequence[str]], Awaitable[list[ForgetCheck]]]
"""Deletes what was learned from a user of an agent, and from these entries of theirs."""


class ScopedMemory(Protocol):
    """The memory whose turns these are."""

    async def run_forget(
        self, asked: ForgetRequest, *, others_may_repeat: bool = False
    ) -> ForgetReceipt:
        """Forget entries as thoroughly as an operator wants."""
        ...

    async def refresh(self) -> None:
        """Let the index and the work behind follow rows that changed."""
        ...

    async def settle(self) -> None:
        """Do all the work that is left."""
        ...


class UserMemory:
    """The users of agents. Nothing is taken in while `intake_lock` is held."""

    def __init__(
        self,
        memory: ScopedMemory,
        records: Database,
        places: MemorySources,
        *,
        intake_lock: asyncio.Lock,
        modes: FileModes,
        clock: Clock,
    ) -> None:
        self._memory = memory
        self._records = records
        self._places = places
        self._intake_lock = intake_lock
        self._modes = modes
        self._clock = clock

    async def list_scopes(self, agent: str) -> list[ScopeCounts]:
        """Return the users and the views of an agent that have turns."""
        AgentFolder(self._places.ledger, agent)
        return await self._records.read(lambda rows: list_scope_counts(rows, agent))

    async def list_turns(self, agent: str, user: str) -> list[str]:
        """Return the id of each turn of a user, as the notes say."""
        AgentFolder(self._places.ledger, agent)
        noted = await asyncio.to_thread(user_deletion.list_noted_turns, self._places, agent, user)
        return [entry_id for ids in noted.values() for entry_id in ids]

    async def share(self, agent: str, ids: Sequence[str]) -> list[str]:
        """Let all users and views of an agent see turns; returns those that were not shared.

        Raises:
            UnknownMemory: One of them was never recorded.
            LedgerError: It could not be noted for good.
        """
        known = await asyncio.to_thread(resolve_entry_ids, self._places, agent, list(ids))
        scopes = await self._records.read(lambda rows: get_entry_scopes(rows, agent, known))
        wanted = [one for one in known if one in scopes and not scopes[one].is_shared]
        # The notes go first: what they say is what a rebuild does.
        await asyncio.to_thread(self._note_shared, agent, wanted)
        move = partial(table.move_entries, agent=agent, ids=wanted, to=MemoryScope(agent))
        async with self._intake_lock:
            moved = await self._records.write(move)
        await self._memory.refresh()
        return moved

    def _note_shared(self, agent: str, ids: Sequence[str]) -> None:
        for ledger in (OWN_LEDGER, RECEIVED_LEDGER):
            folder = self._places.folder(ledger, agent)
            here = [one for one in ids if not self._places.scope_of(folder, one).is_shared]
            try:
                if here:
                    share_turns(folder, here, modes=self._modes, clock=self._clock)
            except OSError as error:
                raise LedgerError(
                    f"turns of {agent} were not shared: {folder.path}: {error.strerror}"
                ) from error

    async def forget(
        self, agent: str, user: str, forget_learned: ForgetLearned, *, reason: str = ""
    ) -> UserForgetReceipt:
        """Delete all turns of a user from every place, and what was learned from them.

        Raises:
            UnknownAgent: That is no agent's name.
            LedgerError: It failed, and some may be left. The same again goes on.
        """
        AgentFolder(self._places.ledger, agent)
        places, count = self._places, partial(user_deletion.count_rows, agent=agent, user=user)
        noted = await asyncio.to_thread(user_deletion.list_noted_turns, places, agent, user)
        before = await self._records.read(count)
        known = await self._records.read(lambda rows: list_entry_ids(rows, agent, user))
        ids = tuple(dict.fromkeys([*known, *noted[OWN_LEDGER], *noted[RECEIVED_LEDGER]]))
        receipt = ForgetReceipt(forgotten=0, already=0)
        if ids:
            asked = ForgetRequest(agent=agent, ids=ids, reason=reason, verify=True, purge=True)
            receipt = await self._memory.run_forget(asked, others_may_repeat=True)
        checked = await forget_learned(agent, user, ids)
        await self._records.write(partial(injection_store.delete_user, agent=agent, user=user))
        notes = await user_deletion.erase_user_notes(
            places, agent, noted, modes=self._modes, clock=self._clock
        )
        await self._memory.settle()
        await self._records.write(partial(delete_empty_scopes, agent=agent, user=user))
        await self._records.wipe()
        after = await self._records.read(count)
        check = partial(user_deletion.check_user_is_gone, places, agent, user, after)
        others = {"ledgers: turns": len(receipt.purged), "ledgers: notes": notes}
        return UserForgetReceipt(
            agent=agent,
            user=user,
            at=format_timestamp(self._clock()),
            ids=ids,
            deleted=user_deletion.list_deleted(before, after, others),
            repeated=receipt.repeated,
            checked=(*receipt.checked, *checked, *await asyncio.to_thread(check)),
        )
