"""`memplane pod` through its real door."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clawdapus.test_writing import lay_out
from tests.support.in_process import memplane_here


def test_a_pod_is_compiled(home: Path, tmp_path: Path) -> None:
    file = lay_out(tmp_path / "pod")
    ran = memplane_here(home, "pod", "compile", "-f", str(file))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "one: memory in mem" in ran.stdout
    assert "two-1: no memory" in ran.stdout
    assert (tmp_path / "pod" / "compose.generated.yml").is_file()
    assert not home.exists()


def test_machines_learn_what_was_written_and_no_secret(home: Path, tmp_path: Path) -> None:
    file = lay_out(tmp_path / "pod")
    ran = memplane_here(
        home, "pod", "compile", "--file", str(file), "--json", env={"TOKEN": "s3cret"}
    )
    told = json.loads(ran.stdout)
    assert told["pod"] == "team"
    assert [one["id"] for one in told["agents"]] == ["one", "two-0", "two-1"]
    assert ".claw-runtime/context/one/memory.json" in told["files"]
    memory = tmp_path / "pod" / ".claw-runtime" / "context" / "one" / "memory.json"
    assert "s3cret" in memory.read_text()
    assert "s3cret" not in ran.stdout


def test_a_pod_that_cannot_be_compiled(home: Path, tmp_path: Path) -> None:
    text = "services: {a: {x-claw: {memory: {service: m, timeout-ms: 0}}}}"
    file = lay_out(tmp_path / "pod", text=text)
    ran = memplane_here(home, "pod", "compile", "-f", str(file))
    assert ran.returncode == 1
    assert ran.stderr == 'memplane pod: service "a": parse memory: timeout-ms must be > 0\n'
    gone = memplane_here(home, "pod", "compile", "-f", str(tmp_path / "nowhere.yml"))
    assert (gone.returncode, "there is no pod file" in gone.stderr) == (1, True)


def test_warnings_go_to_standard_error(home: Path, tmp_path: Path) -> None:
    text = "x-claw: {memory-defaults: {service: m}}\nservices: {a: {x-claw: {}}}"
    ran = memplane_here(home, "pod", "compile", "-f", str(lay_out(tmp_path / "pod", text=text)))
    assert ran.returncode == 0
    assert ran.stderr.startswith('warning: service "a": memory-defaults skipped')


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_memplanes_own_descriptor_passes_its_own_check(
    words: tuple[str, ...], home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "d.json"
    file.write_text(memplane_here(home, "pod", "describe", *words).stdout)
    ran = memplane_here(home, "pod", "describe", "--check", str(file))
    assert (ran.returncode, "offers recall, retain, forget" in ran.stdout) == (0, True)
    told = memplane_here(home, "pod", "describe", "--check", str(file), "--json").stdout
    assert json.loads(told)["auth"] == {"type": "bearer", "env": "MEMPLANE_SERVICE_TOKEN"}


def test_a_wrong_descriptor_is_refused(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "d.json"
    file.write_text('{"version": 1, "memory": {}}')
    ran = memplane_here(home, "pod", "describe", "--check", str(file))
    assert ran.returncode == 1
    assert ran.stderr == "memplane pod: descriptor version 1 does not support memory\n"
    assert memplane_here(home, "pod", "describe", "--check", str(tmp_path / "no")).returncode == 1
