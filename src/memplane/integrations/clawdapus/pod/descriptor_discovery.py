"""Finding the descriptor of each service: in its image, or in what the image is built from."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias, cast

import msgspec

from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.descriptor import (
    DESCRIPTOR_FILE,
    DESCRIPTOR_LABEL,
    MAX_DESCRIPTOR_BYTES,
    Descriptor,
    read_descriptor,
)
from memplane.integrations.clawdapus.pod.pod_file import Pod, PodService
from memplane.kit.bounded_read import read_bounded

_DOCKER_TIMEOUT_S: Final = 20.0
_MAX_DOCKER_OUTPUT_BYTES: Final = MAX_DESCRIPTOR_BYTES + (64 << 10)


@dataclass(frozen=True, slots=True)
class DockerImage:
    """An image that is on this machine: its labels, and its files by their absolute path."""

    labels: Mapping[str, str]
    read: Callable[[str], bytes | None]


ImageLookup: TypeAlias = Callable[[str], DockerImage | None]


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The descriptors by service, and why others have none."""

    descriptors: Mapping[str, Descriptor]
    why_missing: Mapping[str, str] = field(default_factory=dict[str, str])


def discover_descriptors(pod: Pod, folder: Path, image_files: ImageLookup) -> DiscoveryResult:
    """Look for the descriptor of every service, in the order of their names.

    Raises:
        PodError: A descriptor is broken, or is not where a label says.
    """
    descriptors: dict[str, Descriptor] = {}
    missing: dict[str, str] = {}
    for service in pod.services:
        try:
            data = _descriptor_of(service, folder, image_files)
            if isinstance(data, str):
                missing[service.name] = data
            else:
                descriptors[service.name] = read_descriptor(data)
        except PodError as error:
            raise PodError(f'service "{service.name}": {error}') from error
    return DiscoveryResult(descriptors, missing)


def _descriptor_of(service: PodService, folder: Path, image_files: ImageLookup) -> bytes | str:
    """Return its bytes, or why there are none."""
    name = service.compose.get("image")
    image = image_files(name) if isinstance(name, str) and name else None
    labels = _labels(service) if image is None else image.labels
    label = labels.get(DESCRIPTOR_LABEL, "").strip()
    path = _inside(label or DESCRIPTOR_FILE)
    if image is not None:
        data, place = image.read(f"/{path}"), f'image "{name}"'
    else:
        context = _build_context(service)
        if context is None:
            what = f'image "{name}" is not available here and' if name else "it has no image and"
            return f"{what} there is no build context"
        data, place = (
            read_bounded(folder / context / path, MAX_DESCRIPTOR_BYTES),
            f'build context "{context}"',
        )
    if data is not None:
        return data
    if label:
        raise PodError(
            f'the label {DESCRIPTOR_LABEL} names "{label}", which {place} does not have'
        )
    return f"{place} has no {DESCRIPTOR_FILE}"


def _inside(path: str) -> str:
    parts = PurePosixPath(path.lstrip("/")).parts
    if not parts or ".." in parts or "\x00" in path:
        raise PodError(f'the label {DESCRIPTOR_LABEL} names "{path}", which is no file\'s path')
    return "/".join(parts)


def _build_context(service: PodService) -> str | None:
    build = service.compose.get("build")
    if isinstance(build, Mapping):
        build = cast("Mapping[str, object]", build).get("context", ".")
    # A repository somewhere else is not looked into.
    return build if isinstance(build, str) and build and "://" not in build else None


def _labels(service: PodService) -> dict[str, str]:
    """Collect the labels that the pod's file gives the service and its image."""
    build = service.compose.get("build")
    built = (
        cast("Mapping[str, object]", build).get("labels") if isinstance(build, Mapping) else None
    )
    labels_by_name: dict[str, str] = {}
    for labels in (service.compose.get("labels"), built):
        if isinstance(labels, Mapping):
            tree = cast("Mapping[str, object]", labels)
            labels_by_name |= {
                name: str(value) for name, value in tree.items() if value is not None
            }
        elif isinstance(labels, list):
            pairs = (str(label).partition("=") for label in cast("list[object]", labels))
            labels_by_name |= {name: value for name, _, value in pairs}
    return labels_by_name


# Images, as Docker has them


def inspect_docker_image(name: str) -> DockerImage | None:
    """Look at an image with the `docker` command; None when it or the image is not here."""
    docker = shutil.which("docker")
    if docker is None:
        return None
    labels = _docker(docker, "image", "inspect", "--format", "{{json .Config.Labels}}", "--", name)
    if labels is None:
        return None
    try:
        known = msgspec.json.decode(labels, type=dict[str, str] | None)
    except ValueError:
        return None
    return DockerImage(known or {}, lambda path: _copy_from_image(docker, name, path))


def _copy_from_image(docker: str, image: str, path: str) -> bytes | None:
    """Take one file out of an image, by a container that is never started."""
    created = _docker(
        docker, "create", "--pull", "never", "--network", "none", "--", image, "true"
    )
    container = (created or b"").decode("ascii", "replace").strip()
    if not container:
        return None
    try:
        archive = _docker(docker, "cp", "--follow-link", f"{container}:{path}", "-")
    finally:
        _docker(docker, "rm", "--force", container)
    return None if archive is None else _only_file(archive)


def _only_file(archive: bytes) -> bytes | None:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            member = tar.next()
            handle = tar.extractfile(member) if member and member.isreg() else None
            return handle.read(MAX_DESCRIPTOR_BYTES + 1) if handle else None
    except tarfile.TarError:
        return None


def _docker(docker: str, *arguments: str) -> bytes | None:
    """Ask Docker; None when it refuses, takes too long or says too much."""
    try:
        process = subprocess.Popen(  # noqa: S603 - a list of words, and no shell
            [docker, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, ValueError):
        return None
    timer = threading.Timer(_DOCKER_TIMEOUT_S, process.kill)
    timer.start()
    try:
        output = process.stdout.read(_MAX_DOCKER_OUTPUT_BYTES + 1) if process.stdout else b""
        if len(output) > _MAX_DOCKER_OUTPUT_BYTES:
            process.kill()
        return output if process.wait() == 0 else None
    finally:
        timer.cancel()
        if process.stdout:
            process.stdout.close()
