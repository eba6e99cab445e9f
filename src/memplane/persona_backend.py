"""The synchronous door for programs whose documents follow them: PersonaBackend."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from memplane.assemble.persona import open_persona
from memplane.assemble.storage import BlobStorage
from memplane.claude_code import memory_folder
from memplane.errors import BackendMisconfigured, ConcurrencyError
from memplane.objects.backend import StoreBackend
from memplane.objects.background import run_in_background
from memplane.persona.engine import Engine
from memplane.persona.joining import Project
from memplane.persona.plan import BRINGS, SENDS
from memplane.persona.report import PersonaReport
from memplane.settings import Settings, environment, settings_from_environment

_T = TypeVar("_T")

ConflictError = ConcurrencyError
"""The name under which callers of PersonaBackend know it."""


def claude_code_memory_dir(project_root: Path | str) -> Path:
    """Return where Claude Code keeps a project's memories; the folder may not be there yet."""
    environ = environment()
    home = Path(environ.get("HOME") or "~").expanduser()
    return memory_folder.claude_code_memory_dir(Path(project_root), environ=environ, home=home)


class PersonaBackend:
    """A folder of documents that follows its agent through a container.

    Two machines at once are safe: what can be united is, and of two texts for the same lines the
    newer stays while the older is kept as a conflict copy. Every call raises a MemplaneError that
    says what happened; what could not be sent is sent by the next call.
    """

    def __init__(
        self,
        backend: StoreBackend,
        *,
        local_root: Path | str,
        settings: Settings | None = None,
    ) -> None:
        storage = getattr(backend, "storage", None)
        if not isinstance(storage, BlobStorage):
            raise BackendMisconfigured(
                "documents are synced through a container, and this backend keeps its texts "
                "elsewhere, where no two machines meet"
            )
        self._root = Path(local_root).expanduser().absolute()
        chosen = settings or settings_from_environment()
        self._settings = replace(chosen, blob=storage.blob, keep_memory_local=False)

    def push_one(self, path: Path | str) -> PersonaReport:
        """Send one document; a file that is not there is none, and nothing is done.

        Raises:
            ValueError: It is outside the folder.
        """
        key = self._key_of(Path(path))
        return self._run(lambda engine: engine.push([key]))

    def push_all(self) -> PersonaReport:
        """Send every document that changed here, and every deletion."""
        return self._run(lambda engine: engine.sync(SENDS))

    def pull_all(self) -> PersonaReport:
        """Bring every document that changed elsewhere; what changed here too is merged."""
        return self._run(lambda engine: engine.sync(BRINGS))

    def push_with_etag(
        self, key: str, content: str | bytes, expected_etag: str | None
    ) -> tuple[bool, str]:
        """Write a document to the container if it is still at that version (None: not there).

        The folder is left alone; its next sync brings the text. Returns True and the new version.

        Raises:
            ConflictError: It is at another version. Nothing was written.
        """
        text = content.encode() if isinstance(content, str) else content
        return True, self._run(lambda engine: engine.put_if(key, text, expected_etag))

    def _key_of(self, path: Path) -> str:
        """Return a key; a path that is not absolute is meant from here, or from the folder."""
        for start in (Path.cwd(), self._root):
            whole = Path(os.path.normpath(start / path))
            if whole.is_relative_to(self._root):
                return whole.relative_to(self._root).as_posix()
        raise ValueError(f"{path} is outside the folder {self._root}")

    def _run(self, work: Callable[[Engine], Awaitable[_T]]) -> _T:
        async def run() -> _T:
            async with open_persona(self._settings, self._root, Project("")) as engine:
                return await work(engine)

        return run_in_background(run())
