"""What passes between memory and the processes that answer questions for it (pure).

A frame is four bytes of length and a value in MessagePack. Each question has a number, and its
reply has the same.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

import msgspec

from memplane.episodes.api_types import RecallRequest, RecallResponse
from memplane.episodes.provenance import EVERYTHING_UNTRUSTED, TrustPolicy
from memplane.episodes.question import Question
from memplane.episodes.response_builder import ResponseBudget

_FRAME_LENGTH: Final = struct.Struct(">I")


class WorkerRequest(msgspec.Struct, frozen=True, array_like=True):
    """A question, out of its conversation already.

    Args:
        ask: Whose memory is asked, and how much it may answer.
        text: What is asked.
        context: What the user said before.
        at: When it is asked, in microseconds since 1970.
        model: The model that the vector is of; empty where there is none.
        vector: What the question means.
    """

    number: int
    ask: RecallRequest
    text: str
    context: tuple[str, ...]
    at: int
    model: str = ""
    vector: bytes = b""

    @property
    def question(self) -> Question:
        """What is asked, and what was said before."""
        return Question(self.text, self.context)


class WorkerOutcome(IntEnum):
    """What became of a question."""

    ANSWERED = 0
    INDEX_UNUSABLE = 1
    FAILED = 2


class WorkerReply(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a question, or why there is none. The number 0 says that all is opened."""

    number: int
    outcome: WorkerOutcome
    recalled: RecallResponse = RecallResponse()
    why: str = ""


class WorkerConfig(msgspec.Struct, frozen=True):
    """What a process is told when it is started."""

    database: str
    indexes: str
    shares: ResponseBudget
    trust: TrustPolicy = EVERYTHING_UNTRUSTED


_encoder = msgspec.msgpack.Encoder()
_request_decoder = msgspec.msgpack.Decoder(WorkerRequest)
_reply_decoder = msgspec.msgpack.Decoder(WorkerReply)


def encode_frame(value: WorkerRequest | WorkerReply) -> bytes:
    """Write a value as a frame."""
    body = _encoder.encode(value)
    return _FRAME_LENGTH.pack(len(body)) + body


def decode_request(body: bytes) -> WorkerRequest:
    """Read a question."""
    return _request_decoder.decode(body)


def decode_reply(body: bytes) -> WorkerReply:
    """Read a reply."""
    return _reply_decoder.decode(body)


class FrameDecoder:
    """Cuts frames out of bytes that come in any pieces."""

    def __init__(self) -> None:
        self._left = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes in; returns the frames that are whole now."""
        held = self._left + data if self._left else data
        found: list[bytes] = []
        at = 0
        while len(held) - at >= _FRAME_LENGTH.size:
            begin = at + _FRAME_LENGTH.size
            end = begin + int.from_bytes(held[at:begin], "big")
            if len(held) < end:
                break
            found.append(held[begin:end])
            at = end
        self._left = held[at:]
        return found
