"""Operational memory in another process: the one that owns the home, asked over its socket."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from memplane.errors import OwnerUnavailable, UnknownMemory
from memplane.observations.contract import (
    LISTED,
    AcceptAsked,
    ActAsked,
    ActsAsked,
    ActView,
    BulkAsked,
    BulkOutcome,
    ChangeTold,
    ConflictView,
    Course,
    DayView,
    EventView,
    EvidenceView,
    Facets,
    Heard,
    HeardReceipt,
    ImportAsked,
    ImportReceipt,
    InjectionView,
    ListAsked,
    MemoryChange,
    MemoryPage,
    MemoryView,
    MemoryWanted,
    PromptAsked,
    PromptView,
    RebuildReceipt,
    RejectView,
    ResolveAsked,
    ServiceView,
    SessionBegun,
    SessionEnded,
    SessionView,
    SessionWanted,
    Stats,
)
from memplane.plane.owner import AS_LONG_AS_IT_TAKES, Owner, Query

_API: Final = "/api/v1"
_OPERATOR: Final = "X-Memplane-Operator"

_T = TypeVar("_T")
_Words: TypeAlias = str | int | bool | None


class _Batch(msgspec.Struct, frozen=True):
    batch: str


@dataclass(frozen=True, slots=True)
class RemoteMemories:
    """Keeps the OperationalMemory contract by asking the owner."""

    owner: Owner

    async def page(self, agent: str | None, asked: ListAsked) -> MemoryPage:
        return _as(MemoryPage, await self._get("/memories", agent, **_listing(asked)))

    async def one(self, agent: str | None, memory: int, *, trash: bool = False) -> MemoryView:
        state = "any" if trash else None
        return _as(MemoryView, await self._get(f"/memories/{_number(memory)}", agent, state=state))

    async def add(self, agent: str, wanted: MemoryWanted, *, by: str, key: str = "") -> MemoryView:
        headers = {"Idempotency-Key": key} if key else {}
        answer = await self._do("POST", "/memories", agent, wanted, by=by, headers=headers)
        return _as(MemoryView, answer)

    async def change(
        self,
        agent: str | None,
        memory: int,
        change: MemoryChange,
        *,
        by: str,
        version: int | None = None,
    ) -> MemoryView:
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        path = f"/memories/{_number(memory)}"
        return _as(
            MemoryView, await self._do("PATCH", path, agent, change, by=by, headers=headers)
        )

    async def act(self, agent: str | None, memory: int, asked: ActAsked, *, by: str) -> MemoryView:
        path = f"/memories/{_number(memory)}/{asked.act}"
        return _as(MemoryView, await self._do("POST", path, agent, asked, by=by))

    async def bulk(self, agent: str | None, asked: BulkAsked, *, by: str) -> BulkOutcome:
        return _as(BulkOutcome, await self._do("POST", "/memories/bulk", agent, asked, by=by))

    async def undo(self, agent: str | None, batch: str, *, by: str) -> Sequence[MemoryView]:
        answer = await self._do("POST", "/undo", agent, _Batch(batch), by=by)
        return _listed(MemoryView, "memories", answer)

    async def history(self, agent: str | None, memory: int) -> Sequence[EventView]:
        answer = await self._get(f"/memories/{_number(memory)}/history", agent)
        return _listed(EventView, "events", answer)

    async def course(self, agent: str | None, memory: int) -> Course:
        return _as(Course, await self._get(f"/memories/{_number(memory)}/course", agent))

    async def evidence(self, agent: str | None, memory: int) -> Sequence[EvidenceView]:
        answer = await self._get(f"/memories/{_number(memory)}/evidence", agent)
        return _listed(EvidenceView, "evidence", answer)

    async def injections(self, agent: str | None, memory: int) -> Sequence[InjectionView]:
        answer = await self._get(f"/memories/{_number(memory)}/injections", agent)
        return _listed(InjectionView, "injections", answer)

    async def preview(self, asked: PromptAsked) -> PromptView:
        answer = await self._get(
            "/preview",
            asked.agent,
            service=asked.services,
            budget=asked.budget,
            session=asked.session,
            prompt=asked.prompt,
        )
        return _as(PromptView, answer)

    async def begin(self, wanted: SessionWanted) -> SessionBegun:
        return _as(SessionBegun, await self._do("POST", "/sessions", wanted.agent, wanted))

    async def hear(self, agent: str, session: int, heard: Heard) -> HeardReceipt:
        path = f"/sessions/{_number(session)}/heard"
        return _as(HeardReceipt, await self._do("POST", path, agent, heard))

    async def end(self, agent: str, session: int, ended: SessionEnded) -> SessionView:
        path = f"/sessions/{_number(session)}/end"
        return _as(SessionView, await self._do("POST", path, agent, ended))

    async def session(self, agent: str | None, session: int) -> SessionView:
        return _as(SessionView, await self._get(f"/sessions/{_number(session)}", agent))

    async def sessions(self, agent: str | None, *, limit: int = 50) -> Sequence[SessionView]:
        return _listed(SessionView, "sessions", await self._get("/sessions", agent, limit=limit))

    async def conflicts(
        self, agent: str | None, *, resolved: bool = False
    ) -> Sequence[ConflictView]:
        answer = await self._get("/conflicts", agent, resolved=resolved)
        return _listed(ConflictView, "conflicts", answer)

    async def resolve(
        self, agent: str | None, conflict: str, asked: ResolveAsked, *, by: str
    ) -> ConflictView:
        path = f"/conflicts/{_part(conflict)}/resolve"
        return _as(ConflictView, await self._do("POST", path, agent, asked, by=by))

    async def rejects(self, agent: str | None, *, limit: int = LISTED) -> Sequence[RejectView]:
        return _listed(RejectView, "rejects", await self._get("/rejects", agent, limit=limit))

    async def accept(
        self, agent: str | None, reject: str, asked: AcceptAsked, *, by: str
    ) -> MemoryView:
        path = f"/rejects/{_part(reject)}/accept"
        return _as(MemoryView, await self._do("POST", path, agent, asked, by=by))

    async def services(self, agent: str | None) -> Sequence[ServiceView]:
        return _listed(ServiceView, "services", await self._get("/services", agent))

    async def facets(self, agent: str | None, asked: ListAsked) -> Facets:
        return _as(Facets, await self._get("/facets", agent, **_listing(asked)))

    async def stats(self, agent: str | None) -> Stats:
        return _as(Stats, await self._get("/stats", agent))

    async def by_day(self, agent: str | None, days: int) -> Sequence[DayView]:
        return _listed(DayView, "days", await self._get("/stats/days", agent, days=days))

    async def acts(self, agent: str | None, asked: ActsAsked) -> Sequence[ActView]:
        answer = await self._get("/acts", agent, **msgspec.structs.asdict(asked))
        return _listed(ActView, "acts", answer)

    async def take_in(self, agent: str, asked: ImportAsked, *, by: str) -> ImportReceipt:
        return _as(ImportReceipt, await self._do("POST", "/import", agent, asked, by=by))

    async def rebuild(self) -> RebuildReceipt:
        return _as(RebuildReceipt, await self._do("POST", "/memories/rebuild", None))

    async def latest(self) -> int:
        async with self.owner.lines(f"{_API}/events") as lines:
            async for line in lines:
                if line.startswith(b"id:"):
                    return int(line.removeprefix(b"id:"))
        raise self._ended()

    async def changes(self, agent: str | None, after: int) -> AsyncIterator[ChangeTold]:
        query, headers = _query(agent), {"Last-Event-ID": str(after)}
        async with self.owner.lines(f"{_API}/events", query=query, headers=headers) as lines:
            async for line in lines:
                if line.startswith(b"data:"):
                    yield _as(ChangeTold, line.removeprefix(b"data:"))
        raise self._ended()

    def _ended(self) -> OwnerUnavailable:
        return OwnerUnavailable(
            f"the process that owns {self.owner.home.path} stopped telling what happens. "
            "Is `memplane up` still running?"
        )

    async def _get(self, path: str, agent: str | None, **asked: _Words | tuple[str, ...]) -> bytes:
        return await self.owner.ask("GET", f"{_API}{path}", query=_query(agent, **asked))

    async def _do(
        self,
        method: str,
        path: str,
        agent: str | None,
        body: msgspec.Struct | None = None,
        *,
        by: str = "",
        headers: Mapping[str, str] = {},
    ) -> bytes:
        given = {**headers, _OPERATOR: quote(by)} if by else headers
        return await self.owner.ask(
            method, f"{_API}{path}", body, AS_LONG_AS_IT_TAKES, query=_query(agent), headers=given
        )


def _listing(asked: ListAsked) -> dict[str, Any]:
    given = msgspec.structs.asdict(asked)
    return {**given, "order": "desc" if given.pop("descending") else "asc"}


def _query(agent: str | None, **asked: _Words | tuple[str, ...]) -> Query:
    """Put what is asked into an address; what is None or empty is not asked."""
    given: dict[str, str | list[str]] = {}
    for name, value in {"agent": agent, **asked}.items():
        if isinstance(value, tuple):
            given[name] = list(value)
        elif isinstance(value, bool):
            given[name] = "true" if value else "false"
        elif value not in {None, ""}:
            given[name] = str(value)
    return given


def _as(kind: type[_T], answer: bytes) -> _T:
    return msgspec.json.decode(answer, type=kind)


def _listed(kind: type[_T], name: str, answer: bytes) -> tuple[_T, ...]:
    found: Any = msgspec.json.decode(answer, type=dict[str, tuple[kind, ...]])  # type: ignore[valid-type]
    return tuple(found[name])


def _part(name: str) -> str:
    """Let an id be a part of a path; what does not look like one is the id of nothing."""
    if not re.fullmatch(r"[\w-]+", name, re.ASCII):
        raise UnknownMemory(f"there is nothing called {name!r}")
    return name


def _number(number: int) -> str:
    if number < 0:
        raise UnknownMemory(f"there is nothing with the number {number}")
    return str(number)
