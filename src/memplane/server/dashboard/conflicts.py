"""What waits for a person: conflicts, quarantine, and what was not remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, cast, get_args

import msgspec
from starlette.responses import Response

from memplane.errors import InvalidRequest
from memplane.kit.clock import Clock
from memplane.observations.api_types import ConflictView, EvidenceView, MemoryView
from memplane.observations.model import Category
from memplane.observations.requests import AcceptAsked, QuarantineQuery, Resolution, ResolveAsked
from memplane.server.dashboard.browser_sessions import BrowserSessions
from memplane.server.dashboard.display_format import WordChange, word_diff
from memplane.server.dashboard.forms import Form
from memplane.server.dashboard.renderer import PageRequest, redirect_to
from memplane.server.dashboard.sign_in import page_endpoint, require_form_session, require_session
from memplane.server.dashboard.toasts import add_toast, read_return_path
from memplane.server.endpoints import Endpoint
from memplane.service.client import Client
from memplane.service.operations import review
from memplane.service.operations.observations import get_history, list_evidence
from memplane.service.operations.stats import get_facets

_MAX_CONFLICTS: Final = 25
_MAX_QUOTES: Final = 3
_CONFLICTS_PATH: Final = "/conflicts"


class ConflictSide(msgspec.Struct, frozen=True):
    """One of two memories: its words, those apart that the other does not have, and why it is."""

    letter: Literal["a", "b"]
    memory: MemoryView
    pieces: tuple[WordChange, ...]
    evidence: tuple[EvidenceView, ...]


class ConflictCard(msgspec.Struct, frozen=True):
    """A conflict with both of its sides; one that was said again has one."""

    conflict: ConflictView
    sides: tuple[ConflictSide, ...]


class RefusedForm(msgspec.Struct, frozen=True):
    """What somebody typed into a form that was refused, and what is wrong with it."""

    id: str = ""
    form: Form | None = None
    errors: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


class ConflictsPage(msgspec.Struct, frozen=True):
    """Answers for what waits."""

    client: Client
    clock: Clock

    async def waiting(self, visit: PageRequest) -> Response:
        """Show all that waits."""
        return await self._waiting(visit)

    async def _waiting(
        self,
        visit: PageRequest,
        code: int = 200,
        typed: RefusedForm = RefusedForm(),  # noqa: B008 - it cannot be changed
    ) -> Response:
        call, agent = self.client.call, visit.query.get("agent") or None
        conflicts = (await call(review.list_conflicts, agent)).conflicts
        quarantine = await call(review.list_quarantine, agent, QuarantineQuery(sort="updated"))
        rejects = (await call(review.list_rejects, agent)).rejects
        return visit.page(
            "conflicts.html",
            code,
            agent=agent,
            agents=[one.value for one in (await call(get_facets)).agent],
            conflicts=[await _load_card(self.client, one) for one in conflicts[:_MAX_CONFLICTS]],
            waiting=len(conflicts),
            quarantine=quarantine,
            rejects=[reject for reject in rejects if reject.accepted_as is None],
            categories=list(Category),
            typed=typed,
            now=self.clock(),
        )

    async def resolve(self, visit: PageRequest, form: Form) -> Response:
        """End a conflict; what a merge is to read is said at its field when it cannot be."""
        key = visit.request.path_params["id"]
        asked = _parse_resolution(form)
        try:
            done = await self.client.call(review.resolve_conflict, None, key, asked)
        except InvalidRequest as error:
            if not error.fields:
                raise
            return await self._waiting(visit, 422, RefusedForm(key, form, error.fields))
        last = (await self.client.call(get_history, None, done.a.id)).events[-1]
        return redirect_to(
            add_toast(read_return_path(form, _CONFLICTS_PATH), 1, "resolve", last.batch)
        )

    async def accept(self, visit: PageRequest, form: Form) -> Response:
        """Remember a reject after all, as the form has it."""
        key = visit.request.path_params["id"]
        asked = AcceptAsked(
            category=form.one("category"),
            service=form.one("service").strip(),
            observation=form.one("observation"),
        )
        try:
            made = await self.client.call(review.accept_reject, None, key, asked)
        except InvalidRequest as error:
            errors = error.fields or {"observation": str(error)}
            return await self._waiting(visit, 422, RefusedForm(key, form, errors))
        last = (await self.client.call(get_history, None, made.id)).events[-1]
        return redirect_to(
            add_toast(read_return_path(form, _CONFLICTS_PATH), 1, "accept", last.batch)
        )


def _parse_resolution(form: Form) -> ResolveAsked:
    resolution, keep = form.one("resolution"), form.one("keep", "a")
    if resolution not in get_args(Resolution) or keep not in {"a", "b"}:
        raise InvalidRequest("say how the conflict ends")
    return ResolveAsked(
        resolution=cast("Resolution", resolution),
        keep=cast("Literal['a', 'b']", keep),
        observation=form.one("observation") if resolution == "merge" else None,
    )


async def _load_card(client: Client, conflict: ConflictView) -> ConflictCard:
    a, b = conflict.a, conflict.b
    changes = list(word_diff(a.observation, b.observation)) if b is not None else []
    first = _select_side(changes, "gone") if b is not None else [WordChange(a.observation, "same")]
    sides = [ConflictSide("a", a, tuple(first), await _load_evidence(client, a))]
    if b is not None:
        second = tuple(_select_side(changes, "new"))
        sides.append(ConflictSide("b", b, second, await _load_evidence(client, b)))
    return ConflictCard(conflict, tuple(sides))


def _select_side(changes: Sequence[WordChange], change: str) -> Iterator[WordChange]:
    """Yield the words of one side."""
    return (one for one in changes if one.change in {"same", change})


async def _load_evidence(client: Client, memory: MemoryView) -> tuple[EvidenceView, ...]:
    return (await client.call(list_evidence, None, memory.id)).evidence[-_MAX_QUOTES:]


def conflicts_pages(client: Client, browsers: BrowserSessions, clock: Clock) -> list[Endpoint]:
    """Make the endpoints of what waits."""
    page = ConflictsPage(client, clock)
    return [
        page_endpoint(
            "GET",
            _CONFLICTS_PATH,
            require_session(browsers, page.waiting),
            "The page of what waits for a person",
        ),
        page_endpoint(
            "POST",
            "/conflicts/{id}/resolve",
            require_form_session(browsers, page.resolve),
            "End a conflict",
        ),
        page_endpoint(
            "POST",
            "/rejects/{id}/accept",
            require_form_session(browsers, page.accept),
            "Remember a reject after all",
        ),
    ]
