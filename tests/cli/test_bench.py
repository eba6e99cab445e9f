"""`memplane bench recall` as a command, through the real retain and recall.

What it leaves behind, and what it says of a file that it cannot read, is asked of processes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.episodes.remembering import entry, raw
from tests.evaluation.talks import asked, harbour, orchard
from tests.support.in_process import memplane_here


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    file = tmp_path / "talks.json"
    file.write_text(json.dumps([harbour(), orchard()]))
    return file


@pytest.fixture
def own(home: Path, tmp_path: Path) -> Path:
    """Some questions about an agent that remembers three things."""
    entries = tmp_path / "entries.jsonl"
    entries.write_bytes(
        b"\n".join(
            raw(entry(question, id=name))
            for name, question in (
                ("osprey", "The osprey nests on the roof of the harbour office."),
                ("kettle", "The copper kettle belongs to the night shift."),
                ("violin", "The violin was tuned a quarter tone too low."),
            )
        )
    )
    done = memplane_here(home, "retain", "--agent", "keeper", "--entries", str(entries))
    assert done.returncode == 0, done.stderr
    questions = tmp_path / "questions.jsonl"
    bird = {"question": "Where does the osprey nest?", "entry_ids": ["osprey"], "category": "bird"}
    kettle = {"question": "Whose is the copper kettle?", "entry_ids": ["kettle", "nowhere"]}
    questions.write_text(f"{json.dumps(bird)}\n\n{json.dumps(kettle)}\n")
    return questions


def report_of(home: Path, *words: str) -> dict[str, Any]:
    done = memplane_here(home, "bench", "recall", *words, "--json")
    assert done.returncode == 0, done.stderr
    body: dict[str, Any] = json.loads(done.stdout)
    return body


def test_conversations_are_retained_and_asked(home: Path, talks: Path) -> None:
    report = report_of(home, str(talks))
    assert report["overall"]["questions"] == 6
    assert report["overall"]["recall_at_10"] == 1.0
    assert report["overall"]["session_recall_at_10"] == 1.0
    counted = {name: one["questions"] for name, one in report["categories"].items()}
    assert counted == {"multi-hop": 1, "open-domain": 1, "single-hop": 3, "temporal": 1}
    counted = {name: one["questions"] for name, one in report["conversations"].items()}
    assert counted == {"harbour": 4, "orchard": 2}
    assert 0 < report["latency"]["p50_ms"] <= report["latency"]["p99_ms"]
    disk = report["disk"]
    assert disk["episodes"] == 7
    assert disk["bytes_per_episode"] == (disk["database_bytes"] + disk["index_bytes"]) / 7
    assert disk["database_bytes"] > 0


def test_a_false_return_is_one_that_another_conversation_answers(home: Path, talks: Path) -> None:
    # Of six questions only the one about rhubarb has a word that the other conversation knows.
    assert report_of(home, str(talks))["false_returns"] == pytest.approx(1 / 6)


def test_a_conversation_alone_has_no_false_returns(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text(json.dumps(harbour()))
    assert report_of(home, str(file))["false_returns"] is None


def test_evidence_that_recall_does_not_find_is_missed(home: Path, tmp_path: Path) -> None:
    found, missed = asked("A turquoise hull?", "D1:1"), asked("Yodelling zeppelins?", "D2:1")
    talk = harbour() | {"qa": [found, missed]}
    file = tmp_path / "one.json"
    file.write_text(json.dumps(talk))
    assert report_of(home, str(file))["overall"]["recall_at_10"] == 0.5


def test_the_files_of_a_folder_are_measured_together(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "talks"
    folder.mkdir()
    (folder / "b.json").write_text(json.dumps(orchard()))
    (folder / "a.json").write_text(json.dumps([harbour()]))
    (folder / "notes.txt").write_text("not looked at")
    assert list(report_of(home, str(folder))["conversations"]) == ["harbour", "orchard"]


def test_nothing_is_touched_and_nothing_stays(home: Path, talks: Path, tmp_path: Path) -> None:
    temporary, ledgers = tmp_path / "temporary", tmp_path / "ledgers"
    temporary.mkdir()
    env = {
        "TMPDIR": str(temporary),
        "MEMPLANE_LEDGER_DIR": str(ledgers),
        "MEMPLANE_BLOB_ENDPOINT": "https://nowhere.invalid",
        "MEMPLANE_BLOB_CONTAINER": "nothing",
    }
    done = memplane_here(home, "bench", "recall", str(talks), env=env)
    assert done.returncode == 0, done.stderr
    assert not home.exists()
    assert not ledgers.exists()
    assert list(temporary.iterdir()) == []


def test_the_table_has_a_row_for_each_category_and_conversation(home: Path, talks: Path) -> None:
    done = memplane_here(home, "bench", "recall", str(talks))
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}
    shares = ["hit@1", "hit@3", "@5", "@10", "±", "@20", "NDCG@10"]
    assert rows["questions"] == [*shares, "sessions@10", "any", "session"]
    assert rows["all"][2:7] == ["1.000", "1.000", "1.000", "0.000", "1.000"]
    assert rows["single-hop"][2:5] == ["1.000", "1.000", "1.000"]
    assert rows["orchard"][2:5] == ["1.000", "1.000", "1.000"]
    assert rows["latency"][0] == "p50"
    assert rows["false"][:2] == ["returns", "16.7%"]
    assert rows["disk"][1:3] == ["bytes", "for"]


def test_figures_are_kept_and_compared(home: Path, talks: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    words = ("bench", "recall", str(talks))
    saved = memplane_here(home, *words, "--save", str(kept))
    assert saved.returncode == 0, saved.stderr
    figures = json.loads(kept.read_text())
    same = memplane_here(home, *words, "--baseline", str(kept))
    assert same.returncode == 0, same.stderr
    assert "compared with the baseline" in same.stdout

    figures["false_returns"] -= 0.1
    kept.write_text(json.dumps(figures))
    later = tmp_path / "later.json"
    worse = memplane_here(home, *words, "--baseline", str(kept), "--save", str(later))
    assert worse.returncode == 1
    assert "worse than the baseline: false returns was 0.067 and is 0.167" in worse.stderr
    assert not later.exists()

    figures["false_returns"] += 0.2
    figures["overall"]["recall_at_10"] = 0.4
    kept.write_text(json.dumps(figures))
    better = memplane_here(home, *words, "--baseline", str(kept), "--save", str(kept), "--json")
    assert better.returncode == 0, better.stderr
    changed = {one["name"]: one for one in json.loads(better.stdout)["changes"]}
    assert changed["recall@10"] == {"name": "recall@10", "before": 0.4, "now": 1.0, "worse": False}
    assert json.loads(kept.read_text())["overall"]["recall_at_10"] == 1.0


def test_what_json_printed_can_be_a_baseline(home: Path, own: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    words = ("--agent", "keeper", str(own))
    report = report_of(home, *words)
    report["overall"]["recall_at_10"] += 0.006
    kept.write_text(json.dumps(report))
    done = memplane_here(home, "bench", "recall", *words, "--baseline", str(kept))
    assert done.returncode == 1
    assert "recall@10 was 0.756 and is 0.750" in done.stderr


def test_an_agents_own_memory_is_asked_and_retains_nothing(home: Path, own: Path) -> None:
    before = {path: path.read_bytes() for path in (home / "received").rglob("*.jsonl")}
    report = report_of(home, "--agent", "keeper", str(own))
    assert before
    assert {path: path.read_bytes() for path in (home / "received").rglob("*.jsonl")} == before
    assert report["overall"]["questions"] == 2
    assert report["overall"]["recall_at_10"] == 0.75
    assert report["overall"]["session_recall_at_10"] is None
    assert report["categories"].keys() == {"bird"}
    assert report["conversations"] == {}
    assert report["false_returns"] is None
    assert report["disk"] is None


def test_the_agent_may_come_from_the_settings(home: Path, own: Path) -> None:
    assert memplane_here(home, "bench", "recall", str(own)).returncode == 2
    done = memplane_here(home, "bench", "recall", str(own), env={"MEMPLANE_AGENT": "keeper"})
    assert done.returncode == 0, done.stderr
    assert "sessions@10" in done.stdout


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"question": "Where?"', "line 3 is not JSON"),
        ("[]", "line 3: a line is a JSON object"),
        ('{"question": "Where?", "entry_ids": []}', "line 3: entry_ids must"),
    ],
)
def test_a_bad_line_is_told_by_its_number(home: Path, own: Path, line: str, told: str) -> None:
    first, blank, _ = own.read_text().split("\n", 2)
    own.write_text(f"{first}\n{blank}\n{line}")
    done = memplane_here(home, "bench", "recall", "--agent", "keeper", str(own))
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize(
    ("name", "body", "told"),
    [
        ("missing.json", None, "missing.json cannot be read"),
        ("missing.jsonl", None, "missing.jsonl cannot be read"),
        ("broken.json", "[{", "broken.json is not JSON"),
        ("latin.json", b'["\xe9"]', "latin.json is not JSON"),
        ("other.json", '{"a": 1}', "other.json: there is no conversation in it"),
        ("silent.json", json.dumps(harbour() | {"qa": []}), "no question"),
        ("empty.jsonl", "\n", "empty.jsonl: there is no question in it"),
    ],
)
def test_what_cannot_be_measured_is_said_so(
    home: Path, tmp_path: Path, name: str, body: str | bytes | None, told: str
) -> None:
    if body is not None:
        (tmp_path / name).write_bytes(body.encode() if isinstance(body, str) else body)
    agent = ("--agent", "keeper") if name.endswith(".jsonl") else ()
    done = memplane_here(home, "bench", "recall", *agent, str(tmp_path / name))
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not home.exists()


def test_a_folder_without_files_is_said_so(home: Path, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    done = memplane_here(home, "bench", "recall", str(tmp_path / "nothing"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "has no .json file in it" in done.stderr


def test_conversations_take_no_agent(home: Path, talks: Path) -> None:
    done = memplane_here(home, "bench", "recall", "--agent", "keeper", str(talks))
    assert done.returncode == 2
    assert "--agent is for your own questions" in done.stderr


@pytest.mark.parametrize("body", [None, "{", "{}", '{"overall": 1}'])
def test_a_baseline_without_figures_is_said_so(
    home: Path, talks: Path, tmp_path: Path, body: str | None
) -> None:
    kept = tmp_path / "kept.json"
    if body is not None:
        kept.write_text(body)
    done = memplane_here(home, "bench", "recall", str(talks), "--baseline", str(kept))
    assert (done.returncode, done.stdout) == (2, "")
    assert str(kept) in done.stderr
    assert "Traceback" not in done.stderr


def test_figures_of_other_data_are_no_baseline(
    home: Path, own: Path, talks: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    words = ("bench", "recall", "--agent", "keeper", str(own), "--save", str(kept))
    assert memplane_here(home, *words).returncode == 0
    done = memplane_here(home, "bench", "recall", str(talks), "--baseline", str(kept))
    assert done.returncode == 2
    assert "the baseline is of other data" in done.stderr


def test_a_place_where_nothing_can_be_kept_is_told_first(home: Path, talks: Path) -> None:
    done = memplane_here(
        home, "bench", "recall", str(talks), "--save", str(talks.parent / "no" / "f")
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written" in done.stderr
