"""Where descriptors are found: images first, then what they are built from."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.descriptor import Descriptor, write_descriptor
from memplane.integrations.clawdapus.pod.descriptor_discovery import (
    DiscoveryResult,
    DockerImage,
    discover_descriptors,
    inspect_docker_image,
)
from tests.clawdapus.pods import OPEN_MEMORY, pod

GOOD = write_descriptor(OPEN_MEMORY)


def found(
    folder: Path, text: str, images: dict[str, DockerImage] | None = None
) -> DiscoveryResult:
    return discover_descriptors(pod(f"services: {{m: {text}}}"), folder, (images or {}).get)


def context(folder: Path, name: str = ".claw-describe.json", data: bytes = GOOD) -> None:
    (folder / "ctx" / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / "ctx" / name).write_bytes(data)


@pytest.mark.parametrize(
    "text",
    [
        "{build: ./ctx}",
        "{build: {context: ctx}}",
        "{image: not-here, build: ctx}",
        "{build: ctx, labels: {claw.describe: /.claw-describe.json}}",
        "{build: {context: ctx, labels: [claw.describe=.claw-describe.json]}}",
    ],
)
def test_a_build_context(text: str, tmp_path: Path) -> None:
    context(tmp_path)
    assert found(tmp_path, text).descriptors == {"m": OPEN_MEMORY}


def test_a_label_names_another_path_in_the_build_context(tmp_path: Path) -> None:
    context(tmp_path, "etc/me.json")
    text = "{build: ctx, labels: {claw.describe: /etc/me.json}}"
    assert found(tmp_path, text).descriptors == {"m": OPEN_MEMORY}


def test_a_missing_file_is_fine_unless_a_label_names_it(tmp_path: Path) -> None:
    (tmp_path / "ctx").mkdir()
    nothing = found(tmp_path, "{build: ctx}")
    assert nothing.descriptors == {}
    assert nothing.why_missing == {"m": 'build context "ctx" has no .claw-describe.json'}
    with pytest.raises(
        PodError, match=r'service "m": the label claw\.describe names "/gone\.json"'
    ):
        found(tmp_path, "{build: ctx, labels: [claw.describe=/gone.json]}")


@pytest.mark.parametrize("label", ["/../x", "a/../../x", "/"])
def test_a_label_stays_inside(label: str, tmp_path: Path) -> None:
    (tmp_path / "ctx").mkdir()
    (tmp_path / "x").write_bytes(GOOD)
    with pytest.raises(PodError, match="no file's path"):
        found(tmp_path, f"{{build: ctx, labels: {{claw.describe: '{label}'}}}}")


def test_an_image_is_asked_before_the_build_context(tmp_path: Path) -> None:
    context(tmp_path, data=b"broken")
    here = DockerImage({}, {"/.claw-describe.json": GOOD}.get)
    text = "{image: here, build: ctx}"
    assert found(tmp_path, text, {"here": here}).descriptors == {"m": OPEN_MEMORY}
    bare = found(tmp_path, text, {"here": DockerImage({}, lambda _path: None)})
    assert bare.why_missing == {"m": 'image "here" has no .claw-describe.json'}
    labelled = DockerImage({"claw.describe": "/d.json"}, {"/d.json": GOOD}.get)
    assert found(tmp_path, text, {"here": labelled}).descriptors == {"m": OPEN_MEMORY}
    with pytest.raises(PodError, match='which image "here" does not have'):
        found(
            tmp_path, text, {"here": DockerImage({"claw.describe": "/d.json"}, lambda _path: None)}
        )


def test_an_image_that_is_not_here(tmp_path: Path) -> None:
    why = found(tmp_path, "{image: away}").why_missing["m"]
    assert why == 'image "away" is not available here and there is no build context'
    remote = "{image: away, build: 'https://example.org/r.git'}"
    assert found(tmp_path, remote).why_missing["m"] == why


def test_a_broken_descriptor_is_told_with_its_service(tmp_path: Path) -> None:
    context(tmp_path, data=b"{}")
    with pytest.raises(PodError) as raised:
        found(tmp_path, "{build: ctx}")
    assert str(raised.value) == 'service "m": descriptor version must be 1 or 2, got 0'


def test_all_services_are_examined_in_order(tmp_path: Path) -> None:
    asked: list[str] = []

    def image_files(name: str) -> DockerImage:
        asked.append(name)
        return DockerImage({}, lambda _path: write_descriptor(Descriptor(1, name)))

    services = pod("services: {c: {image: 3}, b: {image: two}, a: {image: one}, d: {}}")
    assert discover_descriptors(services, tmp_path, image_files).descriptors.keys() == {"a", "b"}
    assert asked == ["one", "two"]


FAKE_DOCKER = """#!{python}
import io, sys, tarfile
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(" ".join(words[:2]) + "\\n")
if words[:2] == ["image", "inspect"]:
    print({labels!r} if words[-1] == "here:1" else "")
    sys.exit(words[-1] != "here:1")
if words[0] == "create":
    print("c0ffee")
elif words[0] == "cp":
    data = {descriptor!r}
    member = tarfile.TarInfo("x")
    member.size = len(data)
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as tar:
        tar.addfile(member, io.BytesIO(data))
"""


def fake_docker(folder: Path, monkeypatch: pytest.MonkeyPatch, **parts: object) -> Path:
    log = folder / "log"
    values = {"labels": json.dumps({"a": "b"}), "descriptor": GOOD, **parts}
    program = folder / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(FAKE_DOCKER.format(python=sys.executable, log=str(log), **values))
    program.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(program.parent) + os.pathsep + os.environ["PATH"])
    return log


def test_docker_is_asked_without_starting_or_fetching_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_docker(tmp_path, monkeypatch)
    image = inspect_docker_image("here:1")
    assert image is not None
    assert image.labels == {"a": "b"}
    assert image.read("/.claw-describe.json") == GOOD
    assert log.read_text().splitlines() == [
        "image inspect",
        "create --pull",
        "cp --follow-link",
        "rm --force",
    ]
    assert inspect_docker_image("away:1") is None


@pytest.mark.parametrize("labels", ["null", "nonsense"])
def test_docker_that_has_nothing_to_say(
    labels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_docker(tmp_path, monkeypatch, labels=labels)
    image = inspect_docker_image("here:1")
    assert (image and image.labels) == ({} if labels == "null" else None)


def test_a_file_that_never_ends_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_docker(tmp_path, monkeypatch, descriptor=b"x" * (3 << 20))
    image = inspect_docker_image("here:1")
    assert image is not None
    assert image.read("/.claw-describe.json") is None


def test_without_docker_no_image_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert inspect_docker_image("here:1") is None
