"""Installing memplane into Claude Code: which files change, and how each is put back.

A plan is made first and shown; then all of it is written. What a file was before is kept, so that
a file that nobody edited since is restored to the byte. Of any other file only ours goes.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import structs

from memplane.errors import HomeError, InvalidRequest
from memplane.integrations.claude_code import hook_settings
from memplane.integrations.claude_code.hook_settings import Program, edit_json, read_json_object
from memplane.kit.ids import new_id
from memplane.kit.private_files import make_private_folder, replace_private_file
from memplane.persona.guide import build_guide, with_section, without_section

Scope: TypeAlias = Literal["user", "project", "plugin"]

_PLUGIN_PACKAGE: Final = "memplane.integrations.claude_code"
_OWN_SKILL: Final = "author: memplane"
_NEW_FILE_MODE: Final = 0o644


class ClaudePlaces(msgspec.Struct, frozen=True):
    """Where Claude Code keeps its things: its folder, its own state, and the project."""

    config: Path
    state_file: Path
    project: Path
    plugin: Path
    """Where memplane puts the plugin for this machine."""


class ManagedFile(msgspec.Struct, frozen=True):
    """A file that has something of ours: how it gets in, and how it gets out again.

    `edit` and `restore` take the text of the file, which is empty where there is none. A file that
    `is_whole` is all ours; `is_own` tells it from one of the same name. `holds_ours` tells whether
    a text has something of ours, of any scope.
    """

    path: Path
    edit: Callable[[str], str]
    restore: Callable[[str], str]
    is_whole: bool = False
    is_own: Callable[[str], bool] = bool
    holds_ours: Callable[[str], bool] = lambda _: False


class FileChange(msgspec.Struct, frozen=True):
    """What a file is now and what it becomes; None is no file."""

    path: Path
    before: bytes | None
    after: bytes | None
    original: bytes | None = None
    """What it was before memplane came."""


class InstallPlan(msgspec.Struct, frozen=True):
    """What is to be changed, and what is not and why."""

    changes: tuple[FileChange, ...]
    notes: tuple[str, ...] = ()


class _Record(msgspec.Struct, frozen=True):
    """What a file was before, in base64 (None: it was not there), and what we made of it."""

    before: str | None
    after: str
    folders: tuple[str, ...] = ()

    @property
    def original(self) -> bytes | None:
        """What the file was before; None when it was not there."""
        return None if self.before is None else base64.b64decode(self.before)


class InstallRecords:
    """What was installed from this home, by path."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._records = self._read()

    def find(self, path: Path) -> _Record | None:
        """Return what is known of a file."""
        return self._records.get(str(path))

    def save(self, path: Path, record: _Record | None) -> None:
        """Note what is known of a file; None forgets it."""
        self._records.pop(str(path), None)
        if record is not None:
            self._records[str(path)] = record
        make_private_folder(self._file.parent)
        replace_private_file(self._file, msgspec.json.encode(self._records))

    def _read(self) -> dict[str, _Record]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, _Record])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise HomeError(
                f"{self._file} cannot be read: {error}. Remove it and try again"
            ) from error


# Which files


def list_managed_files(
    scope: Scope, places: ClaudePlaces, program: Program, *, guide: bool = True
) -> list[ManagedFile]:
    """Return the files of a scope."""
    if scope == "plugin":
        managed = [*_plugin_files(places.plugin, program), _plugin_settings(places)]
    else:
        folder = places.config if scope == "user" else places.project / ".claude"
        servers = places.state_file if scope == "user" else places.project / ".mcp.json"
        managed = [
            _hook_file(folder / "settings.json", program),
            _server_file(servers, program),
            *_skill_files(folder / "skills"),
        ]
    root = places.project if scope == "project" else places.config
    return [*managed, _guide_file(root)] if guide else managed


def _hook_file(path: Path, program: Program) -> ManagedFile:
    return make_json_file(
        path,
        lambda settings: hook_settings.add_hooks(settings, program),
        hook_settings.remove_hooks,
    )


def _server_file(path: Path, program: Program) -> ManagedFile:
    return make_json_file(
        path,
        lambda settings: hook_settings.add_server(settings, program),
        hook_settings.remove_server,
    )


def _plugin_settings(places: ClaudePlaces) -> ManagedFile:
    return make_json_file(
        places.config / "settings.json",
        lambda settings: hook_settings.add_plugin(settings, str(places.plugin)),
        hook_settings.remove_plugin,
    )


def make_json_file(
    path: Path,
    edit: Callable[[dict[str, Any]], dict[str, Any]],
    restore: Callable[[dict[str, Any]], dict[str, Any]],
) -> ManagedFile:
    """Return a file of JSON, by what an installation and its removal make of its object."""
    return ManagedFile(
        path,
        lambda text: edit_json(text, edit, str(path)),
        lambda text: edit_json(text, restore, str(path)),
        holds_ours=lambda text: hook_settings.holds_ours(read_json_object(text, str(path))),
    )


def _guide_file(root: Path) -> ManagedFile:
    """Return the file of instructions: `AGENTS.md` only where there is no `CLAUDE.md`."""
    claude, agents = root / "CLAUDE.md", root / "AGENTS.md"
    path = agents if agents.exists() and not claude.exists() else claude
    return ManagedFile(
        path, lambda text: with_section(text, build_guide("claude")), without_section
    )


def list_installed_files(
    scopes: Iterable[Scope], places: ClaudePlaces, program: Program
) -> list[ManagedFile]:
    """Return all files of the scopes, to remove ours; a file that two scopes share comes once."""
    managed: dict[Path, ManagedFile] = {}
    for scope in scopes:
        root = places.project if scope == "project" else places.config
        for file in (*list_managed_files(scope, places, program, guide=False), *_guides(root)):
            known = managed.get(file.path)
            managed[file.path] = file if known is None else _join(known, file)
    return list(managed.values())


def _guides(root: Path) -> list[ManagedFile]:
    """Return the files of instructions that may hold our section."""
    return [
        ManagedFile(root / name, lambda text: text, without_section)
        for name in ("CLAUDE.md", "AGENTS.md")
    ]


def _join(first: ManagedFile, second: ManagedFile) -> ManagedFile:
    def restore(text: str) -> str:
        return second.restore(first.restore(text))

    return structs.replace(first, restore=restore)


def _skill_files(folder: Path) -> Iterator[ManagedFile]:
    for name, text in read_plugin_files().items():
        if name.startswith("skills/"):
            yield _whole_file(folder / name.removeprefix("skills/"), text)


def _plugin_files(folder: Path, program: Program) -> Iterator[ManagedFile]:
    """Return the plugin's files, with the path of this memplane in them."""
    for name, text in read_plugin_files().items():
        yield _whole_file(folder / name, text)
    for name, value in make_plugin_entries(program).items():
        yield _whole_file(folder / name, _dump(value))


def make_plugin_entries(program: Program) -> dict[str, Any]:
    """Return the plugin's hooks and its server, for a program."""
    servers = {hook_settings.SERVER_NAME: hook_settings.make_server(program)}
    return {
        "hooks/hooks.json": hook_settings.add_hooks({}, program),
        ".mcp.json": {"mcpServers": servers},
    }


def read_plugin_files() -> dict[str, str]:
    """Return the files of the plugin that comes with the package, besides its hooks."""
    root = files(_PLUGIN_PACKAGE) / "plugin"
    found: dict[str, str] = {}

    def collect(folder: Any, below: str) -> None:  # noqa: ANN401 - a Traversable, which pyright does not know to be open
        for entry in folder.iterdir():
            name = f"{below}{entry.name}"
            if entry.is_dir():
                collect(entry, f"{name}/")
            elif name not in {"hooks/hooks.json", ".mcp.json"}:
                found[name] = entry.read_text("utf-8")

    collect(root, "")
    return dict(sorted(found.items()))


def _whole_file(path: Path, text: str) -> ManagedFile:
    return ManagedFile(
        path,
        lambda _: text,
        lambda _: "",
        is_whole=True,
        is_own=lambda now: _OWN_SKILL in now if path.name == "SKILL.md" else True,
    )


def _dump(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


# What becomes of them


def plan_install(managed: Iterable[ManagedFile], records: InstallRecords) -> InstallPlan:
    """Say what each file becomes. Changes nothing.

    Raises:
        InvalidRequest: A file cannot be read, or is not what it should be.
        PersonaError: The markers of our section are not a pair.
    """
    changes: list[FileChange] = []
    notes: list[str] = []
    for file in managed:
        before = _read(file.path)
        text = _decode(before, file.path)
        if file.is_whole and before is not None and not file.is_own(text):
            notes.append(f"{file.path} is there and not memplane's: it stays as it is")
            continue
        after = file.edit(text).encode()
        if after != before:
            original = _find_original(file, before, records)
            changes.append(FileChange(file.path, before, after, original))
    return InstallPlan(tuple(changes), tuple(notes))


def plan_uninstall(managed: Iterable[ManagedFile], records: InstallRecords) -> InstallPlan:
    """Say what each file becomes when memplane goes. Changes nothing.

    Raises:
        InvalidRequest: A file cannot be read, or is not what it should be.
        PersonaError: The markers of our section are not a pair.
    """
    changes: list[FileChange] = []
    notes: list[str] = []
    for file in managed:
        before = _read(file.path)
        if before is None:
            continue
        record = records.find(file.path)
        is_unedited = record is not None and record.after == _sha256(before)
        if file.is_whole and not is_unedited:
            if file.is_own(_decode(before, file.path)):
                notes.append(
                    f"{file.path} was edited since: it stays. Remove it if nobody needs it"
                )
            continue
        after = _find_restored(file, before, records)
        if after != before:
            changes.append(FileChange(file.path, before, after))
    return InstallPlan(tuple(changes), tuple(notes))


def _find_original(file: ManagedFile, now: bytes | None, records: InstallRecords) -> bytes | None:
    """Return what a file was before memplane came; of one that was edited since, all but ours."""
    record = records.find(file.path)
    if now is None:
        return None
    if record is not None and record.after == _sha256(now):
        return record.original
    return _without_ours(file, now, record)


def _find_restored(file: ManagedFile, now: bytes, records: InstallRecords) -> bytes | None:
    """Return what a file becomes without ours: to the byte what it was, if nobody edited it.

    What another scope has in the same file stays, and then it is not what it was.
    """
    record = records.find(file.path)
    left = _without_ours(file, now, record)
    is_unedited = record is not None and record.after == _sha256(now)
    if record is None or not is_unedited or file.holds_ours(_decode(left, file.path)):
        return left
    return record.original


def _without_ours(file: ManagedFile, now: bytes, record: _Record | None) -> bytes | None:
    left = file.restore(_decode(now, file.path)).encode()
    was_there = record is None or record.before is not None
    is_empty = left.strip() in {b"", b"{}"}
    return None if is_empty and (not was_there or file.is_whole) else left


def apply_install(plan: InstallPlan, records: InstallRecords) -> None:
    """Write what was planned, and note what was before.

    Raises:
        InvalidRequest: A file changed since, or cannot be written.
    """
    for change in plan.changes:
        missing = tuple(str(folder) for folder in _missing_folders(change.path.parent))
        _write(change)
        if change.after is None:
            continue
        known = records.find(change.path)
        before = change.original
        records.save(
            change.path,
            _Record(
                None if before is None else base64.b64encode(before).decode(),
                _sha256(change.after),
                missing or (known.folders if known else ()),
            ),
        )


def apply_uninstall(plan: InstallPlan, records: InstallRecords) -> None:
    """Write what was planned, and remove the folders that were made for it.

    Raises:
        InvalidRequest: A file changed since, or cannot be written.
    """
    folders: set[str] = set()
    for change in plan.changes:
        record = records.find(change.path)
        _write(change)
        records.save(change.path, None)
        folders.update(record.folders if record else ())
    for folder in sorted(folders, key=len, reverse=True):
        with suppress(OSError):  # it has something else in it
            Path(folder).rmdir()


def _missing_folders(folder: Path) -> Iterator[Path]:
    for path in (folder, *folder.parents):
        if path.exists():
            return
        yield path


def _write(change: FileChange) -> None:
    """Put a change in place, all of it or nothing; a link stays a link."""
    path = Path(os.path.realpath(change.path))
    if _read(change.path) != change.before:
        raise InvalidRequest(f"{change.path} was changed meanwhile. Try again")
    try:
        if change.after is None:
            path.unlink()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if change.before is not None else _NEW_FILE_MODE
        aside = path.with_name(f".{path.name}-{new_id()}")
        aside.write_bytes(change.after)
        aside.chmod(mode)
        aside.replace(path)
    except OSError as error:
        raise InvalidRequest(f"{change.path} cannot be written: {error.strerror}") from error


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from error


def _decode(data: bytes | None, path: Path) -> str:
    try:
        return (data or b"").decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is not UTF-8, so nothing was changed") from error


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
