"""Whether the container still holds the documents of this project, and of this agent user."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from memplane.errors import ConcurrencyError, PersonaError
from memplane.persona.baseline import Baseline
from memplane.persona.container import DocumentContainer, Survey
from memplane.persona.project_match import Project, build_sharing_warning, refuse_other_owner

_VERSION_FACT = "project_version"
_ORIGIN_FACT = "project_origin"
_NAME_FACT = "project_name"


class OwnershipCheck:
    """Looks at the project's record in the container: once, and again when it was changed."""

    def __init__(self, container: DocumentContainer, baseline: Baseline, mine: Project) -> None:
        self._container = container
        self._baseline = baseline
        self._mine = mine
        self._lock = asyncio.Lock()
        self._is_verified = False

    async def verify_ownership(self) -> None:
        """Ask the container, unless it was asked before.

        Raises:
            PersonaError: The documents are another project's by now, or another agent user's.
        """
        async with self._lock:
            if self._is_verified:
                return
            record = await self._container.read_record()
            remote = None if record is None else record[0]
            if remote is not None and remote.project != self._mine.project:
                raise PersonaError(
                    "the container has the documents of another project here by now "
                    f"({remote.name or remote.project}), and so nothing was done. Choose another "
                    "place with persona.prefix"
                )
            if record is not None and remote is not None:
                refuse_other_owner(self._mine, remote)
                if not remote.origin and self._mine.origin:
                    remote = replace(remote, origin=self._mine.origin)
                    try:
                        await self._container.replace_record(remote, record[1])
                    except ConcurrencyError:
                        remote = await self._container.read_project() or remote
                self._remember(remote)
            self._is_verified = True

    def _remember(self, remote: Project) -> None:
        for fact, value in ((_ORIGIN_FACT, remote.origin), (_NAME_FACT, remote.name)):
            if self._baseline.fact(fact) != value:
                self._baseline.note(fact, value)

    async def verify_survey(self, survey: Survey) -> None:
        """Do the same, and spare the question where the record is the one that was last seen."""
        fingerprint = f"{survey.project} {self._mine.owner}"
        origin = self._baseline.fact(_ORIGIN_FACT)
        is_complete = origin is not None and bool(origin or not self._mine.origin)
        is_known = survey.project is not None and fingerprint == self._baseline.fact(_VERSION_FACT)
        if is_known and is_complete:
            self._is_verified = True
        await self.verify_ownership()
        if survey.project is not None:
            self._baseline.note(_VERSION_FACT, fingerprint)

    async def reclaim(self, survey: Survey) -> None:
        """Say anew whose documents these are, where the container no longer does.

        Raises:
            PersonaError: Another project was quicker.
        """
        if survey.project is None:
            self._is_verified = False
            await self._container.claim(
                replace(
                    self._mine,
                    name=self._baseline.fact(_NAME_FACT) or self._mine.name,
                    origin=self._baseline.fact(_ORIGIN_FACT) or self._mine.origin,
                )
            )
            await self.verify_ownership()

    def warning(self) -> str:
        """Say that another project shares these documents; empty when none is known to."""
        facts = self._baseline.fact
        origin, name = facts(_ORIGIN_FACT) or "", facts(_NAME_FACT) or ""
        return build_sharing_warning(self._mine, origin, name, self._container.prefix)
