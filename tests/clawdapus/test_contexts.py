"""What operator commands read of a compiled pod, whoever compiled it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.agent_contexts import (
    AgentContext,
    PodContexts,
    build_endpoint_url,
    complete_url,
    find_endpoint,
    find_pod_folder,
    read_contexts,
    read_pod_name,
    select_targets,
)
from memplane.integrations.clawdapus.pod.memory_manifest import (
    MemoryEndpoint,
    MemoryManifest,
    read_manifest,
)
from memplane.secret import Secret
from tests.clawdapus.test_writing import compiled, lay_out

RECALL = MemoryEndpoint("/recall")


def manifest(**changes: object) -> dict[str, object]:
    body: dict[str, object] = {
        "version": 1,
        "service": "mem",
        "base_url": "http://mem:8080",
        "recall": {"path": "/recall", "timeout_ms": 700},
        "retain": {"path": "/retain"},
    }
    return {**body, **changes}


def agent(folder: Path, name: str, memory: object = None, metadata: str = '{"pod": "p"}') -> None:
    here = folder / ".claw-runtime" / "context" / name
    here.mkdir(parents=True)
    (here / "metadata.json").write_text(metadata)
    if memory is not None:
        (here / "memory.json").write_text(json.dumps(memory))


def read(body: object) -> MemoryManifest:
    return read_manifest(json.dumps(body).encode())


def test_both_shapes_of_timeouts_are_read() -> None:
    one = read(manifest())
    assert (one.recall, one.retain) == (MemoryEndpoint("/recall", 700), MemoryEndpoint("/retain"))
    both = read(manifest(retain={"path": "/retain", "timeout_ms": 900}))
    assert both.retain == MemoryEndpoint("/retain", 900)
    assert read(manifest(recall={"path": "/r", "timeout_ms": 0})).recall == MemoryEndpoint("/r")
    assert one.forget is None


def test_one_trailing_slash_is_tolerated() -> None:
    found = read(manifest(base_url="http://mem:8080/"))
    assert found.url_of(RECALL) == "http://mem:8080/recall"


@pytest.mark.parametrize(
    ("auth", "token"),
    [
        ({"type": "Bearer", "token": "t"}, Secret("t")),
        ({"type": "bearer", "token": ""}, None),
        ({"type": "header", "token": "t"}, None),
        (None, None),
    ],
)
def test_only_a_bearers_token_is_used(auth: object, token: Secret | None) -> None:
    assert read(manifest(auth=auth)).token == token


@pytest.mark.parametrize(
    "body", [{}, [], manifest(service=""), manifest(base_url=5), manifest(recall="/recall")]
)
def test_a_manifest_that_cannot_be_used(body: object) -> None:
    with pytest.raises(PodError, match="memory manifest invalid: "):
        read(body)


def test_a_newer_manifest_is_read_with_a_warning(tmp_path: Path) -> None:
    agent(tmp_path, "a", manifest(version=3))
    found = read_contexts(tmp_path)
    assert [one.agent for one in select_targets(found, "mem")] == ["a"]
    assert found.warnings == ('agent "a": memory.json has version 3, which is read as 1',)


def test_a_compiled_pod_is_read_back(tmp_path: Path) -> None:
    compiled(lay_out(tmp_path))
    folder = find_pod_folder(tmp_path / "claw-pod.yml")
    assert folder == tmp_path
    assert read_pod_name(folder) == "team"
    found = read_contexts(folder)
    assert [one.agent for one in found.agents] == ["one", "two-0", "two-1"]
    (one,) = select_targets(found, "mem")
    assert (one.pod, one.service, one.timezone) == ("team", "one", "UTC")
    assert one.memory is not None
    assert one.memory.token == Secret("from-dotenv")
    assert find_endpoint(one, "recall") == MemoryEndpoint("/recall", 300)
    assert build_endpoint_url(found, [one], find_endpoint(one, "retain")) == "http://mem:80/retain"


def test_a_folder_that_was_not_compiled(tmp_path: Path) -> None:
    with pytest.raises(PodError, match=r"^no compose\.generated\.yml found"):
        find_pod_folder(tmp_path / "claw-pod.yml")
    with pytest.raises(PodError, match=r"pod-manifest\.json"):
        read_pod_name(tmp_path)
    with pytest.raises(PodError) as raised:
        read_contexts(tmp_path)
    root = tmp_path / ".claw-runtime" / "context"
    assert str(raised.value) == f'no generated agent context found in "{root}"'


def test_a_broken_agent_is_left_out_and_named(tmp_path: Path) -> None:
    agent(tmp_path, "good", manifest())
    agent(tmp_path, "bad", {"version": 1})
    agent(tmp_path, "worse", manifest(), metadata="{")
    agent(tmp_path, "..hidden", manifest())
    found = read_contexts(tmp_path)
    assert [one.agent for one in found.agents] == ["good"]
    assert [line.partition(":")[0] for line in found.warnings] == ['agent "bad"', 'agent "worse"']


def team(folder: Path) -> PodContexts:
    agent(folder, "b", manifest())
    agent(folder, "a", manifest(retain=None))
    agent(folder, "c", manifest(service="other"))
    agent(folder, "d")
    return read_contexts(folder)


def test_targets_are_those_who_subscribe_in_order(tmp_path: Path) -> None:
    found = team(tmp_path)
    assert [one.agent for one in select_targets(found, "mem")] == ["a", "b"]
    assert [one.agent for one in select_targets(found, "mem", ["b"])] == ["b"]


def test_the_errors_of_targets(tmp_path: Path) -> None:
    found = team(tmp_path)
    with pytest.raises(PodError) as raised:
        select_targets(found, "gone")
    assert str(raised.value) == 'no agents subscribe to memory service "gone"'
    with pytest.raises(PodError) as raised:
        select_targets(found, "mem", ["d", "b", "c"])
    assert str(raised.value) == (
        'memory service "mem" is not subscribed by agent(s) c, d. There are: a, b'
    )
    with pytest.raises(PodError) as raised:
        find_endpoint(select_targets(found, "mem", ["a"])[0], "retain")
    assert str(raised.value) == 'memory service "mem" has no retain endpoint for agent "a"'


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://h:1", "http://h:1/recall"),
        ("https://h/", "https://h/recall"),
        ("http://h/own", "http://h/own"),
        (" http://[::1]:8 ", "http://[::1]:8/recall"),
    ],
)
def test_an_address_that_was_given(url: str, wanted: str, tmp_path: Path) -> None:
    assert build_endpoint_url(PodContexts(tmp_path, ()), [], RECALL, url=url) == wanted


@pytest.mark.parametrize("url", ["", "h:1", "//h", "http://", "ftp://h", "http://[", "http://h:x"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(PodError, match="needs a scheme and a host"):
        complete_url(url, "/recall")


@pytest.mark.parametrize(
    ("ports", "address"),
    [
        ('["9090:8080"]', "127.0.0.1:9090"),
        ('["0.0.0.0:9090:8080/tcp"]', "127.0.0.1:9090"),
        ('["10.0.0.7:9090:8080"]', "10.0.0.7:9090"),
        ('["1:2", "9090:8080"]', "127.0.0.1:9090"),
        ("[{target: 8080, published: 9090, host_ip: '::'}]", "127.0.0.1:9090"),
        ("[{target: 8080, published: '9090', host_ip: '::1'}]", "[::1]:9090"),
        ('["8080"]', None),
        ("[]", None),
    ],
)
def test_the_published_port_is_asked_from_here(
    ports: str, address: str | None, tmp_path: Path
) -> None:
    found, chosen = compiled_with(tmp_path, ports)
    inside = "http://mem:8080/recall"
    wanted = f"http://{address}/recall" if address else inside
    assert build_endpoint_url(found, chosen, RECALL) == wanted
    asked = build_endpoint_url(found, chosen, RECALL, compose_port=lambda _service, _port: "h:7")
    assert asked == (wanted if address else "http://h:7/recall")


def compiled_with(folder: Path, ports: str) -> tuple[PodContexts, tuple[AgentContext, ...]]:
    (folder / "compose.generated.yml").write_text(f"services: {{mem: {{ports: {ports}}}}}")
    agent(folder, "a", manifest())
    found = read_contexts(folder)
    return found, select_targets(found, "mem")


def test_addresses_that_disagree(tmp_path: Path) -> None:
    agent(tmp_path, "a", manifest())
    agent(tmp_path, "b", manifest(base_url="http://mem:9"))
    found = read_contexts(tmp_path)
    with pytest.raises(PodError, match=r"inconsistent base URLs .*; pass --url to override"):
        build_endpoint_url(found, select_targets(found, "mem"), RECALL)
    given = build_endpoint_url(found, select_targets(found, "mem"), RECALL, url="http://h")
    assert given == "http://h/recall"
