"""LiteLLM's proxy, to compare with: in a virtual environment and a process of its own, offline."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

VERSION = "1.106.0"
MODEL = "gpt-4o"

_VENV = Path(".venv-litellm")
_START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class LiteLLM:
    """A proxy that runs."""

    port: int
    token: str


def install() -> None:
    """Install the version that we compare with, unless it is there."""
    pip = [str(_VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    if _has_version():
        return
    print(f"installing litellm[proxy]=={VERSION} into {_VENV} (700 MB)", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(_VENV)], check=True)
    subprocess.run([*pip, "install", "-q", f"litellm[proxy]=={VERSION}"], check=True)


def _has_version() -> bool:
    return any(_VENV.glob(f"lib/python3*/site-packages/litellm-{VERSION}.dist-info"))


@contextmanager
def litellm(provider: int) -> Iterator[LiteLLM]:
    """Run it before a provider at that port, with one worker, no database and no telemetry."""
    install()
    running = LiteLLM(_free_port(), f"sk-{secrets.token_hex(24)}")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(json.dumps(_config(running.token, provider)))  # which is YAML
        config.chmod(0o600)
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(
                _command(config, running.port),
                env=_environment(folder),
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            _wait_until_alive(running.port, process)
            yield running
        finally:
            process.terminate()
            process.wait()


def _config(key: str, provider: int) -> dict[str, object]:
    asked = {
        "model": f"openai/{MODEL}",
        "api_base": f"http://127.0.0.1:{provider}/v1",
        "api_key": "sk-bench",
    }
    return {
        "model_list": [{"model_name": MODEL, "litellm_params": asked}],
        "litellm_settings": {"telemetry": False, "num_retries": 0},
        "general_settings": {"master_key": key},
    }


def _command(config: Path, port: int) -> list[str]:
    program = str((_VENV / "bin" / "litellm").absolute())
    where = ["--host", "127.0.0.1", "--port", str(port)]
    return [program, "--config", str(config), *where, "--num_workers", "1"]


def _environment(home: str) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": home,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
    }


def _wait_until_alive(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, "LiteLLM's proxy ended by itself"
        try:
            with urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=1):
                return
        except (URLError, TimeoutError):
            time.sleep(0.2)
    raise TimeoutError("LiteLLM's proxy did not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
