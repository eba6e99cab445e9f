"""The synchronous door for programs whose documents follow them: PersonaBackend."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from memplane.errors import BackendMisconfigured, ConcurrencyError
from memplane.integrations.claude_code import memory_folder
from memplane.integrations.claude_code.root_commit import find_root_commit
from memplane.kit.background_loop import run_in_background
from memplane.persona.engine import SyncEngine
from memplane.persona.plan import PULL_ACTIONS, PUSH_ACTIONS
from memplane.persona.project_match import Project
from memplane.persona.report import PersonaReport
from memplane.service.composition.persona import open_persona
from memplane.service.composition.storage import BlobStorage, S3Storage
from memplane.settings import (
    BlobSettings,
    S3Settings,
    Settings,
    get_environment,
    load_settings_from_environment,
)
from memplane.storage.backend import StoreBackend

_T = TypeVar("_T")

ConflictError = ConcurrencyError
"""The name under which callers of PersonaBackend know it."""


def claude_code_memory_dir(project_root: Path | str | None = None) -> Path:
    """Return where Claude Code keeps a project's memories; the folder may not be there yet.

    Without an argument, the project is the one that the current folder lies in.
    """
    root = Path.cwd() if project_root is None else Path(project_root)
    environ = get_environment()
    home = Path(environ.get("HOME") or "~").expanduser()
    return memory_folder.claude_code_memory_dir(root, environ=environ, home=home)


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
        if not isinstance(storage, BlobStorage | S3Storage):
            raise BackendMisconfigured(
                "documents are synced through a container, and this backend keeps its texts "
                "elsewhere, where no two machines meet"
            )
        self._root = Path(local_root).expanduser().absolute()
        self._project: Project | None = None
        chosen = settings or load_settings_from_environment()
        blob = storage.blob if isinstance(storage, BlobStorage) else BlobSettings()
        s3 = storage.s3 if isinstance(storage, S3Storage) else S3Settings()
        self._settings = replace(chosen, blob=blob, s3=s3, keep_memory_local=False)

    def push_one(self, path: Path | str) -> PersonaReport:
        """Send one document; a file that is not there is none, and nothing is done.

        Raises:
            ValueError: It is outside the folder.
        """
        key = self._key_of(Path(path))
        return self._run(lambda engine: engine.push([key]))

    def push_all(self) -> PersonaReport:
        """Send every document that changed here, and every deletion."""
        return self._run(lambda engine: engine.sync(PUSH_ACTIONS))

    def pull_all(self) -> PersonaReport:
        """Bring every document that changed elsewhere; what changed here too is merged."""
        return self._run(lambda engine: engine.sync(PULL_ACTIONS))

    def push_with_etag(
        self, key: str, content: str | bytes, expected_etag: str | None
    ) -> tuple[bool, str]:
        """Write a document to the container if it is still at that version (None: not there).

        `key` is the document's, with or without its prefix in the container (`claude_memory/`).
        The folder is left alone; its next sync brings the text. Returns True and the new version.

        Raises:
            ConflictError: It is at another version. Nothing was written.
            ValueError: The key is one of another project.
        """
        text = content.encode() if isinstance(content, str) else content

        async def put(engine: SyncEngine) -> str:
            document = self._document_of(key, engine.container.prefix)
            return await engine.put_if(document, text, expected_etag)

        return True, self._run(put)

    def _document_of(self, key: str, own: str) -> str:
        """Return a document's key without the prefix: the project's own, or the plain one."""
        plain = self._settings.persona.prefix
        for prefix in (own, plain):
            if key.startswith(f"{prefix}/"):
                return key.removeprefix(f"{prefix}/")
        if key.startswith(f"{plain}."):
            raise ValueError(f"{key} is outside {own}/, where this project's documents are")
        return key

    def _key_of(self, path: Path) -> str:
        """Return a key; a path that is not absolute is meant from here, or from the folder."""
        for start in (Path.cwd(), self._root):
            whole = Path(os.path.normpath(start / path))
            if whole.is_relative_to(self._root):
                return whole.relative_to(self._root).as_posix()
        raise ValueError(f"{path} is outside the folder {self._root}")

    def _run(self, work: Callable[[SyncEngine], Awaitable[_T]]) -> _T:
        async def run() -> _T:
            if self._project is None:
                self._project = await asyncio.to_thread(_project_of, self._root)
            async with open_persona(self._settings, self._root, self._project) as engine:
                return await work(engine)

        return run_in_background(run())


def _project_of(folder: Path) -> Project:
    environ = get_environment()
    home = Path(environ.get("HOME") or "~").expanduser()
    cwd = Path.cwd()
    root = memory_folder.find_project_root(folder, cwd=cwd, environ=environ, home=home)
    return Project("", root.name, find_root_commit(root))
