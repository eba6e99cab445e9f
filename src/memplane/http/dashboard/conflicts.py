"""What waits for a person: conflicts, quarantine, and what was not remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, cast, get_args

import msgspec
from starlette.responses import Response

from memplane.clock import Clock
from memplane.errors import InvalidRequest
from memplane.http.dashboard.browsers import Browsers
from memplane.http.dashboard.forms import Form
from memplane.http.dashboard.memories import BY
from memplane.http.dashboard.pages import Visit, go_to
from memplane.http.dashboard.shown import Piece, word_diff
from memplane.http.dashboard.signing_in import guarded, guarded_act, page_endpoint
from memplane.http.dashboard.toasts import back_of, with_toast
from memplane.http.endpoints import Endpoint
from memplane.observations.contract import (
    AcceptAsked,
    ConflictView,
    EvidenceView,
    ListAsked,
    MemoryView,
    OperationalMemory,
    Resolution,
    ResolveAsked,
)
from memplane.observations.model import Category
from memplane.plane.contract import Plane

_SHOWN: Final = 25
_QUOTES: Final = 3
_HERE: Final = "/conflicts"


class Side(msgspec.Struct, frozen=True):
    """One of two memories: its words, those apart that the other does not have, and why it is."""

    letter: Literal["a", "b"]
    memory: MemoryView
    pieces: tuple[Piece, ...]
    evidence: tuple[EvidenceView, ...]


class Shown(msgspec.Struct, frozen=True):
    """A conflict with both of its sides; one that was said again has one."""

    conflict: ConflictView
    sides: tuple[Side, ...]


class Typed(msgspec.Struct, frozen=True):
    """What somebody typed into a form that was refused, and what is wrong with it."""

    id: str = ""
    form: Form | None = None
    errors: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


class ConflictsPage(msgspec.Struct, frozen=True):
    """Answers for what waits."""

    plane: Plane
    clock: Clock

    async def waiting(self, visit: Visit) -> Response:
        """Show all that waits."""
        return await self._waiting(visit)

    async def _waiting(self, visit: Visit, code: int = 200, typed: Typed = Typed()) -> Response:  # noqa: B008 - it cannot be changed
        memories = await self.plane.memories()
        agent = visit.query.get("agent") or None
        conflicts = await memories.conflicts(agent)
        quarantine = await memories.page(agent, ListAsked(state="quarantined", sort="updated"))
        rejects = [one for one in await memories.rejects(agent) if one.accepted_as is None]
        return visit.page(
            "conflicts.html",
            code,
            agent=agent,
            agents=[one.value for one in (await memories.facets(None, ListAsked())).agent],
            conflicts=[await _shown(memories, one) for one in conflicts[:_SHOWN]],
            waiting=len(conflicts),
            quarantine=quarantine,
            rejects=rejects,
            categories=list(Category),
            typed=typed,
            now=self.clock(),
        )

    async def resolve(self, visit: Visit, form: Form) -> Response:
        """End a conflict; what a merge is to read is said at its field when it cannot be."""
        memories = await self.plane.memories()
        key = visit.request.path_params["id"]
        asked = _resolving(form)
        try:
            done = await memories.resolve(None, key, asked, by=BY)
        except InvalidRequest as error:
            if not error.fields:
                raise
            return await self._waiting(visit, 422, Typed(key, form, error.fields))
        last = (await memories.history(None, done.a.id))[-1]
        return go_to(with_toast(back_of(form, _HERE), 1, "resolve", last.batch))

    async def accept(self, visit: Visit, form: Form) -> Response:
        """Remember a reject after all, as the form has it."""
        memories = await self.plane.memories()
        key = visit.request.path_params["id"]
        asked = AcceptAsked(
            category=form.one("category"),
            service=form.one("service").strip(),
            observation=form.one("observation"),
        )
        try:
            made = await memories.accept(None, key, asked, by=BY)
        except InvalidRequest as error:
            errors = error.fields or {"observation": str(error)}
            return await self._waiting(visit, 422, Typed(key, form, errors))
        last = (await memories.history(None, made.id))[-1]
        return go_to(with_toast(back_of(form, _HERE), 1, "accept", last.batch))


def _resolving(form: Form) -> ResolveAsked:
    resolution, keep = form.one("resolution"), form.one("keep", "a")
    if resolution not in get_args(Resolution) or keep not in {"a", "b"}:
        raise InvalidRequest("say how the conflict ends")
    return ResolveAsked(
        resolution=cast("Resolution", resolution),
        keep=cast("Literal['a', 'b']", keep),
        observation=form.one("observation") if resolution == "merge" else None,
    )


async def _shown(memories: OperationalMemory, conflict: ConflictView) -> Shown:
    a, b = conflict.a, conflict.b
    changes = list(word_diff(a.observation, b.observation)) if b is not None else []
    first = _apart(changes, "gone") if b is not None else [Piece(a.observation, "same")]
    sides = [Side("a", a, tuple(first), await _evidence(memories, a))]
    if b is not None:
        second = tuple(_apart(changes, "new"))
        sides.append(Side("b", b, second, await _evidence(memories, b)))
    return Shown(conflict, tuple(sides))


def _apart(changes: Sequence[Piece], change: str) -> Iterator[Piece]:
    """Yield the words of one side."""
    return (one for one in changes if one.change in {"same", change})


async def _evidence(memories: OperationalMemory, memory: MemoryView) -> tuple[EvidenceView, ...]:
    return tuple(await memories.evidence(None, memory.id))[-_QUOTES:]


def conflicts_pages(plane: Plane, browsers: Browsers, clock: Clock) -> list[Endpoint]:
    """Make the endpoints of what waits."""
    page = ConflictsPage(plane, clock)
    return [
        page_endpoint(
            "GET", _HERE, guarded(browsers, page.waiting), "The page of what waits for a person"
        ),
        page_endpoint(
            "POST",
            "/conflicts/{id}/resolve",
            guarded_act(browsers, page.resolve),
            "End a conflict",
        ),
        page_endpoint(
            "POST",
            "/rejects/{id}/accept",
            guarded_act(browsers, page.accept),
            "Remember a reject after all",
        ),
    ]
