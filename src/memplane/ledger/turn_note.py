"""What is said about a turn beside the ledger: whose it is, which memories its prompt had (pure).

A note names memories and holds none of their words.
"""

from __future__ import annotations

import msgspec


class InjectedBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory in a prompt: its own id, the entries that it was made of, and where they are from.

    `origin` is the kind of its source, and `sources` are those that it repeats.
    """

    id: str = ""
    entry_ids: tuple[str, ...] = ()
    kind: str = ""
    score: float | None = None
    origin: str = ""
    trust: str = ""
    sources: tuple[str, ...] = ()


class MessageInjection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was put into one message of a prompt; `replayed` says that it stood there before."""

    message: int
    service: str
    bytes: int
    blocks: tuple[InjectedBlock, ...] = ()
    replayed: bool = False


class DroppedBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that was recalled and not put into the prompt, and why."""

    why: str
    id: str = ""
    entry_ids: tuple[str, ...] = ()


class TurnNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said about one turn.

    `left_out` is why nothing is to be remembered of it; `recall` is how that went, if it was
    asked for; `removed` secrets were taken out of it before it was written. An `attested` turn
    came with a token of its agent's, so its session is no invention of somebody else. The turn's
    id is known once it is.

    `user` and `view` say whose memory it is; without them it is shared. An `account` was named by
    the client and is no scope. `subject`, `role`, `purpose` and `invocation` are what a pod said
    of who asked. A later line of a turn that is `shared` says that an operator shared it.
    """

    id: str = ""
    session: str = ""
    user: str = ""
    view: str = ""
    account: str = ""
    subject: str = ""
    role: str = ""
    purpose: str = ""
    invocation: str = ""
    shared: bool = False
    left_out: str = ""
    recall: str = ""
    injected: tuple[MessageInjection, ...] = ()
    dropped: tuple[DroppedBlock, ...] = ()
    removed: int = 0
    attested: bool = False


def encode_note(note: TurnNote) -> bytes:
    """Write a note as a turn carries it; one that says nothing is empty."""
    return b"" if note == TurnNote() else msgspec.json.encode(note)


def add_removed_count(note: bytes, removed: int) -> bytes:
    """Say in a written note how many secrets were taken out of its turn."""
    return (note[:-1] + b"," if note else b"{") + b'"removed":%d}' % removed


def make_note_line(entry_id: str, note: bytes) -> bytes:
    """Write a note's line."""
    return b'{"id":"%s",%s' % (entry_id.encode(), note[1:])
