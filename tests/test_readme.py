"""The README's quick start, typed in as it stands."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.running import running_memplane

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")


@pytest.fixture
def quick_start() -> str:
    section = README.split("## Something to remember, in three calls")[1]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return block[1]


def test_three_calls_retain_recall_and_forget(quick_start: str, tmp_path: Path) -> None:
    home = tmp_path / ".memplane"
    with running_memplane(home) as running:
        script = quick_start.replace("http://127.0.0.1:6367", running.address)
        recalling = re.findall(r"^curl [^\n]*/recall.*?^}'$", script, re.DOTALL | re.MULTILINE)
        assert len(recalling) == 1
        typed = subprocess.run(
            ["sh", "-ec", f"{script}\n{recalling[0]}"],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    retained, recalled, again = (
        json.loads(one) for one in re.findall(r"\{.*?\}(?=\{|$)", typed.stdout)
    )
    assert (retained["id"], retained["status"]) == ("turn-1", "retained")
    assert "Priya holds the pager" in recalled["memories"][0]["text"]
    assert again == {"memories": []}
