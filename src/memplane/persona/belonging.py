"""Whether the container still holds the documents of this project, and of this agent user."""

from __future__ import annotations

import asyncio

from memplane.errors import PersonaError
from memplane.persona.baseline import Baseline
from memplane.persona.container import Container, Survey
from memplane.persona.joining import Project, refuse_other_owner

_VERSION = "project_version"


class Belonging:
    """Looks at the project's record in the container: once, and again when it was changed."""

    def __init__(self, container: Container, baseline: Baseline, mine: Project) -> None:
        self._container = container
        self._baseline = baseline
        self._mine = mine
        self._asking = asyncio.Lock()
        self._is_sure = False

    async def make_sure(self) -> None:
        """Ask the container, unless it was asked before.

        Raises:
            PersonaError: The documents are another project's by now, or another agent user's.
        """
        async with self._asking:
            if self._is_sure:
                return
            there = await self._container.read_project()
            if there is not None and there.project != self._mine.project:
                raise PersonaError(
                    "the container has the documents of another project here by now "
                    f"({there.name or there.project}), and so nothing was done. Choose another "
                    "place with persona.prefix"
                )
            if there is not None:
                refuse_other_owner(self._mine, there)
            self._is_sure = True

    async def make_sure_of(self, survey: Survey) -> None:
        """Do the same, and spare the question where the record is the one that was last seen."""
        seen = f"{survey.project} {self._mine.owner}"
        if survey.project is not None and seen == self._baseline.fact(_VERSION):
            self._is_sure = True
        await self.make_sure()
        if survey.project is not None:
            self._baseline.note(_VERSION, seen)

    async def claim_again(self, survey: Survey) -> None:
        """Say anew whose documents these are, where the container no longer does.

        Raises:
            PersonaError: Another project was quicker.
        """
        if survey.project is None:
            self._is_sure = False
            await self._container.claim(self._mine)
            await self.make_sure()
