"""The pod's file: subscriptions, defaults, and the contract's words for what is wrong."""

from __future__ import annotations

import pytest

from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.pod_file import MemorySubscription, Pod, read_pod
from tests.clawdapus.pods import agent_pod, pod


def memory_of(given: Pod, name: str = "a") -> MemorySubscription | None:
    service = given.service(name)
    assert service is not None
    assert service.claw is not None
    return service.claw.memory


def test_a_subscription_is_read() -> None:
    found = agent_pod("{cllama: x, memory: {service: ' mem ', timeout-ms: 5000, other: 1}}")
    assert memory_of(found) == MemorySubscription("mem", 5000, explicit=True)


def test_the_timeout_is_300_when_nobody_says() -> None:
    assert memory_of(agent_pod("{cllama: x, memory: {service: mem}}")) == MemorySubscription(
        "mem", 300
    )
    spoken = agent_pod("{cllama: x, memory: {service: mem, timeout-ms: 300}}")
    assert memory_of(spoken) == MemorySubscription("mem", 300, explicit=True)


DEFAULTS = "{memory-defaults: {service: mem, timeout-ms: 2000}}"


def test_defaults_are_inherited_replaced_and_switched_off() -> None:
    assert memory_of(agent_pod(about=DEFAULTS)) == MemorySubscription("mem", 2000, explicit=True)
    replaced = agent_pod("{cllama: x, memory: {service: other}}", about=DEFAULTS)
    assert memory_of(replaced) == MemorySubscription("other", 300)
    assert memory_of(agent_pod("{cllama: x, memory: null}", about=DEFAULTS)) is None
    assert memory_of(agent_pod("{cllama: x, memory: }", about=DEFAULTS)) is None


def test_a_placeholder_in_the_service_stays() -> None:
    found = agent_pod("{cllama: x, memory: {service: '${MEM}'}}")
    assert memory_of(found) == MemorySubscription("${MEM}")


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("{}", "service is required"),
        ("{service: ' '}", "service is required"),
        ("{service: null, timeout-ms: 5}", "service is required"),
        ("{service: mem, timeout-ms: 0}", "timeout-ms must be > 0"),
        ("{service: mem, timeout-ms: -1}", "timeout-ms must be > 0"),
    ],
)
def test_wrong_subscriptions_in_the_contracts_words(memory: str, message: str) -> None:
    with pytest.raises(PodError) as raised:
        agent_pod(f"{{cllama: x, memory: {memory}}}")
    assert str(raised.value) == f'service "a": parse memory: {message}'
    with pytest.raises(PodError) as raised:
        agent_pod(about=f"{{memory-defaults: {memory}}}")
    assert str(raised.value) == f'service "a": parse memory: {message}'


@pytest.mark.parametrize("memory", ["[mem]", "mem", "true", "{service: mem, timeout-ms: '5'}"])
def test_other_forms_of_a_subscription_are_refused(memory: str) -> None:
    with pytest.raises(PodError, match=r'^service "a": parse memory: '):
        agent_pod(f"{{cllama: x, memory: {memory}}}")


@pytest.mark.parametrize("defaults", ["[mem]", "mem", "null", "5"])
def test_defaults_that_are_no_mapping_are_an_error(defaults: str) -> None:
    with pytest.raises(PodError, match="memory-defaults must be a mapping"):
        agent_pod(about=f"{{memory-defaults: {defaults}}}")


def test_wrong_defaults_are_an_error_even_if_nobody_inherits() -> None:
    with pytest.raises(PodError, match="memory-defaults: timeout-ms must be > 0"):
        pod("x-claw: {memory-defaults: {service: m, timeout-ms: 0}}\nservices: {a: {image: x}}")


def test_a_default_skips_a_service_without_the_proxy_and_says_so() -> None:
    found = agent_pod("{agent: ./A.md}", about=DEFAULTS)
    assert memory_of(found) is None
    assert found.warnings == (
        'service "a": memory-defaults skipped, because it has no x-claw.cllama',
    )
    assert agent_pod("{memory: null}", about=DEFAULTS).warnings == ()


def test_asking_for_memory_without_the_proxy_is_an_error() -> None:
    with pytest.raises(PodError) as raised:
        agent_pod("{memory: {service: mem}}")
    assert str(raised.value) == (
        'service "a": x-claw.memory require x-claw.cllama on the consuming service; '
        "native projection for non-cllama services is not implemented"
    )


def test_services_without_an_extension_inherit_nothing() -> None:
    found = pod(f"x-claw: {DEFAULTS}\nservices: {{b: {{image: x}}, a: {{x-claw: null}}}}")
    assert [(one.name, one.claw) for one in found.services] == [("a", None), ("b", None)]
    assert found.warnings == ()


def test_the_proxy_and_models_have_defaults_too() -> None:
    found = agent_pod(
        "{models: {fallback: o/f}, cllama-env: {K: mine}}",
        about=(
            "{cllama-defaults: {proxy: [x], env: {K: all, L: 1}}, models-defaults: {primary: o/p}}"
        ),
    ).services[0]
    assert found.claw is not None
    assert found.claw.cllama == ("x",)
    assert found.claw.models == {"primary": "o/p", "fallback": "o/f"}
    assert found.claw.proxy_environment == {"K": "mine", "L": "1"}
    off = agent_pod("{models: {}, cllama: []}", about="{cllama-defaults: {proxy: x}}").services[0]
    assert off.claw is not None
    assert (off.claw.cllama, off.claw.models) == ((), {})


def test_replicas_have_numbers() -> None:
    assert agent_pod("{cllama: x, count: 3}").services[0].names() == ("a-0", "a-1", "a-2")
    for one in ("1", "0", "-5", "null"):
        assert agent_pod(f"{{cllama: x, count: {one}}}").services[0].names() == ("a",)


@pytest.mark.parametrize(
    "text",
    [
        "services: {'../x': {}}",
        "services: {a..b: {}}",
        "services: {'': {}}",
        "services: {1: {}}",
        "services: {a: {x-claw: {count: 2}}, a-1: {}}",
        "services: {a: {x-claw: {count: 101}}}",
        "services: {a: {x-claw: {count: '2'}}}",
        "services: {a: {x-claw: {cllama: ''}}}",
        "services: {a: {x-claw: {cllama: true}}}",
        "services: {a: {x-claw: [x]}}",
        "services: {a: 5}",
        "services: [a]",
        "x-claw: 5",
        "x-claw: {pod: [x]}",
        "[]",
        "text",
    ],
)
def test_what_is_no_pod(text: str) -> None:
    with pytest.raises(PodError):
        pod(text)


def test_a_pod_without_a_name_is_called_like_its_folder() -> None:
    assert read_pod(b"services: {}", fallback_name="folder").name == "folder"
    assert read_pod(b"x-claw: {pod: ' p '}", fallback_name="folder").name == "p"


def test_both_forms_of_an_environment() -> None:
    listed = pod("services: {a: {environment: [A=1, B=, C, 'D=x=y']}}").services[0]
    assert listed.environment == {"A": "1", "B": "", "C": None, "D": "x=y"}
    mapped = pod("services: {a: {environment: {A: 1, B: true, C: null}}}").services[0]
    assert mapped.environment == {"A": "1", "B": "true", "C": None}
