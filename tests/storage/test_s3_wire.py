"""What goes over the wire to an S3 service, and what each of its answers means."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest
from aiohttp import web

from memplane.errors import (
    BackendMisconfigured,
    BackendUnavailable,
    ConcurrencyError,
    ContainerMissing,
    InvalidKey,
    MemplaneError,
    PermissionDenied,
    RequestRefused,
    SignatureRefused,
    TokenExpiredError,
    TooLarge,
)
from memplane.kit.retry_clock import RetryClock
from memplane.secret import Secret
from memplane.service.composition.storage import S3Storage, open_bucket_store
from memplane.storage import s3_objects
from memplane.storage.lineage import Lineage, Stamp
from memplane.storage.retry import RetryStore
from memplane.storage.s3 import REMOVED_METADATA, S3Store, open_s3_store
from memplane.storage.s3_access import S3Access
from memplane.storage.s3_signature import AccessKey
from memplane.storage.store import Absent, Anything, Matches, Version
from tests.support.azurite import Certificate
from tests.support.s3_server import S3Server
from tests.support.stub import Stub, running_stub

TIME = format_datetime(datetime(2026, 3, 1, tzinfo=UTC), usegmt=True)
FIRST = Version('"0x1"')
HIDDEN = "hunter2-secret"


def answer(status: int, body: str = "", **headers: str) -> web.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(status=status, text=body, headers=named)


def refusal(status: int, code: str) -> web.Response:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"
    return answer(status, body, Content_Type="application/xml")


def content(body: str = "hello") -> web.Response:
    digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
    return answer(
        200, body, ETag=FIRST, Last_Modified=TIME, x_amz_meta_sha256=digest, x_amz_meta_a_b="c"
    )


def page(*names: str, token: str = "", truncated: str = "") -> web.Response:
    entries = "".join(
        f"<Contents><Key>{name}</Key><LastModified>2026-03-01T00:00:00.000Z</LastModified>"
        "<ETag>&quot;0x1&quot;</ETag><Size>5</Size></Contents>"
        for name in names
    )
    following = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    is_truncated = truncated or ("true" if token else "false")
    return answer(
        200,
        "<ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
        f"<EncodingType>url</EncodingType>{entries}{following}"
        f"<IsTruncated>{is_truncated}</IsTruncated></ListBucketResult>",
        Content_Type="application/xml",
    )


WRITTEN = answer(200, ETag=FIRST)


@pytest.fixture
async def stub(certificate: Certificate) -> AsyncIterator[Stub]:
    async with running_stub(certificate) as running:
        yield running


def access(stub: Stub, certificate: Certificate, prefix: str = "") -> S3Access:
    key = AccessKey("AKIAEXAMPLE", Secret(HIDDEN))
    return S3Access("box", key, stub.endpoint, prefix=prefix, ca_file=certificate.authority)


@pytest.fixture
async def store(stub: Stub, certificate: Certificate) -> AsyncIterator[S3Store]:
    async with open_s3_store(access(stub, certificate), pacing=RetryClock()) as opened:
        opened._has_conditional_put = True
        yield opened


StoreOf = Callable[..., AbstractAsyncContextManager[S3Store]]


@pytest.fixture
def store_of(s3_server: S3Server, tmp_path: Path) -> StoreOf:
    def open_store(bucket: str, prefix: str = "") -> AbstractAsyncContextManager[S3Store]:
        storage = S3Storage(s3_server.settings(bucket, prefix=prefix), tmp_path)
        return open_bucket_store(storage, RetryClock())

    return open_store


VERBS: dict[str, Callable[[S3Store], Awaitable[object]]] = {
    "read": lambda store: store.read("a.md"),
    "stat": lambda store: store.stat("a.md"),
    "update": lambda store: store.write("a.md", b"x", expect=Matches(FIRST)),
    "create": lambda store: store.write("a.md", b"x", expect=Absent()),
    "delete": lambda store: store.delete("a.md", expect=Anything()),
    "listing": lambda store: store.listing(),
}


async def test_a_put_carries_what_the_service_and_we_need(
    stub: Stub, certificate: Certificate
) -> None:
    stub.answers = [refusal(412, "PreconditionFailed"), WRITTEN]
    opened = open_s3_store(access(stub, certificate, "me/too/"), pacing=RetryClock())
    async with opened as store:
        version = await store.write(
            "notes/a b&c#d?.md", b"# hi", expect=Matches(FIRST), metadata={"memplane_write": "w1"}
        )
    probe, put = stub.asked
    assert probe.headers["if-match"] != put.headers["if-match"]
    assert version == FIRST
    assert (put.method, put.body) == ("PUT", b"# hi")
    assert put.path == "/box/me/too/notes/a%20b%26c%23d%3F.md"
    assert put.headers["if-match"] == FIRST
    assert put.headers["x-amz-meta-memplane-write"] == "w1"
    assert put.headers["x-amz-content-sha256"] == hashlib.sha256(b"# hi").hexdigest()
    assert put.headers["content-type"] == "text/markdown; charset=utf-8"
    signed = put.headers["authorization"].partition("SignedHeaders=")[2]
    assert {"host", "if-match", "x-amz-meta-memplane-write"} <= set(
        signed.partition(",")[0].split(";")
    )
    assert HIDDEN not in str(stub.asked)


async def test_a_create_asks_that_nothing_is_there(stub: Stub, store: S3Store) -> None:
    stub.answers = [page(), WRITTEN]
    await store.write("a.md", b"x", expect=Absent())
    assert stub.asked[-1].headers["if-none-match"] == "*"


async def test_a_write_without_a_version_is_not_taken_for_written(
    stub: Stub, store: S3Store
) -> None:
    stub.answers = [answer(200)]
    with pytest.raises(BackendUnavailable, match="no ETag"):
        await store.write("a.md", b"x", expect=Matches(FIRST))


@pytest.mark.parametrize(
    ("reply", "error", "says"),
    [
        (refusal(403, "AccessDenied"), PermissionDenied, "s3:PutObject"),
        (refusal(403, "SignatureDoesNotMatch"), SignatureRefused, "MEMPLANE_S3_SECRET_KEY"),
        (refusal(403, "InvalidAccessKeyId"), SignatureRefused, "AKIAEXAMPLE"),
        (refusal(403, "RequestTimeTooSkewed"), SignatureRefused, "clock"),
        (refusal(400, "ExpiredToken"), TokenExpiredError, "temporary keys"),
        (refusal(400, "AuthorizationHeaderMalformed"), SignatureRefused, "MEMPLANE_S3_REGION"),
        (refusal(301, "PermanentRedirect"), SignatureRefused, "MEMPLANE_S3_REGION"),
        (refusal(404, "NoSuchBucket"), ContainerMissing, "'box' does not exist"),
        (refusal(409, "ConditionalRequestConflict"), BackendUnavailable, "409"),
        (refusal(500, "InternalError"), BackendUnavailable, "500"),
        (refusal(503, "SlowDown"), BackendUnavailable, "503"),
        (refusal(501, "NotImplemented"), BackendUnavailable, "conditional writes"),
        (answer(404, "no such page"), BackendUnavailable, "does not look like S3"),
        (answer(200, "<html>Please log in</html>"), BackendUnavailable, "no|none"),
        (answer(302, Location="https://login.invalid/"), BackendUnavailable, "look like S3"),
    ],
)
async def test_failures_are_told_apart_by_every_method(
    reply: web.Response,
    error: type[MemplaneError],
    says: str,
    stub: Stub,
    store: S3Store,
) -> None:
    stub.answers = [reply]
    for verb in VERBS.values():
        with pytest.raises(error, match=says) as raised:
            await verb(store)
        assert HIDDEN not in str(raised.value)


@pytest.mark.parametrize("reply", [refusal(412, "PreconditionFailed"), refusal(404, "NoSuchKey")])
async def test_a_lost_race_is_a_conflict(reply: web.Response, stub: Stub, store: S3Store) -> None:
    stub.answers = [reply]
    with pytest.raises(ConcurrencyError, match=r"a\.md"):
        await store.write("a.md", b"x", expect=Matches(FIRST))


@pytest.mark.parametrize("reply", [refusal(400, "EntityTooLarge"), answer(413)])
async def test_what_is_too_large_is_said(reply: web.Response, stub: Stub, store: S3Store) -> None:
    stub.answers = [reply]
    with pytest.raises(TooLarge, match=r"a\.md"):
        await store.write("a.md", b"x", expect=Matches(FIRST))


async def test_a_name_that_is_too_long_is_refused_for_good(stub: Stub, store: S3Store) -> None:
    stub.answers = [refusal(400, "KeyTooLongError")]
    with pytest.raises(RequestRefused, match="KeyTooLongError"):
        await store.write("a.md", b"x", expect=Matches(FIRST))


async def test_a_head_that_is_refused_is_asked_why(stub: Stub, store: S3Store) -> None:
    stub.answers = [answer(404), refusal(404, "NoSuchKey")]
    assert await store.stat("a.md") is None
    assert [request.method for request in stub.asked] == ["HEAD", "GET"]


async def test_content_that_was_damaged_on_the_way_is_no_content(
    stub: Stub, store: S3Store
) -> None:
    damaged = content("hello")
    damaged.text = "jello"
    stub.answers = [damaged]
    with pytest.raises(BackendUnavailable, match="checksum"):
        await store.read("a.md")
    stub.answers = [content("hello")]
    read = await store.read("a.md")
    assert read is not None
    assert (read.data, read.version, read.metadata) == (b"hello", FIRST, {"a_b": "c"})


async def test_a_read_that_was_cut_is_no_content(stub: Stub, store: S3Store) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        headers = {"ETag": FIRST, "Last-Modified": TIME, "Content-Length": "100"}
        reply = web.StreamResponse(status=200, headers=headers)
        await reply.prepare(request)
        await reply.write(b"only a part")
        assert request.transport is not None
        request.transport.abort()
        return reply

    stub.answers = [cut]
    with pytest.raises(BackendUnavailable):
        await store.read("a.md")


async def test_a_write_whose_answer_got_lost_is_recognised_as_ours(
    stub: Stub, store: S3Store
) -> None:
    async def pause(_: float) -> None:
        """Wait for nothing."""

    pacing = RetryClock(sleep=pause)
    retrying = RetryStore(store, pacing=pacing, new_write_id=lambda: "w1")
    mine = answer(200, ETag='"0x2"', Last_Modified=TIME, x_amz_meta_memplane_write="w1")
    stub.answers = [refusal(500, "InternalError"), refusal(412, "PreconditionFailed"), mine]
    assert await retrying.write("a.md", b"x", expect=Matches(FIRST)) == '"0x2"'
    theirs = answer(200, ETag='"0x2"', Last_Modified=TIME, x_amz_meta_memplane_write="w2")
    stub.answers = [refusal(500, "InternalError"), refusal(412, "PreconditionFailed"), theirs]
    with pytest.raises(ConcurrencyError):
        await retrying.write("a.md", b"x", expect=Matches(FIRST))


# Listings


@pytest.mark.parametrize(
    "reply",
    [
        page("a.md", truncated="true"),
        page("a.md", truncated="maybe"),
        answer(200, "<ListBucketResult><IsTruncated>false</IsTruncated><Contents>"),
        answer(200, "<ListBucketResult><Contents/></ListBucketResult>"),
        answer(
            200,
            "<!DOCTYPE x><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>",
        ),
        answer(200, "<html><body>hello</body></html>"),
        answer(200, ""),
    ],
)
async def test_a_listing_that_was_cut_is_no_listing(
    reply: web.Response, stub: Stub, store: S3Store
) -> None:
    stub.answers = [reply, content()]
    with pytest.raises(BackendUnavailable, match=r"nothing is known|cut off"):
        await store.listing()


async def test_a_listing_whose_second_page_fails_is_no_listing(stub: Stub, store: S3Store) -> None:
    stub.answers = [page("a.md", token="more/=="), refusal(500, "InternalError")]
    with pytest.raises(BackendUnavailable, match="500"):
        await store.listing()
    assert "continuation-token=more%2F%3D%3D&" in stub.asked[1].path


async def test_a_listing_that_repeats_a_page_ends(stub: Stub, store: S3Store) -> None:
    stub.answers = [page("a.md", token="same")]
    with pytest.raises(BackendUnavailable, match="repeats"):
        await store.listing()


async def test_names_that_were_not_asked_for_are_no_listing(stub: Stub, store: S3Store) -> None:
    stub.answers = [page("other/a.md")]
    with pytest.raises(BackendUnavailable, match="not asked for"):
        await store.listing("notes/")


async def test_hostile_names_in_a_listing_are_refused_and_the_rest_stays(
    stub: Stub, store: S3Store
) -> None:
    names = ["a%2F..%2Fx.md", "CON", "folder%2F", "good+%26+well.md", ".memplane-probe-1"]
    stub.answers = [page(*names[:2]), content()]
    listing = await store.listing()
    assert (listing.entries, listing.refused) == ((), ("CON", "a/../x.md"))
    stub.answers = [page(names[3], names[4]), content()]
    listing = await store.listing()
    assert [info.key for info in listing.entries] == ["good & well.md"]
    assert listing.refused == ()


async def test_a_listed_object_is_asked_for_its_metadata_once(stub: Stub, store: S3Store) -> None:
    stub.answers = [page("a.md"), content(), page("a.md")]
    first, second = await store.listing(), await store.listing()
    assert first == second
    assert [request.method for request in stub.asked] == ["GET", "HEAD", "GET"]
    assert first.entries[0].metadata == {"a_b": "c"}


async def test_every_page_of_a_real_service_is_read(
    bucket: str, monkeypatch: pytest.MonkeyPatch, store_of: StoreOf
) -> None:
    monkeypatch.setattr(s3_objects, "_PAGE_SIZE", 2)
    async with store_of(bucket) as store:
        for number in range(5):
            await store.write(f"{number}.md", b"x", expect=Absent())
        assert len((await store.listing()).entries) == 5


@pytest.mark.long
async def test_more_than_a_thousand_objects_are_listed(bucket: str, store_of: StoreOf) -> None:
    async with store_of(bucket) as store:
        for number in range(1003):
            await store.write(f"{number}.md", b"x", expect=Absent())
        assert len((await store.listing()).entries) == 1003


# What a service must honour


async def test_a_service_that_ignores_conditions_is_never_written_to(
    stub: Stub, certificate: Certificate
) -> None:
    async with open_s3_store(access(stub, certificate), pacing=RetryClock()) as store:
        stub.answers = [WRITTEN, answer(204)]
        for expect in (Absent(), Matches(FIRST), Anything()):
            with pytest.raises(BackendMisconfigured, match="ignores the conditions"):
                await store.write("a.md", b"x", expect=expect)
        stub.answers = [content()]
        with pytest.raises(BackendMisconfigured, match="ignores the conditions"):
            await store.append("a.md", b"x", stamp=Stamp("w", 1))
    written = {request.path for request in stub.asked if request.method == "PUT"}
    assert len(written) == 1
    assert "/box/.memplane-probe-" in written.pop()


@pytest.mark.parametrize("reply", [refusal(412, "PreconditionFailed"), refusal(404, "NoSuchKey")])
async def test_a_service_that_honours_conditions_is_tried_once(
    reply: web.Response, stub: Stub, certificate: Certificate
) -> None:
    async with open_s3_store(access(stub, certificate), pacing=RetryClock()) as store:
        stub.answers = [reply, WRITTEN]
        for _ in range(3):
            await store.write("a.md", b"x", expect=Matches(FIRST))
    assert len(stub.asked) == 4


# Deletes


async def test_a_service_without_conditional_deletes_gets_a_tombstone(
    stub: Stub, store: S3Store
) -> None:
    probe_and_delete = [WRITTEN, answer(204), answer(204)]
    stub.answers = [content(), *probe_and_delete, WRITTEN]
    assert await store.delete("a.md", expect=Matches(FIRST)) is True
    put = stub.asked[-1]
    assert (put.method, put.path) == ("PUT", "/box/a.md")
    assert put.headers["if-match"] == FIRST
    assert put.headers[f"x-amz-meta-{REMOVED_METADATA.replace('_', '-')}"] == "1"


@pytest.mark.parametrize("reply", [refusal(412, "PreconditionFailed"), answer(412)])
async def test_a_service_with_conditional_deletes_is_asked_for_one(
    reply: web.Response, stub: Stub, store: S3Store
) -> None:
    stub.answers = [content(), WRITTEN, reply, answer(204), answer(204)]
    assert await store.delete("a.md", expect=Matches(FIRST)) is True
    delete = stub.asked[-1]
    assert (delete.method, delete.headers["if-match"]) == ("DELETE", FIRST)


async def test_a_tombstone_hides_what_it_stands_for_and_gives_way_to_a_new_object(
    bucket: str, store_of: StoreOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_of(bucket) as store, store_of(bucket) as other:
        monkeypatch.setattr(store, "_has_conditional_delete", False)
        first = await store.write("a.md", b"1", expect=Absent())
        second = await other.write("a.md", b"2", expect=Matches(first))
        with pytest.raises(ConcurrencyError):
            await store.delete("a.md", expect=Matches(first))
        assert await store.delete("a.md", expect=Matches(second)) is True
        assert await other.read("a.md") is None
        assert await other.stat("a.md") is None
        assert (await other.listing()).entries == ()
        assert await other.delete("a.md", expect=Anything()) is False
        with pytest.raises(ConcurrencyError):
            await other.write("a.md", b"3", expect=Matches(second))
        await other.write("a.md", b"3", expect=Absent())
        with pytest.raises(ConcurrencyError):
            await store.write("a.md", b"4", expect=Absent())


# What is set


async def test_plain_http_is_for_loopback_only() -> None:
    key = AccessKey("k", Secret("s"))
    far = S3Access("box", key, endpoint="http://s3.example.com")
    with pytest.raises(BackendMisconfigured, match="unencrypted"):
        async with open_s3_store(far, pacing=RetryClock()):
            raise AssertionError("it was opened")


async def test_a_bucket_that_is_missing_is_said(store_of: StoreOf) -> None:
    async with store_of("no-such-bucket") as store:
        for verb in VERBS.values():
            with pytest.raises(ContainerMissing, match="'no-such-bucket' does not exist"):
                await verb(store)


async def test_two_prefixes_of_a_bucket_do_not_see_each_other(
    bucket: str, store_of: StoreOf
) -> None:
    async with store_of(bucket, "ada") as ada, store_of(bucket, "adam") as adam:
        await ada.write("a.md", b"ada", expect=Absent())
        assert (await adam.listing()).entries == ()
        with pytest.raises(InvalidKey):
            await adam.read("../ada/a.md")
        assert [info.key for info in (await ada.listing()).entries] == ["a.md"]


async def test_the_longest_lineage_fits_and_more_metadata_is_refused_before_it_is_sent(
    bucket: str, store_of: StoreOf
) -> None:
    lineage = Lineage()
    for number in range(80):
        lineage = lineage.plus(Stamp(f"{number:012x}", 1_800_000_000_000_000 + number))
    metadata = {**lineage.metadata(), "memplane_write": "0" * 12}
    async with store_of(bucket) as store:
        await store.write("a.md", b"x", expect=Absent(), metadata=metadata)
        with pytest.raises(RequestRefused, match="2,048"):
            await store.write("b.md", b"x", expect=Absent(), metadata={"a": "x" * 2048})
        assert (await store.listing()).entries[0].metadata == metadata
