"""The upkeep of MEMORY.md: links are added, follow a renamed file, and make room (pure).

The index is written by agents and by people. Every line that is not changed on purpose keeps its
bytes, whatever they are, and what does not fit moves to a document of its own: an agent reads no
more than the first lines, so what stands below them would be lost without anybody noticing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

import msgspec

from memplane.persona.document import Document, render
from memplane.persona.document_kinds import INDEX_PART_KIND, allows_file_name, detect_kind
from memplane.persona.document_names import slugify
from memplane.persona.templates import to_one_line, with_frontmatter

MAX_INDEX_LINES: Final = 200
MAX_INDEX_BYTES: Final = 25_000
"""What Claude Code loads of the index: so many lines or bytes, whichever comes first."""

_MAX_TITLE_CHARS: Final = 100
_MAX_HOOK_CHARS: Final = 150
"""A hook says when to read a document. What is in it is written there."""
_PARTS_HOOK: Final = "more of this index"
_MAX_PARTS: Final = 50
"""An index that needs more was not written by anybody who wants it read."""
# Bounded and without a way back, so that a hostile line takes no more time than any other.
_LINK: Final = re.compile(
    r"\[(?P<title>(?:\\.|[^\[\]\\]|\[[^\[\]]{0,100}+\]){0,200}+)\]"
    r"\((?P<target><[^<>]{0,1100}+>|[^()\s]{0,1100}+)\)"
)
_ITEM: Final = re.compile(r"[ \t]*[-*+][ \t]+\[")
_NO_PARTS: Final[Mapping[str, bytes]] = MappingProxyType({})


class IndexLink(msgspec.Struct, frozen=True):
    """A link to a document: where it leads, what it is called, and what is said about it."""

    key: str
    title: str
    hook: str
    line: int
    """Which line it is on; the first is 0."""


def is_index_part(key: str) -> bool:
    """Say whether a document holds what did not fit into the index."""
    return allows_file_name(INDEX_PART_KIND, key)


def is_fully_loaded(index: bytes) -> bool:
    """Say whether all of the index is loaded."""
    return len(index) <= MAX_INDEX_BYTES and len(_lines(index)) <= MAX_INDEX_LINES


def read_links(index: bytes) -> tuple[IndexLink, ...]:
    """Return the links to documents, in order; those to elsewhere are none."""
    return tuple(
        link for number, line in enumerate(_lines(index)) for link in _parse_links(line, number)
    )


def with_link(index: bytes, key: str, title: str, hook: str) -> bytes:
    """Return the index with a line for a document, next to others of its kind.

    A document that is linked already keeps the words that somebody chose for it.
    """
    if any(link.key == key for link in read_links(index)):
        return index
    lines, eol = _lines(index), _eol(index)
    line = _entry(key, title, hook) + eol
    line_number = _find_position(key, read_links(index), lines)
    return _join([*_with_line_ends(lines[:line_number], eol), line, *lines[line_number:]])


def with_moved_link(index: bytes, old: str, new: str) -> bytes:
    """Return the index with every link to a document leading to where it is now."""

    def replace_target(match: re.Match[str]) -> str:
        if _key_in(match["target"]) != old:
            return match[0]
        _, _, anchor = match["target"].strip("<>").partition("#")
        return f"[{match['title']}]({new}{anchor and '#'}{anchor})"

    return _join([_LINK.sub(replace_target, line) for line in _lines(index)])


def split_overflow(
    index: bytes, *, parts: Mapping[str, bytes] = _NO_PARTS
) -> tuple[bytes, dict[str, bytes]]:
    """Return the index so that all of it is loaded, and the documents that hold the rest.

    Whole groups below a `##` move, the largest first and of equals the last; when that is not
    enough, the links before them too, kind by kind. Each group leaves one link behind. `parts`
    are the documents that already hold some: a group that comes to one is added to it.

    An index that fits, that is no text, or that cannot be made to fit stays as it is.
    """
    lines = _lines(index)
    groups = [] if is_fully_loaded(index) or not _is_text(index) else _groups_to_move(lines)
    moved: dict[str, bytes] = {}
    for group in groups:
        group_lines = [lines[number] for number in group.lines]
        existing = moved.get(group.key, parts.get(group.key))
        moved[group.key] = _part(existing, group.title, group_lines)
    return (_with_pointers(lines, groups) if groups else index), moved


class _LineGroup(msgspec.Struct, frozen=True):
    """Lines that belong together, by their numbers."""

    title: str
    lines: tuple[int, ...]
    size: int

    @property
    def key(self) -> str:
        """Where they move to."""
        return INDEX_PART_KIND.file.replace("*", slugify(self.title).strip("_") or "more")


def _groups_to_move(lines: Sequence[str]) -> list[_LineGroup]:
    """Return as few groups as are enough, none when nothing is."""
    head = _find_head_end(lines)
    candidates = [*_by_size(_sections(lines)), *_by_size(_links_by_kind(lines[:head]))]
    for count in range(1, min(len(candidates), _MAX_PARTS) + 1):
        if is_fully_loaded(_with_pointers(lines, candidates[:count])):
            return candidates[:count]
    return []


def _by_size(groups: Iterator[_LineGroup]) -> list[_LineGroup]:
    return sorted(groups, key=lambda group: (group.size, group.lines), reverse=True)


def _sections(lines: Sequence[str]) -> Iterator[_LineGroup]:
    starts = [number for number, line in enumerate(lines) if _is_group(line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=False):
        yield _group(lines[start].strip(" \t\r\n#"), range(start, end), lines)


def _links_by_kind(lines: Sequence[str]) -> Iterator[_LineGroup]:
    kinds: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        first = next(_parse_links(line, number), None)
        if first and _ITEM.match(line) and not is_index_part(first.key):
            item = range(number, _find_item_end(lines, number))
            kinds.setdefault(detect_kind(first.key, None).name, []).extend(item)
    for name, numbers in kinds.items():
        yield _group(name, numbers, lines)


def _group(title: str, numbers: Sequence[int], lines: Sequence[str]) -> _LineGroup:
    size = sum(len(lines[number].encode()) for number in numbers)
    return _LineGroup(_short(title, _MAX_TITLE_CHARS), tuple(numbers), size)


def _part(existing: bytes | None, title: str, lines: Sequence[str]) -> bytes:
    text = "".join(lines)
    if existing is None:
        document = with_frontmatter(
            Document(body=_eol(text.encode()) + text),
            name=f"Index: {title}",
            description=f"What the index holds about {title}",
            type_name=INDEX_PART_KIND.name,
        )
        return render(document)
    present = {line.strip() for line in _lines(existing)}
    new = [line for line in lines if line.strip() and line.strip() not in present]
    return _join([*_with_line_ends(_lines(existing), _eol(existing)), *new])


def _with_pointers(lines: Sequence[str], groups: Sequence[_LineGroup]) -> bytes:
    """Return the index without the groups, and with one link for each place they went to."""
    removed = {number for group in groups for number in group.lines}
    remaining = [line for number, line in enumerate(lines) if number not in removed]
    head = _find_head_end(remaining)
    linked = {link.key: link.line for link in read_links(_join(remaining))}
    titles = {group.key: group.title for group in groups if group.key not in linked}
    eol = _eol(_join(lines))
    pointers = [_entry(key, titles[key], _PARTS_HOOK) + eol for key in sorted(titles)]
    earlier = [line for key, line in linked.items() if is_index_part(key) and line < head]
    position = max(earlier) + 1 if earlier else head
    gap = [eol] if pointers and not earlier and head < len(remaining) else []
    return _join(
        [*_with_line_ends(remaining[:position], eol), *pointers, *gap, *remaining[position:]]
    )


def _find_head_end(lines: Sequence[str]) -> int:
    return next((number for number, line in enumerate(lines) if _is_group(line)), len(lines))


def _is_group(line: str) -> bool:
    return line.startswith(("## ", "##\t"))


def _find_position(key: str, links: Sequence[IndexLink], lines: Sequence[str]) -> int:
    """Return before which line a new link goes: behind the last of its kind, else of all."""
    kind = detect_kind(key, None)
    alike = [link.line for link in links if detect_kind(link.key, None) is kind]
    behind = alike or [link.line for link in links]
    return _find_item_end(lines, behind[-1]) if behind else len(lines)


def _find_item_end(lines: Sequence[str], number: int) -> int:
    """Return where an item ends, with the indented lines that belong to it."""
    number += 1
    while number < len(lines) and lines[number][:1] in {" ", "\t"} and lines[number].strip():
        number += 1
    return number


def _parse_links(line: str, number: int) -> Iterator[IndexLink]:
    targets = [(match, _key_in(match["target"])) for match in _LINK.finditer(line)]
    for position, (match, key) in enumerate((match, key) for match, key in targets if key):
        # What is said behind several links is said about the first.
        hook = "" if position else line[match.end() :].strip().lstrip(" —-:")
        yield IndexLink(key, match["title"], hook, number)


def _key_in(target: str) -> str | None:
    """Return the key of the document that a link leads to; None when it leads elsewhere."""
    path = unquote(target.strip("<>").partition("#")[0]).removeprefix("./")
    return path if path.endswith(".md") and ":" not in path and path[:1] != "/" else None


def _entry(key: str, title: str, hook: str) -> str:
    escaped = re.sub(r"([\\\[\]])", r"\\\1", _short(title, _MAX_TITLE_CHARS))
    hook_text = _short(hook, _MAX_HOOK_CHARS)
    return f"- [{escaped}]({key})" + (f" — {hook_text}" if hook_text else "")


def _short(text: str, max_chars: int) -> str:
    line = to_one_line(text)
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _lines(data: bytes) -> list[str]:
    """Split where a line feed is and nowhere else; what is not UTF-8 comes back as it was."""
    return re.findall(r"[^\n]*\n|[^\n]+", data.decode(errors="surrogateescape"))


def _join(lines: Sequence[str]) -> bytes:
    return "".join(lines).encode(errors="surrogateescape")


def _with_line_ends(lines: Sequence[str], eol: str) -> list[str]:
    """Return the lines, the last of which has an end."""
    return [line if line.endswith("\n") else line + eol for line in lines]


def _eol(data: bytes) -> str:
    return "\r\n" if 2 * data.count(b"\r\n") > data.count(b"\n") else "\n"
