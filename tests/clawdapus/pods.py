"""Pods for tests: one that is complete, and what a plan needs besides it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memplane.integrations.clawdapus.pod.compile_plan import CompileInput, CompilePlan, plan_pod
from memplane.integrations.clawdapus.pod.descriptor import (
    Descriptor,
    DescriptorAuth,
    MemoryEndpointPaths,
)
from memplane.integrations.clawdapus.pod.pod_file import Pod, read_pod
from memplane.kit.bounded_yaml import read_yaml

DESK = """
x-claw:
  pod: trading-desk
  memory-defaults: {service: mem-svc, timeout-ms: 2000}
services:
  analyst:
    image: desk:1
    x-claw:
      agent: ./AGENTS.md
      cllama: passthrough
      memory: {service: mem-svc, timeout-ms: 5000}
  mem-svc:
    image: memplane:latest
    expose: ["8080"]
"""
ALL = MemoryEndpointPaths("/recall", "/retain", "/forget")
OPEN_MEMORY = Descriptor(2, memory=ALL)
GUARDED = Descriptor(2, memory=ALL, auth=DescriptorAuth("bearer", "MEM_TOKEN"))


def pod(text: str = DESK) -> Pod:
    return read_pod(text.encode(), fallback_name="folder")


def agent_pod(claw: str = "{cllama: x}", *, about: str = "{}", more: str = "") -> Pod:
    """One agent `a` beside the service `mem`; `more` are further lines of `a`."""
    return pod(
        f"x-claw: {about}\nservices:\n  a:\n    x-claw: {claw}\n{more}"
        "  mem:\n    image: memory:1\n"
    )


class Secrets:
    """Randomness that a test can foresee: 48 digits that count up."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> str:
        self.made += 1
        return f"{self.made:048x}"


def planned(
    given_pod: Pod,
    descriptors: Mapping[str, Descriptor] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    agent_files: Mapping[str, bytes] | None = None,
) -> CompilePlan:
    memories = {"mem-svc": OPEN_MEMORY, "mem": OPEN_MEMORY}
    return plan_pod(
        given_pod,
        CompileInput(
            descriptors=memories if descriptors is None else descriptors,
            agent_files=agent_files or {},
            environment=environment or {},
            new_secret=Secrets(),
            is_zone=lambda name: name in {"Europe/Berlin", "UTC"},
        ),
    )


def text_of(plan: CompilePlan, path: str) -> str:
    (found,) = [one for one in plan.files if one.path == path]
    return found.data.decode()


def json_of(plan: CompilePlan, agent: str, name: str) -> Any:
    return json.loads(text_of(plan, f".claw-runtime/context/{agent}/{name}"))


def compose_of(plan: CompilePlan) -> Any:
    return read_yaml(text_of(plan, "compose.generated.yml").encode(), "compose")
