"""What a sync did, for people and for programs (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class PersonaReport:
    """What became of the documents.

    `copied` were sent to the container, `pulled` came from it, `merged` did both because both
    sides had changed; `keys` names all of these, and `done` says in a word what became of each.
    `held` are not published, and `errors` could not be dealt with, each with the reason.
    `conflicts` are copies of texts that a merge had to leave out.
    """

    copied: int = 0
    skipped: int = 0
    pulled: int = 0
    merged: int = 0
    deleted: int = 0
    held: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    errors: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    keys: list[str] = field(default_factory=list[str])
    skipped_keys: list[str] = field(default_factory=list[str])
    waiting: list[str] = field(default_factory=list[str])
    conflicts: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])
    done: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def note(self, key: str, *, pushed: bool, pulled: bool, deleted: bool) -> None:
        """Count what became of one document."""
        if not pushed and not pulled:
            self.skipped += 1
            self.skipped_keys.append(key)
            return
        self.keys.append(key)
        self.deleted += deleted
        way = "merged" if pushed and pulled else "sent" if pushed else "brought"
        self.done.append((key, "deleted" if deleted else way))
        if pushed and pulled:
            self.merged += 1
        elif pushed:
            self.copied += 1
        else:
            self.pulled += 1

    def add(self, later: PersonaReport) -> None:
        """Take in what was done afterwards; a document counts once."""
        for key in set(later.keys) - set(self.keys):
            self.note(key, pushed=True, pulled=False, deleted=False)
        self.held += later.held
        self.errors += later.errors
        self.waiting += later.waiting
        self.conflicts += later.conflicts

    def sorted(self) -> PersonaReport:
        """Put the keys in order: documents are dealt with at the same time."""
        for keys in (self.keys, self.skipped_keys, self.waiting, self.conflicts, self.warnings):
            keys.sort()
        self.held.sort()
        self.errors.sort()
        self.done.sort()
        return self
