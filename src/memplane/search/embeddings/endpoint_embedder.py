"""Vectors from a service that speaks OpenAI's dialect of embeddings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import aiohttp
import msgspec

from memplane.errors import EmbeddingUnavailable, SettingsError, TextRefused
from memplane.kit.retry_clock import RetryClock
from memplane.redaction.redactor import Redactor
from memplane.search.embeddings.text_limit import truncate_for_embedding
from memplane.search.embeddings.vectors import quantize_vector
from memplane.secret import Secret

_MAX_BATCH_TEXTS: Final = 64
_MAX_BATCH_BYTES: Final = 256 * 1024
_MAX_REPLY_BYTES: Final = 32 << 20
_REQUEST_TIMEOUT_S: Final = 30.0
_CONNECT_TIMEOUT_S: Final = 5.0
_PACING: Final = RetryClock()
_OK_STATUS: Final = 200
_REDIRECT_STATUSES: Final = range(300, 400)
_TEXT_ERROR_STATUSES: Final = frozenset({400, 413, 422})
_RATE_LIMIT_STATUS: Final = 429
_MIN_SERVER_ERROR_STATUS: Final = 500
_MAX_ERROR_BYTES: Final = 4_096
_MAX_SHOWN_ERROR_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class _RequestFailure:
    """The service did not give vectors."""

    reason: str
    is_retryable: bool = False
    pause: float = 0.0
    of_text: bool = False


_EndpointReply: TypeAlias = bytes | _RequestFailure


class _EmbeddingItem(msgspec.Struct):
    index: int
    embedding: list[float]


class _EmbeddingsBody(msgspec.Struct):
    data: list[_EmbeddingItem]


class EndpointEmbedder:
    """Keeps the Embedder contract by asking a service, in batches, one after the other.

    Args:
        url: What stands before `/embeddings`.
        model: What the service calls the model. The same name must always mean the same model.
        key: Goes to this address only: redirects are not followed.
        seconds: For each request.
        pacing: The clock and the dice of retries.

    Raises:
        SettingsError: The address or the key cannot be used.
    """

    def __init__(
        self,
        url: str,
        model: str,
        key: Secret | None = None,
        *,
        seconds: float = _REQUEST_TIMEOUT_S,
        pacing: RetryClock = _PACING,
    ) -> None:
        self._address = _address(url)
        self._model = model
        self._headers = {"Content-Type": "application/json", **_authorization(key)}
        self._key = key
        self._timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_TIMEOUT_S)
        self._pacing = pacing
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    @property
    def name(self) -> str:
        return f"endpoint:{self._model}"

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        result = [b""] * len(texts)
        # Services refuse a batch for one empty text in it.
        indexes = [index for index, text in enumerate(texts) if text and not text.isspace()]
        inputs = {index: truncate_for_embedding(texts[index]) for index in indexes}
        for batch in _batches(inputs):
            vectors = await self._vectors([inputs[index] for index in batch])
            for index, vector in zip(batch, vectors, strict=True):
                result[index] = vector
        if len({len(vector) for vector in result if vector}) > 1:
            raise EmbeddingUnavailable(f"{self._address} gave vectors of different dimensions")
        return result

    async def close(self) -> None:
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _vectors(self, texts: Sequence[str]) -> list[bytes]:
        body = msgspec.json.encode({"model": self._model, "input": texts})
        attempts = self._pacing.for_faults()
        while True:
            reply = await self._send(body)
            if isinstance(reply, bytes):
                break
            if not reply.is_retryable or not await attempts.wait_for_next(at_least=reply.pause):
                error_class = TextRefused if reply.of_text else EmbeddingUnavailable
                raise error_class(f"{self._address} {reply.reason}")
        try:
            return await asyncio.to_thread(_vectors_in, reply, len(texts))
        except (ValueError, msgspec.MsgspecError) as error:
            raise EmbeddingUnavailable(
                f"{self._address} gave an answer that cannot be used: {error}"
            ) from error

    async def _send(self, body: bytes) -> _EndpointReply:
        try:
            async with self._open_session().post(
                self._address, data=body, headers=self._headers, allow_redirects=False
            ) as reply:
                if reply.status != _OK_STATUS:
                    return await self._refusal(reply)
                return await _read(reply)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = self._without_key(str(error) or type(error).__name__)
        # Not raised from the library's error: that one may hold the request with its key.
        return _RequestFailure(f"does not answer: {reason}")

    def _open_session(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise EmbeddingUnavailable("the embedder is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), timeout=self._timeout, trust_env=False
            )
        return self._session

    async def _refusal(self, reply: aiohttp.ClientResponse) -> _RequestFailure:
        if reply.status in _REDIRECT_STATUSES:
            return _RequestFailure(
                f"answered {reply.status}: it leads elsewhere, and is not followed"
            )
        body = (await reply.content.read(_MAX_ERROR_BYTES)).decode("utf-8", "replace")
        # Cut after it is scrubbed: half a key would not be recognised.
        body = " ".join(self._without_key(body).split())[:_MAX_SHOWN_ERROR_CHARS]
        return _RequestFailure(
            f"answered {reply.status} {body}".strip(),
            is_retryable=reply.status == _RATE_LIMIT_STATUS
            or reply.status >= _MIN_SERVER_ERROR_STATUS,
            of_text=reply.status in _TEXT_ERROR_STATUSES,
            pause=_pause(reply.headers.get("Retry-After", "")),
        )

    def _without_key(self, text: str) -> str:
        """Take the key out of a text, however it is written there."""
        if not self._key:
            return text
        key = self._key.reveal()
        redactor = Redactor(key=key.encode(), known=[self._key])
        return redactor.text(text.replace(key, "[redacted]")).value


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or True)
    except ValueError:
        usable = None
        parts = urlsplit("")
    if not usable or parts.username or parts.password or parts.query or parts.fragment:
        # The address is not repeated: somebody may have written a password into it.
        raise SettingsError(
            "the address of the embeddings is not like http://127.0.0.1:8080/v1, "
            "with neither a user nor a question mark"
        )
    return f"{url.rstrip('/')}/embeddings"


def _authorization(key: Secret | None) -> dict[str, str]:
    if not key:
        return {}
    if not (key.reveal().isascii() and key.reveal().isprintable()):
        raise SettingsError("the key for the embeddings holds characters that no key has")
    return {"Authorization": f"Bearer {key.reveal()}"}


def _batches(texts: dict[int, str]) -> Iterator[list[int]]:
    """Cut texts into requests of at most 64 texts and 256 KB."""
    batch: list[int] = []
    size = 0
    for index, text in texts.items():
        more = len(msgspec.json.encode(text)) + 1
        if batch and (len(batch) == _MAX_BATCH_TEXTS or size + more > _MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(index)
        size += more
    if batch:
        yield batch


async def _read(reply: aiohttp.ClientResponse) -> _EndpointReply:
    body = bytearray()
    async for chunk in reply.content.iter_any():
        body += chunk
        if len(body) > _MAX_REPLY_BYTES:
            return _RequestFailure("gave an answer that is too long")
    return bytes(body)


def _vectors_in(body: bytes, count: int) -> list[bytes]:
    """Read the vectors out of an answer, in the order of the texts.

    Raises:
        ValueError: There is not one vector for each text.
    """
    data = msgspec.json.decode(body, type=_EmbeddingsBody).data
    by_index = {item.index: item.embedding for item in data}
    if len(data) != count or by_index.keys() != set(range(count)):
        raise ValueError(f"{count} vectors were asked for, and {len(data)} came")
    if not all(by_index.values()):
        raise ValueError("a vector has no dimensions")
    if len({len(item) for item in by_index.values()}) > 1:
        raise ValueError("its vectors have different dimensions")
    return [quantize_vector(by_index[index]) for index in range(count)]


def _pause(text: str) -> float:
    """Read how long to wait; a date is not understood, and then the usual pause will do."""
    return float(text) if text.isascii() and text.isdigit() else 0.0
