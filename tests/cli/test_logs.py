"""What a process prints and logs holds no secret, at any level, and not in a traceback."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from pathlib import Path

from tests.support.running import environment, memplane, running_memplane

CANARY = "correct-horse-battery-staple"
KEY = "sk-live-" + "123456789"

CRASH = """
import logging, sys
from memplane.cli.log_setup import set_up_logs
from memplane.settings import load_settings_from_environment
set_up_logs(load_settings_from_environment())
logging.getLogger("test").warning("the key is %s", sys.argv[1])
logging.getLogger("test").debug("quietly %s", sys.argv[1])
try:
    raise LookupError(f"{sys.argv[1]} is not there")
except LookupError:
    logging.getLogger("test").exception("failed")
import threading
def fail(): raise KeyError(f"in a thread {sys.argv[1]}")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
raise RuntimeError(f"at the end {sys.argv[1]} and {sys.argv[2]}")
"""


def crashed(home: Path, **more: str) -> str:
    env = {**environment(home), "SERVICE_TOKEN": CANARY, **more}
    ran = subprocess.run(
        [sys.executable, "-c", CRASH, CANARY, KEY], env=env, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 1
    assert ran.stdout == ""
    return ran.stderr


def test_logs_and_tracebacks_are_redacted(home: Path) -> None:
    printed = crashed(home)
    assert CANARY not in printed
    assert KEY not in printed
    assert printed.count("[redacted:known:") == 4
    assert "in a thread" in printed
    assert "[redacted:sk-key:" in printed
    assert "RuntimeError: at the end" in printed
    assert "quietly" not in printed
    assert "quietly [redacted:known:" in crashed(home, MEMPLANE_LOG_LEVEL="debug")


def test_logs_are_redacted_where_the_home_cannot_be_used(home: Path) -> None:
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    printed = crashed(home)
    assert CANARY not in printed
    assert printed.count("[redacted:known:") == 4
    assert list(home.iterdir()) == []


def test_a_running_memplane_tells_no_secret_at_any_level(home: Path) -> None:
    env = {
        "MEMPLANE_LOG_LEVEL": "debug",
        "MEMPLANE_ADMIN_TOKEN": CANARY,
        "MEMPLANE_BLOB_SAS_URL": f"https://127.0.0.1:1/c?sv=1&sig={CANARY}x",
        "PROVIDER_API_KEY": KEY,
    }
    with running_memplane(home, env=env) as running:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
        for path in ("/api/v1/status", f"/nothing/{CANARY}", "/history/x", "/metrics"):
            for token in (CANARY, f"wrong-{CANARY}"):
                connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
                assert CANARY.encode() not in connection.getresponse().read()
        connection.close()
        token = running.token
        running.process.terminate()
        assert running.process.stdout is not None
        printed = running.printed + running.process.stdout.read()
    assert "state lives in" in printed, "nothing was logged, so nothing was shown"
    for secret in (CANARY, KEY, token):
        assert secret not in printed


def test_no_core_is_dumped(home: Path) -> None:
    with running_memplane(home) as running:
        limits = Path(f"/proc/{running.process.pid}/limits")
        if not limits.exists():
            assert os.uname().sysname != "Linux"
            return
        [line] = [one for one in limits.read_text().splitlines() if "core file" in one]
        assert line.split()[4:6] == ["0", "0"]


def test_a_level_that_is_none_is_refused(home: Path) -> None:
    ran = memplane(home, "status", env={"MEMPLANE_LOG_LEVEL": "loud"})
    assert ran.returncode == 2
    assert "expected debug, info, warning, error or critical" in ran.stderr
