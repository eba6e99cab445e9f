"""Documents of every family, made of a few things that may be there or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from memplane.persona.document_kinds import MergeFamily
from memplane.persona.merge import MergeSide

HEAD = "---\nname: made\ndescription: for a test\ntype: any\n---\n\n"
TIMES = ("", "2026-07-30T10:00:00Z", "2026-07-30T11:00:00Z", "2026-07-30T12:00:00+02:00")
_BULLETS = {
    "## Failure modes": ["- too long", "- too fast", "A word on both."],
    "## Things that worked": ["- asking first", "1. reading the code"],
    "## Open questions": ["- why?", "- when?\n  perhaps never"],
}
THINGS: Mapping[MergeFamily, Mapping[str, Sequence[str]]] = {
    MergeFamily.INDEX: {
        "": ["- [User](user_role.md) — who", "Not a link."],
        "## Work": ["- [One](project_one.md) — hook", "- [Two](project_two.md): other hook"],
        "## More": ["- [Site](https://example.com) — elsewhere", "- [R](sub/reference_r.md)"],
    },
    MergeFamily.SESSIONS: {
        "": [
            "## Session aa11 09:00\n\n- first arc",
            "## Session bb22 10:30\n\n- second arc",
            "## 12:00 <!-- session: cc33, start: 2026-07-30T12:00:00Z -->\n\n### Arcs\n\n- third",
        ],
        "## Relational notes": ["- thanked Ada", "- missed a hint"],
    },
    MergeFamily.CALIBRATION: {
        "## Rules learned": ["- be brief", "- no puns before noon"],
        "## 2026-07-30": ["MISSED:", "- a joke", "- a pause"],
        "## 2026-07-29": ["- LANDED: the reply", "- NEW RULE: wait"],
    },
    MergeFamily.DRAFTS: {
        "## 2026-07-30": ["### To Ada\n\nDraft: no", "### To Bob\n\nDraft: well\n\nWhy cut: rude"],
        "## 2026-07-29": ["### To Cy\n\nDraft: hm"],
        "## Patterns": ["- too rude before coffee", "- said twice"],
    },
    MergeFamily.SECTIONS: _BULLETS,
    MergeFamily.COMMITMENTS: {
        "## Open": [
            "- [ ] send the report <!-- id: 1f -->",
            "- call back",
            "- fix <!-- id: 2a -->",
        ],
        "## Delivered": ["- [x] the slides <!-- id: 3b -->", "- lunch"],
    },
    MergeFamily.CALLBACKS: {
        "## Active": ["- **The otter** (2026-05-01): builds", "- **Tuesday** (2026-06-01)"],
        "## Retired": ["- **The kettle** (2025-01-01): tea", "Earlier jokes: the spoon."],
    },
    MergeFamily.CARRY_FORWARD: {
        "## Pending": ["- ask about the move", "- birthday on Friday", "- the flaky test"],
        "## Consumed": ["- said thanks", "- sent the link"],
    },
    MergeFamily.PEOPLE: {
        "## Known-for": ["- compilers", "Ada wrote the first program."],
        "## Past interactions": ["- 2026-07-01: met", "- 2026-07-09: argued", "- 2026-07-05: tea"],
    },
    MergeFamily.THREADS: {
        "# Threads": ["A line above all threads.", "- and a bullet"],
        "": [
            "## On forgetting\n\nMy position: kind",
            "## On names\n\n### First raised\n\nin May",
            "## On rest\n\nStatus: dormant",
        ],
    },
    MergeFamily.ROLLUP: _BULLETS,
    MergeFamily.FACT: {"": ["one", "two", "three", "", "# four", "five"]},
    MergeFamily.OPAQUE: {"": ["one", "two"]},
}
"""What a document of each family may hold: below each heading, some things in any order."""

VARIANTS: Mapping[str, Sequence[tuple[str, str]]] = {
    "- [User](user_role.md) — who": [("## Work", "- [Me](user_role.md) — who else")],
    "- [One](project_one.md) — hook": [("", "- [One](project_one.md)")],
    "- [Two](project_two.md): other hook": [("## More", "- [Two](project_two.md) — third hook")],
    "## Session aa11 09:00\n\n- first arc": [("", "## Session AA11 09:05\n\n- told anew")],
    "- a joke": [("## 2026-07-30", "- A  joke")],
    "### To Ada\n\nDraft: no": [
        ("## 2026-07-30", "### To Ada\n\nDraft: yes"),
        ("## 2026-07-30", "### to ada\n\nDraft: maybe"),
    ],
    "- [ ] send the report <!-- id: 1f -->": [
        ("## Open", "- [ ] send the long report <!-- id: 1f -->"),
        ("## Delivered", "- [x] send the report <!-- id: 1f -->"),
        ("## Delivered", "- [x] sent the report <!-- id: 1F -->"),
    ],
    "- call back": [("## Delivered", "- call back (done 2026-07-30)")],
    "- **The otter** (2026-05-01): builds": [
        ("## Active", "- **The otter** (2026-06-02): tests"),
        ("## Retired", "- **the otter** (2026-05-01): builds"),
    ],
    "- **The kettle** (2025-01-01): tea": [("## Active", "- **The kettle** (2026-06-01): tea")],
    "- ask about the move": [("## Consumed", "- ~~ask about the move~~ (consumed)")],
    "- the flaky test": [("## Consumed", "- The flaky test")],
    "## On forgetting\n\nMy position: kind": [
        ("", "## On forgetting\n\nMy position: hard"),
        ("", "## On forgetting\n\nMy position: soft\n\n> **Earlier**\n> My position: kind"),
    ],
    "one": [("", "one!"), ("", "one?")],
}
"""Other texts of the same things, and where they may stand: these may be in conflict."""

DISPUTED = frozenset(
    line
    for thing, others in VARIANTS.items()
    for text in (thing, *(other for _, other in others))
    for line in (*text.split("\n"), *(f"> {line}" for line in text.split("\n")))
)
"""The lines that may be in conflict."""

_SOUP = (
    *("", "", "", "- a", "- b", "* a", "- [ ] a <!-- id: 1 -->", "- [x] b <!-- id: 1 -->"),
    *("- **T** (2026-01-01): x", "- **T** (2026-02-01): y", "# T", "## A", "## B", "### C"),
    *("## Open", "## Delivered", "## Active", "## Retired", "## Pending", "## Consumed"),
    *("## 2026-07-01", "## 2026-07-02", "text", "more text", "  deep", "    code", "```", "~~~"),
    *("---", "> **Earlier**", "> q", "- [A](a.md) — h", "- [A](a.md) — g — also: h", "\tt"),
    *("- [B](b.md)", "1. one", "- 2026-01-01 p", "- 2026-01-02 q", "## Session abc1 09:00"),
    *("<!-- session: zz9 -->", "MISSED:", "- ", "name: n", "chats: [a, b]", "chats: [a, c]"),
    *("modified: 2026-01-03", "modified: 2026-01-01", "metadata: ", "  type: t", "sources: [x]"),
    *("sources: [x, y]", "chats:", "  - a", "x: 'q", "\u2028", "line\r", "é — ü"),
)


@dataclass(frozen=True)
class Meeting:
    """Versions that meet: a base, and sides that came from it or from nowhere."""

    base: bytes | None
    sides: tuple[MergeSide, ...]


def written(family: MergeFamily, chosen: Sequence[tuple[str, str]]) -> bytes:
    """Write a document with the chosen things, each below its heading."""
    body = ""
    for heading in THINGS[family]:
        if heading:
            body += f"{heading}\n\n"
        body += "".join(f"{thing}\n\n" for at, thing in chosen if at == heading)
    return f"{HEAD}{body}".encode()


def meetings(
    family: MergeFamily, sides: int = 2, *, conflicts: bool = False
) -> st.SearchStrategy[Meeting]:
    """Return versions that hold some of a family's things, in any order."""
    things = [(heading, thing) for heading, held in THINGS[family].items() for thing in held]
    texts = [[one, *(VARIANTS.get(one[1], ()) if conflicts else ())] for one in things]

    def made(drawn: bytes) -> bytes:
        # A byte says which thing comes next, and in which of its texts. To draw bytes is cheap.
        chosen: dict[int, tuple[str, str]] = {}
        for byte in drawn:
            variant, number = divmod(byte, len(texts))
            chosen.setdefault(number, texts[number][variant % len(texts[number])])
        return written(family, list(chosen.values()))

    return _meetings(st.binary(max_size=len(texts) + 2).map(made), sides)


def soup_meetings() -> st.SearchStrategy[Meeting]:
    """Return versions that are heaps of lines, with frontmatter or what looks like it."""
    lines = st.lists(st.sampled_from(_SOUP), max_size=9)
    front = st.lists(st.sampled_from(_SOUP[-17:]), max_size=4).map(
        lambda one: ["---", *one, "---"]
    )
    text = st.builds(
        lambda front, lines, eol, end: (eol.join([*front, *lines]) + end).encode(),
        st.one_of(st.just([]), front),
        lines,
        st.sampled_from(["\n", "\n", "\r\n"]),
        st.sampled_from(["\n", ""]),
    )
    return _meetings(text | text | st.binary(max_size=20), 2)


def _meetings(text: st.SearchStrategy[bytes], sides: int) -> st.SearchStrategy[Meeting]:
    side = st.builds(MergeSide, text, st.sampled_from(TIMES))
    return st.builds(Meeting, st.none() | text | text | text, st.tuples(*[side] * sides))
