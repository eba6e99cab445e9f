"""Brings a folder and a container into step: look, plan, then every document by its steps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from memplane.errors import (
    AuthError,
    BackendUnavailable,
    ConcurrencyError,
    InvalidKey,
    MemplaneError,
    NotBrought,
    NotPublished,
    PersonaError,
    RequestRefused,
    StorageError,
    TooLarge,
)
from memplane.kit.clock import Clock, format_milli_timestamp
from memplane.kit.concurrency import run_for_each, run_meanwhile
from memplane.persona.baseline import Baseline, HeldDocument, QueuedDocument
from memplane.persona.container import DocumentContainer, Survey, make_tombstone
from memplane.persona.document_kinds import INDEX_KEY
from memplane.persona.document_ports import DocumentPorts
from memplane.persona.folder import DocumentFolder
from memplane.persona.group_commit import GroupCommit
from memplane.persona.index_file import is_index_part
from memplane.persona.index_maintenance import rename_case_collisions, update_index
from memplane.persona.model import NEW_STATE, NO_LINEAGE, sha256_of
from memplane.persona.ownership import OwnershipCheck
from memplane.persona.plan import (
    PULL_ACTIONS,
    PUSH_ACTIONS,
    PlannedDocument,
    SyncAction,
    expected_remote,
    explain_excess_deletions,
    find_unsyncable,
    plan_sync,
)
from memplane.persona.project_match import Project
from memplane.persona.publish_gate import PublishGate
from memplane.persona.report import PersonaReport
from memplane.persona.steps import AssumedRemote, SyncOutcome, sync_document

MAX_DOCUMENTS: Final = 2_000
_MAX_CONCURRENT_DOCUMENTS: Final = 64
_PERMANENT_ERRORS: Final = (InvalidKey, TooLarge, RequestRefused)
"""Errors that trying again does not mend."""
_MINUTE_CHARS: Final = len("2026-03-01T09:30")
_RETRY_DELAY: Final = timedelta(seconds=30)
_MAX_RETRY_DELAY: Final = timedelta(hours=1)
_MAX_EPOCH_MS: Final = 253_402_300_799_000
"""The end of the year 9999 in milliseconds: a file may claim to be of later."""

_log = logging.getLogger(__name__)

ALL_ACTIONS: Final = PUSH_ACTIONS | PULL_ACTIONS

ProgressCallback = Callable[[int, int], None]
"""Is told how many documents of how many are done."""


class SyncView(msgspec.Struct, frozen=True):
    """What is here, what is there, and what is to do."""

    files: Mapping[str, bytes]
    changed: Mapping[str, str]
    refused: Mapping[str, str]
    survey: Survey
    rows: tuple[PlannedDocument, ...]

    @property
    def gone(self) -> frozenset[str]:
        """Documents that were deleted: nothing should link to them."""
        remote = {key for key, listed in self.survey.listed.items() if listed.tombstone}
        deleting = {
            row.key for row in self.rows if row.action in {SyncAction.DELETE, SyncAction.REMOVE}
        }
        return frozenset((remote - set(self.files)) | deleting)


class SyncEngine:
    """Syncs one folder with one container. Open it with `memplane.persona.open_sync`."""

    def __init__(
        self,
        folder: DocumentFolder,
        baseline: Baseline,
        container: DocumentContainer,
        gate: PublishGate,
        *,
        mine: Project,
        clock: Clock,
    ) -> None:
        self._ownership = OwnershipCheck(container, baseline, mine)
        self.verify_ownership = self._ownership.verify_ownership
        self.notes: list[str] = []
        self.folder = folder
        self.together = GroupCommit()
        self.baseline = baseline
        self.container = container
        self.gate = gate
        self.clock = clock

    async def survey(self) -> SyncView:
        """Look at both sides and plan. Changes nothing.

        Raises:
            BackendUnavailable: The container does not answer. Changed documents wait in the queue.
            PersonaError: The folder is not there, or has too many documents, or the container has
                those of something else.
        """
        async with run_meanwhile(self.container.survey()) as survey_task:
            files, changed, refused = await asyncio.to_thread(self._read_folder)
            try:
                survey = await survey_task
            except (StorageError, AuthError) as error:
                self._queue_changes(files, error)
                raise
        await self._ownership.verify_survey(survey)
        remote = [key for key, listed in survey.listed.items() if not listed.tombstone]
        if max(_count(remote), _count(files)) > MAX_DOCUMENTS:
            raise PersonaError(
                f"there are more than {MAX_DOCUMENTS} documents, and so nothing was done. Is "
                "this the right folder, and the right prefix?"
            )
        return self._planned(files, changed, refused, survey)

    def _planned(
        self,
        files: Mapping[str, bytes],
        changed: Mapping[str, str],
        refused: Mapping[str, str],
        survey: Survey,
    ) -> SyncView:
        states = self.baseline.states()
        unclear = {**find_unsyncable(survey.listed, states, limit=self.gate.limit), **refused}
        rows = plan_sync(states, files, survey.listed, unclear=unclear)
        return SyncView(files, changed, unclear, survey, rows)

    async def sync(
        self,
        actions: Collection[SyncAction] = ALL_ACTIONS,
        *,
        force: bool = False,
        progress: ProgressCallback | None = None,
    ) -> PersonaReport:
        """Bring everything into step: what changed here goes there, and the other way round.

        What waits in the queue is sent before anything is brought, also by a pull.

        Raises:
            PersonaError: It would delete too much, or the container or the folder is not the one
                that was synced before; `force` says that this is meant.
        """
        view = await self.survey()
        self.refuse_accidents(view, force=force)
        report = PersonaReport(errors=[*view.refused.items(), *view.survey.refused.items()])
        report.warnings += self.notes
        if warning := self._ownership.warning():
            report.warnings.append(warning)
        if SyncAction.CREATE in actions:
            await self._ownership.reclaim(view.survey)
            view = await self._tidy_indexes(view, report)
            drained = frozenset[str]()
        else:
            view, drained = await self._drain(view, report)
        rows = [row for row in view.rows if row.action in actions and row.key not in drained]
        self._note_unchanged(view, report)
        await self._carry_out(rows, view, report, progress)
        if SyncAction.CREATE in actions:
            await self._link_revived(view, report)
        self._forget_settled(view)
        self._record_sync_end(did_something=bool(rows or drained))
        return report.sorted()

    def _record_sync_end(self, *, did_something: bool) -> None:
        """Note when a sync ended; one that found nothing to do, once a minute: a note is slow."""
        now, last = self._now(), self.baseline.fact("last_sync") or ""
        if did_something or now[:_MINUTE_CHARS] != last[:_MINUTE_CHARS]:
            self.baseline.note("last_sync", now)

    async def push(self, keys: Collection[str]) -> PersonaReport:
        """Send single documents. One that only changed here takes one request.

        What is not in the folder is left alone: a deletion needs a look at everything.
        """
        files, changed, _ = await asyncio.to_thread(self._read_folder, keys)
        report = PersonaReport()
        rows = [self._plan_from_baseline(key) for key in sorted(files)]
        if any(row.action is SyncAction.CREATE for row in rows):
            await self.verify_ownership()
        await self._carry_out(rows, SyncView(files, changed, {}, Survey(), ()), report, None)
        return report.sorted()

    def _plan_from_baseline(self, key: str) -> PlannedDocument:
        """Plan a put that takes the object to be what it was at the last sync."""
        state = self.baseline.known(key)
        base = state.base
        if state == NEW_STATE:
            return PlannedDocument(key, SyncAction.CREATE, AssumedRemote(None))
        if base is None or base.etag is None:
            return PlannedDocument(key, SyncAction.SETTLE)
        return PlannedDocument(
            key, SyncAction.PUT, AssumedRemote(expected_remote(base, base.etag))
        )

    async def put_if(self, key: str, text: bytes, expected: str | None) -> str:
        """Write an object if it is still at that version; return the new one.

        Raises:
            ConcurrencyError: It is another one.
            PersonaError: The text may not be published.
        """
        refusal = self.gate.refusal(key, text)
        if refusal is not None:
            raise PersonaError(f"{key} is not published: {refusal.reason}")
        await self.verify_ownership()
        remote = await self.container.read(key)
        if (remote.etag if remote and remote.text is not None else None) != expected:
            raise ConcurrencyError("is at another version", key=key)
        now = format_milli_timestamp(self.clock())
        tombstone = make_tombstone(None, device=self.baseline.device, at=now, moved_to=None)
        lineage = remote.lineage if remote else NO_LINEAGE
        over = remote.etag if remote else None
        return await self.container.put(key, text, over, lineage, tombstone=tombstone)

    # Guards.

    def refuse_accidents(self, view: SyncView, *, force: bool) -> None:
        """Refuse a plan that looks like an accident.

        Raises:
            PersonaError: It would delete too much, or the container was emptied.
        """
        if force:
            return
        known = [
            key for key, state in self.baseline.states().items() if state.base and state.base.text
        ]
        if known and not view.survey.listed:
            raise PersonaError(
                f"the container has no documents, though {len(known)} were there at the last "
                "sync. If it was emptied on purpose, `--force` publishes them again"
            )
        self._refuse_deletions(view)

    def _refuse_deletions(self, view: SyncView) -> None:
        states = self.baseline.states().values()
        known = sum(1 for state in states if state.adopted or (state.base and state.base.text))
        reason = explain_excess_deletions(view.rows, max(known, len(view.files)))
        if reason is not None:
            raise PersonaError(
                f"{reason}, and so nothing was done. If that is meant, say --force; if not, see "
                "whether the folder is complete"
            )

    # Looking.

    def _read_folder(
        self, keys: Collection[str] | None = None
    ) -> tuple[dict[str, bytes], dict[str, str], Mapping[str, str]]:
        """Read all documents, or those that are wanted: their texts, their times, and refusals."""
        scan = self.folder.scan()
        if scan.missing:
            raise PersonaError(
                "the folder of documents is not there. If it is on a disk, mount it; nothing was "
                "changed"
            )
        files: dict[str, bytes] = {}
        refused = dict(scan.refused)
        for key in scan.documents if keys is None else scan.documents.keys() & keys:
            try:
                text = self.folder.read(key)
            except StorageError as error:
                refused[key] = str(error)
            else:
                if text is not None:
                    files[key] = text
        times = {key: _time(file.mtime_ns) for key, file in scan.documents.items()}
        return files, times, refused

    async def _drain(
        self, view: SyncView, report: PersonaReport
    ) -> tuple[SyncView, frozenset[str]]:
        """Send what waits in the queue, and return what is to do now and the keys that were sent.

        Where that changes the index, the index goes with it.
        """
        waiting = {queued.key for queued in self.baseline.waiting() if not queued.dead}
        if not any(row.key in waiting and row.action in PUSH_ACTIONS for row in view.rows):
            return view, frozenset()
        await self._ownership.reclaim(view.survey)
        tidied_view = await self._tidy_indexes(view, report, only=waiting)
        indexes = {
            row.key for row in tidied_view.rows if tidied_view is not view and _is_index(row.key)
        }
        rows = [
            row
            for row in tidied_view.rows
            if row.action in PUSH_ACTIONS and row.key in waiting | indexes
        ]
        await self._carry_out(rows, tidied_view, report, None)
        return tidied_view, frozenset(row.key for row in rows)

    async def _tidy_indexes(
        self, view: SyncView, report: PersonaReport, *, only: Collection[str] | None = None
    ) -> SyncView:
        """Put the folder in order before new documents are published, and look again.

        With `only`, just these documents are about to be published or deleted.
        """
        new = self._new_here(view, only)
        taken_keys = set(view.survey.listed) - set(view.files)
        try:
            changes = await asyncio.to_thread(
                rename_case_collisions, self.folder, view.files, new, taken_keys
            )
            if changes:
                view = await self._survey_again(view)
                new = self._new_here(view, only)
            deleted = self._locally_deleted(view, only)
            changes += await asyncio.to_thread(update_index, self.folder, view.files, new, deleted)
        except StorageError as error:  # the documents themselves can go all the same
            report.errors.append((INDEX_KEY, f"it could not be brought up to date: {error}"))
            return await self._survey_again(view)
        report.warnings += changes
        return await self._survey_again(view) if changes else view

    async def _link_revived(self, view: SyncView, report: PersonaReport) -> None:
        """Give a line to documents that came back: it went with their deletion, and stays gone.

        An edit wins over a deletion elsewhere; in the index, a line that one side removed does
        not return by a merge.
        """
        revived = self._find_revived(view)
        if not revived:
            return
        files, _, _ = await asyncio.to_thread(self._read_folder)
        new = {key: None for key in revived if key in files}
        try:
            changes = await asyncio.to_thread(update_index, self.folder, files, new, ())
        except StorageError as error:
            report.errors.append((INDEX_KEY, f"it could not be brought up to date: {error}"))
            return
        if not changes:
            return
        report.warnings += changes
        second_view, second_report = await self._survey_again(view), PersonaReport()
        await self._carry_out(
            [row for row in second_view.rows if _is_index(row.key)],
            second_view,
            second_report,
            None,
        )
        report.add(second_report)

    def _find_revived(self, view: SyncView) -> list[str]:
        """Name the documents that were not there, and are now, though they are not new."""
        there = {key for key, one in view.survey.listed.items() if not one.tombstone}
        old = [row.key for row in view.rows if row.action is not SyncAction.CREATE]
        bases = {key: self.baseline.known(key).base for key in old if key not in there}
        return [key for key, base in bases.items() if base and base.etag and base.text is not None]

    async def _survey_again(self, view: SyncView) -> SyncView:
        files, changed, refused = await asyncio.to_thread(self._read_folder)
        return self._planned(files, changed, refused, view.survey)

    @staticmethod
    def _locally_deleted(view: SyncView, only: Collection[str] | None) -> set[str]:
        deleted = (
            row for row in view.rows if row.action is SyncAction.DELETE and not row.moved_to
        )
        return {row.key for row in deleted if only is None or row.key in only}

    def _new_here(self, view: SyncView, only: Collection[str] | None) -> dict[str, str | None]:
        """Name the documents that are published for the first time, with their earlier names."""
        before = {row.moved_to: row.key for row in view.rows if row.moved_to is not None}
        created = [row.key for row in view.rows if row.action is SyncAction.CREATE]
        if only is not None:
            created = [key for key in created if key in only]
        may_go = (key for key in created if not self.gate.refusal(key, view.files[key]))
        return {key: before.get(key) for key in may_go}

    @staticmethod
    def _note_unchanged(view: SyncView, report: PersonaReport) -> None:
        for row in view.rows:
            if row.action is SyncAction.NOTHING and row.key in view.files:
                report.note(row.key, pushed=False, pulled=False, deleted=False)

    # Doing.

    async def _carry_out(
        self,
        rows: Collection[PlannedDocument],
        view: SyncView,
        report: PersonaReport,
        progress: ProgressCallback | None,
    ) -> None:
        """Do all of it, many at a time; the index last, so that it links to nothing missing."""
        done_count, gone = 0, view.gone

        async def apply_row(row: PlannedDocument) -> None:
            nonlocal done_count
            await self._do(row, view, gone, report)
            done_count += 1
            if progress is not None:
                progress(done_count, len(rows))

        waiting = {apply_row.key for apply_row in self.baseline.waiting()}
        has_order = not _keeps_all_documents(rows, view)
        last = [row for row in rows if has_order and _is_index(row.key)]
        first = [row for row in rows if not has_order or not _is_index(row.key)]
        first.sort(key=lambda row: row.key not in waiting)  # what waits goes first
        await run_for_each(first, apply_row, max_concurrent=_MAX_CONCURRENT_DOCUMENTS)
        await run_for_each(last, apply_row, max_concurrent=_MAX_CONCURRENT_DOCUMENTS)

    async def _do(
        self, row: PlannedDocument, view: SyncView, gone: frozenset[str], report: PersonaReport
    ) -> None:
        """Bring one document into step; whatever goes wrong with it stops no other."""
        key = row.key
        changed = view.changed.get(key) or self._now()
        ports = DocumentPorts(self, key, changed, gone, row.moved_to, view.files.get(key))
        try:
            result = await sync_document(ports, self.baseline.known(key), row.believed)
        except NotPublished:
            await self._hold(key, report)
        except NotBrought as error:
            report.errors.append((key, str(error)))
            base = self.baseline.known(key).base
            if view.files.get(key) != (base.text if base is not None else None):
                self._queue(key, view.files.get(key), error, dead=True)
        except BackendUnavailable as error:
            self._queue(key, view.files.get(key), error, dead=False)
            report.waiting.append(key)
            report.errors.append((key, str(error)))
        except (StorageError, AuthError) as error:
            self._queue(key, view.files.get(key), error, dead=isinstance(error, _PERMANENT_ERRORS))
            report.errors.append((key, str(error)))
        else:
            await self._settle(key, report)
            base = result.state.base
            deleted = base is not None and base.text is None
            report.note(key, pushed=result.pushed, pulled=result.pulled, deleted=deleted)
            if result.outcome is SyncOutcome.CONTESTED:
                self._queue(key, view.files.get(key), PersonaError("others write it"), dead=False)
                report.waiting.append(key)
        report.conflicts += ports.aside

    async def _settle(self, key: str, report: PersonaReport) -> None:
        """Let go of what was noted of a document's troubles: it is published now."""
        held_document = self.baseline.holds(key)
        if held_document is not None and held_document.saved:
            try:
                await self.container.drop_held(key, held_document.sha256)
            except MemplaneError as error:
                report.warnings.append(f"the copy of {key} below held/ could not go: {error}")
        self.baseline.settled(key)

    async def _hold(self, key: str, report: PersonaReport) -> None:
        """Keep a document that may not be published, and say so."""
        text = await asyncio.to_thread(self.folder.read, key)
        # It is judged again: what is put into safety must be the very text that is harmless.
        refusal = None if text is None else self.gate.refusal(key, text)
        if text is None or refusal is None:
            return  # somebody just mended it: next time
        reason, content = refusal.reason, sha256_of(text)
        report.held.append((key, reason))
        self.baseline.sent(key)
        known = self.baseline.holds(key)
        saved = not refusal.harmless
        if known and (known.sha256, known.reason) == (content, reason) and (saved or known.saved):
            return
        saved = False
        if refusal.harmless:
            try:
                await self.container.save_held(key, text)
            except MemplaneError as error:
                report.errors.append((key, f"it could not be put into safety: {error}"))
            else:
                saved = True
        self.baseline.hold(HeldDocument(key, content, reason, self._now(), int(saved)))

    # What could not be sent.

    def _queue_changes(self, files: Mapping[str, bytes], error: Exception) -> None:
        states = self.baseline.states()
        for key in {*files, *states}:
            base = states[key].base if key in states else None
            if files.get(key) != (base.text if base is not None else None):
                self._queue(key, files.get(key), error, dead=False)

    def _forget_settled(self, view: SyncView) -> None:
        """Let go of rows about documents with which there is nothing left to do."""
        busy = {row.key for row in view.rows if row.action is not SyncAction.NOTHING}
        queued_keys = {queued.key for queued in self.baseline.waiting()}
        queued_keys |= {queued.key for queued in self.baseline.held()}
        for key in queued_keys - busy - set(view.refused):
            self.baseline.settled(key)

    def _queue(self, key: str, text: bytes | None, error: Exception, *, dead: bool) -> None:
        known = self.baseline.find_queued(key)
        attempts = known.attempts + 1 if known is not None else 1
        pause = min(_RETRY_DELAY * 2 ** min(attempts - 1, 10), _MAX_RETRY_DELAY)
        self.baseline.wait(
            QueuedDocument(
                key,
                sha256_of(text) if text is not None else "",
                known.since if known is not None else self._now(),
                attempts,
                str(error),
                format_milli_timestamp(self.clock() + pause),
                int(dead),
            )
        )

    def _now(self) -> str:
        return format_milli_timestamp(self.clock())


def _keeps_all_documents(rows: Collection[PlannedDocument], view: SyncView) -> bool:
    """Say whether every document is on both sides, before and after: no link can be dead."""
    remote = {key for key, listed in view.survey.listed.items() if not listed.tombstone}
    return all(row.key in view.files and row.key in remote for row in rows)


def _count(keys: Iterable[str]) -> int:
    """Count the documents; the index and its parts are made by us, and must not be too many."""
    return sum(not _is_index(key) for key in keys)


def _is_index(key: str) -> bool:
    return key == INDEX_KEY or is_index_part(key)


def _time(nanoseconds: int) -> str:
    seconds = min(max(nanoseconds // 1_000_000, 0), _MAX_EPOCH_MS) / 1e3
    return format_milli_timestamp(datetime.fromtimestamp(seconds, UTC))
