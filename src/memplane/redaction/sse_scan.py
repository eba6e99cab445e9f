"""Where the secrets of a body of server-sent events stand, whole or in parts (pure)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias, cast

import msgspec

from memplane.redaction.json_scan import (
    blank_strings,
    find_document_hits,
    find_string_hits,
    looks_like_json,
)
from memplane.redaction.json_strings import LANE_MEMBERS, JsonFrame, JsonString, scan_json_strings
from memplane.redaction.secret_hit import SecretHit, merge_hits
from memplane.redaction.text_span import FindHits, TextSpan, find_hits

_TEXT_NAMES: Final = frozenset(
    b"""
    arguments content delta input input_json output output_text partial_json reasoning
    reasoning_content reasoning_text refusal signature summary_text text thinking transcript value
    """.split()
)
_TEXT_NAMES_STR: Final = frozenset(name.decode() for name in _TEXT_NAMES)
_TEXT_HOLDING_TYPES: Final[frozenset[type[object]]] = frozenset({str, dict, list})
_LANE_MEMBER_NAMES: Final = tuple(sorted(mark.decode() for mark in LANE_MEMBERS))
_MAX_DEPTH: Final = 32
_OTHER_LINES: Final = "lines"
_PLAIN_DATA: Final = "data"
_DONE_EVENT: Final = b"[DONE]"
_BOM: Final = b"\xef\xbb\xbf"

IsSuspect: TypeAlias = Callable[[bytes], bool]


class _ScannedBody(msgspec.Struct):
    """What was read of a body so far.

    Args:
        lanes: Pieces that follow on one another, by what tells their lanes apart.
        others: Strings that stand by themselves.
    """

    lanes: dict[Hashable, list[TextSpan]] = msgspec.field(
        default_factory=dict[Hashable, list[TextSpan]]
    )
    others: list[JsonString] = msgspec.field(default_factory=list[JsonString])

    def add(self, lane: Hashable, span: TextSpan) -> None:
        self.lanes.setdefault(lane, []).append(span)


def find_stream_hits(raw: bytes, find: FindHits) -> list[SecretHit]:
    """Return the secrets of a body; one in several events is found in the text they add up to."""
    body = _ScannedBody()
    for event in _events(raw, body):
        _read(raw, event, body)
    hits = list(find_string_hits(body.others, find))
    for spans in body.lanes.values():
        hits += find_hits(spans, lambda text: _lane_hits(text, find))
    return merge_hits(raw, hits)


def is_stream_suspect(raw: bytes, find: FindHits, suspects: IsSuspect) -> bool:
    """Say whether a body may hold a secret.

    It errs on the side of yes. It reads whole events where `find_stream_hits` has to know the
    place of each string, which takes ten times as long; the lanes are the same.
    """
    if b"\r" in raw or raw.startswith(_BOM):
        return True
    lanes, others, plain = _Lanes(), list[bytes](), list[bytes]()
    for block in raw.split(b"\n\n"):
        lines = block.split(b"\n")
        datas = [line for line in lines if line.startswith(b"data")]
        others += (line for line in lines if not line.startswith(b"data"))
        if not datas:
            continue
        data = datas[0][5:].removeprefix(b" ")
        if len(datas) > 1 or datas[0][4:5] != b":":
            return True
        if data != _DONE_EVENT and not looks_like_json(data):
            plain.append(data)
        elif data != _DONE_EVENT and not lanes.add(data):
            return True
    joined = [b"\n".join(others), b"".join(plain), *lanes.joined()]
    return suspects(lanes.documents()) or any(_lane_hits(lane, find) for lane in joined)


class _Lanes:
    """The texts of events, by the lanes that they belong to."""

    def __init__(self) -> None:
        self._texts: dict[Hashable, list[str]] = {}
        self._searched: list[bytes] = []
        self._before = b""
        self._after = b""
        self._lane: list[str] = []

    def add(self, data: bytes) -> bool:
        """Add an event; False when it is not as plain as it should be."""
        if self._before and data.startswith(self._before) and data.endswith(self._after):
            # It differs from an earlier event in nothing but its text, as most events do.
            text = data[len(self._before) : len(data) - len(self._after)]
            if (
                b'"' not in text
                and b"\\" not in text
                and (printable := _printable(text)) is not None
            ):
                self._lane.append(printable)
                self._searched.append(text)
                return True
        try:
            document = msgspec.json.decode(data)
            texts: list[tuple[Hashable, str]] = []
            strings = _collect_texts(document, _ValuePath((), 0, "", 0), texts)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False
        # A name that comes twice, or an escaped quote, would have hidden something.
        if data.count(b'"') != 2 * strings:
            return False
        self._searched.append(data)
        for lane, lane_text in texts:
            self._texts.setdefault(lane, []).append(lane_text)
        if len(texts) == 1:
            self._expect(data, *texts[0])
        return True

    def _expect(self, data: bytes, lane: Hashable, text: str) -> None:
        """Let the next event be compared with this one, around its text."""
        written = b'"%s"' % text.encode("utf-8", "surrogatepass")
        if data.count(written) == 1:
            before, _, after = data.partition(written)
            self._before, self._after = before + b'"', b'"' + after
            self._lane = self._texts[lane]

    def joined(self) -> list[bytes]:
        """Return what each lane adds up to."""
        return ["".join(parts).encode("utf-8", "surrogatepass") for parts in self._texts.values()]

    def documents(self) -> bytes:
        """Return everything that events say, once: what is not said here was said before."""
        return b"\n".join(self._searched)


def _printable(text: bytes) -> str | None:
    """Return a text that needs no escape in JSON; None when it may."""
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        return None
    return decoded if decoded.isprintable() else None


class _ValuePath(NamedTuple):
    """Where a value stands: its lane so far, its name or position, and the name it is under."""

    parents: tuple[Hashable, ...]
    key: str | int
    name: str
    depth: int


def _collect_texts(value: object, at: _ValuePath, texts: list[tuple[Hashable, str]]) -> int:
    """Collect the texts in a value with their lanes; returns how many strings and names it has."""
    candidates: list[tuple[str | int, str, object]]
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        inner = _lane_of(members, at)
        candidates = [
            (name, name, item)
            for name, item in members.items()
            if type(item) in _TEXT_HOLDING_TYPES
        ]
        strings = len(members)
    elif isinstance(value, list):
        inner = (at.key, *at.parents)
        items = cast("list[object]", value)
        candidates = [
            (key, at.name, item)
            for key, item in enumerate(items)
            if type(item) in _TEXT_HOLDING_TYPES
        ]
        strings = 0
    else:
        return int(isinstance(value, str))
    if at.depth > _MAX_DEPTH:
        raise RecursionError
    for key, name, item in candidates:
        if isinstance(item, str):
            strings += 1
            if name in _TEXT_NAMES_STR:
                texts.append(((key, inner), item))
        else:
            strings += _collect_texts(item, _ValuePath(inner, key, name, at.depth + 1), texts)
    return strings


def _lane_of(members: Mapping[str, object], at: _ValuePath) -> tuple[Hashable, ...]:
    """Return what a lane has of an object; the same things tell it from others as in `_lane`."""
    marks = [(name, repr(members[name])) for name in _LANE_MEMBER_NAMES if name in members]
    key: str | int = at.key
    if at.depth:
        # As below: the type tells lanes apart on top only, and an index says where it stands.
        marks = [mark for mark in marks if mark[0] != "type"]
        key = "" if isinstance(key, int) and "index" in members else key
    return (key, *marks, *at.parents)


def _lane_hits(text: bytes, find: FindHits) -> list[SecretHit]:
    return find_document_hits(text, find, 1) if looks_like_json(text) else find(text)


def _events(raw: bytes, body: _ScannedBody) -> Iterator[list[tuple[int, int]]]:
    """Yield where the data of each event stands, line by line; other lines go to the body."""
    data: list[tuple[int, int]] = []
    for start, end, after in _lines(raw):
        line = raw[start:end].removeprefix(b"\xef\xbb\xbf")
        if not line:
            if data:
                yield data
            data = []
        elif line == b"data" or line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            data.append((end - len(value), end))
        else:
            body.add(_OTHER_LINES, TextSpan(raw[start:after], start))
    if data:
        yield data


def _lines(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield where each line starts, where it ends, and where the next one starts."""
    start = 0
    for line in raw.splitlines(keepends=True):
        after = start + len(line)
        yield start, start + len(line.rstrip(b"\r\n")), after
        start = after


def _read(raw: bytes, event: list[tuple[int, int]], body: _ScannedBody) -> None:
    data = b"\n".join([raw[start:end] for start, end in event])
    if not looks_like_json(data):
        for start, end in event:
            body.add(_PLAIN_DATA, TextSpan(raw[start:end], start))
        return
    blanked = blank_strings(data)
    if blanked is not None:
        # A cut or broken event is read as far as it goes, and as text too.
        body.others += (_make_lone_string(span) for span in _by_line(blanked, event))
    # The marks of an object may come after its text, so all is read before lanes are told apart.
    for token in list(_tokens(raw, event, data)):
        lane = _lane(token)
        if lane is None:
            body.others.append(token)
        else:
            body.add(lane, token.span)


def _tokens(raw: bytes, event: list[tuple[int, int]], data: bytes) -> Iterator[JsonString]:
    if len(event) == 1:
        yield from scan_json_strings(raw, *event[0])
        return
    starts = _line_starts(event)
    for token in scan_json_strings(data):
        # A string that is whole stands within one line.
        line = bisect_right(starts, token.span.start) - 1
        span = token.span.shift(event[line][0] - starts[line])
        yield JsonString(span, token.frame, token.key, token.name)


def _by_line(data: bytes, event: list[tuple[int, int]]) -> Iterator[TextSpan]:
    for (start, end), joined in zip(event, _line_starts(event), strict=True):
        yield TextSpan(data[joined : joined + end - start], start)


def _line_starts(event: list[tuple[int, int]]) -> list[int]:
    """Return where each line of an event starts in its data, which has a line break between."""
    return list(accumulate((end - start + 1 for start, end in event[:-1]), initial=0))


def _make_lone_string(span: TextSpan) -> JsonString:
    return JsonString(span, JsonFrame(None, 0, is_object=False), 0, b"")


def _lane(token: JsonString) -> Hashable | None:
    """Return what tells the lane of a text from others; None when it stands by itself."""
    if token.name not in _TEXT_NAMES:
        return None
    lane: list[Hashable] = [token.key]
    frame = token.frame
    for _ in range(_MAX_DEPTH):
        marks = dict(frame.marks or {})
        if frame.parent is None:
            return tuple(lane)
        if frame.parent.parent is not None:
            marks.pop(b"type", None)  # only some of a lane's events have it, save on top
        # The position in a list of deltas says nothing when the delta has its own index.
        key = b"" if b"index" in marks and isinstance(frame.key, int) else frame.key
        lane += (key, *sorted(marks.items()))
        frame = frame.parent
    return None
