"""A home as this version wrote it, kept in `home/`, and what it says when it is opened."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from tests.browser.homelab import AGENT, configure, furnish
from tests.browser.servers import Provider
from tests.goldens.comparison import FOLDER
from tests.support.in_process import memplane_here
from tests.support.running import memplane, running_memplane

HOME: Final = FOLDER / "home"
"""Written once, by the version that these tests began with; remove it to have it written anew."""
_KEPT: Final = ("ledger", "received", "events", "tombstones", "tokens.json")
_CHANGES_WITH_TIME: Final = {
    *("effective_confidence", "active", "state", "goes_inactive_at", "stale", "flags"),
    *("updated_at", "version"),
}


def write_home(home: Path, provider: Provider) -> None:
    """Write a home with turns, notes, observations, conflicts, a forgotten and a purged entry."""
    home.parent.mkdir()
    configure(home, provider)
    with running_memplane(home) as running:
        furnish(running, provider)
    for text in ("The staging database is on port 5433", "The colour of the door is green"):
        assert memplane(home, "retain", "--agent", AGENT, text).returncode == 0
    received = (home / "received" / AGENT / "history.jsonl").read_text().splitlines()
    recorded = (home / "ledger" / AGENT / "history.jsonl").read_text().splitlines()
    forgotten, purged = json.loads(recorded[0])["id"], json.loads(received[1])["id"]
    for words in (("--entry-id", forgotten), ("--entry-id", purged, "--purge")):
        forget = memplane(home, "forget", "--agent", AGENT, *words, "--confirm", AGENT)
        assert forget.returncode == 0, forget.stderr
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    for name in _KEPT:
        _copy(home / name, HOME / name)
    for lock in [*HOME.rglob("lock"), *HOME.rglob("*.lock")]:
        lock.unlink()


def copy_home(home: Path) -> Path:
    """Copy the kept home to where it can be opened."""
    shutil.copytree(HOME, home)
    home.chmod(0o700)
    for path in home.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return home


def answers(home: Path) -> dict[str, Any]:
    """Ask a home for all that it has."""
    recall = ("recall", "--agent", AGENT, "--limit", "5")
    asked = {
        "verify": ("history", "verify"),
        "verify received": ("history", "verify", "--received"),
        "verify events": ("history", "verify", "--events"),
        "memories": ("memories", "list", "--agent", AGENT, "--state", "any", "--sort", "id"),
        "conflicts": ("memories", "conflicts", "--agent", AGENT),
        "rejects": ("memories", "rejects", "--agent", AGENT),
        "recall": (*recall, "how long does jellyfin need after a restart?"),
        "recall forgotten": (*recall, "why was jellyfin down this morning?"),
        "recall purged": (*recall, "what is the colour of the door?"),
        "history": ("history", "show", "--agent", AGENT),
    }
    return {name: _answer(home, *words) for name, words in asked.items()}


def _answer(home: Path, *words: str) -> Any:
    done = memplane_here(home, *words, "--json")
    assert not done.stderr, done.stderr
    lines = done.stdout.strip().splitlines()
    try:
        said = json.loads(done.stdout)
    except ValueError:
        said = [json.loads(line) for line in lines]
    return {"exit code": done.returncode, "says": _without_time(said)}


def _without_time(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key not in _CHANGES_WITH_TIME}
        return {key: _without_time(each) for key, each in kept.items()}
    return [_without_time(each) for each in value] if isinstance(value, list) else value


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.exists():
        shutil.copy(source, target)
