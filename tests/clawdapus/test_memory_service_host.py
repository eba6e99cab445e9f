"""A memory service that is memplane answers under the name by which a pod's proxy asks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clawdapus.pods import compose_of, planned, pod

SUBSCRIBED = "{cllama: x, memory: {service: mem-svc}}"


def variables_of_memory(lines: str) -> dict[str, Any]:
    text = f"services: {{a: {{x-claw: {SUBSCRIBED}}}, mem-svc: {lines}}}"
    variables: dict[str, Any] = compose_of(planned(pod(text)))["services"]["mem-svc"][
        "environment"
    ]
    return variables


@pytest.mark.parametrize(
    ("lines", "hosts", "port"),
    [
        ("{expose: ['8080']}", "mem-svc:8080", "8080"),
        ("{ports: ['7000:9000']}", "mem-svc:9000", "9000"),
        # A client leaves out the port of HTTP itself.
        ("{image: m}", "mem-svc:80,mem-svc", "80"),
        (
            "{expose: [8080], environment: {MEMPLANE_HTTP_ALLOWED_HOSTS: 'desk:1'}}",
            "desk:1,mem-svc:8080",
            "8080",
        ),
        (
            "{expose: [8080], environment: [MEMPLANE_HTTP_ALLOWED_HOSTS]}",
            "${MEMPLANE_HTTP_ALLOWED_HOSTS:-},mem-svc:8080",
            "8080",
        ),
    ],
)
def test_compile_allows_the_host_that_the_proxy_names(lines: str, hosts: str, port: str) -> None:
    variables = variables_of_memory(lines)
    assert variables["MEMPLANE_HTTP_ALLOWED_HOSTS"] == hosts
    assert variables["MEMPLANE_HTTP_PORT"] == port


def test_a_port_that_the_pod_sets_stays() -> None:
    variables = variables_of_memory("{expose: [8080], environment: {MEMPLANE_HTTP_PORT: 9}}")
    assert variables["MEMPLANE_HTTP_PORT"] == "9"


def test_other_services_are_told_nothing() -> None:
    text = f"services: {{a: {{x-claw: {SUBSCRIBED}}}, mem-svc: {{}}, db: {{image: d}}}}"
    services = compose_of(planned(pod(text)))["services"]
    assert "environment" not in services["db"]
    assert "MEMPLANE_HTTP_ALLOWED_HOSTS" not in services["a"]["environment"]
