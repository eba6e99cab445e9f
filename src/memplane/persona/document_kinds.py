"""The kinds of documents, as data: what each is for, how it looks, how two versions meet (pure).

The guide for agents, the templates, the checks, the merges and the documentation all read this
table, so that none of them can say something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from itertools import chain
from typing import Final

import msgspec

INDEX_KEY: Final = "MEMORY.md"
"""The one document without frontmatter, and the one that Claude Code loads by itself."""
REQUIRED_FIELDS: Final = ("name", "description", "type")
"""The frontmatter of every document but the index."""


class MergeFamily(StrEnum):
    """How two versions of a document become one."""

    INDEX = "index"
    FACT = "fact"
    SESSIONS = "sessions"
    CALIBRATION = "calibration"
    DRAFTS = "drafts"
    SECTIONS = "sections"
    COMMITMENTS = "commitments"
    CALLBACKS = "callbacks"
    CARRY_FORWARD = "carry_forward"
    PEOPLE = "people"
    THREADS = "threads"
    ROLLUP = "rollup"
    OPAQUE = "opaque"


MERGE_DESCRIPTIONS: Final[Mapping[MergeFamily, str]] = {
    MergeFamily.INDEX: "one line for each file that is linked; links to files that are gone are "
    "dropped; where two hooks differ, both stay on the line, the newer first",
    MergeFamily.FACT: "line by line; where both changed the same lines the newer text stays and "
    "the older document is kept as a conflict copy",
    MergeFamily.SESSIONS: "one block for each session; the newer block of the same session stays; "
    "ordered by their start",
    MergeFamily.CALIBRATION: "all bullets of all days, newest day on top; the rules are a set",
    MergeFamily.DRAFTS: "all drafts, by day and heading",
    MergeFamily.SECTIONS: "all bullets of each section, once each",
    MergeFamily.COMMITMENTS: "by id, else by text; delivered beats open",
    MergeFamily.CALLBACKS: "by bold title; the latest state and the latest reference stay",
    MergeFamily.CARRY_FORWARD: "all items, by text; consumed beats pending",
    MergeFamily.PEOPLE: "the newer of each single value; lists and dated lines are sets",
    MergeFamily.THREADS: "by heading; the newer section stays, the older text is kept below as "
    "history",
    MergeFamily.ROLLUP: "by what it was made from",
    MergeFamily.OPAQUE: "the newer stays whole; the older is kept as a conflict copy",
}
"""The merges in a person's words."""


class DocumentKind(msgspec.Struct, frozen=True):
    """One kind of document.

    `about` says what it holds. `file` is for people and for matching: `*` and `<slug>` stand for
    any words, `YYYY-MM-DD` and the like for digits. `sections` must be there; `entry` names what
    each dated or titled section holds, in kinds whose sections come and go, and `form` says how
    one is written, where that is not plain. `rolls_into` is the
    kind that must cover a document before it may be removed, and `days` how old it has to be;
    without one, nothing of the kind is ever removed by memplane.
    """

    name: str
    file: str
    family: MergeFamily
    fields: tuple[str, ...]
    sections: tuple[str, ...]
    read_when: str
    write_when: str
    retention: str
    about: str
    always_read: bool = False
    entry: tuple[str, ...] = ()
    form: str = ""
    rolls_into: str = ""
    days: int = 0


_MANUAL: Final = "kept until a person removes it"
_DIGEST: Final = ("Arcs", "Relational notes", "Open threads to next session")
_ROLLED: Final = ("period", "sources")

INDEX_KIND: Final = DocumentKind(
    "index",
    INDEX_KEY,
    MergeFamily.INDEX,
    (),
    (),
    read_when="at every start and after a compaction; Claude Code loads it by itself",
    write_when="when a document is added, renamed or retired",
    retention="kept; groups that no longer fit move to index_<group>.md",
    about="one line for each document",
    always_read=True,
)
INDEX_PART_KIND: Final = DocumentKind(
    "reference",
    "index_*.md",
    MergeFamily.INDEX,
    (),
    (),
    read_when="on demand, from the index",
    write_when="by memplane, when a group of the index no longer fits",
    retention=_MANUAL,
    about="a group of the index that no longer fits into it",
)
"""A part of the index. It says that it is a reference, and is merged like the index."""
OTHER_KIND: Final = DocumentKind(
    "other",
    "*.md",
    MergeFamily.FACT,
    (),
    (),
    read_when="on demand",
    write_when="on demand",
    retention=_MANUAL,
    about="anything else",
)
"""What has a type that is not in the table. It is synced like a fact."""

DOCUMENT_KINDS: Final[tuple[DocumentKind, ...]] = (
    INDEX_KIND,
    DocumentKind(
        "user",
        "user_*.md",
        MergeFamily.FACT,
        (),
        (),
        read_when="when who the person is, or what they can do, matters to the answer",
        write_when="when something lasting about the person was learned",
        retention=_MANUAL,
        about="something lasting about the person",
    ),
    DocumentKind(
        "feedback",
        "feedback_*.md",
        MergeFamily.FACT,
        (),
        (),
        read_when="before work of the sort that it is about",
        write_when="when the person corrected or confirmed a way of working",
        retention=_MANUAL,
        about="how the person wants work to be done",
    ),
    DocumentKind(
        "project",
        "project_*.md",
        MergeFamily.FACT,
        ("status",),
        (),
        read_when="when work on that project begins or goes on",
        write_when="on a decision, a date or a reason that the code does not tell",
        retention="never removed; `status: archived` when its phase is closed",
        about="decisions, dates and reasons of a project",
    ),
    DocumentKind(
        "reference",
        "reference_*.md",
        MergeFamily.FACT,
        (),
        (),
        read_when="when something has to be looked up in another system",
        write_when="when a place was found where such things are kept",
        retention=_MANUAL,
        about="where to find something in another system",
    ),
    DocumentKind(
        "session_digest",
        "session_digest_YYYY-MM-DD.md",
        MergeFamily.SESSIONS,
        ("duration_hours", "sessions", "tz"),
        _DIGEST,
        read_when="today's at every start and after a compaction; older ones when referred to",
        write_when="when a session ends",
        retention="rolled into the weekly digest after 7 days, when its week is over",
        about="what happened in the sessions of a day",
        form="in each section, one `### Session ID, HH:MM` for each session",
        always_read=True,
        rolls_into="weekly_digest",
        days=7,
    ),
    DocumentKind(
        "relationship",
        "relationship_<slug>.md",
        MergeFamily.PEOPLE,
        ("role", "chats", "upn"),
        ("Known-for", "Communication register", "Past interactions", "Patterns to keep"),
        read_when="when a message from that person comes in, before it is answered",
        write_when="when the person is first seen (a stub), then whenever something is learned",
        retention=_MANUAL,
        about="who a person is, and how we work together",
        form="past interactions begin with `YYYY-MM-DD`",
    ),
    DocumentKind(
        "voice_calibration",
        "voice_calibration.md",
        MergeFamily.CALIBRATION,
        (),
        ("Rules learned",),
        read_when="before a social message, above all before banter in a group",
        write_when="on feedback on tone, or when you noticed a miss; nothing is rewritten",
        retention="dated sections are distilled into Rules learned after 30 days",
        about="what landed and what missed in tone, and the rules that came of it",
        form="`## YYYY-MM-DD`, the newest on top",
        entry=("MISSED", "LANDED", "NEW RULE"),
    ),
    DocumentKind(
        "self_observations",
        "self_observations.md",
        MergeFamily.SECTIONS,
        (),
        ("Failure modes", "Things that worked", "Open questions"),
        read_when="at every start",
        write_when="when a session ends, or when you catch yourself in a pattern",
        retention=_MANUAL,
        about="what I noticed about how I work",
        always_read=True,
    ),
    DocumentKind(
        "callbacks",
        "running_jokes_and_callbacks.md",
        MergeFamily.CALLBACKS,
        (),
        ("Active", "Retired"),
        read_when="when a reference is unclear",
        write_when="when one is used again; after 180 silent days it moves to Retired",
        retention="Retired is pruned to a line after 180 more days",
        about="jokes and references that we share",
        form="`- **Title** (YYYY-MM-DD): what it is about`",
    ),
    DocumentKind(
        "commitments",
        "running_commitments.md",
        MergeFamily.COMMITMENTS,
        (),
        ("Open", "Delivered"),
        read_when="before promising something, and before claiming that something is done",
        write_when='on "I will do X"; again when the delivery has been verified',
        retention="the 5 newest of Delivered stay; older ones go when their day's digest has them",
        about="what I said that I would do, and what I delivered",
        form="one bullet each, which ends in a comment with its id in hex digits",
    ),
    DocumentKind(
        "philosophical_threads",
        "philosophical_threads.md",
        MergeFamily.THREADS,
        (),
        (),
        read_when="when the topic comes up",
        write_when="when a topic returns",
        retention="marked dormant after 90 days untouched, never removed",
        about="questions that we keep coming back to",
        form="`## Thread`",
        entry=(
            "First raised",
            "My position",
            "Other position",
            "Where we left off",
            "Next entry point",
        ),
    ),
    DocumentKind(
        "unsent_drafts",
        "unsent_drafts.md",
        MergeFamily.DRAFTS,
        (),
        (),
        read_when="before a message you are unsure about",
        write_when="on a cut that teaches something, and on no other",
        retention="sections become one line each after 30 days",
        about="what I did not send, and why",
        form="`## YYYY-MM-DD`, then `### Context`",
        entry=("Draft", "Why cut", "Actual sent"),
    ),
    DocumentKind(
        "carry_forward",
        "carry_forward.md",
        MergeFamily.CARRY_FORWARD,
        (),
        ("Pending", "Consumed"),
        read_when="first at every start and after a compaction",
        write_when="when a session ends, and in flight, when something must not be forgotten",
        retention="an item of Consumed goes when a digest mentions it",
        about="what the next session must know",
        always_read=True,
    ),
    DocumentKind(
        "weekly_digest",
        "weekly_digest_YYYY-Www.md",
        MergeFamily.ROLLUP,
        _ROLLED,
        _DIGEST,
        read_when="on demand",
        write_when="by compaction, from the session digests of an ISO week",
        retention="rolled into the monthly digest after 30 days",
        about="what happened in a week",
        rolls_into="monthly_digest",
        days=30,
    ),
    DocumentKind(
        "monthly_digest",
        "monthly_digest_YYYY-MM.md",
        MergeFamily.ROLLUP,
        _ROLLED,
        _DIGEST,
        read_when="on demand",
        write_when="by compaction, from the weekly digests of a month",
        retention="rolled into the yearly digest after 365 days",
        about="what happened in a month",
        rolls_into="yearly_digest",
        days=365,
    ),
    DocumentKind(
        "yearly_digest",
        "yearly_digest_YYYY.md",
        MergeFamily.ROLLUP,
        _ROLLED,
        _DIGEST,
        read_when="on demand",
        write_when="by compaction, from the monthly digests of a year",
        retention="kept for ever",
        about="what happened in a year",
    ),
)

_NAMED: Final = {kind.name: kind for kind in DOCUMENT_KINDS}
_PLACEHOLDERS: Final = {
    "YYYY": r"[0-9]{4}",
    "MM": r"[0-9]{2}",
    "DD": r"[0-9]{2}",
    "ww": r"[0-9]{2}",
    "<slug>": r"[a-z0-9_]+",
    "*": r"[^/]+",
}
_PLACEHOLDER: Final = re.compile("|".join(map(re.escape, _PLACEHOLDERS)))


def _shape_of(file: str) -> re.Pattern[str]:
    literals = map(re.escape, _PLACEHOLDER.split(file))
    holes = [_PLACEHOLDERS[placeholder] for placeholder in _PLACEHOLDER.findall(file)]
    return re.compile(
        "".join(text + hole for text, hole in zip(literals, [*holes, ""], strict=True))
    )


_SHAPES: Final = {
    kind.file: _shape_of(kind.file) for kind in (*DOCUMENT_KINDS, INDEX_PART_KIND, OTHER_KIND)
}


def detect_kind(key: str, type_name: str | None) -> DocumentKind:
    """Return the kind of a document, by its type, else by its file's name.

    A type that is not in the table counts for less than a name that is: a misspelt type must not
    change how a digest is merged. The index and its parts are what is called so, and nothing else.
    """
    for kind in (INDEX_KIND, INDEX_PART_KIND):
        if allows_file_name(kind, key):
            return kind
    documents = [kind for kind in DOCUMENT_KINDS if kind is not INDEX_KIND]
    named = (kind for kind in documents if kind.name == type_name)
    matching = (kind for kind in documents if allows_file_name(kind, key))
    return next(chain(named, matching), OTHER_KIND)


def find_kind(name: str) -> DocumentKind | None:
    """Return the kind of that name."""
    return _NAMED.get(name)


def allows_file_name(kind: DocumentKind, key: str) -> bool:
    """Say whether a document of the kind may be called so, in any folder.

    Only the index and its parts mind the folder: they lie at the top.
    """
    name = key if kind.family is MergeFamily.INDEX else key.rpartition("/")[2]
    return _SHAPES[kind.file].fullmatch(name) is not None
