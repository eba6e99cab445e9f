"""What a pod becomes: manifests, tokens, Docker Compose."""

from __future__ import annotations

import json
import re

import pytest

from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.descriptor import (
    Descriptor,
    DescriptorAuth,
    MemoryEndpointPaths,
)
from tests.clawdapus.pods import (
    ALL,
    DESK,
    GUARDED,
    OPEN_MEMORY,
    agent_pod,
    compose_of,
    json_of,
    planned,
    pod,
    text_of,
)

SUBSCRIBED = "{cllama: x, memory: {service: mem, timeout-ms: 5000}}"
CONTEXT = ".claw-runtime/context"


def test_the_manifest_as_the_contract_shows_it() -> None:
    text = DESK.replace("desk:1\n", "desk:1\n    environment: {MEM_TOKEN: s3}\n")
    plan = planned(pod(text), {"mem-svc": GUARDED})
    wanted = {
        "version": 1,
        "service": "mem-svc",
        "base_url": "http://mem-svc:8080",
        "recall": {"path": "/recall", "timeout_ms": 5000},
        "retain": {"path": "/retain", "timeout_ms": 5000},
        "forget": {"path": "/forget", "timeout_ms": 5000},
        "auth": {"type": "bearer", "token": "s3"},
    }
    text = text_of(plan, f"{CONTEXT}/analyst/memory.json")
    assert text == json.dumps(wanted, indent=2) + "\n"


def test_the_default_timeout_stands_at_recall_alone() -> None:
    plan = planned(agent_pod("{cllama: x, memory: {service: mem}}"))
    manifest = json_of(plan, "a", "memory.json")
    assert manifest["recall"] == {"path": "/recall", "timeout_ms": 300}
    assert manifest["retain"] == {"path": "/retain"}
    assert manifest["forget"] == {"path": "/forget"}
    assert "auth" not in manifest


def test_an_operation_that_is_not_offered_is_left_out() -> None:
    plan = planned(
        agent_pod(SUBSCRIBED), {"mem": Descriptor(2, memory=MemoryEndpointPaths(retain="/in"))}
    )
    assert list(json_of(plan, "a", "memory.json")) == ["version", "service", "base_url", "retain"]
    assert "Active: retain." in text_of(plan, f"{CONTEXT}/a/CLAWDAPUS.md")


@pytest.mark.parametrize(
    ("lines", "port"),
    [
        ("{expose: ['8080'], ports: ['1:2']}", 8080),
        ("{expose: [9000]}", 9000),
        ("{expose: [], ports: ['8080:80']}", 80),
        ("{ports: ['8080:81']}", 81),
        ("{ports: ['127.0.0.1:8080:82/tcp']}", 82),
        ("{ports: [{target: 83, published: 8080}]}", 83),
        ("{ports: [8080:22]}", 22),
        ("{ports: ['8080:${PORT:-84}']}", 84),
        ("{image: m}", 80),
    ],
)
def test_the_port_that_is_chosen(lines: str, port: int) -> None:
    plan = planned(pod(f"services: {{a: {{x-claw: {SUBSCRIBED}}}, mem: {lines}}}"))
    assert json_of(plan, "a", "memory.json")["base_url"] == f"http://mem:{port}"


VARIABLE = "    environment: {MEM_TOKEN: '${FROM_ENV}'}\n"


def test_the_token_is_that_of_the_agents_variable() -> None:
    plan = planned(
        agent_pod(SUBSCRIBED, more=VARIABLE), {"mem": GUARDED}, environment={"FROM_ENV": "second"}
    )
    assert json_of(plan, "a", "memory.json")["auth"] == {"type": "bearer", "token": "second"}
    tokens = [one.path for one in plan.files if "/service-auth/" in one.path]
    assert tokens == [f"{CONTEXT}/a/service-auth/cllama-history.json"]


@pytest.mark.parametrize(
    "auth",
    [
        None,
        DescriptorAuth("header", "MEM_TOKEN"),
        DescriptorAuth("none", "MEM_TOKEN"),
        DescriptorAuth("bearer"),
    ],
)
def test_otherwise_there_is_none(auth: DescriptorAuth | None) -> None:
    plan = planned(
        agent_pod(SUBSCRIBED, more=VARIABLE),
        {"mem": Descriptor(2, memory=ALL, auth=auth)},
        environment={"FROM_ENV": "second"},
    )
    assert "auth" not in json_of(plan, "a", "memory.json")


@pytest.mark.parametrize("more", ["", VARIABLE, "    environment: [MEM_TOKEN]\n"])
def test_a_token_without_a_value_is_an_error(more: str) -> None:
    with pytest.raises(PodError) as raised:
        planned(agent_pod(SUBSCRIBED, more=more), {"mem": GUARDED})
    assert str(raised.value).endswith(
        'feed auth: service env has no value for "MEM_TOKEN" '
        "(required by descriptor auth.env for bearer auth)"
    )


def test_a_variable_without_a_value_is_that_of_whoever_compiles() -> None:
    given = agent_pod(SUBSCRIBED, more="    environment: [MEM_TOKEN]\n")
    plan = planned(given, {"mem": GUARDED}, environment={"MEM_TOKEN": "mine"})
    assert json_of(plan, "a", "memory.json")["auth"]["token"] == "mine"


@pytest.mark.parametrize(
    ("descriptors", "message"),
    [
        ({}, 'service "a": memory target "mem" has no descriptor'),
        (
            {"mem": Descriptor(2)},
            'service "a": memory target "mem" does not declare a memory capability',
        ),
    ],
)
def test_a_target_that_is_no_memory(descriptors: dict[str, Descriptor], message: str) -> None:
    with pytest.raises(PodError) as raised:
        planned(agent_pod(SUBSCRIBED), descriptors)
    assert str(raised.value) == message


def test_a_target_that_is_not_there() -> None:
    with pytest.raises(PodError, match='targets unknown service "gone"'):
        planned(agent_pod("{cllama: x, memory: {service: gone}}"))


def test_a_target_that_is_there_several_times_has_no_history_of_its_own() -> None:
    text = f"services: {{a: {{x-claw: {SUBSCRIBED}}}, mem: {{x-claw: {{count: 2}}}}}}"
    with pytest.raises(PodError) as raised:
        planned(pod(text))
    assert str(raised.value) == 'history replay target "mem" not found in pod services'


TEAM = """
x-claw: {pod: team, memory-defaults: {service: mem}, cllama-defaults: {proxy: x}}
services:
  b: {image: i, x-claw: {count: 2}}
  a: {image: i, environment: [TZ=Europe/Berlin], x-claw: {}}
  c: {image: i, x-claw: {memory: null}}
  other: {image: i, x-claw: {memory: {service: archive}}}
  mem: {image: m, environment: {KEPT: 1, CLAW_HISTORY_TOKEN: forged}}
  archive: {image: m}
"""


def test_replay_tokens_and_what_the_services_are_told() -> None:
    plan = planned(pod(TEAM), {"mem": OPEN_MEMORY, "archive": OPEN_MEMORY})
    services = compose_of(plan)["services"]
    told = services["mem"]["environment"]
    assert told["KEPT"] == "1"
    assert told["CLAW_HISTORY_URL"] == "http://cllama:8080/history"
    assert told["CLAW_HISTORY_AGENT_IDS"] == "a,b-0,b-1"
    assert re.fullmatch(r"mem-history:[0-9a-f]{48}", told["CLAW_HISTORY_TOKEN"])
    for agent in ("a", "b-0", "b-1"):
        assert json_of(plan, agent, "service-auth/cllama-history.json") == {
            "service": "cllama-history",
            "auth_type": "bearer",
            "token": told["CLAW_HISTORY_TOKEN"],
            "principal": "mem",
        }
    other = json_of(plan, "other", "service-auth/cllama-history.json")
    assert other["principal"] == "archive"
    assert other["token"] != told["CLAW_HISTORY_TOKEN"]
    assert f"{CONTEXT}/c/service-auth/cllama-history.json" not in [one.path for one in plan.files]


def test_agents_get_tokens_of_their_own() -> None:
    plan = planned(pod(TEAM), {"mem": OPEN_MEMORY, "archive": OPEN_MEMORY})
    services = compose_of(plan)["services"]
    assert set(services) == {"a", "b-0", "b-1", "c", "other", "mem", "archive", "cllama"}
    tokens = set()
    for agent in ("a", "b-0", "b-1", "c", "other"):
        metadata = json_of(plan, agent, "metadata.json")
        told = services[agent]["environment"]
        assert re.fullmatch(rf"{agent}:[0-9a-f]{{48}}", metadata["token"])
        assert told["CLLAMA_TOKEN"] == told["CLAW_SELF_HISTORY_TOKEN"] == metadata["token"]
        assert told["CLAW_AGENT_ID"] == agent
        assert told["CLAW_SELF_HISTORY_URL"] == "http://cllama:8080/history"
        tokens.add(metadata["token"])
    assert len(tokens) == 5


def test_metadata() -> None:
    plan = planned(pod(TEAM), {"mem": OPEN_MEMORY, "archive": OPEN_MEMORY})
    a, b = json_of(plan, "a", "metadata.json"), json_of(plan, "b-1", "metadata.json")
    assert list(a) == ["service", "pod", "type", "token", "timezone"]
    assert (a["service"], a["pod"], a["timezone"]) == ("a", "team", "Europe/Berlin")
    assert (b["service"], b["ordinal"], b["timezone"]) == ("b", 1, "UTC")
    assert json_of(plan, "b-0", "metadata.json")["ordinal"] == 0


def test_a_zone_that_nobody_knows_is_utc() -> None:
    plan = planned(agent_pod(more="    environment: {TZ: Middle/Earth}\n"))
    assert json_of(plan, "a", "metadata.json")["timezone"] == "UTC"


def test_models_clamp_with_the_primary_first_and_none_twice() -> None:
    models = "{cheap: o/c, fallback: o/f, again: o/p, primary: ' o/p ', none: ''}"
    plan = planned(agent_pod(f"{{cllama: x, models: {models}}}"))
    assert json_of(plan, "a", "metadata.json")["model_policy"] == {
        "mode": "clamp",
        "allowed": [
            {"slot": "primary", "ref": "o/p"},
            {"slot": "fallback", "ref": "o/f"},
            {"slot": "cheap", "ref": "o/c"},
        ],
    }


def test_every_agent_has_its_three_files_and_memory_only_where_there_is_some() -> None:
    plan = planned(agent_pod(), agent_files={"a": b"# A\n"})
    own = {one.path for one in plan.files if one.path.startswith(CONTEXT)}
    assert own == {
        f"{CONTEXT}/a/{name}" for name in ("AGENTS.md", "CLAWDAPUS.md", "metadata.json")
    }
    assert text_of(plan, f"{CONTEXT}/a/AGENTS.md") == "# A\n"
    assert "Ambient Memory" not in text_of(plan, f"{CONTEXT}/a/CLAWDAPUS.md")


def test_the_ambient_memory_is_explained() -> None:
    text = text_of(planned(agent_pod(SUBSCRIBED)), f"{CONTEXT}/a/CLAWDAPUS.md")
    assert "## Ambient Memory" in text
    assert "`mem`" in text
    assert "Active: recall, retain, forget." in text


def test_secrets_lie_in_private_files() -> None:
    plan = planned(pod())
    modes = {one.path: one.mode for one in plan.files}
    assert modes["compose.generated.yml"] == 0o600
    assert modes[f"{CONTEXT}/analyst/service-auth/cllama-history.json"] == 0o600
    assert modes[f"{CONTEXT}/analyst/memory.json"] == 0o644
    assert "0000" not in repr(plan)


def test_the_pods_manifest_has_its_name() -> None:
    body = json.loads(text_of(planned(pod()), ".claw-runtime/pod-manifest.json"))
    assert body["podName"] == "trading-desk"
    assert body["services"]["analyst"]["agents"] == ["analyst"]


def test_the_proxy() -> None:
    given = pod(
        """
x-claw: {pod: p$1}
services:
  a: {x-claw: {cllama: x, cllama-env: {KEY: '${KEY}'}}, networks: [front]}
  b: {x-claw: {cllama: x, cllama-env: {KEY: other}}}
networks: {front: {}}
"""
    )
    plan = planned(given)
    body = compose_of(plan)
    proxy = body["services"]["cllama"]
    assert body["networks"] == {"front": {}}
    assert "x-claw" not in text_of(plan, "compose.generated.yml")
    assert proxy["labels"] == {"claw.pod": "p$$1", "claw.role": "proxy"}
    assert proxy["volumes"] == [
        "./.claw-runtime/context:/claw/context:ro",
        "./.claw-auth:/claw/auth:rw",
        "./.claw-session-history:/claw/session-history:rw",
    ]
    assert proxy["networks"] == ["default", "front"]
    assert proxy["environment"]["KEY"] == "other"
    assert [one for one in plan.warnings if "cllama-env KEY" in one]


def test_without_an_agent_there_is_no_proxy() -> None:
    plan = planned(pod("services: {cllama: {image: mine}}"))
    assert compose_of(plan) == {"services": {"cllama": {"image": "mine"}}}


def test_the_proxys_name_is_taken() -> None:
    with pytest.raises(PodError, match='service "cllama"'):
        planned(pod("services: {cllama: {image: mine}, a: {x-claw: {cllama: x}}}"))


@pytest.mark.parametrize(
    ("waits", "wanted"),
    [
        ("[a, b]", ["a-0", "a-1", "b"]),
        ("{a: {condition: x}}", {"a-0": {"condition": "x"}, "a-1": {"condition": "x"}}),
    ],
)
def test_waiting_for_a_service_is_waiting_for_each_of_it(waits: str, wanted: object) -> None:
    text = f"services: {{a: {{x-claw: {{count: 2}}}}, b: {{}}, c: {{depends_on: {waits}}}}}"
    assert compose_of(planned(pod(text)))["services"]["c"]["depends_on"] == wanted
