"""The documents as objects of a container: texts, tombstones, the project's record, what is held.

A tombstone is an object at the document's own key. It says so in its metadata, which a listing
shows, and in its body, which a copy made by other tools still has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from memplane.errors import ConcurrencyError, PersonaError
from memplane.persona.document_names import explain_invalid_name
from memplane.persona.model import OptionalText, RemoteDocument, sha256_of
from memplane.persona.plan import ListedObject
from memplane.persona.project_match import Project, check_project_id
from memplane.persona.validation import find_text_flaw
from memplane.storage.lineage import Lineage
from memplane.storage.store import (
    DELETED_METADATA,
    Absent,
    Expect,
    Matches,
    ObjectInfo,
    ObjectStore,
    StoredObject,
    Version,
)

PROJECT_FILE: Final = ".project.json"
_CHANGED: Final = "memplane_changed"
_AUTHOR: Final = "memplane_author"
_SHA: Final = "memplane_sha256"
_TOMBSTONE_PREFIX: Final = b'{"memplane_tombstone":1,'


class DocumentTombstone(msgspec.Struct, frozen=True):
    """What stays of a deleted document: which text it was, when, where, and its new name."""

    memplane_tombstone: int
    sha256: str
    at: str
    device: str
    moved_to: str | None = None


class Survey(msgspec.Struct, frozen=True):
    """A complete listing of the documents, and names there that cannot be documents."""

    listed: Mapping[str, ListedObject] = msgspec.field(default_factory=dict[str, ListedObject])
    refused: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    project: Version | None = None


class DocumentContainer:
    """The documents below one prefix of an object store."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self.prefix = prefix

    async def survey(self) -> Survey:
        """List everything; a partial listing raises, so that nothing looks deleted."""
        listing = await self._store.listing(f"{self.prefix}/")
        listed: dict[str, ListedObject] = {}
        refused = dict.fromkeys(listing.refused, "its name cannot be a key")
        project: Version | None = None
        for info in listing.entries:
            key = info.key.removeprefix(f"{self.prefix}/")
            if key == PROJECT_FILE:
                project = info.version
            elif (reason := explain_invalid_name(key)) is not None:
                refused[info.key] = reason
            else:
                listed[key] = _read_listing_entry(info)
        return Survey(listed, refused, project)

    async def read(self, key: str) -> RemoteDocument | None:
        """Return a document or its tombstone."""
        stored = await self._store.read(self._key(key))
        return None if stored is None else _remote(stored)

    async def put(
        self,
        key: str,
        text: OptionalText,
        expected: str | None,
        lineage: Lineage,
        *,
        tombstone: DocumentTombstone,
    ) -> str:
        """Write a document, or its tombstone, if the object is still the expected one."""
        expect: Expect = Absent() if expected is None else Matches(Version(expected))
        body = text if text is not None else msgspec.json.encode(tombstone)
        metadata = {
            **lineage.metadata(),
            _AUTHOR: tombstone.device,
            _CHANGED: tombstone.at,
            _SHA: sha256_of(body),
        }
        if text is None:
            metadata[DELETED_METADATA] = tombstone.sha256
        return await self._store.write(self._key(key), body, expect=expect, metadata=metadata)

    async def forget_tombstone(self, key: str, etag: str) -> bool:
        """Remove a tombstone for good. Only for those so old that no machine waits for them."""
        return await self._store.delete(self._key(key), expect=Matches(Version(etag)))

    async def read_project(self) -> Project | None:
        """Return whose documents these are; None when nobody has put any here."""
        record = await self.read_record()
        return None if record is None else record[0]

    async def read_record(self) -> tuple[Project, Version] | None:
        """Return whose documents these are, and at which version the record is."""
        stored = await self._store.read(self._key(PROJECT_FILE))
        if stored is None:
            return None
        try:
            project = msgspec.json.decode(stored.data, type=Project)
        except msgspec.DecodeError as error:
            raise PersonaError(
                f"{self._key(PROJECT_FILE)} in the container is damaged ({error}). It says whose "
                "documents these are; put it right before anything is synced"
            ) from error
        check_project_id(project.project)
        return project, stored.version

    async def replace_record(self, project: Project, version: Version) -> None:
        """Change the record of whose documents these are.

        Raises:
            ConcurrencyError: It was changed meanwhile.
        """
        body = msgspec.json.encode(project)
        await self._store.write(self._key(PROJECT_FILE), body, expect=Matches(version))

    async def claim(self, project: Project) -> Project:
        """Say whose documents these are, unless somebody said so first; return what holds."""
        body = msgspec.json.encode(project)
        try:
            await self._store.write(self._key(PROJECT_FILE), body, expect=Absent())
        except ConcurrencyError:
            return await self.read_project() or project
        return project

    async def save_held(self, key: str, text: bytes) -> str:
        """Put a copy of a document that is not published into safety; return where."""
        sha = sha256_of(text)
        names = self._held_names(key, sha)
        for name in names:
            try:
                await self._store.write(name, text, expect=Absent(), metadata={_SHA: sha})
            except ConcurrencyError:
                info = await self._store.stat(name)
                if info is not None and info.metadata.get(_SHA) == sha:
                    return name
            else:
                return name
        return names[-1]

    async def drop_held(self, key: str, sha: str) -> None:
        """Remove the copy of a document that was put into safety, once it is published."""
        for name in self._held_names(key, sha):
            info = await self._store.stat(name)
            if info is not None and info.metadata.get(_SHA) == sha:
                await self._store.delete(name, expect=Matches(info.version))

    def _held_names(self, key: str, sha: str) -> tuple[str, str]:
        stem = key.removesuffix(".md")
        return f"held/{self.prefix}/{key}", f"held/{self.prefix}/{stem}.{sha[:8]}.md"

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}"


def make_tombstone(
    text: OptionalText, *, device: str, at: str, moved_to: str | None
) -> DocumentTombstone:
    """Describe a change that may be a deletion; `text` is the last one that was seen."""
    return DocumentTombstone(1, sha256_of(text or b""), at, device, moved_to)


def _read_listing_entry(info: ObjectInfo) -> ListedObject:
    covers = info.metadata.get(DELETED_METADATA)
    stated_sha = "" if covers is not None else info.metadata.get(_SHA, "")
    return ListedObject(info.version, info.size, covers is not None, covers or "", stated_sha)


def _remote(stored: StoredObject) -> RemoteDocument:
    lineage = Lineage.parse(stored.metadata)
    changed = stored.metadata.get(_CHANGED, "")
    is_tombstone = DELETED_METADATA in stored.metadata or stored.data.startswith(_TOMBSTONE_PREFIX)
    text = None if is_tombstone else stored.data
    covers = stored.metadata.get(DELETED_METADATA, "")
    return RemoteDocument(text, stored.version, lineage, changed, covers, _flaw_of(stored, text))


def _flaw_of(stored: StoredObject, text: OptionalText) -> str:
    """Say why an object may not become a document: it was damaged, or is no text."""
    if stored.metadata.get(_SHA) not in {None, sha256_of(stored.data)}:
        return "its content does not match the checksum that was written with it"
    return find_text_flaw(text) if text is not None else ""
