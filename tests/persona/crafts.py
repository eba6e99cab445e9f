"""Real documents for the simulator: typed as an agent types, merged as production merges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memplane.persona.document_merge import merge_document
from memplane.persona.model import MergeBase, MergedDocument, OptionalText, RemoteDocument
from tests.persona.simulator import Deed

_WORD = re.compile(rb"\bword(\d+)\b")


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents of one kind: what a new one says, and what a line of it looks like.

    In prose (`by_line` False) a line stands between others, so two edits can meet in one place:
    then one side's lines stay, and the other side's text is set aside.
    """

    key: str
    template: str
    line: str
    headings: tuple[str, ...]
    by_line: bool = True

    def lines_of(self, text: OptionalText) -> frozenset[bytes]:
        return frozenset(_WORD.findall(text)) if text else frozenset()

    def typed(self, text: OptionalText, line: bytes) -> bytes:
        lines = (text or self.template.encode()).decode().splitlines(keepends=True)
        heading = self.headings[int(line) % len(self.headings)]
        start = next((at for at, one in enumerate(lines) if one.strip() == heading), -1)
        end = next(
            (at for at in range(start + 1, len(lines)) if lines[at].startswith("## ")), len(lines)
        )
        while end > 0 and not lines[end - 1].strip():
            end -= 1
        lines.insert(end, self.line.replace("WORD", f"word{int(line)}") + "\n")
        return "".join(lines).encode()

    def without(self, text: bytes, line: bytes) -> bytes:
        lines = text.decode().splitlines(keepends=True)
        return "".join(one for one in lines if line not in self.lines_of(one.encode())).encode()

    def combine(
        self, base: MergeBase | None, local: OptionalText, remote: RemoteDocument, changed: str
    ) -> MergedDocument:
        return merge_document(self.key, base, local, remote, changed=changed)

    def may_return(self, removal: Deed, deeds: Sequence[Deed]) -> bool:
        """Judge as the contract does: an edit beats the deletion of a whole document.

        So what went with a document may return when somebody edited it elsewhere and neither knew
        of the other; and nothing else may. In prose an edit may also beat one in the same place.
        """
        if not self.by_line:
            return any(removal.is_beside(deed) for deed in deeds)
        deletions = [
            deed
            for deed in deeds
            if deed.deletion and (deed is removal or removal.number in deed.seen)
        ]
        return any(
            not edit.deletion and edit.is_beside(deletion) and edit.is_beside(removal)
            for deletion in deletions
            for edit in deeds
        )


def _headed(name: str, kind: str, *sections: str) -> str:
    head = f"---\nname: {name}\ndescription: about {name}\ntype: {kind}\n---\n"
    return head + "".join(f"\n{section}\n\n" for section in sections)


SELF_OBSERVATIONS = Documents(
    "self_observations.md",
    _headed("Self", "self_observations", "## Failure modes", "## Things that worked"),
    "- I learned WORD the hard way.",
    ("## Failure modes", "## Things that worked"),
)
CARRY_FORWARD = Documents(
    "carry_forward.md",
    _headed("Next", "carry_forward", "## Pending", "## Consumed"),
    "- Ask about WORD.",
    ("## Pending",),
)
COMMITMENTS = Documents(
    "running_commitments.md",
    _headed("Promises", "commitments", "## Open", "## Delivered"),
    "- Deliver WORD. <!-- id: WORD -->",
    ("## Open", "## Delivered"),
)
CALIBRATION = Documents(
    "voice_calibration.md",
    _headed("Voice", "voice_calibration", "## 2026-03-01", "## Rules learned"),
    "- MISSED: said WORD too loudly",
    ("## 2026-03-01", "## Rules learned"),
)
INDEX = Documents(
    "MEMORY.md",
    "# Memory\n\n## People\n\n## Work\n\n",
    "- [About WORD](reference_WORD.md) — what WORD is",
    ("## People", "## Work"),
)
FACT = Documents(
    "reference_api.md",
    _headed("API", "reference", "## Calls", "## Limits"),
    "The call WORD takes a while.",
    ("## Calls", "## Limits"),
    by_line=False,
)

CRAFTS = (SELF_OBSERVATIONS, CARRY_FORWARD, COMMITMENTS, CALIBRATION, INDEX, FACT)
