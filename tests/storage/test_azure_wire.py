"""What goes over the wire to Azure, and what each of its answers means."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from aiohttp import web

from memplane.errors import (
    BackendMisconfigured,
    BackendUnavailable,
    ConcurrencyError,
    ContainerMissing,
    MemplaneError,
    PermissionDenied,
    RequestRefused,
    SignatureRefused,
    TokenExpiredError,
    TooLarge,
)
from memplane.kit.retry_clock import RetryClock
from memplane.secret import Secret
from memplane.storage.azure import AzureStore, open_azure_store
from memplane.storage.azure_access import WithConnectionString, WithSas, WithTokens, parse_address
from memplane.storage.retry import RetryStore
from memplane.storage.store import Absent, Anything, Matches, Version
from tests.support.azurite import ACCOUNT, KEY, Azurite, Certificate
from tests.support.stub import Stub, azure, refusal, running_stub

TIME = format_datetime(datetime(2026, 3, 1, tzinfo=UTC), usegmt=True)
CREATED = azure(201, ETag='"0x1"', Last_Modified=TIME)
EMPTY_LISTING = azure(
    200,
    "<?xml version='1.0'?><EnumerationResults ServiceEndpoint='https://x/'><Blobs/><NextMarker/></EnumerationResults>",
    Content_Type="application/xml",
)


def found(body: str = "hello") -> web.Response:
    digest = base64.b64encode(hashlib.md5(body.encode(), usedforsecurity=False).digest())
    return azure(
        200, body, ETag='"0x1"', Last_Modified=TIME, Content_MD5=digest.decode(), x_ms_meta_a="b"
    )


class Tokens:
    """Counts what it hands out."""

    max_refreshes = 1

    def __init__(self) -> None:
        self.number = 1
        self.handed_out: list[str] = []

    async def token(self) -> str:
        self.handed_out.append(f"token{self.number}")
        return self.handed_out[-1]

    def refused(self, token: str) -> None:
        assert token == f"token{self.number}"
        self.number += 1


@pytest.fixture
async def stub(certificate: Certificate) -> AsyncIterator[Stub]:
    async with running_stub(certificate) as running:
        yield running


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
async def store(stub: Stub, tokens: Tokens, certificate: Certificate) -> AsyncIterator[AzureStore]:
    access = WithTokens(stub.endpoint, "box", tokens, certificate.authority)
    async with open_azure_store(access, pacing=RetryClock()) as opened:
        yield opened


VERBS: dict[str, Callable[[AzureStore], Awaitable[object]]] = {
    "read": lambda store: store.read("a.md"),
    "stat": lambda store: store.stat("a.md"),
    "update": lambda store: store.write("a.md", b"x", expect=Matches(Version('"0x1"'))),
    "create": lambda store: store.write("a.md", b"x", expect=Absent()),
    "delete": lambda store: store.delete("a.md", expect=Anything()),
    "listing": lambda store: store.listing(),
}


async def test_a_put_carries_what_the_service_and_we_need(stub: Stub, store: AzureStore) -> None:
    stub.answers = [CREATED]
    version = await store.write(
        "notes/a b&c#d?.md",
        b"# hi",
        expect=Matches(Version('"0x9"')),
        metadata={"memplane_write": "w1"},
    )
    (put,) = stub.asked
    assert version == '"0x1"'
    assert put.method == "PUT"
    assert put.path in {"/box/notes/a%20b%26c%23d%3F.md", "/box/notes/a%20b&c%23d%3F.md"}
    assert put.headers["authorization"] == "Bearer token1"
    assert put.headers["x-ms-version"] == "2021-08-06"
    assert put.headers["x-ms-client-request-id"]
    assert put.headers["x-ms-blob-type"] == "BlockBlob"
    assert put.headers["if-match"] == '"0x9"'
    assert put.headers["x-ms-meta-memplane_write"] == "w1"
    assert put.headers["x-ms-blob-content-type"] == "text/markdown; charset=utf-8"
    digest = base64.b64encode(hashlib.md5(b"# hi", usedforsecurity=False).digest()).decode()
    assert put.headers["content-md5"] == digest
    assert put.body == b"# hi"


async def test_a_create_asks_that_nothing_is_there(stub: Stub, store: AzureStore) -> None:
    stub.answers = [EMPTY_LISTING, CREATED]
    await store.write("a.md", b"x", expect=Absent())
    assert stub.asked[-1].headers["if-none-match"] == "*"


async def test_a_blob_without_a_version_is_not_taken_for_written(
    stub: Stub, store: AzureStore
) -> None:
    stub.answers = [azure(201)]
    with pytest.raises(BackendUnavailable, match="no ETag"):
        await store.write("a.md", b"x", expect=Matches(Version('"0x1"')))


@pytest.mark.parametrize("status", [200, 202, 206])
async def test_only_the_answer_that_says_so_means_written(
    status: int, stub: Stub, store: AzureStore
) -> None:
    stub.answers = [azure(status, ETag='"0x1"', Last_Modified=TIME)]
    with pytest.raises(BackendUnavailable, match=str(status)):
        await store.write("a.md", b"x", expect=Matches(Version('"0x1"')))


async def test_existence_is_asked_without_the_content(stub: Stub, store: AzureStore) -> None:
    stub.answers = [azure(404, x_ms_error_code="BlobNotFound")]
    assert await store.stat("a.md") is None
    assert [one.method for one in stub.asked] == ["HEAD"]


@pytest.mark.parametrize("verb", VERBS)
async def test_a_refused_token_is_replaced_once_for_every_verb(
    verb: str, stub: Stub, store: AzureStore, tokens: Tokens
) -> None:
    ok: dict[str, list[web.Response]] = {
        "read": [found()],
        "stat": [azure(200, ETag='"0x1"', Last_Modified=TIME)],
        "update": [CREATED],
        "create": [EMPTY_LISTING, CREATED],
        "delete": [azure(202)],
        "listing": [EMPTY_LISTING],
    }
    stub.answers = [refusal(401, "InvalidAuthenticationInfo"), *ok[verb]]
    await VERBS[verb](store)
    assert stub.asked[0].headers["authorization"] == "Bearer token1"
    assert {one.headers["authorization"] for one in stub.asked[1:]} == {"Bearer token2"}
    assert stub.asked[0].body == stub.asked[1].body


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "answer", [refusal(401, "InvalidAuthenticationInfo"), refusal(403, "AuthenticationFailed")]
)
async def test_a_token_refused_twice_is_said(
    verb: str, answer: web.Response, stub: Stub, store: AzureStore
) -> None:
    stub.answers = [answer]
    with pytest.raises(TokenExpiredError):
        await VERBS[verb](store)
    assert len(stub.asked) == 2


async def test_tokens_that_come_in_hops_are_refreshed_twice_and_no_more(
    stub: Stub, store: AzureStore, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "max_refreshes", 2)
    refused = refusal(401, "InvalidAuthenticationInfo")
    stub.answers = [refused, refused, found()]
    assert await store.read("a.md") is not None
    assert tokens.handed_out == ["token1", "token2", "token3"]
    stub.answers = [refused]
    with pytest.raises(TokenExpiredError):
        await store.read("a.md")
    assert len(tokens.handed_out) == 6


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (refusal(403, "AuthorizationPermissionMismatch"), PermissionDenied, "not propagated yet"),
        (refusal(404, "ContainerNotFound"), ContainerMissing, "container does not exist"),
        (refusal(404, "ResourceNotFound"), BackendUnavailable, "404"),
        (refusal(500, "InternalError"), BackendUnavailable, "500"),
        (refusal(503, "ServerBusy"), BackendUnavailable, "503"),
        (refusal(429, "TooManyRequests"), BackendUnavailable, "429"),
        (refusal(409, "BlobImmutable"), BackendUnavailable, "409"),
        (
            web.Response(text="<html>Please log in</html>", content_type="text/html"),
            BackendUnavailable,
            "not from Azure",
        ),
        (web.Response(status=404, text="no such page"), BackendUnavailable, "not from Azure"),
        (web.Response(status=503, text="proxy"), BackendUnavailable, "not from Azure"),
        (
            web.Response(status=302, headers={"Location": "https://login.invalid/"}),
            BackendUnavailable,
            "not from Azure",
        ),
    ],
    ids=lambda value: str(getattr(value, "status", "")) or None,
)
async def test_failures_are_told_apart(
    verb: str,
    answer: web.Response,
    error: type[MemplaneError],
    says: str,
    stub: Stub,
    store: AzureStore,
) -> None:
    stub.answers = [answer]
    with pytest.raises(error, match=says):
        await VERBS[verb](store)


@pytest.mark.parametrize(
    "answer", [refusal(412, "ConditionNotMet"), refusal(409, "BlobAlreadyExists")]
)
async def test_a_lost_race_is_a_conflict(
    answer: web.Response, stub: Stub, store: AzureStore
) -> None:
    stub.answers = [answer]
    with pytest.raises(ConcurrencyError, match=r"a\.md"):
        await store.write("a.md", b"x", expect=Matches(Version('"0x1"')))


async def test_a_body_azure_does_not_take_is_too_large(stub: Stub, store: AzureStore) -> None:
    stub.answers = [refusal(413, "RequestBodyTooLarge")]
    with pytest.raises(TooLarge, match=r"a\.md"):
        await store.write("a.md", b"x", expect=Matches(Version('"0x1"')))


@pytest.mark.parametrize(
    "body",
    [
        "<?xml version='1.0'?><EnumerationResults ServiceEndpoint='https://x/'><Blobs><Blob><Name>a.md</Name>",
        "",
        "not xml",
        "<html><body>hello</body></html>",
    ],
)
async def test_a_listing_that_was_cut_is_no_listing(
    body: str, stub: Stub, store: AzureStore
) -> None:
    stub.answers = [azure(200, body, Content_Type="application/xml")]
    with pytest.raises(BackendUnavailable):
        await store.listing()


async def test_a_listing_whose_second_page_fails_is_no_listing(
    stub: Stub, store: AzureStore
) -> None:
    first = azure(
        200,
        "<?xml version='1.0'?><EnumerationResults ServiceEndpoint='https://x/'><Blobs><Blob><Name>a.md</Name><Properties>"
        f"<Last-Modified>{TIME}</Last-Modified><Etag>0x1</Etag><BlobType>BlockBlob</BlobType><Content-Length>1</Content-Length>"
        "</Properties></Blob></Blobs><NextMarker>more</NextMarker></EnumerationResults>",
        Content_Type="application/xml",
    )
    stub.answers = [first, refusal(500, "InternalError")]
    with pytest.raises(BackendUnavailable, match="500"):
        await store.listing()
    assert "marker=more" in stub.asked[1].query


async def test_an_answer_cut_in_the_middle_is_no_content(stub: Stub, store: AzureStore) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        headers = {"x-ms-request-id": "1", "ETag": '"0x1"', "Last-Modified": TIME}
        reply = web.StreamResponse(status=200, headers={**headers, "Content-Length": "100"})
        await reply.prepare(request)
        await reply.write(b"only a part")
        assert request.transport is not None
        request.transport.abort()
        return reply

    stub.answers = [cut]
    with pytest.raises(BackendUnavailable):
        await store.read("a.md")


async def test_content_that_was_damaged_on_the_way_is_no_content(
    stub: Stub, store: AzureStore
) -> None:
    answer = found("hello")
    answer.text = "jello"
    stub.answers = [answer]
    with pytest.raises(BackendUnavailable, match="checksum"):
        await store.read("a.md")


async def test_a_read_carries_what_the_service_and_we_need(stub: Stub, store: AzureStore) -> None:
    stub.answers = [found("hello")]
    read = await store.read("notes/a b&c#d?.md")
    (get,) = stub.asked
    assert get.path in {"/box/notes/a%20b%26c%23d%3F.md", "/box/notes/a%20b&c%23d%3F.md"}
    assert get.headers["authorization"] == "Bearer token1"
    assert get.headers["x-ms-version"] == "2021-08-06"
    assert get.headers["x-ms-client-request-id"]
    assert read is not None
    assert (read.data, read.version, read.metadata) == (b"hello", '"0x1"', {"a": "b"})
    assert read.modified == datetime(2026, 3, 1, tzinfo=UTC)


async def test_nobody_listening_is_unavailable(certificate: Certificate) -> None:
    access = WithTokens("https://127.0.0.1:9", "box", Tokens(), certificate.authority)
    async with open_azure_store(access, pacing=RetryClock()) as store:
        with pytest.raises(BackendUnavailable, match=r"a\.md"):
            await store.read("a.md")


async def test_an_unknown_authority_is_unavailable_and_gets_no_token(
    stub: Stub, tokens: Tokens
) -> None:
    stub.answers = [found()]
    async with open_azure_store(
        WithTokens(stub.endpoint, "box", tokens), pacing=RetryClock()
    ) as store:
        with pytest.raises(BackendUnavailable):
            await store.read("a.md")
    assert stub.asked == []


async def test_the_pause_the_service_asks_for_is_kept(
    stub: Stub, store: AzureStore, tokens: Tokens
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    pacing = RetryClock(sleep=sleep)
    retrying = RetryStore(store, pacing=pacing, new_write_id=lambda: "w")
    busy = azure(429, x_ms_error_code="TooManyRequests", Retry_After="7")
    stub.answers = [busy, refusal(503, "ServerBusy"), found()]
    read = await retrying.read("a.md")
    assert read is not None
    assert read.data == b"hello"
    assert pauses[0] == 7
    assert 0 < pauses[1] < 1


async def test_a_listing_goes_on_from_page_to_page(stub: Stub, store: AzureStore) -> None:
    def page(name: str, marker: str) -> web.Response:
        blob = (
            f"<Blob><Name>{name}</Name><Properties><Last-Modified>{TIME}</Last-Modified>"
            "<Etag>0x1</Etag><BlobType>BlockBlob</BlobType><Content-Length>1</Content-Length>"
            "</Properties></Blob>"
        )
        body = (
            f"<EnumerationResults ServiceEndpoint='https://x/'><Blobs>{blob}</Blobs>"
            f"<NextMarker>{marker}</NextMarker></EnumerationResults>"
        )
        return azure(200, body, Content_Type="application/xml")

    stub.answers = [page("a.md", "second"), page("b.md", "third"), page("c.md", "")]
    listing = await store.listing()
    assert [one.key for one in listing.entries] == ["a.md", "b.md", "c.md"]
    assert ["marker=" in one.query for one in stub.asked] == [False, True, True]


async def test_hostile_names_in_a_listing_are_refused_and_the_rest_stays(
    stub: Stub, store: AzureStore, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["claude_memory/../x.md", "/etc/passwd", "CON", "a\\b.md", "good &amp; well.md"]
    blobs = "".join(
        f"<Blob><Name>{name}</Name><Properties><Last-Modified>{TIME}</Last-Modified>"
        "<Etag>0x1</Etag><BlobType>BlockBlob</BlobType><Content-Length>1</Content-Length></Properties></Blob>"
        for name in names
    )
    body = (
        f"<EnumerationResults ServiceEndpoint='https://x/'><Blobs>{blobs}</Blobs><NextMarker/>"
        "</EnumerationResults>"
    )
    stub.answers = [azure(200, body, Content_Type="application/xml")]
    listing = await store.listing()
    assert [one.key for one in listing.entries] == ["good & well.md"]
    assert listing.refused == ("/etc/passwd", "CON", "a\\b.md", "claude_memory/../x.md")
    assert "cannot be keys" in caplog.text


async def test_a_page_is_at_most_five_thousand(stub: Stub, store: AzureStore) -> None:
    stub.answers = [EMPTY_LISTING]
    await store.listing("notes/")
    assert "maxresults=5000" in stub.asked[0].query
    assert "prefix=notes" in stub.asked[0].query


@pytest.mark.parametrize(
    "access",
    [
        WithConnectionString(Secret("AccountKey=hunter2=="), "box"),
        WithConnectionString(Secret("rubbish-hunter2"), "box"),
    ],
)
async def test_an_unusable_connection_string_is_named_and_not_shown(
    access: WithConnectionString,
) -> None:
    with pytest.raises(BackendMisconfigured) as refused:
        async with open_azure_store(access, pacing=RetryClock()):
            pass
    assert "hunter2" not in str(refused.value)
    assert "ConnectionString" in str(refused.value)


async def test_memories_are_not_sent_unencrypted() -> None:
    for access in (
        WithSas(Secret("http://account.blob.example/box?sig=s3cret")),
        WithTokens("http://account.blob.example", "box", Tokens()),
    ):
        with pytest.raises(BackendMisconfigured, match="https") as refused:
            async with open_azure_store(access, pacing=RetryClock()):
                pass
        assert "s3cret" not in str(refused.value)


async def test_a_token_is_not_sent_over_http_even_on_loopback(azurite: Azurite) -> None:
    access = WithTokens(azurite.endpoint, "box", Tokens())
    with pytest.raises(BackendMisconfigured, match="only sent over https"):
        async with open_azure_store(access, pacing=RetryClock()):
            pass


async def test_an_expired_token_is_refused_by_the_emulator(
    secure_azurite: Azurite, container: str
) -> None:
    from memplane.storage.token_sources import FixedTokenSource
    from tests.support.azurite import storage_token

    expired = FixedTokenSource(Secret(storage_token(lifetime=-5)))
    access = WithTokens(secure_azurite.endpoint, container, expired, secure_azurite.ca_file)
    async with open_azure_store(access, pacing=RetryClock()) as store:
        with pytest.raises(TokenExpiredError):
            await store.read("a.md")


async def test_what_is_long_arrives_whole(azurite: Azurite, container: str) -> None:
    long = bytes(range(256)) * (70 << 12)
    access = WithConnectionString(Secret(azurite.connection_string), container)
    async with open_azure_store(access, pacing=RetryClock()) as store:
        await store.write("long.bin", long, expect=Absent())
        read = await store.read("long.bin")
        assert read is not None
        assert read.data == long


async def test_a_signed_url_opens_its_container(azurite: Azurite, container: str) -> None:
    from datetime import timedelta

    from azure.storage.blob import ContainerSasPermissions, generate_container_sas

    async with open_azure_store(
        WithConnectionString(Secret(azurite.connection_string), container), pacing=RetryClock()
    ) as creator:
        await creator.listing()
    signature = generate_container_sas(
        ACCOUNT,
        container,
        account_key=KEY,
        permission=ContainerSasPermissions(read=True, write=True, delete=True, list=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    url = f"{azurite.endpoint}/{container}?{signature}"
    async with open_azure_store(WithSas(Secret(url)), pacing=RetryClock()) as store:
        version = await store.write("a.md", b"x", expect=Absent())
        with pytest.raises(ConcurrencyError):
            await store.write("a.md", b"y", expect=Absent())
        assert await store.delete("a.md", expect=Matches(version))


# Keys and signatures that are refused.

OTHER_KEY = base64.b64encode(b"the key of another account").decode()


async def test_a_wrong_account_key_is_called_that(azurite: Azurite, container: str) -> None:
    wrong = azurite.connection_string.replace(KEY, OTHER_KEY)
    access = WithConnectionString(Secret(wrong), container)
    async with open_azure_store(access, pacing=RetryClock()) as store:
        for verb in VERBS.values():
            with pytest.raises(SignatureRefused, match="wrong account key") as refused:
                await verb(store)
            said = str(refused.value)
            assert "MEMPLANE_BLOB_CONNECTION_STRING" in said, "which key"
            assert f"account {ACCOUNT!r}" in said, "of which account"
            assert "Copy the connection string again" in said, "what to do"
            assert OTHER_KEY not in said


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("credential", "answer", "says"),
    [
        ("key", refusal(403, "AuthenticationFailed"), "wrong account key"),
        ("key", refusal(401, "InvalidAuthenticationInfo"), "wrong account key"),
        ("key", refusal(403, "KeyBasedAuthenticationNotPermitted"), "allows no account keys"),
        ("SAS", refusal(403, "AuthenticationFailed"), "signature in the address"),
    ],
)
async def test_the_credential_that_azure_refused_is_named(
    verb: str,
    credential: str,
    answer: web.Response,
    says: str,
    stub: Stub,
    certificate: Certificate,
) -> None:
    text = f"AccountName=shop;AccountKey={OTHER_KEY};BlobEndpoint={stub.endpoint}"
    access = (
        WithConnectionString(Secret(text), "box", certificate.authority)
        if credential == "key"
        else WithSas(Secret(f"{stub.endpoint}/box?sig=abc"), certificate.authority)
    )
    stub.answers = [answer]
    async with open_azure_store(access, pacing=RetryClock()) as store:
        with pytest.raises(SignatureRefused, match=says) as refused:
            await VERBS[verb](store)
    assert "token" not in str(refused.value) or says == "allows no account keys"


async def test_what_a_signature_does_not_allow_is_no_wrong_key(
    stub: Stub, certificate: Certificate
) -> None:
    access = WithSas(Secret(f"{stub.endpoint}/box?sig=abc"), certificate.authority)
    stub.answers = [refusal(403, "AuthorizationPermissionMismatch")]
    async with open_azure_store(access, pacing=RetryClock()) as store:
        with pytest.raises(PermissionDenied, match="does not allow it"):
            await store.read("a.md")


def test_a_key_that_is_not_in_base64_is_called_that() -> None:
    text = "AccountName=shop;AccountKey=not base64;BlobEndpoint=https://127.0.0.1"
    with pytest.raises(BackendMisconfigured, match=r"wrong account key.*'shop'") as refused:
        parse_address(WithConnectionString(Secret(text), "box"))
    assert "not base64;" not in str(refused.value)


async def test_a_missing_container_is_only_created_with_a_connection_string(
    secure_azurite: Azurite, container: str
) -> None:
    from memplane.service.composition.storage import _access

    by_token = _access(secure_azurite.by_token(container))
    async with open_azure_store(by_token, pacing=RetryClock()) as store:
        for verb in VERBS.values():
            with pytest.raises(ContainerMissing):
                await verb(store)


@pytest.mark.long
async def test_twelve_thousand_objects_are_listed_over_three_pages(
    azurite: Azurite, container: str
) -> None:
    access = WithConnectionString(Secret(azurite.connection_string), container)
    async with open_azure_store(access, pacing=RetryClock()) as store:
        await store.listing()
        places = asyncio.Semaphore(32)

        async def put(number: int) -> None:
            async with places:
                await store.write(f"n/{number:05d}.md", b"x", expect=Anything())

        await asyncio.gather(*(put(number) for number in range(12_001)))
        listing = await store.listing()
    assert [one.key for one in listing.entries] == [f"n/{n:05d}.md" for n in range(12_001)]


async def test_a_signature_never_gets_into_an_error(
    certificate: Certificate, stub: Stub, caplog: pytest.LogCaptureFixture
) -> None:
    async def garbage(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(b"GARBAGE from a portal\r\n\r\n")
        request.transport.close()
        return web.Response()

    stub.answers = [garbage]
    url = Secret(f"{stub.endpoint}/box?sv=1&sig=TOPSECRETSIGNATURE")
    async with open_azure_store(WithSas(url, certificate.authority), pacing=RetryClock()) as store:
        for verb in VERBS.values():
            with pytest.raises(BackendUnavailable) as refused:
                await verb(store)
            shown = "".join(traceback.format_exception(refused.value))
            assert "TOPSECRET" not in shown
    unusable = WithSas(Secret("https://?sig=" + url.reveal()[-18:]))
    with pytest.raises(BackendMisconfigured) as misconfigured:
        async with open_azure_store(unusable, pacing=RetryClock()):
            pass
    assert "TOPSECRET" not in "".join(traceback.format_exception(misconfigured.value))
    assert "TOPSECRET" not in caplog.text


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(400, "Md5Mismatch"), BackendUnavailable),
        (refusal(400, "InvalidMetadata"), RequestRefused),
        (refusal(409, "ContainerBeingDeleted"), ContainerMissing),
    ],
)
async def test_what_may_pass_is_told_from_what_never_will(
    answer: web.Response, error: type[MemplaneError], stub: Stub, store: AzureStore
) -> None:
    stub.answers = [answer]
    with pytest.raises(error):
        await store.write("a.md", b"x", expect=Matches(Version('"0x1"')))


async def test_a_listing_defines_no_entities(stub: Stub, store: AzureStore) -> None:
    body = (
        "<?xml version='1.0' encoding='utf-16'?><!DOCTYPE x [<!ENTITY e 'a.md'>]>"
        "<EnumerationResults ServiceEndpoint='https://x/'><Blobs/><NextMarker/>"
        "</EnumerationResults>"
    )
    for encoded in (body.replace("utf-16", "utf-8").encode(), body.encode("utf-16")):
        answer = azure(200, Content_Type="application/xml")
        answer.body = encoded
        stub.answers = [answer]
        with pytest.raises(BackendUnavailable):
            await store.listing()
