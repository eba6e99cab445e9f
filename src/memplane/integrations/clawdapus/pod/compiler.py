"""Compiling a pod, top to bottom: read its file, find descriptors, plan, write."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.compile_plan import CompileInput, CompilePlan, plan_pod
from memplane.integrations.clawdapus.pod.descriptor_discovery import (
    ImageLookup,
    discover_descriptors,
)
from memplane.integrations.clawdapus.pod.paths import MAX_POD_FILE_BYTES
from memplane.integrations.clawdapus.pod.plan_writer import write_plan
from memplane.integrations.clawdapus.pod.pod_file import Pod, read_pod
from memplane.integrations.clawdapus.pod.variable_expansion import read_dotenv
from memplane.kit.bounded_read import read_bounded

_SECRET_BYTES: Final = 24


def compile_pod(
    file: Path, *, environ: Mapping[str, str], image_files: ImageLookup
) -> CompilePlan:
    """Compile a pod into its folder, and return what was written.

    Raises:
        PodError: The pod cannot be compiled; nothing was written.
    """
    data = read_bounded(file, MAX_POD_FILE_BYTES)
    if data is None:
        raise PodError(f"there is no pod file at {file}")
    folder = file.absolute().parent
    pod = read_pod(data, fallback_name=folder.name)
    discovery = discover_descriptors(pod, folder, image_files)
    dotenv = (read_bounded(folder / ".env", MAX_POD_FILE_BYTES) or b"").decode("utf-8", "replace")
    plan = plan_pod(
        pod,
        CompileInput(
            descriptors=discovery.descriptors,
            why_missing=discovery.why_missing,
            agent_files=_agent_files(pod, folder),
            environment={**read_dotenv(dotenv), **environ},
            new_secret=lambda: secrets.token_hex(_SECRET_BYTES),
            is_zone=is_zone,
        ),
    )
    write_plan(plan, folder)
    return plan


def is_zone(name: str) -> bool:
    """Say whether this machine knows a time zone."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def _agent_files(pod: Pod, folder: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for service in pod.services:
        if service.claw is None or not service.is_agent or not service.claw.agent_file:
            continue
        path = folder / service.claw.agent_file
        data = read_bounded(path, MAX_POD_FILE_BYTES)
        if data is None:
            raise PodError(f'service "{service.name}": there is no agent file at {path}')
        files[service.name] = data
    return files
