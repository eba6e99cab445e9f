"""`memplane run` and `memplane memories learn`: what an agent prints goes on, and is learned."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pytest

from memplane.home import Home
from memplane.observations.agent_guide import build_guide, build_output_schema
from tests.support.in_process import memplane_here
from tests.support.running import environment, running_memplane

STARTS = "Takes 60s to start after a restart"
MARKER = f"[MEMORY:timing:jellyfin] {STARTS}"
ORDER = "Must be started after WireGuard"
OTHER = f"[MEMORY:dependency:caddy] {ORDER}"
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
MEMPLANE = (sys.executable, "-m", "memplane")
_IMPATIENT = """
from memplane.cli import main
from memplane.service.composition import home
home._OWNER_PATIENCE = 10
raise SystemExit(main())
"""
IMPATIENT = (sys.executable, "-c", _IMPATIENT)
"""It waits half a second for the owner of a home, not five."""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


def ran(
    own: Path,
    *command: str,
    options: tuple[str, ...] = (),
    memplane: tuple[str, ...] = MEMPLANE,
    **more: Any,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    return subprocess.run(
        [*memplane, "run", "--agent", "a", *options, "--", *command],
        env=environment(own) | more.pop("env", {}),
        capture_output=True,
        timeout=60,
        check=False,
        **more,
    )


def python(program: str) -> tuple[str, ...]:
    return sys.executable, "-c", program


def printing(*events: Any) -> tuple[str, ...]:
    """A program that prints events, or lines of text."""
    lines = (one if isinstance(one, str) else json.dumps(one) for one in events)
    printed = "\n".join(lines)
    return python(f"print({printed!r})")


def says(text: str, uuid: str = "u1", **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"type": "assistant", "uuid": uuid, "message": {"content": content}} | more


def gives(text: str) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "t", "content": text}
    return {"type": "user", "uuid": "u0", "message": {"content": [block]}}


START = {"type": "system", "subtype": "init", "session_id": "s1", "model": "claude-x"}
END = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 2}


def asked(own: Path, *words: str) -> Any:
    done = memplane_here(own, "memories", *words, "--agent", "a", "--json")
    if "there is no agent a" in done.stderr:  # its first session has not begun
        return {"memories": [], "sessions": []}
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def observations(own: Path, *words: str) -> list[str]:
    return sorted(one["observation"] for one in asked(own, "list", *words)["memories"])


def sessions(own: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked(own, "sessions")["sessions"]
    return found


def added(own: Path, text: str, *words: str) -> None:
    done = memplane_here(
        own, "memories", "add", "--agent", "a", "--category", "timing", *words, text
    )
    assert done.returncode == 0, done.stderr


def known(own: Path, number: int, **more: Any) -> None:
    """Let there be so many memories, each about another service."""
    file = own.parent / "known.jsonl"
    lines = (
        {"category": "timing", "service": f"s{at}", "observation": f"Fact {at} about starting"}
        for at in range(number)
    )
    file.write_text("".join(json.dumps(line | more) + "\n" for line in lines))
    done = memplane_here(own, "memories", "import", "--agent", "a", str(file))
    assert done.returncode == 0, done.stderr


@contextmanager
def running(
    own: Path, *words: str, stdin: int | None = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that is ended afterwards, if it has not ended by itself."""
    process = subprocess.Popen(
        [*MEMPLANE, *words],
        env=environment(own),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()


def pipe(of: IO[bytes] | None) -> IO[bytes]:
    assert of is not None
    return of


def until_learned(own: Path, *texts: str) -> None:
    """Wait until memories are there; the time limit of the test is the limit."""
    while observations(own) != sorted(texts):
        pass


# What a program is told


ECHO_CONTEXT = """
import os
from pathlib import Path
told = os.environ["MEMPLANE_RUN_CONTEXT"]
file = Path(os.environ["MEMPLANE_RUN_CONTEXT_FILE"])
assert file.read_text() == told
assert file.stat().st_mode & 0o777 == 0o600
print(file, told, sep="\\n", end="")
"""


def test_a_program_is_told_in_its_environment_what_was_learned_and_how_to_record(
    own: Path,
) -> None:
    known(own, 5)
    done = ran(own, *python(ECHO_CONTEXT), options=("--tier", "3"))
    assert done.returncode == 0, done.stderr
    file, told = done.stdout.decode().split("\n", 1)
    assert not Path(file).exists()
    assert "## Operational Memory (5 memories, " in told
    assert told.endswith(build_guide(3, "markers"))
    assert sessions(own)[0]["told"] == 5


def test_a_program_without_memories_is_told_how_to_record_them_and_nothing_else(
    own: Path,
) -> None:
    done = ran(own, *python(ECHO_CONTEXT))
    assert done.stdout.decode().split("\n", 1)[1] == build_guide(1, "markers")


def test_preview_and_prompt_are_the_same_but_for_their_fence(own: Path) -> None:
    added(own, STARTS, "--service", "jellyfin")
    done = ran(own, *python(ECHO_CONTEXT))
    shown = memplane_here(own, "memories", "preview", "--agent", "a").stdout
    told = done.stdout.decode().split("\n", 1)[1].removesuffix(build_guide(1, "markers"))
    unfenced = [line for line in shown.strip().split("\n") if "operational memory" not in line]
    assert all(line in told for line in unfenced if not line.startswith("Records"))


def test_a_budget_is_kept_and_none_is_none(own: Path) -> None:
    known(own, 20)
    small = ran(own, *python(ECHO_CONTEXT), options=("--budget", "150")).stdout.decode()
    assert " of 20 memories, " in small
    configured = ran(
        own, *python(ECHO_CONTEXT), env={"MEMPLANE_OPS_MEMORY_BUDGET": "150"}
    ).stdout.decode()
    assert " of 20 memories, " in configured
    none = ran(own, *python(ECHO_CONTEXT), options=("--budget", "0")).stdout.decode()
    assert "Operational Memory" not in none


def test_a_budget_that_no_argument_could_hold_is_refused_before_anything_starts(
    own: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "started"
    done = ran(own, "touch", str(trace), options=("--budget", "40000"))
    assert done.returncode == 2
    assert b"128 KiB" in done.stderr
    assert not trace.exists()


def claude(tmp_path: Path) -> str:
    """A program with the name of Claude Code, which prints its arguments."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    "words", [(), ("-p",), ("--model", "opus"), ("--output-format=stream-json", "--verbose", "-p")]
)
def test_claude_code_without_a_prompt_is_not_started_and_the_reason_is_given(
    own: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    program = claude(tmp_path)
    done = ran(own, program, *words, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, b"")
    said = done.stderr.decode()
    assert "claude has no prompt" in said
    assert f'memplane run -- {program} -p "Check the hosts."' in said
    assert sessions(own) == []


@pytest.mark.parametrize("words", [("Check.",), ("-p", "Check."), ("mcp", "list"), ("--version",)])
def test_claude_code_with_something_to_do_is_started(
    own: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = ran(own, claude(tmp_path), *words, stdin=subprocess.DEVNULL)
    assert json.loads(done.stdout)[-len(words) :] == list(words), done.stderr


def test_claude_code_may_read_its_prompt_from_a_pipe(own: Path, tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Check the hosts.")
    with file.open("rb") as prompt:
        done = ran(own, claude(tmp_path), "-p", stdin=prompt)
    assert json.loads(done.stdout)[-1] == "-p", done.stderr


def test_claude_code_is_told_in_its_arguments(own: Path, tmp_path: Path) -> None:
    done = ran(own, claude(tmp_path), "-p", "hi", options=("--mode", "structured"))
    assert done.returncode == 0, done.stderr
    *ours, print_option, prompt = json.loads(done.stdout)
    assert (print_option, prompt) == ("-p", "hi")
    told = dict(zip(ours[::2], ours[1::2], strict=True))
    assert json.loads(told["--json-schema"]) == build_output_schema()
    assert told["--append-system-prompt"] == build_guide(1, "structured")


def test_a_users_own_prompt_that_is_too_long_with_ours_is_refused(
    own: Path, tmp_path: Path
) -> None:
    theirs = "x" * (128 * 1024 - 100)
    done = ran(own, claude(tmp_path), "--append-system-prompt", theirs, "-p", "hi")
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"128 KiB" in done.stderr
    assert sessions(own)[0]["is_error"]


def test_a_users_own_prompt_that_cannot_be_read_is_said_so(own: Path, tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    done = ran(own, claude(tmp_path), "--append-system-prompt-file", missing, "-p", "hi")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"cannot be read" in done.stderr


def test_services_named_in_the_command_are_in_scope(own: Path) -> None:
    known(own, 10, confidence=0.9)
    added(own, STARTS, "--service", "jellyfin", "--confidence", "0.4")
    done = ran(own, *python(ECHO_CONTEXT), "check jellyfin", options=("--budget", "120"))
    assert b"### jellyfin\n" in done.stdout
    without = ran(own, *python(ECHO_CONTEXT), options=("--budget", "120"))
    assert b"### jellyfin\n" not in without.stdout


# Passing on


EVERY_BYTE = bytes(range(256)) * 300 + b"\xff\xfe\r\nno end of line"


def test_every_byte_goes_on_as_it_is_and_so_does_the_exit_code(own: Path, tmp_path: Path) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(EVERY_BYTE)
    done = ran(own, "sh", "-c", f"cat {file}; echo oops >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, EVERY_BYTE, b"oops\n")
    assert sessions(own)[0]["exit_code"] == 7


def test_input_reaches_the_program(own: Path) -> None:
    done = ran(own, "cat", input=EVERY_BYTE)
    assert done.stdout == EVERY_BYTE


def test_output_comes_while_the_program_runs(own: Path) -> None:
    with running(own, "run", "--agent", "a", "--", "cat") as process:
        for line in (b"one\n", b"two, without its end"):
            pipe(process.stdin).write(line)
            pipe(process.stdin).flush()
            assert os.read(pipe(process.stdout).fileno(), 100) == line
        pipe(process.stdin).close()
        assert process.wait() == 0


def test_a_program_that_is_killed_gives_the_code_of_a_shell(own: Path) -> None:
    assert ran(own, "sh", "-c", "kill -KILL $$").returncode == 128 + signal.SIGKILL
    (session,) = sessions(own)
    assert (session["is_error"], session["exit_code"]) == (True, 137)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_program_and_we_outlive_it(own: Path, number: signal.Signals) -> None:
    program = f"""
import signal, sys
signal.signal({int(number)}, lambda *_: sys.exit(9))
print("ready", flush=True)
sys.stdin.read()
"""
    with running(own, "run", "--agent", "a", "--", *python(program)) as process:
        assert pipe(process.stdout).readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait() == 9


AT_ITS_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_ctrl_c_at_a_terminal_reaches_the_program_once(own: Path) -> None:
    program = """
import signal, sys
times = []
signal.signal(signal.SIGINT, lambda *_: times.append(1))
print("ready", flush=True)
while not times:
    signal.pause()
for line in sys.stdin:
    break
print(f"{len(times)} times", flush=True)
"""
    terminal, its = pty.openpty()
    words = (*MEMPLANE, "run", "--agent", "a", "--", *python(program))
    with subprocess.Popen(
        [*python(AT_ITS_TERMINAL), *words], env=environment(own), stdin=its, stdout=its, stderr=its
    ) as process:
        os.close(its)
        shown = b""
        while b"ready" not in shown:
            shown += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        os.write(terminal, b"go on\n")
        while b"times" not in shown:
            shown += os.read(terminal, 1000)
        assert process.wait() == 0
    os.close(terminal)
    assert b"1 times" in shown


def test_a_program_may_ignore_a_signal(own: Path) -> None:
    program = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("ready", flush=True)
sys.stdin.read()
print("done")
"""
    with running(own, "run", "--agent", "a", "--", *python(program)) as process:
        assert pipe(process.stdout).readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        pipe(process.stdin).close()
        assert pipe(process.stdout).read() == b"done\n"
        assert process.wait() == 0


def test_what_a_program_leaves_behind_is_waited_for_until_a_signal_comes(own: Path) -> None:
    program = """
import os, sys
parent = os.getpid()
if os.fork():
    sys.exit(4)
try:
    while True:  # until its end was seen
        os.kill(parent, 0)
except ProcessLookupError:
    print(os.getpid(), flush=True)
sys.stdin.read()
"""
    with running(own, "run", "--agent", "a", "--", *python(program)) as process:
        left = int(pipe(process.stdout).readline())
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
        if process.poll() is None:  # it had not heard yet of what was seen
            process.send_signal(signal.SIGTERM)
        assert process.wait() == 4
        os.kill(left, signal.SIGKILL)


def test_when_nobody_reads_any_more_the_program_learns_it(own: Path) -> None:
    with running(own, "run", "--agent", "a", "--", "yes", MARKER, stdin=None) as process:
        pipe(process.stdout).readline()
        pipe(process.stdout).close()
        assert process.wait() == 128 + signal.SIGPIPE
    assert observations(own) == [STARTS]


@pytest.mark.parametrize(
    ("command", "code"), [(["no-such-program"], 127), (["/dev/null"], 126), ([], 2)]
)
def test_what_cannot_be_run_has_the_code_of_a_shell_and_a_reason(
    own: Path, command: list[str], code: int
) -> None:
    done = ran(own, *command)
    assert done.returncode == code
    assert done.stderr.startswith(b"memplane: ")


def test_an_agent_is_needed(own: Path) -> None:
    done = memplane_here(own, "run", "--", "true")
    assert done.returncode == 2
    assert "say which agent" in done.stderr


def test_a_memplane_within_is_not_confused(own: Path) -> None:
    done = ran(own, *MEMPLANE, "doctor", "--json")
    assert "MEMPLANE_RUN_CONTEXT" not in done.stdout.decode()


# Learning


def test_a_marker_is_a_memory_while_the_program_still_runs(own: Path) -> None:
    program = f"""
import json, sys
print(json.dumps({START!r}), flush=True)
print(json.dumps({says(MARKER)!r}), flush=True)
sys.stdin.read()
print(json.dumps({says(OTHER, "u2")!r}))
"""
    with running(own, "run", "--agent", "a", "--tier", "3", "--", *python(program)) as process:
        until_learned(own, STARTS)
        (session,) = sessions(own)
        assert session["ended_at"] is None
        pipe(process.stdin).close()
        assert process.wait() == 0
        assert pipe(process.stderr).read() == b"memplane: learned 2\n"
    (first, second) = asked(own, "list", "--sort", "id")["memories"]
    assert {one["session_id"] for one in (first, second)} == {session["id"]}
    assert {one["tier"] for one in (first, second)} == {3}
    (ended,) = sessions(own)
    assert (ended["cli_session_id"], ended["model"]) == ("s1", "claude-x")


def test_the_home_is_free_while_a_program_runs(own: Path) -> None:
    with running(own, "run", "--agent", "a", "--", "cat") as process:
        pipe(process.stdin).write(f"{MARKER}\n\n".encode())
        pipe(process.stdin).flush()
        until_learned(own, STARTS)
        with running_memplane(own):
            pipe(process.stdin).write(f"{OTHER}\n\n".encode())
            pipe(process.stdin).flush()
            until_learned(own, STARTS, ORDER)
            added(own, "An operator wrote this meanwhile")
        pipe(process.stdin).close()
        assert process.wait() == 0
    assert len(observations(own)) == 3


def test_text_is_learned_from_paragraph_by_paragraph(own: Path) -> None:
    text = f"Looking.\r\n\r\n- {MARKER}\r\n\r\n```\r\n\r\n{OTHER}\r\n```\r\nDone"
    done = ran(own, *python(f"import sys; sys.stdout.buffer.write({text.encode()!r})"))
    assert done.stdout == text.encode()
    assert done.stderr == b"memplane: learned 1\n"
    assert observations(own) == [STARTS]


def test_what_is_not_remembered_is_said_at_the_end(own: Path) -> None:
    done = ran(own, *printing(f"{MARKER}\n\n[MEMORY:misc] Something else to know"))
    assert done.stderr == (
        b"memplane: learned 1, rejected 1 (unknown_category): memplane memories rejects\n"
    )
    (reject,) = asked(own, "rejects")["rejects"]
    assert (reject["reason"], reject["category"]) == ("unknown_category", "misc")


def test_a_run_that_says_nothing_is_not_talked_about(own: Path) -> None:
    done = ran(own, *printing(START, gives(MARKER), says("All is well."), END))
    assert (done.returncode, done.stderr) == (0, b"")
    assert observations(own) == []
    (session,) = sessions(own)
    assert (session["cli_session_id"], session["num_turns"]) == ("s1", 2)


def test_unknown_events_and_broken_lines_are_no_trouble(own: Path) -> None:
    odd = ["no json", "{", {"type": "new"}, {"type": "user", "message": {"content": "text"}}]
    done = ran(own, *printing(START, *odd, says(MARKER)))
    assert done.returncode == 0
    assert observations(own) == [STARTS]


def test_a_run_that_says_it_failed_has_failed_and_its_memories_stay(own: Path) -> None:
    ran(own, *printing(START, says(MARKER), END | {"is_error": True, "total_cost_usd": 0.25}))
    (session,) = sessions(own)
    assert (session["is_error"], session["cost_usd"], session["exit_code"]) == (True, 0.25, 0)
    assert observations(own) == [STARTS]


def test_partial_messages_are_not_learned_twice(own: Path) -> None:
    delta = {"type": "stream_event", "event": {"delta": {"text": MARKER}}}
    ran(own, *printing(START, delta, delta, says(MARKER), END))
    assert asked(own, "list")["memories"][0]["confidence"] == 0.7
    assert observations(own) == [STARTS]


def test_a_message_that_is_taken_back_takes_its_memories_along(own: Path) -> None:
    done = ran(own, *printing(START, says(MARKER), says(OTHER, "u2", supersedes=["u1"]), END))
    assert b"took back 1" in done.stderr
    assert observations(own, "--state", "active") == [ORDER]


def test_a_line_of_five_megabytes_is_learned_from(own: Path) -> None:
    big = "x" * (5 << 20)
    program = f"""
import json
print(json.dumps({START!r}))
print(json.dumps({says("BIG" + MARKER)!r}).replace("BIG", {big!r} + "\\\\n"))
"""
    file = own.parent / "big.py"
    file.write_text(program)
    done = ran(own, sys.executable, str(file))
    assert len(done.stdout) > 5 << 20
    assert observations(own) == [STARTS]


def test_structured_output_counts_and_markers_do_not(own: Path) -> None:
    memories = [
        {"key": "jellyfin:timing", "value": STARTS},
        {"key": "remediation", "value": "Retry DNS once before acting on it"},
        {"key": "caddy:reverse:proxy", "value": "Something else to know"},
        {"key": "", "value": "Something else to know"},
    ]
    end = END | {"structured_output": {"memories": memories}}
    done = ran(own, *printing(START, says(OTHER), end), options=("--mode", "structured"))
    assert b"learned 2, rejected 2" in done.stderr
    found = {one["observation"]: one for one in asked(own, "list")["memories"]}
    assert found.keys() == {STARTS, "Retry DNS once before acting on it"}
    assert (found[STARTS]["service"], found[STARTS]["category"]) == ("jellyfin", "timing")
    assert found["Retry DNS once before acting on it"]["service"] is None


@pytest.mark.parametrize("document", [{"memories": []}, {}])
def test_an_empty_document_is_no_memory_and_no_warning(own: Path, document: Any) -> None:
    end = END | {"structured_output": document}
    done = ran(own, *printing(START, says(MARKER), end), options=("--mode", "structured"))
    assert (done.stderr, observations(own)) == (b"", [])


@pytest.mark.parametrize("end", [END, END | {"structured_output": None}])
def test_without_a_document_markers_count_and_that_is_said(own: Path, end: Any) -> None:
    done = ran(own, *printing(START, says(MARKER), end), options=("--mode", "structured"))
    assert b"there was no structured output, so markers were read instead" in done.stderr
    assert observations(own) == [STARTS]


# The log, and secrets


def test_the_log_is_private_and_has_each_line_behind_its_time(own: Path) -> None:
    ran(own, *printing("one", "", "two"))
    (session,) = sessions(own)
    log = Path(session["log_path"])
    assert log.parent == own / "sessions"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert [line[25:] for line in log.read_text().splitlines()] == ["one", "", "two"]


@pytest.mark.parametrize("way", ["text", "stream"])
def test_a_secret_is_printed_and_nowhere_kept(own: Path, way: str) -> None:
    said = f"[MEMORY:remediation:registry] Log in with {TOKEN} when it refuses"
    output = [said] if way == "text" else [START, gives(f"token {TOKEN}"), says(said), END]
    done = ran(own, *printing(*output), "unused", TOKEN)
    assert TOKEN.encode() in done.stdout
    assert b"rejected 1 (secret)" in done.stderr
    files = [path for path in own.rglob("*") if path.is_file()]
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []
    assert observations(own) == []


def test_what_is_kept_verbatim_is_kept_verbatim(own: Path) -> None:
    ran(own, *printing(f"token {TOKEN}"), env={"MEMPLANE_LEDGER_VERBATIM": "true"})
    (session,) = sessions(own)
    assert TOKEN in Path(session["log_path"]).read_text()


# When memory fails


def test_a_home_that_cannot_be_used_keeps_no_program_from_running(own: Path) -> None:
    own.chmod(0o755)
    done = ran(own, "sh", "-c", "cat; exit 5", input=EVERY_BYTE)
    assert (done.returncode, done.stdout) == (5, EVERY_BYTE)
    assert b"It runs without memory" in done.stderr


def test_a_home_that_is_busy_keeps_no_program_from_running_and_is_learned_from_later(
    own: Path,
) -> None:
    home = Home(own)
    home.create()
    with home.claim() as claim:
        assert claim is not None
        done = ran(own, *printing(START, says(MARKER), END), memplane=IMPATIENT)
    assert done.returncode == 0
    assert b"It runs without what was learned before" in done.stderr
    assert b"memory did not take all that was said" in done.stderr
    later = done.stderr.decode().split("learn it later: memplane ")[1].split("\n")[0]
    again = memplane_here(own, *later.split())
    assert again.returncode == 0, again.stderr
    assert observations(own) == [STARTS]


# Learning from output that is there


def learn(own: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*MEMPLANE, "memories", "learn", "--agent", "a", *words],
        env=environment(own),
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
    )


def stream(*events: Any) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in events)


@pytest.mark.parametrize("where", ["file", "stdin"])
def test_output_is_learned_from_a_file_or_a_pipe(own: Path, tmp_path: Path, where: str) -> None:
    output = stream(START, says(MARKER), END)
    file = tmp_path / "out.jsonl"
    file.write_bytes(output)
    done = (
        learn(own, str(file), "--tier", "2", "--json")
        if where == "file"
        else learn(own, "--tier", "2", "--json", given=output)
    )
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout)
    assert (len(receipt["asserted"]), receipt["left"]) == (1, 0)
    (session,) = sessions(own)
    assert (session["id"], session["tier"], session["trigger"]) == (receipt["session"], 2, "learn")
    assert (session["cli_session_id"], session["ended_at"] is None) == ("s1", False)
    assert [line[25:] for line in Path(session["log_path"]).read_text().splitlines()] == (
        output.decode().splitlines()
    )


def test_a_log_is_learned_from_again_without_learning_anything_twice(own: Path) -> None:
    ran(own, *printing(START, says(MARKER), END))
    (session,) = sessions(own)
    done = learn(own, session["log_path"], "--session", str(session["id"]))
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"nothing was learned\n"
    (found,) = asked(own, "list")["memories"]
    assert found["confidence"] == 0.7
    assert len(sessions(own)) == 1


def test_learning_from_an_unknown_session_or_file_is_refused(own: Path, tmp_path: Path) -> None:
    assert learn(own, "--session", "99", given=b"x").returncode == 1
    missing = learn(own, str(tmp_path / "nothing"))
    assert missing.returncode == 2
    assert b"cannot be read" in missing.stderr


def test_learning_is_live_and_what_was_learned_stays_when_it_is_killed(own: Path) -> None:
    with running(own, "memories", "learn", "--agent", "a") as process:
        pipe(process.stdin).write(stream(START, says(MARKER)))
        pipe(process.stdin).flush()
        until_learned(own, STARTS)
        pipe(process.stdin).write(stream(says(OTHER, "u2")))
        pipe(process.stdin).flush()
        process.kill()
        process.wait()
    assert set(observations(own)) >= {STARTS}
    assert memplane_here(own, "memories", "rebuild").returncode == 0
    with running(own, "memories", "learn", "--agent", "a") as process:
        pipe(process.stdin).write(stream(START, says(OTHER)))
        pipe(process.stdin).close()
        assert process.wait() == 0
    assert observations(own) == [ORDER, STARTS]


def test_learning_that_is_interrupted_keeps_what_it_heard(own: Path) -> None:
    with running(own, "memories", "learn", "--agent", "a") as process:
        pipe(process.stdin).write(stream(START, says(MARKER)))
        pipe(process.stdin).flush()
        until_learned(own, STARTS)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert b"Traceback" not in pipe(process.stderr).read()
    assert observations(own) == [STARTS]


def test_four_write_at_once_and_none_is_lost(own: Path) -> None:
    commands = [
        subprocess.Popen(
            [*MEMPLANE, "run", "--agent", "a", "--",
             *printing(f"[MEMORY:behavior:s{number}] Service {number} forgets its settings")],
            env=environment(own),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in range(4)
    ]  # fmt: skip
    assert [process.wait() for process in commands] == [0] * 4
    assert len(observations(own)) == 4
    assert memplane_here(own, "memories", "rebuild").returncode == 0
