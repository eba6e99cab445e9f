"""The body of a document as sections and blocks, each with a key (pure).

A block is a bullet with all that hangs on it, a paragraph, or a fenced piece of code. Reading
forgets nothing but blank lines between blocks, and writing puts those where they belong. So what
was written here reads back as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec.structs import replace

_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?=\s|$)")
_BULLET: Final = re.compile(r" ?(?:[-*+]|\d{1,9}[.)])(?:\s+|$)")
_RULE: Final = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_BOX: Final = re.compile(r"\[[ xX]\]\s+")
_LABEL: Final = re.compile(r"\*\*[^*]+\*\*:?|[^\n]{1,60}:(?:\*\*)?")
_DEEP: Final = ("  ", "\t")
_LABEL_LEVEL: Final = 2
"""The level of a section that begins with a label."""
ITEM_PREFIX: Final = "item "
"""What the keys of named items begin with. Other keys begin with a line break."""


class OutlineBlock(msgspec.Struct, frozen=True):
    """A bullet or a piece of prose. Its key is the same wherever this thing stands."""

    key: str
    text: str


class OutlineSection(msgspec.Struct, frozen=True):
    """A heading, the blocks below it, and the sections below that.

    The document itself is the outermost one, of level 0. Its heading is its title, if it has one:
    whether there is a title above them must not make the sections others. A section that is kept
    whole has all its text in `heading`.
    """

    key: str
    level: int = 0
    heading: str = ""
    blocks: tuple[OutlineBlock, ...] = ()
    children: tuple[OutlineSection, ...] = ()
    is_whole: bool = False


class OutlineGrammar(msgspec.Struct, frozen=True):
    """What a family knows about its documents.

    `name_item` gives a bullet a name that it keeps in every section; without one it is known by
    its section and its words. `name_whole` gives a section a name when it is kept whole.
    `read_label` reads a line that begins a section without being a heading: it gets the line and
    the heading above it, and returns the heading that the line stands for and the rest of it.
    """

    name_item: Callable[[str], str | None] = lambda _: None
    name_whole: Callable[[OutlineSection], str | None] = lambda _: None
    read_label: Callable[[str, str], tuple[str, str] | None] = lambda _line, _heading: None


PLAIN_GRAMMAR: Final = OutlineGrammar()


def read_outline(body: str, grammar: OutlineGrammar = PLAIN_GRAMMAR) -> OutlineSection:
    """Take a body apart."""
    parts = list(_parts(body.split("\n"), grammar))
    return _OutlineBuilder(grammar, _titled(parts)).section("")


def write_outline(section: OutlineSection) -> str:
    """Put a body together, with one blank line where Markdown wants one."""
    output: list[str] = []
    previous = ""
    for block in _texts(section):
        if previous and not _is_tight(previous, block):
            output.append("")
        output.append(block)
        previous = block
    return "".join(f"{block}\n" for block in output)


def normalise_text(text: str) -> str:
    """Return the words of a block or heading, however they are set."""
    text = text.lstrip(" #")
    marker = _BULLET.match(text)
    text = text[marker.end() :] if marker else text
    return " ".join(_BOX.sub("", text, count=1).casefold().split())


def is_bullet(text: str) -> bool:
    """Say whether a block is a bullet."""
    return _BULLET.match(text) is not None


def walk_blocks(section: OutlineSection) -> Iterator[tuple[OutlineSection, OutlineBlock]]:
    """Yield every block with the section that it stands in."""
    yield from ((section, block) for block in section.blocks)
    for child in section.children:
        yield from walk_blocks(child)


def map_sections(
    section: OutlineSection, change: Callable[[OutlineSection], OutlineSection]
) -> OutlineSection:
    """Return the outline with every section changed, the innermost first."""
    children = tuple(map_sections(child, change) for child in section.children)
    return change(replace(section, children=children))


def _texts(section: OutlineSection) -> Iterator[str]:
    if section.heading:
        yield section.heading
    yield from (block.text for block in section.blocks)
    for child in section.children:
        yield from _texts(child)


def _is_tight(previous: str, following: str) -> bool:
    """Say whether two blocks stand without a blank line between them."""
    is_list = is_bullet(previous) or _LABEL.fullmatch(previous) is not None
    return is_bullet(following) and is_list and not _HEADING.match(previous)


def _titled(parts: Sequence[_OutlinePart]) -> Sequence[_OutlinePart]:
    """Make the one heading that stands above all others the heading of the document."""
    has_title = [part.level for part in parts[1:]].count(1) == 1 and parts[1].level == 1
    if not has_title or parts[0].last():
        return parts
    return (_OutlinePart(0, parts[1].heading, parts[1].blocks), *parts[2:])


@dataclass(slots=True)
class _OutlinePart:
    """A heading with the blocks up to the next one. The first part has level 0."""

    level: int
    heading: list[str]
    blocks: list[list[str]] = field(default_factory=list[list[str]])

    def last(self) -> list[str]:
        return self.blocks[-1] if self.blocks else self.heading


def _parts(lines: Sequence[str], grammar: OutlineGrammar) -> Iterator[_OutlinePart]:
    part = _OutlinePart(0, [])
    blanks: list[str] = []
    fences = _FenceFinder(lines)
    at = 0
    while at < len(lines):
        line = lines[at]
        end = fences.end(at)
        heading = _HEADING.match(line)
        label = None if heading else grammar.read_label(line, _first_line(part))
        if heading:
            yield part
            part = _OutlinePart(len(heading[1]), [line])
        elif label:
            yield part
            named, rest = label
            part = _OutlinePart(_LABEL_LEVEL, [named], [[rest]] if rest else [])
        elif not line.strip():
            blanks.append(line)
            at += 1
            continue
        elif _continues(line, part, after_blank=bool(blanks)):
            part.last().extend((*blanks, *lines[at:end]))
        else:
            part.blocks.append(list(lines[at:end]))
        blanks = []
        at = end
    yield part


def _first_line(part: _OutlinePart) -> str:
    return part.heading[0] if part.heading else ""


def _continues(line: str, part: _OutlinePart, *, after_blank: bool) -> bool:
    """Say whether a line belongs to the block above it."""
    if line.startswith(_DEEP):
        return True
    if after_blank or not part.blocks or is_bullet(line):
        return False
    return not (_RULE.match(line) and is_bullet(part.blocks[-1][0]))


class _FenceFinder:
    """Finds where fenced code ends. A fence without an end is no fence."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._hopeless = {"`": 1 << 30, "~": 1 << 30}

    def end(self, at: int) -> int:
        """Return the line after the fenced code that begins here, else the next line."""
        line = self._lines[at]
        opening = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if not opening or len(opening[1]) >= self._hopeless[opening[1][0]]:
            return at + 1
        for number in range(at + 1, len(self._lines)):
            closing = _FENCE.match(self._lines[number])
            if closing and closing[1].startswith(opening[1]) and not closing[2].strip():
                return number + 1
        self._hopeless[opening[1][0]] = len(opening[1])
        return at + 1


class _OutlineBuilder:
    """Builds the tree, and gives everything its key."""

    def __init__(self, grammar: OutlineGrammar, parts: Sequence[_OutlinePart]) -> None:
        self._grammar = grammar
        self._parts = parts
        self._next = 0
        self._key_counts: Counter[str] = Counter()

    def section(self, path: str) -> OutlineSection:
        part = self._parts[self._next]
        self._next += 1
        level, heading = part.level, "\n".join(part.heading)
        key = (
            self._unique_key(f"{path}\n{level} {normalise_text(part.heading[0])}") if level else ""
        )
        blocks = tuple(self._block(key, "\n".join(lines)) for lines in part.blocks)
        children: list[OutlineSection] = []
        while self._next < len(self._parts) and self._parts[self._next].level > level:
            children.append(self.section(key))
        return self._as_one_item(
            path, OutlineSection(key, level, heading, blocks, tuple(children))
        )

    def _as_one_item(self, path: str, section: OutlineSection) -> OutlineSection:
        name = self._grammar.name_whole(section) if section.level else None
        if name is None:
            return section
        text = write_outline(section).removesuffix("\n")
        return OutlineSection(
            self._unique_key(f"{path}\n{name}"), section.level, text, is_whole=True
        )

    def _block(self, path: str, text: str) -> OutlineBlock:
        kind = "bullet" if is_bullet(text) else "text"
        name = self._grammar.name_item(text) if kind == "bullet" else None
        if name is not None:
            return OutlineBlock(self._unique_key(f"{ITEM_PREFIX}{name}"), text)
        return OutlineBlock(self._unique_key(f"{path}\t{kind} {normalise_text(text)}"), text)

    def _unique_key(self, key: str) -> str:
        """Tell apart what is written twice."""
        self._key_counts[key] += 1
        return key if self._key_counts[key] == 1 else f"{key}\t{self._key_counts[key]}"
