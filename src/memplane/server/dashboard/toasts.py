"""What was done, told on the page that a form leads to, with a way back (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

import msgspec

from memplane.server.dashboard.forms import Form

TOAST_PARAMS: Final = ("done", "action", "batch")
"""What an address says only to tell what was done."""
_BATCH_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_COUNT_DIGITS: Final = 6
_ACTION_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "add": "written down",
    "edit": "changed",
    "delete": "moved to the trash",
    "retire": "moved to the trash",
    "restore": "restored",
    "pin": "pinned",
    "unpin": "unpinned",
    "approve": "approved",
    "share": "shared",
    "merge": "merged",
    "undo": "undone",
    "purge": "purged",
    "set_confidence": "given another confidence",
    "adjust_confidence": "given another confidence",
    "set_category": "put into another category",
    "set_service": "put under another service",
    "resolve": "settled",
    "accept": "remembered after all",
    "import": "taken in",
}
_COPY_ACTION_TEXTS: Final[Mapping[str, str]] = {
    "drop_copy": "Copy dropped",
    "use_copy": "The copy is the document now; what it was before is kept",
}
_PERMANENT_ACTIONS: Final = frozenset({"undo", "purge", "import", *_COPY_ACTION_TEXTS})


class Toast(msgspec.Struct, frozen=True):
    """What was done, and what undoes it; empty when nothing does."""

    words: str
    batch: str


def read_toast(query: Mapping[str, str]) -> Toast | None:
    """Read what an address says was done; whatever it cannot say is not told."""
    done, action, batch = (query.get(name, "") for name in TOAST_PARAMS)
    if action not in {*_ACTION_DESCRIPTIONS, *_COPY_ACTION_TEXTS} or not (
        done.isascii() and done.isdecimal()
    ):
        return None
    if len(done) > _MAX_COUNT_DIGITS or (batch and not _BATCH_PATTERN.fullmatch(batch)):
        return None
    return Toast(format_toast(int(done), action), "" if action in _PERMANENT_ACTIONS else batch)


def format_toast(count: int, action: str) -> str:
    """Say what was done to how many."""
    if action == "resolve":
        return "Conflict settled"
    if action in _COPY_ACTION_TEXTS:
        return _COPY_ACTION_TEXTS[action]
    if not count:
        return "Nothing was changed"
    what = "Memory" if count == 1 else f"{count:,} memories"
    return f"{what} {_ACTION_DESCRIPTIONS.get(action, action)}"


def add_toast(back: str, count: int, action: str, batch: str) -> str:
    """Return an address that tells what was done."""
    path, mark, place = back.partition("#")
    said = urlencode({"done": count, "action": action, "batch": batch})
    return f"{path}{'&' if '?' in path else '?'}{said}{mark}{place}"


def read_return_path(form: Form, otherwise: str = "/memories") -> str:
    """Return where a form came from; never another site."""
    return restrict_to_site(form.one("back", otherwise), otherwise)


def restrict_to_site(path: str, otherwise: str) -> str:
    """Return a path of this site, whatever an address or a form asks for."""
    is_path = path.startswith("/") and not path.startswith("//")
    return path if is_path and path.isprintable() and "\\" not in path else otherwise
