"""What was done, told on the page that a form leads to, with a way back (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

import msgspec

from memplane.http.dashboard.forms import Form

TOLD: Final = ("done", "action", "batch")
"""What an address says only to tell what was done."""
_BATCH: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_DIGITS: Final = 6
_DONE: Final[Mapping[str, str]] = {
    "add": "written down",
    "edit": "changed",
    "delete": "moved to the trash",
    "retire": "moved to the trash",
    "restore": "restored",
    "pin": "pinned",
    "unpin": "unpinned",
    "approve": "approved",
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
_COPIES: Final[Mapping[str, str]] = {
    "drop_copy": "Copy dropped",
    "use_copy": "The copy is the document now; what it was before is kept",
}
_NOT_UNDONE: Final = frozenset({"undo", "purge", "import", *_COPIES})


class Toast(msgspec.Struct, frozen=True):
    """What was done, and what undoes it; empty when nothing does."""

    words: str
    batch: str


def toast_in(query: Mapping[str, str]) -> Toast | None:
    """Read what an address says was done; whatever it cannot say is not told."""
    done, action, batch = (query.get(name, "") for name in TOLD)
    if action not in {*_DONE, *_COPIES} or not (done.isascii() and done.isdecimal()):
        return None
    if len(done) > _MOST_DIGITS or (batch and not _BATCH.fullmatch(batch)):
        return None
    return Toast(words_for(int(done), action), "" if action in _NOT_UNDONE else batch)


def words_for(count: int, action: str) -> str:
    """Say what was done to how many."""
    if action == "resolve":
        return "Conflict settled"
    if action in _COPIES:
        return _COPIES[action]
    what = "Memory" if count == 1 else f"{count:,} memories"
    return f"{what} {_DONE.get(action, action)}"


def with_toast(back: str, count: int, action: str, batch: str) -> str:
    """Return an address that tells what was done."""
    path, mark, place = back.partition("#")
    said = urlencode({"done": count, "action": action, "batch": batch})
    return f"{path}{'&' if '?' in path else '?'}{said}{mark}{place}"


def back_of(form: Form, otherwise: str = "/memories") -> str:
    """Return where a form came from; never another site."""
    return ours(form.one("back", otherwise), otherwise)


def ours(path: str, otherwise: str) -> str:
    """Return a path of this site, whatever an address or a form asks for."""
    is_path = path.startswith("/") and not path.startswith("//")
    return path if is_path and path.isprintable() and "\\" not in path else otherwise
