"""What a pod left for an agent is read for each request, and only from the agent's folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memplane.auth.pod_context import parse_agent_secret
from memplane.auth.pod_files import read_pod_context


def write(root: Path, agent: str, metadata: object = None, **services: object) -> Path:
    folder = root / agent
    (folder / "service-auth").mkdir(parents=True)
    if metadata is not None:
        (folder / "metadata.json").write_text(json.dumps(metadata))
    for name, body in services.items():
        (folder / "service-auth" / f"{name}.json").write_text(json.dumps(body))
    return folder


@pytest.mark.parametrize(
    ("stored", "secret"),
    [
        ("analyst:s3cret", "s3cret"),
        ("analyst:s3:cret", "s3:cret"),
        ("Bearer analyst:s3cret", "s3cret"),
        ("bearer  analyst:s3cret ", "s3cret"),
        ("s3cret", "s3cret"),
        ("Bearer s3cret", "s3cret"),
        ("other:s3cret", None),
        ("analyst:", None),
        ("", None),
        ("Bearer ", None),
    ],
)
def test_the_forms_of_a_stored_token(stored: str, secret: str | None) -> None:
    assert parse_agent_secret(stored, "analyst") == secret


def test_an_agents_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        "analyst",
        {"service": "analyst", "pod": "desk", "token": "analyst:abc", "budget": {"x": 1}},
        history={
            "service": "cllama-history",
            "auth_type": "bearer",
            "token": "mem-history:def",
            "principal": "mem",
        },
        mem={"service": "mem", "token": "ghi", "principal": "analyst"},
    )
    context = read_pod_context(tmp_path, "analyst")
    assert context is not None
    assert context.has_secret("abc")
    assert not context.has_secret("abd")
    assert not context.has_secret("")
    found = context.service_of("mem-history:def")
    assert found is not None
    assert (found.service, found.principal) == ("cllama-history", "mem")
    assert context.service_of("ghi") is not None
    assert context.service_of("") is None


def test_files_are_read_anew_each_time(tmp_path: Path) -> None:
    folder = write(tmp_path, "a", {"token": "a:one"})
    assert read_pod_context(tmp_path, "a").has_secret("one")  # type: ignore[union-attr]
    (folder / "metadata.json").write_text('{"token":"a:two"}')
    assert read_pod_context(tmp_path, "a").has_secret("two")  # type: ignore[union-attr]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"token":1}', b"{}", b"\xff", b"[" * 99_999])
def test_broken_metadata_grants_nothing(body: bytes, tmp_path: Path) -> None:
    folder = write(tmp_path, "a")
    (folder / "metadata.json").write_bytes(body)
    context = read_pod_context(tmp_path, "a")
    assert context is not None
    assert context.secret is None
    assert not context.has_secret("")


def test_a_pipe_or_a_giant_in_their_place_grants_nothing(tmp_path: Path) -> None:
    import os

    folder = write(tmp_path, "a")
    os.mkfifo(folder / "metadata.json")
    (folder / "service-auth" / "x.json").write_bytes(b" " * (1 << 20) + b'{"token":"t"}')
    context = read_pod_context(tmp_path, "a")
    assert context is not None
    assert (context.secret, context.services) == (None, ())


@pytest.mark.parametrize("agent", ["..", "../a", "a/../a", "", ".", "a\x00", "nobody", "*"])
def test_there_is_no_context_elsewhere(agent: str, tmp_path: Path) -> None:
    write(tmp_path / "root", "a", {"token": "a:one"})
    (tmp_path / "metadata.json").write_text('{"token":"x"}')
    assert read_pod_context(tmp_path / "root", agent) is None


def test_without_a_root_there_is_none() -> None:
    assert read_pod_context(None, "a") is None
