"""A document as it was written: frontmatter, body, and every byte in its place (pure).

What is read here is what somebody else wrote, perhaps on another machine, perhaps to do harm. So
nothing raises, YAML is read within bounds, and what was not changed is written back byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final, TypeAlias, cast

import msgspec
import yaml
from msgspec.structs import replace
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

MAX_FRONTMATTER_BYTES: Final = 64 * 1024
"""How long a frontmatter may be, to be read as YAML."""
MAX_FRONTMATTER_DEPTH: Final = 32
"""How deep its values may be nested."""
STAMP_FIELDS: Final = frozenset({"modified", "originSessionId"})
"""What Claude Code writes by itself while saving; it says nothing about what was changed."""
NESTED_FIELD: Final = "metadata"
"""Where one of the two shapes of frontmatter keeps its type."""

FrontmatterValue: TypeAlias = "str | tuple[FrontmatterValue, ...] | Mapping[str, FrontmatterValue]"
"""A value of the frontmatter. Numbers and switches stay the texts that they are."""

_BOM: Final = "\ufeff"
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_ENDING: Final = re.compile(rb"(?<!\r)\r++\n")
_FENCE: Final = re.compile(r"---[ \t]*\r*\n?")
_KEY: Final = re.compile(r"""([ ]*)(["']?)([\w.-]+)\2:(?=\s|\Z)""")
_ESCAPES: Final = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\t": r"\t"}
_PLAIN: Final = re.compile(r"[A-Za-z0-9](?:[\w ./@+:-]*[\w./@+-])?")
# Without libyaml the slow loader reads the same, within the same bounds.
_LOADER: Final = cast("type[yaml.CSafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))


class FrontmatterField(msgspec.Struct, frozen=True):
    """A key of the frontmatter with the lines that belong to it, as they were written.

    Comments that stand before the first key have no key. Where the value is a mapping, its keys
    are fields of their own, and `text` is only the line above them.
    """

    key: str
    text: str
    fields: tuple[FrontmatterField, ...] = ()

    def render(self) -> str:
        """Return all its lines."""
        return self.text + "".join(field.render() for field in self.fields)


class Document(msgspec.Struct, frozen=True):
    """A document in parts. Without frontmatter, `opening` is empty and all is body.

    `flaw` says why the frontmatter cannot be read; `values` is empty then. What is not UTF-8 has
    no parts at all: it is kept in `opaque`.
    """

    bom: str = ""
    opening: str = ""
    fields: tuple[FrontmatterField, ...] = ()
    closing: str = ""
    body: str = ""
    values: Mapping[str, FrontmatterValue] = msgspec.field(
        default_factory=dict[str, FrontmatterValue]
    )
    flaw: str | None = None
    opaque: bytes | None = None

    @property
    def name(self) -> str | None:
        """What the document is called."""
        return self.text_of("name")

    @property
    def description(self) -> str | None:
        """What the document is about."""
        return self.text_of("description")

    @property
    def type(self) -> str | None:
        """The name of its kind."""
        return self.text_of("type")

    @property
    def modified(self) -> str | None:
        """When it was last changed, as its writer says."""
        return self.text_of("modified")

    @property
    def eol(self) -> str:
        """The ending that most lines have."""
        text = "".join(self.texts())
        return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"

    def value(self, key: str) -> FrontmatterValue | None:
        """Return a value, from the top level or from below `metadata`."""
        nested = self.values.get(NESTED_FIELD)
        if key not in self.values and isinstance(nested, Mapping):
            return nested.get(key)
        return self.values.get(key)

    def text_of(self, key: str) -> str | None:
        """Return a value when it is a text that is not blank."""
        value = self.value(key)
        return value if isinstance(value, str) and value.strip() else None

    def texts(self) -> Iterator[str]:
        """Yield its parts, in order."""
        yield self.bom
        yield self.opening
        yield from (field.render() for field in self.fields)
        yield self.closing
        yield self.body


def parse(data: bytes) -> Document:
    """Take a document apart. Any bytes will do."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return Document(opaque=data, flaw=f"it is not UTF-8 text, from byte {error.start} on")
    bom = _BOM if text.startswith(_BOM) else ""
    lines: list[str] = _LINE.findall(text, len(bom))
    if not lines or not _FENCE.fullmatch(lines[0]):
        return Document(bom=bom, body="".join(lines))
    end = next((at for at, line in enumerate(lines) if at and _FENCE.fullmatch(line)), None)
    if end is None:
        return Document(bom=bom, body="".join(lines), flaw="its frontmatter does not end")
    values, flaw = _values("".join(lines[1:end]))
    return Document(
        bom=bom,
        opening=lines[0],
        fields=_fields(lines[1:end]),
        closing=lines[end],
        body="".join(lines[end + 1 :]),
        values=values,
        flaw=flaw,
    )


def render(document: Document) -> bytes:
    """Put a document together again: the very bytes that it was parsed from."""
    if document.opaque is not None:
        return document.opaque
    return "".join(document.texts()).encode()


def with_value(document: Document, key: str, value: str) -> Document:
    """Return the document with one key set: where it stands, else as the last of the top level.

    Frontmatter is begun when there is none. What is not text, or has an open end, stays as it is.
    """
    if document.opaque is not None or (document.flaw and not document.opening):
        return document
    line = f"{key}: {render_scalar(value)}{document.eol}"
    fields = tuple(_set(field, key, line) for field in document.fields)
    if not any(key in {field.key, *(inner.key for inner in field.fields)} for field in fields):
        fields = (*fields, FrontmatterField(key, line))
    fence = f"---{document.eol}"
    opening, closing = document.opening or fence, document.closing or fence
    return parse(render(replace(document, opening=opening, fields=fields, closing=closing)))


def with_plain_lines(document: Document) -> Document:
    """Return the document with every line ending in a line feed alone."""
    text = render(document)
    if document.opaque is not None or b"\r\n" not in text:
        return document
    return parse(_ENDING.sub(b"\n", text))


def read_semantics(data: bytes) -> bytes:
    """Return what counts when two versions are compared.

    Line endings and a byte order mark do not, nor does what Claude Code stamps while saving.
    """
    return render_semantics(parse(data))


def render_semantics(document: Document) -> bytes:
    """Return the same for a document that was parsed."""
    if document.opaque is not None:
        return document.opaque
    text = render(replace(document, bom="", fields=without_stamps(document.fields)))
    return _ENDING.sub(b"\n", text) if b"\r" in text else text


def is_equivalent(first: bytes, second: bytes) -> bool:
    """Say whether two versions differ in nothing that counts."""
    return first == second or read_semantics(first) == read_semantics(second)


def without_stamps(fields: Sequence[FrontmatterField]) -> tuple[FrontmatterField, ...]:
    """Return keys without those that say nothing about what was changed."""
    return tuple(
        replace(field, fields=without_stamps(field.fields))
        for field in fields
        if field.key not in STAMP_FIELDS
    )


def render_scalar(value: str) -> str:
    """Write a text so that every reader of YAML reads that text."""
    if _PLAIN.fullmatch(value) and ": " not in value and value not in _NULLS:
        return value
    return f'"{"".join(_ESCAPES.get(char) or _visible(char) for char in value)}"'


def _fields(lines: Sequence[str], indent: str = "") -> tuple[FrontmatterField, ...]:
    """Group lines by the keys that are indented so; every other line belongs to the one before."""
    groups: list[tuple[str, list[str]]] = []
    for line in lines:
        match = _KEY.match(line)
        if match and match[1] == indent:
            groups.append((match[3], [line]))
        elif groups:
            groups[-1][1].append(line)
        else:
            groups.append(("", [line]))
    return tuple(_field(key, group, nested=bool(indent)) for key, group in groups)


def _field(key: str, lines: Sequence[str], *, nested: bool) -> FrontmatterField:
    first = _KEY.match(lines[1]) if len(lines) > 1 else None
    if key and not nested and first and first[1] and lines[0].rstrip().endswith(":"):
        return FrontmatterField(key, lines[0], _fields(lines[1:], first[1]))
    return FrontmatterField(key, "".join(lines))


def _set(field: FrontmatterField, key: str, line: str) -> FrontmatterField:
    if field.fields:
        return replace(field, fields=tuple(_set(inner, key, line) for inner in field.fields))
    if field.key != key:
        return field
    indent = field.text[: len(field.text) - len(field.text.lstrip(" "))]
    return replace(field, text=indent + line)


def _visible(char: str) -> str:
    return char if char.isprintable() else f"\\U{ord(char):08x}"


class _FrontmatterError(ValueError):
    """The frontmatter is not what we read. The message says why."""


@lru_cache(maxsize=128)  # the versions of a document mostly have the same frontmatter
def _values(text: str) -> tuple[Mapping[str, FrontmatterValue], str | None]:
    """Read the frontmatter, or say what is wrong with it."""
    if len(text.encode()) > MAX_FRONTMATTER_BYTES:
        return {}, f"its frontmatter is longer than {MAX_FRONTMATTER_BYTES // 1024} KB"
    try:
        return _read(text), None
    except _FrontmatterError as flaw:
        return {}, f"its frontmatter {flaw}"
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return {}, f"its frontmatter is not YAML: {' '.join(str(error).split())}"


def _read(text: str) -> Mapping[str, FrontmatterValue]:
    # Events come one by one, so that nothing is built before it was looked at.
    events = iter(_LOADER(text).get_event, None)
    next(events)
    if isinstance(next(events), StreamEndEvent):
        return {}
    value = _node(next(events), events, 0)
    if not isinstance(next(events), DocumentEndEvent) or not isinstance(
        next(events), StreamEndEvent
    ):
        raise _FrontmatterError("has more than one document")
    if isinstance(value, Mapping):
        return value
    raise _FrontmatterError("is not a list of keys and values")


def _node(event: Event, events: Iterator[Event], depth: int) -> FrontmatterValue:
    _refuse(event, depth)
    if isinstance(event, MappingStartEvent):
        return _mapping(events, depth + 1)
    if isinstance(event, CollectionStartEvent):
        items = takewhile(lambda item: not isinstance(item, SequenceEndEvent), events)
        return tuple(_node(item, events, depth + 1) for item in items)
    scalar = cast("ScalarEvent", event)
    return "" if not scalar.style and scalar.value in _NULLS else scalar.value


def _mapping(events: Iterator[Event], depth: int) -> Mapping[str, FrontmatterValue]:
    values: dict[str, FrontmatterValue] = {}
    for event in takewhile(lambda item: not isinstance(item, MappingEndEvent), events):
        key = _node(event, events, depth)
        if not isinstance(key, str):
            raise _FrontmatterError("has a key that is not a text")
        if key in values:
            raise _FrontmatterError(f"has the key {key!r} twice")
        values[key] = _node(next(events), events, depth)
    return values


def _refuse(event: Event, depth: int) -> None:
    """Refuse what a person would not write, and what grows or runs when it is read."""
    if depth > MAX_FRONTMATTER_DEPTH:
        raise _FrontmatterError(f"is nested more than {MAX_FRONTMATTER_DEPTH} deep")
    if isinstance(event, AliasEvent) or (isinstance(event, NodeEvent) and event.anchor):
        raise _FrontmatterError("has an anchor or alias (& or *)")
    if isinstance(event, ScalarEvent | CollectionStartEvent) and event.tag:
        raise _FrontmatterError("has a tag (!)")
