"""Server-sent events from bytes that were cut anywhere (pure).

Nothing here raises, whatever the bytes are: what is no field of an event is passed over.
"""

from __future__ import annotations

from typing import Final

import msgspec

from memplane.kit.json_values import decode_json_or_none

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_LINE_ENDS: Final = (b"\n", b"\r")
_COMMENT: Final = b":"
_LAST_DATA: Final = "[DONE]"
_NULL: Final = "null"


class SseEvent(msgspec.Struct, frozen=True):
    """One event of a stream; without a name it is empty."""

    name: str
    data: str


class SseParser:
    """Puts events together from the pieces of a stream.

    An event that has only a name counts too, as clients in use take it for one. Its bytes become
    text when it is whole, so that a character may be cut; a byte that is not UTF-8 is replaced.
    """

    __slots__ = ("_after_return", "_data", "_name", "_started", "_unfinished")

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []  # joined once its line has ended, so time stays linear
        self._after_return = False
        self._started = False
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take the next bytes and return the events that they complete."""
        if self._after_return and data:
            self._after_return = False
            data = data.removeprefix(b"\n")  # of a CR LF that was cut
        if not data:
            return []
        lines = data.splitlines()  # of bytes: only at CR, LF and CR LF
        self._after_return = data.endswith(b"\r")
        last_line = b"" if data.endswith(_LINE_ENDS) else lines.pop()
        if lines and self._unfinished:
            lines[0] = b"".join((*self._unfinished, lines[0]))
            self._unfinished.clear()
        if last_line:
            self._unfinished.append(last_line)
        events: list[SseEvent] = []
        for line in lines:
            self._parse_line(line, events)
        return events

    def end(self) -> list[SseEvent]:
        """Return what is left when the stream has ended: at most one event, perhaps cut."""
        if self._unfinished:
            self._parse_line(b"".join(self._unfinished), [])
            self._unfinished.clear()
        events = [self._event()] if self._name or self._data else []
        self._name, self._data = b"", []
        return events

    def is_cut(self) -> bool:
        """Say whether the stream has ended inside an event; one that lacks only its end is whole.

        Nothing may follow this.
        """
        unfinished = b"".join(self._unfinished)
        for event in self.end():
            data = event.data.strip()
            return data not in {_LAST_DATA, _NULL} and decode_json_or_none(data) is None
        return bool(unfinished) and not unfinished.startswith(_COMMENT)

    def _parse_line(self, line: bytes, events: list[SseEvent]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(BYTE_ORDER_MARK)
        if not line:
            if self._name or self._data:
                events.append(self._event())
                self._name, self._data = b"", []
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ")

    def _event(self) -> SseEvent:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        return SseEvent(self._name.decode("utf-8", "replace"), data.decode("utf-8", "replace"))
