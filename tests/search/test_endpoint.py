"""Vectors from a service: a real one on loopback, that answers as a test tells it."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from memplane.errors import EmbeddingUnavailable, SettingsError
from memplane.kit.retry_clock import RetryClock
from memplane.search.embeddings.endpoint_embedder import EndpointEmbedder
from memplane.search.embeddings.vectors import quantize_vector
from memplane.secret import Secret

KEY = "k3y/that+nobody=sees"


@dataclass(frozen=True, slots=True)
class Post:
    """One request that the service got."""

    request: web.Request
    path: str
    authorization: str | None
    body: dict[str, Any]
    size: int

    @property
    def texts(self) -> list[str]:
        return list(self.body["input"])


Answer = Callable[[Post], Awaitable[web.StreamResponse]]


def vector_of(text: str) -> list[float]:
    """A vector that tells the texts of these tests apart."""
    return [float(len(text)), float(ord(text[0])), -1.5]


def embeddings(vectors: Sequence[object]) -> web.Response:
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors)
    ]
    return web.json_response({"object": "list", "data": data, "usage": {"total_tokens": 3}})


async def answer_well(post: Post) -> web.StreamResponse:
    return embeddings([vector_of(text) for text in post.texts])


@dataclass(slots=True)
class Service:
    """A service for embeddings, and what it was asked."""

    url: str = ""
    answer: Answer = answer_well
    posts: list[Post] = field(default_factory=list[Post])

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        headers = request.headers
        post = Post(request, request.path, headers.get("Authorization"), json.loads(raw), len(raw))
        self.posts.append(post)
        return await self.answer(post)

    def answers(self, *responses: Callable[[], web.StreamResponse]) -> None:
        """Answer with these, one after the other, and then well."""
        left = list(responses)

        async def answer(post: Post) -> web.StreamResponse:
            return left.pop(0)() if left else await answer_well(post)

        self.answer = answer


@asynccontextmanager
async def running_service() -> AsyncIterator[Service]:
    service = Service()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", service.handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield service
    finally:
        await runner.cleanup()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with running_service() as running:
        yield running


@dataclass(slots=True)
class Waits:
    """Time that passes only where somebody waits."""

    pauses: list[float] = field(default_factory=list[float])

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    @property
    def pacing(self) -> RetryClock:
        return RetryClock(sleep=self.sleep, elapsed=lambda: sum(self.pauses), chance=lambda: 0.5)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@asynccontextmanager
async def embedder_for(
    service: Service,
    waits: Waits,
    key: Secret | None = None,
    seconds: float = 60.0,
) -> AsyncIterator[EndpointEmbedder]:
    made = EndpointEmbedder(service.url, "some-model", key, pacing=waits.pacing, seconds=seconds)
    try:
        yield made
    finally:
        await made.close()


async def refusal(service: Service, waits: Waits, *texts: str) -> str:
    async with embedder_for(service, waits, Secret(KEY)) as embedder:
        with pytest.raises(EmbeddingUnavailable) as caught:
            await embedder.embed(texts or ["dog"])
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert KEY not in shown
    return str(caught.value)


def expected(*texts: str) -> list[bytes]:
    return [quantize_vector(vector_of(text)) for text in texts]


# What is asked


async def test_texts_become_vectors_in_their_order(service: Service, waits: Waits) -> None:
    async with embedder_for(service, waits, Secret(KEY)) as embedder:
        assert embedder.name == "endpoint:some-model"
        assert await embedder.embed(["dog", "invoice"]) == expected("dog", "invoice")
        assert await embedder.embed(["invoice"]) == expected("invoice")
    (first, second) = service.posts
    assert first.path == "/v1/embeddings"
    assert first.body == {"model": "some-model", "input": ["dog", "invoice"]}
    assert first.authorization == f"Bearer {KEY}"
    assert second.texts == ["invoice"]


@pytest.mark.parametrize("key", [None, Secret("")])
async def test_without_a_key_none_is_sent(
    service: Service, waits: Waits, key: Secret | None
) -> None:
    service.url += "/"
    async with embedder_for(service, waits, key) as embedder:
        assert await embedder.embed(["dog"]) == expected("dog")
    assert [(post.path, post.authorization) for post in service.posts] == [
        ("/v1/embeddings", None)
    ]


async def test_texts_that_say_nothing_are_not_sent(service: Service, waits: Waits) -> None:
    async with embedder_for(service, waits) as embedder:
        assert await embedder.embed(["", "dog", " \n"]) == [b"", *expected("dog"), b""]
        assert await embedder.embed(["", " "]) == [b"", b""]
        assert await embedder.embed([]) == []
    assert [post.texts for post in service.posts] == [["dog"]]


async def test_many_texts_are_asked_for_in_batches(service: Service, waits: Waits) -> None:
    texts = [chr(97 + number % 26) * (number + 1) for number in range(130)]
    async with embedder_for(service, waits) as embedder:
        assert await embedder.embed(texts) == expected(*texts)
    assert [len(post.texts) for post in service.posts] == [64, 64, 2]


@pytest.mark.parametrize("letter", ["a", "é", "\x01", "🐶"])
async def test_long_texts_make_small_batches(service: Service, waits: Waits, letter: str) -> None:
    texts = [letter * 9_000] * 40
    async with embedder_for(service, waits) as embedder:
        assert await embedder.embed(texts) == expected(letter * 8_192) * 40
    assert sum(len(post.texts) for post in service.posts) == 40
    assert max(post.size for post in service.posts) <= 256 * 1024 + 100
    assert min(post.size for post in service.posts[:-1]) > 200 * 1024  # and not too small


async def test_odd_texts_are_sent_as_far_as_they_can_be(service: Service, waits: Waits) -> None:
    async with embedder_for(service, waits) as embedder:
        assert await embedder.embed(["\ud800dog"]) == expected("?dog")


# What is answered


async def test_vectors_may_come_in_another_order(service: Service, waits: Waits) -> None:
    async def answer(post: Post) -> web.StreamResponse:
        data = [
            {"index": index, "embedding": vector_of(text)} for index, text in enumerate(post.texts)
        ]
        return web.json_response({"data": data[::-1]})

    service.answer = answer
    async with embedder_for(service, waits) as embedder:
        assert await embedder.embed(["a", "bb", "ccc"]) == expected("a", "bb", "ccc")


GOOD = [1.0, 0.5]


@pytest.mark.parametrize(
    "body",
    [
        {"data": [{"index": 0, "embedding": GOOD}]},
        {"data": [{"index": number, "embedding": GOOD} for number in range(3)]},
        {"data": [{"index": 0, "embedding": GOOD}, {"index": 0, "embedding": GOOD}]},
        {"data": [{"index": 1, "embedding": GOOD}, {"index": 2, "embedding": GOOD}]},
        {"data": [{"index": number, "embedding": GOOD} for number in (0, 1, 1)]},
        {"data": [{"index": -1, "embedding": GOOD}, {"index": 0, "embedding": GOOD}]},
        {"data": [{"index": 0, "embedding": GOOD}, {"index": 1, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]},
        {"data": [{"index": 0, "embedding": GOOD}, {"index": 1, "embedding": ["1", "2"]}]},
        {"data": [{"index": 0, "embedding": GOOD}, {"index": 1, "embedding": None}]},
        {"data": [{"index": 0, "embedding": GOOD}, {"index": 1}]},
        {"data": []},
        {"error": {"message": "no such model"}},
        [],
    ],
)
async def test_an_answer_that_does_not_fit_is_refused(
    service: Service, waits: Waits, body: object
) -> None:
    service.answers(lambda: web.json_response(body))
    assert "cannot be used" in await refusal(service, waits, "dog", "cat")
    assert len(service.posts) == 1


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "null"])
async def test_numbers_that_are_not_finite_are_refused(
    service: Service, waits: Waits, number: str
) -> None:
    text = f'{{"data": [{{"index": 0, "embedding": [1.0, {number}]}}]}}'
    service.answers(lambda: web.Response(text=text, content_type="application/json"))
    await refusal(service, waits)
    assert waits.pauses == []


@pytest.mark.parametrize("text", ["", "<html>", "{", '{"data": 1}'])
async def test_what_is_no_json_is_refused(service: Service, waits: Waits, text: str) -> None:
    service.answers(lambda: web.Response(text=text))
    assert "cannot be used" in await refusal(service, waits)


async def test_batches_of_different_dimensions_are_refused(service: Service, waits: Waits) -> None:
    async def answer(post: Post) -> web.StreamResponse:
        return embeddings([[1.0] * len(post.texts) for _ in post.texts])

    service.answer = answer
    assert "different dimensions" in await refusal(service, waits, *["dog"] * 65)


async def test_a_vector_of_zeros_is_none(service: Service, waits: Waits) -> None:
    service.answers(lambda: embeddings([[0, 0], [1, 0]]))
    async with embedder_for(service, waits) as embedder:
        assert await embedder.embed(["dog", "cat"]) == [b"", quantize_vector([1, 0])]


async def test_an_answer_without_end_is_given_up(service: Service, waits: Waits) -> None:
    sent = 0

    async def answer(post: Post) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(post.request)
        with suppress(ConnectionError):
            while True:
                await response.write(b" " * (1 << 20))
                sent += 1
        return response

    service.answer = answer
    assert "too long" in await refusal(service, waits)
    assert 32 <= sent < 64


# When it does not work


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_what_may_pass_is_tried_again(service: Service, waits: Waits, status: int) -> None:
    service.answers(lambda: web.Response(status=status), lambda: web.Response(status=status))
    async with embedder_for(service, waits) as embedder:
        assert await embedder.embed(["dog"]) == expected("dog")
    assert len(service.posts) == 3
    assert len(waits.pauses) == 2
    assert 0 < waits.pauses[0] < waits.pauses[1]


async def test_it_waits_as_long_as_the_service_asks(service: Service, waits: Waits) -> None:
    service.answers(
        lambda: web.Response(status=429, headers={"Retry-After": "7"}),
        lambda: web.Response(status=429, headers={"Retry-After": "soon"}),
    )
    async with embedder_for(service, waits) as embedder:
        assert await embedder.embed(["dog"]) == expected("dog")
    assert waits.pauses[0] == 7.0
    assert waits.pauses[1] < 1.0


async def test_it_is_not_tried_for_ever(service: Service, waits: Waits) -> None:
    service.answers(*[lambda: web.Response(status=503, text="overloaded")] * 20)
    assert "answered 503 overloaded" in await refusal(service, waits)
    assert len(service.posts) == 4


async def test_it_does_not_wait_for_hours(service: Service, waits: Waits) -> None:
    service.answers(lambda: web.Response(status=429, headers={"Retry-After": "7200"}))
    assert "answered 429" in await refusal(service, waits)
    assert (len(service.posts), waits.pauses) == (1, [])


@pytest.mark.parametrize("status", [201, 204, 400, 401, 403, 404, 413])
async def test_what_will_not_pass_is_not_tried_again(
    service: Service, waits: Waits, status: int
) -> None:
    service.answers(lambda: web.Response(status=status))
    assert f"answered {status}" in await refusal(service, waits)
    assert (len(service.posts), waits.pauses) == (1, [])


@pytest.mark.parametrize(
    "written",
    [
        KEY,
        json.dumps({"error": {"message": f"bad key {KEY}"}}),
        KEY.replace("/", "\\/"),
        KEY.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D"),
        "x" * 190 + KEY,
    ],
)
async def test_the_key_is_taken_out_of_what_the_service_says(
    service: Service, waits: Waits, written: str
) -> None:
    service.answers(lambda: web.Response(status=401, text=f"no: {written} is wrong"))
    said = await refusal(service, waits)
    assert "answered 401 no: " in said
    assert "nobody" not in said
    assert "k3y" not in said


async def test_a_short_key_is_taken_out_too(service: Service, waits: Waits) -> None:
    service.answers(lambda: web.Response(status=401, text="k3y is wrong"))
    async with embedder_for(service, waits, Secret("k3y")) as embedder:
        with pytest.raises(EmbeddingUnavailable, match=r"answered 401 \[redacted\] is wrong"):
            await embedder.embed(["dog"])


async def test_a_redirect_is_not_followed(service: Service, waits: Waits) -> None:
    async with running_service() as elsewhere:
        for status in (301, 302, 307, 308):
            target = {"Location": f"{elsewhere.url}/embeddings"}
            service.answers(lambda s=status, t=target: web.Response(status=s, headers=t))  # type: ignore[misc]
            assert "leads elsewhere" in await refusal(service, waits)
        assert elsewhere.posts == []
    assert len(service.posts) == 4


async def test_a_service_that_takes_too_long_is_given_up(service: Service, waits: Waits) -> None:
    never = asyncio.Event()

    async def answer(_post: Post) -> web.StreamResponse:
        await never.wait()
        return web.Response()

    service.answer = answer
    async with embedder_for(service, waits, seconds=0.2) as embedder:
        try:
            with pytest.raises(EmbeddingUnavailable, match="does not answer"):
                await asyncio.wait_for(embedder.embed(["dog"]), 30)
        finally:
            never.set()
    assert len(service.posts) == 1


async def test_a_service_that_is_not_there_is_an_error(waits: Waits) -> None:
    async with running_service() as gone:
        pass
    assert "does not answer" in await refusal(gone, waits)
    assert waits.pauses == []


async def test_a_closed_embedder_says_so(service: Service, waits: Waits) -> None:
    async with embedder_for(service, waits) as embedder:
        await embedder.embed(["dog"])
        await embedder.close()
        await embedder.close()
        with pytest.raises(EmbeddingUnavailable, match="closed"):
            await embedder.embed(["dog"])
    assert len(service.posts) == 1


# Addresses and keys


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8080/v1",
        "ftp://127.0.0.1/v1",
        "http://",
        "http://user:hunter2@127.0.0.1/v1",
        "http://127.0.0.1/v1?key=hunter2",
        "http://127.0.0.1/v1#hunter2",
        "http://127.0.0.1:hunter2/v1",
        "http://[hunter2",
    ],
)
def test_an_address_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        EndpointEmbedder(url, "some-model")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("key", ["a\nb", "a\r\nHost: b", "clé", "a\x00"])
def test_a_key_that_cannot_be_sent_is_refused(key: str) -> None:
    with pytest.raises(SettingsError, match="key") as caught:
        EndpointEmbedder("http://127.0.0.1/v1", "some-model", Secret(key))
    assert key not in "".join(traceback.format_exception(caught.value))
