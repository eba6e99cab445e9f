"""Descriptors: what is accepted, and the contract's words for what is not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.descriptor import (
    Descriptor,
    DescriptorAuth,
    MemoryEndpointPaths,
    own_descriptor,
    read_descriptor,
    write_descriptor,
)


def read(body: object) -> Descriptor:
    return read_descriptor(json.dumps(body).encode())


def test_fields_are_trimmed_and_unknown_keys_ignored() -> None:
    found = read(
        {
            "version": 2,
            "description": "  remembers ",
            "skill": " s ",
            "memory": {"recall": {"path": " /recall ", "x": 1}, "retain": {"path": "/retain"}},
            "auth": {"type": " Bearer ", "env": " MEM_TOKEN "},
            "feeds": [1, 2],
        }
    )
    assert found == Descriptor(
        2,
        "remembers",
        "s",
        MemoryEndpointPaths("/recall", "/retain", None),
        DescriptorAuth("bearer", "MEM_TOKEN"),
    )


@pytest.mark.parametrize("operation", ["recall", "retain"])
def test_one_of_recall_and_retain_is_enough(operation: str) -> None:
    found = read({"version": 2, "memory": {operation: {"path": "/x"}}})
    assert getattr(found.memory, operation) == "/x"


@pytest.mark.parametrize("kind", ["bearer", "header", "none", " NONE "])
def test_the_three_kinds_of_auth(kind: str) -> None:
    found = read({"version": 1, "auth": {"type": kind}})
    assert found.auth == DescriptorAuth(kind.strip().lower())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"version": 3}, "descriptor version must be 1 or 2, got 3"),
        ({}, "descriptor version must be 1 or 2, got 0"),
        (
            {"version": 1, "memory": {"recall": {"path": "/r"}}},
            "descriptor version 1 does not support memory",
        ),
        (
            {"version": 2, "memory": {"forget": {"path": "/f"}}},
            "memory: at least one of recall or retain must be declared",
        ),
        (
            {"version": 2, "memory": {}},
            "memory: at least one of recall or retain must be declared",
        ),
        (
            {"version": 2, "memory": {"recall": {"path": "  "}}},
            "memory.recall.path is required",
        ),
        (
            {"version": 2, "memory": {"recall": {"path": "/r"}, "forget": {}}},
            "memory.forget.path is required",
        ),
        (
            {"version": 2, "memory": {"retain": {"path": "x"}}},
            "memory.retain.path \"x\" must start with '/'",
        ),
        ({"version": 2, "auth": {"type": "digest"}}, 'auth.type "digest" is unsupported'),
        ({"version": 2, "auth": {}}, 'auth.type "" is unsupported'),
    ],
)
def test_what_is_refused_in_the_contracts_words(body: object, message: str) -> None:
    with pytest.raises(PodError) as raised:
        read(body)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":"2"}',
        b'{"version":true}',
        b"\xff",
        b"[" * 200_000,
        b'{"version":2,"memory":{"recall":"/r"}}',
        b'{"version":2' + b" " * (1 << 20) + b"}",
    ],
)
def test_what_is_no_descriptor_at_all(data: bytes) -> None:
    with pytest.raises(PodError, match=r"^parse descriptor JSON:"):
        read_descriptor(data)


def test_a_path_with_a_line_break_is_refused() -> None:
    with pytest.raises(PodError, match="control character"):
        read({"version": 2, "memory": {"recall": {"path": "/r\r\nHost: x"}}})


paths = st.none() | st.text("abc/._-", min_size=1).map(lambda text: f"/{text}")


@given(paths, paths, paths, st.sampled_from(["bearer", "header", "none"]), st.text("ABC_"))
def test_what_is_written_reads_the_same(
    recall: str | None, retain: str | None, forget: str | None, kind: str, env: str
) -> None:
    memory = MemoryEndpointPaths(recall, retain, forget) if recall or retain else None
    before = Descriptor(2, "d", "", memory, DescriptorAuth(kind, env))
    assert read_descriptor(write_descriptor(before)) == before


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail_otherwise(data: bytes) -> None:
    try:
        read_descriptor(data)
    except PodError:
        return


def test_memplane_describes_itself() -> None:
    body = json.loads(write_descriptor(own_descriptor()))
    assert body["version"] == 2
    assert body["memory"] == {
        name: {"path": f"/{name}"} for name in ("recall", "retain", "forget")
    }
    assert body["auth"] == {"type": "bearer", "env": "MEMPLANE_SERVICE_TOKEN"}
