"""A wheel of this checkout: complete or not built, and what the example image runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import aiohttp
import pytest

from memplane.integrations.clawdapus.pod.compiler import compile_pod
from memplane.kit.bounded_yaml import read_yaml
from tests.support.running import environment

ROOT = Path(__file__).parents[2]
HTMX = "memplane/server/dashboard/static/htmx.min.js"
MODEL = "memplane/search/embeddings/model"
ASSETS = (HTMX, f"{MODEL}/model.onnx", f"{MODEL}/vocabulary.txt")
IMAGE = ROOT / "examples" / "memplane-memory"
TOKEN = "tok-123"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a build takes of a checkout."""
    folder = tmp_path / "checkout"
    shutil.copytree(
        ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "model")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("examples", "tools", "requirements"):
        shutil.copytree(ROOT / name, folder / name)
    # Small ones, since the real model takes a while to compress.
    (folder / "src" / MODEL).mkdir()
    for asset in ASSETS:
        (folder / "src" / asset).write_text("an asset")
    return folder


def build_wheel(checkout: Path, wheels: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["tools/build-wheel", sys.prefix, str(wheels)],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(
    ("asset", "content"), [(HTMX, None), (HTMX, ""), *((asset, None) for asset in ASSETS[1:])]
)
def test_a_build_without_an_asset_fails_and_says_what_to_do(
    asset: str, content: str | None, checkout: Path, tmp_path: Path
) -> None:
    (checkout / "src" / asset).unlink()
    if content is not None:
        (checkout / "src" / asset).write_text(content)
    built = build_wheel(checkout, tmp_path / "wheels")
    assert built.returncode != 0
    assert "make assets" in built.stdout + built.stderr
    assert list((tmp_path / "wheels").glob("*.whl")) == []


def test_a_wheel_has_every_file_of_the_package_and_the_licence(
    checkout: Path, tmp_path: Path
) -> None:
    built = build_wheel(checkout, tmp_path / "wheels")
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "wheels").glob("memplane-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = checkout / "src"
    expected = {str(file.relative_to(package)) for file in package.rglob("*") if file.is_file()}
    assert expected.issuperset(ASSETS)
    assert expected <= names
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def steps_of_image() -> list[tuple[str, str]]:
    text = (IMAGE / "Dockerfile").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def install_as_the_image_does(image: Path, environment_folder: Path) -> Path:
    """Carry out the steps that install memplane, in an environment in the place of the image.

    What the lock file names is taken from the environment of these tests: there is no network.
    """
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(environment_folder)],
        check=True,
        timeout=100,
    )
    python = environment_folder / "bin" / "python"
    (packages,) = environment_folder.glob("lib/python*/site-packages")
    here = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "dependencies.pth").write_text(f"{here}\n")
    copied = [rest.split() for word, rest in steps_of_image() if word == "COPY"]
    assert ["wheels", "/wheels"] in copied
    installs = [
        rest for word, rest in steps_of_image() if word == "RUN" and rest.startswith("pip install")
    ]
    locked, own = installs
    assert "--require-hashes --requirement /wheels/run.txt" in locked
    assert (image / "wheels" / "run.txt").read_bytes() == (
        ROOT / "requirements" / "run.txt"
    ).read_bytes()
    command = own.replace("/wheels", str(image / "wheels")).replace(
        "pip install", f"{python} -m pip --disable-pip-version-check install --ignore-installed"
    )
    subprocess.run(["sh", "-euc", command], check=True, timeout=100, capture_output=True)
    return environment_folder / "bin"


def compile_with_memplane_as_memory(checkout: Path) -> dict[str, object]:
    """Swap the rollcall's memory for `mem-svc`, and return what the compile gives that service."""
    pod = checkout / "examples" / "rollcall" / "claw-pod.yml"
    text = pod.read_text().replace("../reference-memory", "../memplane-memory")
    text = text.replace("MEMORY_REF_TOKEN", "MEMPLANE_SERVICE_TOKEN")
    text = text.replace("service: memory", "service: mem-svc")
    pod.write_text(text.replace("  memory:\n    build", "  mem-svc:\n    build"))
    variables = {"MEMPLANE_SERVICE_TOKEN": TOKEN, "OPENAI_API_KEY": "k"}
    compile_pod(pod, environ=variables, image_files=lambda _name: None)
    composed = read_yaml((pod.parent / "compose.generated.yml").read_bytes(), "compose")
    variables_of_service: dict[str, object] = composed["services"]["mem-svc"][  # type: ignore[index]
        "environment"
    ]
    return variables_of_service


async def test_the_example_image_runs_this_checkout_under_the_services_name(
    checkout: Path, tmp_path: Path
) -> None:
    image = checkout / "examples" / "memplane-memory"
    built = build_wheel(checkout, image / "wheels")
    assert built.returncode == 0, built.stderr
    programs = install_as_the_image_does(image, tmp_path / "image")

    service = compile_with_memplane_as_memory(checkout)
    image_variables = dict(
        re.findall(r"(MEMPLANE_\w+)=(\S+)", dict(steps_of_image()).get("ENV", ""))
    )
    command = re.findall(r'"([^"]+)"', dict(steps_of_image())["CMD"])
    home = tmp_path / "data"
    running = subprocess.Popen(
        [str(programs / command[0]), *command[1:]],
        cwd=tmp_path,
        env={
            **environment(home),
            **image_variables,
            **{name: str(value) for name, value in service.items()},
            "MEMPLANE_SERVICE_TOKEN": TOKEN,
            # In the place of a container: a folder of the test's and any port of loopback.
            "MEMPLANE_HOME": str(home),
            "MEMPLANE_HTTP_HOST": "127.0.0.1",
            "MEMPLANE_HTTP_PORT": "0",
            "CLAW_HISTORY_URL": "",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    try:
        printed = ""
        while (address := re.search(r"is up at (http://127\.0\.0\.1:\d+)", printed)) is None:
            line = running.stderr.readline()
            assert line, f"it did not start: {printed}"
            printed += line
        asked = {"agent_id": "morning", "messages": [{"role": "user", "content": "rollcall?"}]}
        statuses = {}
        async with aiohttp.ClientSession() as session:
            for host in ("mem-svc:8080", "other:8080"):
                headers = {"Host": host, "Authorization": f"Bearer {TOKEN}"}
                async with session.post(
                    f"{address[1]}/recall", json=asked, headers=headers
                ) as reply:
                    statuses[host] = reply.status
        assert statuses == {"mem-svc:8080": 200, "other:8080": 421}
    finally:
        running.terminate()
        running.wait(timeout=30)
        running.stderr.close()


def test_doctor_looks_for_htmx(checkout: Path, tmp_path: Path) -> None:
    def examine_pages() -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "memplane", "doctor", "--json"],
            cwd=tmp_path,
            env={**environment(tmp_path / "home"), "PYTHONPATH": str(checkout / "src")},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        (finding,) = [one for one in json.loads(ran.stdout) if one["name"] == "pages"]
        return f"{finding['verdict']} {finding.get('remedy', '')}"

    assert examine_pages() == "ok "
    (checkout / "src" / HTMX).unlink()
    assert examine_pages().startswith("warning run `make assets`")
