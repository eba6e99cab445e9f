"""Where Claude Code keeps the memory of a project.

No event tells it, so this follows the program's own rule: a setting, or else a folder named after
the main root of the git repository, so that sub-folders and worktrees share one memory. Nothing
here runs git, and what cannot be read counts as not there: Claude Code does the same.
"""

from __future__ import annotations

import json
import os
import re
import stat
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from memplane.integrations.claude_code.project_slug import make_folder_pattern, make_slug

_FOLDER_SETTING: Final = "autoMemoryDirectory"
_PROJECT_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MIN_PATH_CHARS: Final = 3
_MAX_POINTER_BYTES: Final = 64 * 1024
_MAX_SETTINGS_BYTES: Final = 16 * 1024 * 1024


def claude_code_memory_dir(project_root: Path, *, environ: Mapping[str, str], home: Path) -> Path:
    """Return the memory folder of the project that Claude Code is started in.

    It may not exist. What a project's own settings say counts only where the user trusts the
    project: otherwise any repository could point to any folder.
    """
    root = Path(os.path.realpath(project_root))
    base = _base(environ, home)
    trusted = _is_trusted(root, environ, home)
    return _from_settings(root, base, home, trusted=trusted) or _by_rule(root, base, environ)


def find_project_root(folder: Path, *, cwd: Path, environ: Mapping[str, str], home: Path) -> Path:
    """Return the root of the project whose memory a folder is.

    That is the project we are in where the folder is Claude Code's memory of it, or else the
    repository that the folder lies in, or the folder itself.
    """
    project = find_main_root(cwd) or cwd
    if folder == claude_code_memory_dir(project, environ=environ, home=home):
        return project
    return find_main_root(folder) or folder


def memory_dir_for_hook(
    cwd: Path,
    *,
    environ: Mapping[str, str],
    home: Path,
    explicit: Path | None = None,
    transcript: Path | None = None,
) -> Path:
    """Return the memory folder for a hook, which knows where it runs and has a transcript.

    What is set explicitly comes first, then Claude Code's settings, then its rule if that folder
    exists, and last the folder beside the transcript. A hook runs only where the project is
    trusted, so here the project's settings count.
    """
    if explicit is not None:
        return explicit
    root = Path(os.path.realpath(environ.get("CLAUDE_PROJECT_DIR") or cwd))
    base = _base(environ, home)
    if found := _from_settings(root, base, home, trusted=True):
        return found
    ruled = _by_rule(root, base, environ)
    if transcript is None or ruled.is_dir():
        return ruled
    return transcript.parent / "memory"


def _base(environ: Mapping[str, str], home: Path) -> Path:
    return Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")


# The rule


def _by_rule(root: Path, base: Path, environ: Mapping[str, str]) -> Path:
    projects = base / "projects"
    name = environ.get("CLAUDE_CODE_PROJECT_DIR_NAME", "")
    if environ.get("CLAUDE_CONFIG_DIR") and _PROJECT_NAME.fullmatch(name):
        return projects / name / "memory"
    return _project_folder(projects, str(find_main_root(root) or root)) / "memory"


def _project_folder(projects: Path, root: str) -> Path:
    """Find the folder of a project; of a long name only the beginning is sure.

    Its end is a hash, which one version makes so and another may make otherwise: if the folder
    that this version would use does not exist, and just one begins like it, it is that one.
    """
    slug, pattern = make_slug(root), make_folder_pattern(root)
    if pattern == slug:
        return projects / slug
    likely = projects / f"{pattern.removesuffix('*')}{_short_hash(root)}"
    found = [one for one in projects.glob(pattern) if one.is_dir()]
    return found[0] if len(found) == 1 and likely not in found else likely


def _short_hash(text: str) -> str:
    """Hash a text as Claude Code 2.1 does: 31 times the last, plus one UTF-16 unit, in 32 bits."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return _in_base_36(abs(value - (1 << 32) if value >> 31 else value))


def _in_base_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


# The repository


def find_main_root(folder: Path) -> Path | None:
    """Return the root of the repository a folder lies in; of a worktree, that of its main one.

    None when it lies in none. A worktree of a bare repository has no main root, and its
    repository's own folder stands for it.
    """
    for one in (folder, *folder.parents):
        mode = _mode_of(one / ".git")
        if stat.S_ISDIR(mode):
            return one
        if stat.S_ISREG(mode):
            return _main_root_of(one)
    return None


def _main_root_of(worktree: Path) -> Path:
    """Follow a `.git` file. One that is no true worktree's, as a submodule's, leads nowhere."""
    pointer = _line_in(worktree / ".git")
    if not pointer.startswith("gitdir:"):
        return worktree
    own = _resolved(worktree, pointer.removeprefix("gitdir:").strip())
    common_line, back = _line_in(own / "commondir"), _line_in(own / "gitdir")
    if not common_line or not back:
        return worktree
    common = _resolved(own, common_line)
    # A stranger's `.git` file could point at any repository, but that one would not point back.
    if own.parent != common / "worktrees":
        return worktree
    if os.path.realpath(_resolved(own, back)) != os.path.realpath(worktree) + "/.git":
        return worktree
    return common.parent if common.name == ".git" else common


def _line_in(path: Path) -> str:
    """Return what a small file of git says; empty when it says nothing that can be used."""
    text = _read(path, _MAX_POINTER_BYTES)
    return "" if text is None or "\0" in text else text.strip()


def _resolved(folder: Path, path: str) -> Path:
    return Path(os.path.normpath(folder / path))


# The settings


def _from_settings(root: Path, base: Path, home: Path, *, trusted: bool) -> Path | None:
    own = root / ".claude"
    files = [own / "settings.local.json", own / "settings.json"] if trusted else []
    for file in (*files, base / "settings.json"):
        value = _object_in(file).get(_FOLDER_SETTING)
        if isinstance(value, str):
            # The first that says anything decides, also when it says something of no use.
            return _expanded(value, home)
    return None


def _expanded(text: str, home: Path) -> Path | None:
    """Turn the setting into a path, with the limits that Claude Code sets: None for the rest."""
    if text.startswith("~/"):
        below = os.path.normpath(text[2:] or ".")
        if below == "." or below.split("/")[0] == "..":
            return None
        text = f"{home}/{text[2:]}"
    if "\0" in text or not text.startswith("/"):
        return None
    path = os.path.normpath("/" + text.lstrip("/"))
    return Path(unicodedata.normalize("NFC", path)) if len(path) >= _MIN_PATH_CHARS else None


def _is_trusted(root: Path, environ: Mapping[str, str], home: Path) -> bool:
    """Say whether the user told Claude Code to trust the project or a folder above it."""
    state = Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
    projects = _mapping(_object_in(state).get("projects"))
    main = find_main_root(root)
    folders = (root, *root.parents) if main is None else (main, root, *root.parents)
    return any(
        _mapping(projects.get(str(folder))).get("hasTrustDialogAccepted") is True
        for folder in folders
    )


def _object_in(path: Path) -> Mapping[str, Any]:
    text = _read(path, _MAX_SETTINGS_BYTES)
    try:
        return _mapping(json.loads(text or ""))
    except (ValueError, RecursionError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - whatever JSON holds
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def _read(path: Path, most: int) -> str | None:
    """Read a file of others; None when it is not there, not a text, or larger than any is."""
    if not stat.S_ISREG(_mode_of(path)):
        return None
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
        return data.decode() if len(data) <= most else None
    except (OSError, ValueError):
        return None
