"""Signatures are those that botocore makes of the same request; addresses are read as set."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from memplane.errors import BackendMisconfigured
from memplane.secret import Secret
from memplane.storage.s3_access import S3Access, parse_bucket_address
from memplane.storage.s3_signature import (
    AccessKey,
    UnsignedRequest,
    encode_path,
    encode_query,
    sign_request,
)

AT = datetime(2026, 3, 1, 9, 30, 15, tzinfo=UTC)
KEY = AccessKey("AKIAEXAMPLE", Secret("s3cr3t/with+signs="))
TEMPORARY = AccessKey("ASIAEXAMPLE", Secret("s3cr3t"), Secret("session//token=="))


def sign_with_botocore(request: UnsignedRequest, key: AccessKey, region: str) -> str:
    query = f"?{request.query}" if request.query else ""
    theirs = AWSRequest(
        request.method,
        f"https://{request.host}{request.path}{query}",
        headers={**request.headers, "Host": request.host},
        data=request.body or b"",
    )
    token = key.session_token.reveal() or None
    auth: Any = S3SigV4Auth(Credentials(key.id, key.secret.reveal(), token), "s3", region)
    theirs.context["timestamp"] = AT.strftime("%Y%m%dT%H%M%SZ")
    theirs.context["payload_signing_enabled"] = True
    auth._modify_request_before_signing(theirs)
    canonical = auth.canonical_request(theirs)
    signature = auth.signature(auth.string_to_sign(theirs, canonical), theirs)
    auth._inject_signature_to_request(theirs, signature)
    return str(theirs.headers["Authorization"])


@pytest.mark.parametrize(
    "request_",
    [
        UnsignedRequest("GET", "s3.eu-west-1.amazonaws.com", "/box/a.md", "", {}),
        UnsignedRequest(
            "PUT",
            "127.0.0.1:9000",
            encode_path("/box/notes/a b&c#d?+%~=(é)!*'.md"),
            "",
            {"If-None-Match": "*", "x-amz-meta-sha256": "a  b", "Content-Type": "text/plain"},
            b"hello",
        ),
        UnsignedRequest("DELETE", "box.example.com", "/a.md", "", {"If-Match": '"0x1"'}),
        UnsignedRequest(
            "GET",
            "example.com",
            "/box",
            encode_query({"prefix": "a b/é+", "list-type": "2", "continuation-token": "x/y=="}),
            {},
        ),
    ],
    ids=["get", "put", "delete", "list"],
)
@pytest.mark.parametrize("key", [KEY, TEMPORARY], ids=["key", "temporary"])
def test_a_signature_is_the_one_that_botocore_makes(
    request_: UnsignedRequest, key: AccessKey
) -> None:
    ours = sign_request(request_, key, "eu-west-1", AT)
    assert ours["Authorization"] == sign_with_botocore(request_, key, "eu-west-1")


def test_a_signature_covers_the_condition_and_the_content() -> None:
    put = UnsignedRequest("PUT", "example.com", "/box/a", "", {"If-Match": '"1"'}, b"one")
    other_condition = UnsignedRequest(
        "PUT", "example.com", "/box/a", "", {"If-Match": '"2"'}, b"one"
    )
    other_body = UnsignedRequest("PUT", "example.com", "/box/a", "", {"If-Match": '"1"'}, b"two")
    signatures = {
        sign_request(one, KEY, "us-east-1", AT)["Authorization"]
        for one in (put, other_condition, other_body)
    }
    assert len(signatures) == 3


@pytest.mark.parametrize(
    ("access", "address"),
    [
        (S3Access("box", KEY), "https://s3.us-east-1.amazonaws.com/box"),
        (S3Access("box", KEY, region="eu-west-1"), "https://s3.eu-west-1.amazonaws.com/box"),
        (S3Access("box", KEY, path_style=False), "https://box.s3.us-east-1.amazonaws.com"),
        (S3Access("box", KEY, endpoint="s3.example.com/"), "https://s3.example.com/box"),
        (S3Access("box", KEY, endpoint="https://Example.com:443"), "https://example.com/box"),
        (S3Access("box", KEY, endpoint="http://[::1]:9000"), "http://[::1]:9000/box"),
        (S3Access("box", KEY, endpoint="https://h.example/s3"), "https://h.example/s3/box"),
    ],
)
def test_an_address_is_read_as_it_is_set(access: S3Access, address: str) -> None:
    parsed = parse_bucket_address(access)
    assert parsed.base + parsed.path == address
    assert parsed.base.partition("://")[2] == parsed.host


@pytest.mark.parametrize(
    "endpoint",
    ["ftp://example.com", "https://", "https://u:hunter2@example.com", "https://e.com:port"],
)
def test_an_endpoint_that_is_none_is_refused_and_not_repeated(endpoint: str) -> None:
    with pytest.raises(BackendMisconfigured, match="MEMPLANE_S3_ENDPOINT") as refused:
        parse_bucket_address(S3Access("box", KEY, endpoint=endpoint))
    assert "hunter2" not in str(refused.value)
