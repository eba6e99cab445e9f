"""Processes that answer questions: as this one would, at once, and none of them is needed."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import msgspec
import pytest

from memplane.episodes import recall_worker_pool as module
from memplane.episodes.api_types import RecallRequest, RecallResponse
from memplane.episodes.recall_worker_pool import RecallWorkerPool, WorkerTimeouts
from memplane.episodes.response_builder import ResponseBudget
from memplane.episodes.search import question_from_request
from memplane.episodes.service import EpisodeService
from memplane.episodes.worker_protocol import (
    FrameDecoder,
    WorkerConfig,
    WorkerOutcome,
    WorkerReply,
    WorkerRequest,
    decode_reply,
    encode_frame,
)
from memplane.search.index import TextIndex
from tests.episodes.remembering import entry, give, memory_in, recall, texts
from tests.episodes.test_meaning import HILL, SEA, Meanings, embedded
from tests.support.running import Running, running_memplane

MANY = [
    entry(f"Where is bird{n}?", f"The bird{n} sits on tower {n % 7}.", minutes=10 * n)
    for n in range(60)
]
QUESTIONS = ("Where is bird7?", "Who sits on tower 3?", "bird50 or bird51?", "What is a fox?")


HASTY = WorkerTimeouts(step=0.02, aside=2, lost=4)


def readers_of(
    folder: Path,
    processes: int = 1,
    command: list[str] | None = None,
    patience: WorkerTimeouts | None = None,
    elapsed: Callable[[], float] = time.monotonic,
) -> RecallWorkerPool:
    opening = WorkerConfig(str(folder / "memplane.db"), str(folder / "index"), ResponseBudget())
    told = msgspec.json.encode(opening).decode()
    command = command or [sys.executable, "-m", "memplane.episodes.recall_worker", told]
    return RecallWorkerPool(command, {}, processes, patience=patience, elapsed=elapsed)


def asks() -> list[RecallRequest]:
    return [
        made
        for one in QUESTIONS
        for made in (
            RecallRequest(agent="analyst", text=one),
            RecallRequest(agent="analyst", text=one, limit=5, explain=True),
            RecallRequest(
                agent="analyst", messages=[{"role": "user", "content": one}], max_bytes=900
            ),
            RecallRequest(agent="nobody", text=one),
        )
    ]


async def ready(readers: RecallWorkerPool) -> None:
    """Wait until a process can be asked; the first question would let it be started."""
    readers.open()
    await readers.is_ready.wait()


async def beside(
    readers: RecallWorkerPool, memory: EpisodeService, ask: RecallRequest
) -> RecallResponse:
    """Ask memory, and make sure that it was a reader that answered."""
    answered: list[RecallResponse | None] = []
    real = readers.recall

    async def watched(*given: object, **more: object) -> RecallResponse | None:
        answered.append(await real(*given, **more))  # type: ignore[arg-type]
        return answered[-1]

    readers.recall = watched  # type: ignore[method-assign]
    try:
        found = await memory.recall(ask)
    finally:
        readers.recall = real  # type: ignore[method-assign]
    assert answered == [found]
    return found


async def test_a_reader_answers_as_this_process_does(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, *MANY)
        await memory.settle()
        expected = [await memory.recall(ask) for ask in asks()]
    readers = readers_of(tmp_path, 2)
    async with memory_in(tmp_path, readers=readers) as memory:
        await ready(readers)
        assert [await beside(readers, memory, ask) for ask in asks()] == expected
    assert any(one.memories for one in expected)


async def test_a_reader_sees_every_write_before_the_question(tmp_path: Path) -> None:
    readers = readers_of(tmp_path)
    async with memory_in(tmp_path, readers=readers) as memory:
        await give(memory, *MANY)
        await ready(readers)
        for n in range(20):
            new = entry(f"Where is fish{n}?", f"The fish{n} swims in lake {n}.", minutes=n)
            await give(memory, new)
            ask = RecallRequest(agent="analyst", text=f"fish{n}")
            assert f"lake {n}" in texts((await beside(readers, memory, ask)).memories)
            if n % 5 == 0:
                await memory.settle()  # the index takes it in
                assert f"lake {n}" in texts((await beside(readers, memory, ask)).memories)
            await memory.forget("analyst", [new["id"]])
            assert f"lake {n}" not in texts((await beside(readers, memory, ask)).memories)


async def test_a_reader_sees_a_rebuild(tmp_path: Path) -> None:
    readers = readers_of(tmp_path)
    async with memory_in(tmp_path, readers=readers) as memory:
        await give(memory, *MANY)
        await give(memory, *MANY[:30], agent="other")
        await memory.settle()
        await ready(readers)
        expected = [await beside(readers, memory, ask) for ask in asks()]
        await memory._records.write(
            lambda rows: rows.run("UPDATE episodes SET answer = 'gone', asked = '0\n'")
        )
        assert not (await memory.rebuild()).same
        assert [await beside(readers, memory, ask) for ask in asks()] == expected


async def test_a_reader_compares_by_meaning(tmp_path: Path) -> None:
    readers = readers_of(tmp_path)
    ask = RecallRequest(agent="analyst", text="The plan: a boat?", limit=2)
    async with memory_in(tmp_path, Meanings(), readers) as memory:
        await give(memory, HILL, SEA)
        await embedded(memory)
        await ready(readers)
        found = await beside(readers, memory, ask)
    async with memory_in(tmp_path, Meanings()) as memory:
        assert await memory.recall(ask) == found
    assert "island" in found.memories[0].text


async def test_a_reader_that_is_killed_fails_nobody_and_is_replaced(tmp_path: Path) -> None:
    readers = readers_of(tmp_path)
    async with memory_in(tmp_path, readers=readers) as memory:
        await give(memory, *MANY)
        await ready(readers)
        pid = await _only_child()
        os.kill(pid, signal.SIGSTOP)
        asking = asyncio.create_task(recall(memory, "Where is bird7?"))
        await _until(lambda: readers._lines[0].load() > 0)
        os.kill(pid, signal.SIGKILL)
        assert "tower 0" in texts(await asking)
        await _until(lambda: not readers.is_ready.is_set())
        await ready(readers)
        assert await _only_child() != pid
        await beside(readers, memory, RecallRequest(agent="analyst", text="Where is bird7?"))


async def test_a_reader_that_hangs_fails_nobody_and_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    readers = readers_of(tmp_path, patience=HASTY)
    async with memory_in(tmp_path, readers=readers) as memory, asyncio.timeout(60):
        await give(memory, *MANY)
        await ready(readers)
        pid = await _only_child()
        os.kill(pid, signal.SIGSTOP)
        assert "tower 0" in texts(await recall(memory, "Where is bird7?"))
        await _until(lambda: not _is_alive(pid))
        await ready(readers)
        assert await _only_child() != pid
        await beside(readers, memory, RecallRequest(agent="analyst", text="Where is bird7?"))
        assert "hung and was replaced, once" in (await memory.status()).degraded
    assert f"a reader ({pid}) hung" in caplog.text


def test_a_running_memplane_answers_while_its_reader_hangs(home: Path) -> None:
    with running_memplane(home, env={"MEMPLANE_MEMORY_READERS": "1"}) as running:
        post = partial(_post, running)
        post("/retain", {"agent_id": "analyst", "entry": MANY[7]})
        asked = {"agent_id": "analyst", "messages": [{"role": "user", "content": "bird7?"}]}
        post("/recall", asked)
        while not (children := _children(running.process.pid)):
            time.sleep(0.01)
        pid, took = children[0], 0.0
        while took < WorkerTimeouts().step:  # before it is ready it is not asked
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.1)
            os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            assert b"tower 0" in post("/recall", asked)
            took = time.monotonic() - began
        while pid in _children(running.process.pid):
            assert b"tower 0" in post("/recall", asked)
            time.sleep(0.05)  # it is silent for ten seconds


def _post(running: Running, path: str, body: object) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    headers = {"Authorization": f"Bearer {running.token}", "Content-Type": "application/json"}
    with closing(connection):
        connection.request("POST", path, json.dumps(body), headers)
        reply = connection.getresponse()
        assert reply.status < 300
        return reply.read()


async def test_a_reader_that_is_silent_for_a_while_is_asked_again_when_it_speaks(
    tmp_path: Path,
) -> None:
    never = WorkerTimeouts(step=0.02, lost=1 << 30)
    readers = readers_of(tmp_path, patience=never)
    async with memory_in(tmp_path, readers=readers) as memory, asyncio.timeout(60):
        await give(memory, *MANY)
        await ready(readers)
        pid = await _only_child()
        os.kill(pid, signal.SIGSTOP)
        assert "tower 0" in texts(await recall(memory, "Where is bird7?"))
        assert not readers.is_ready.is_set()
        os.kill(pid, signal.SIGCONT)
        await readers.is_ready.wait()
        assert await _only_child() == pid
        await beside(readers, memory, RecallRequest(agent="analyst", text="Where is bird7?"))
        assert (await memory.status()).degraded == ""


async def test_a_reader_that_hangs_does_not_keep_memory_from_being_closed(tmp_path: Path) -> None:
    never = WorkerTimeouts(step=0.02, lost=1 << 30)
    readers = readers_of(tmp_path, patience=never)
    async with asyncio.timeout(60), memory_in(tmp_path, readers=readers) as memory:
        await give(memory, *MANY[:30])
        await ready(readers)
        pid = await _only_child()
        os.kill(pid, signal.SIGSTOP)
        await recall(memory, "Where is bird7?")
    assert not _is_alive(pid)


async def test_a_reader_that_never_gets_ready_is_replaced(tmp_path: Path) -> None:
    hanging = [sys.executable, "-c", "import time; time.sleep(600)"]
    readers = readers_of(tmp_path, command=hanging, patience=WorkerTimeouts(step=0.01, opening=2))
    async with asyncio.timeout(60):
        readers.open()
        await _until(lambda: "once" in readers.complaint)
        await readers.close()


async def test_a_reader_that_is_not_ready_does_not_keep_memory_from_being_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EXIT_TIMEOUT_S", 600)
    opening = [
        sys.executable,
        "-c",
        "import time; time.sleep(600)",
        "memplane.episodes.recall_worker",
    ]
    readers = readers_of(tmp_path, command=opening)
    has_line, real = asyncio.Event(), readers._line

    async def watched(ours: socket.socket) -> module._WorkerConnection:
        line = await real(ours)
        has_line.set()
        return line

    readers._line = watched  # type: ignore[method-assign]
    async with asyncio.timeout(60):
        readers.open()
        await has_line.wait()
        await readers.close()
    assert _children(os.getpid()) == []


def _line() -> tuple[module._WorkerConnection, list[str]]:
    """A line that is ready, and what is told about it; nobody looks at it but the test."""
    told: list[str] = []
    line = module._WorkerConnection(
        lambda _: told.append("ready"),
        lambda _: told.append("over"),
        lambda: None,
        WorkerTimeouts(step=1e6),
    )
    line.connection_made(_Nowhere())
    line.data_received(encode_frame(WorkerReply(0, WorkerOutcome.ANSWERED)))
    return line, told


class _Nowhere(asyncio.WriteTransport):
    def write(self, data: object) -> None:
        del data

    def abort(self) -> None:
        pass


def _question(number: int) -> module._QueuedRecall:
    asked = WorkerRequest(number, RecallRequest(agent="analyst"), "", (), 0)
    return module._QueuedRecall(asked, asyncio.get_running_loop().create_future())


def _asked(line: module._WorkerConnection, number: int) -> asyncio.Future[WorkerReply]:
    """Ask a line, and return what will come back."""
    question = _question(number)
    line.ask(question)
    return question.reply


async def test_a_reader_with_much_to_do_is_not_silent_as_long_as_it_answers() -> None:
    line, told = _line()
    asking = [_asked(line, n) for n in range(1, 51)]
    for n in range(1, 50):
        for _ in range(2):  # each takes nearly as long as a reader may be silent
            line._look()
        line.data_received(encode_frame(WorkerReply(n, WorkerOutcome.ANSWERED)))
    assert told == ["ready"]
    assert not asking[-1].done()
    for _ in range(3):  # the first had begun before the last reply
        line._look()
    assert told == ["ready", "over"]
    assert (await asking[-1]).outcome is WorkerOutcome.FAILED
    assert all([(await one).outcome is WorkerOutcome.ANSWERED for one in asking[:-1]])
    line.connection_lost(None)


async def test_questions_wait_for_whichever_reader_is_free_first(tmp_path: Path) -> None:
    readers = readers_of(tmp_path, command=["nobody is started"])
    lines = [
        module._WorkerConnection(readers._know, readers._forget, readers._hand_out, HASTY)
        for _ in "ab"
    ]
    for line in lines:
        line.connection_made(_Nowhere())
        line.data_received(encode_frame(WorkerReply(0, WorkerOutcome.ANSWERED)))
    asking = [_question(n) for n in range(1, 10)]
    readers._queue.extend(asking)
    readers._hand_out()
    assert [line.load() for line in lines] == [1, 1]
    asking[7].reply.cancel()  # whoever does not wait any more is not asked for
    for done in (1, 3, 4, 5, 6, 7, 9):  # one of the two stands still
        lines[0].data_received(encode_frame(WorkerReply(done, WorkerOutcome.ANSWERED)))
    assert [one.asked.number for one in asking if not one.reply.done()] == [2]
    lines[1].connection_lost(None)
    assert (await asking[1].reply).outcome is WorkerOutcome.FAILED
    last = _question(10)
    lines[0].connection_lost(None)
    readers._queue.append(last)
    readers._hand_out()
    assert (await last.reply).outcome is WorkerOutcome.FAILED, "nobody is left to ask"


async def test_a_loop_that_stood_still_gives_nobody_up() -> None:
    line, told = _line()
    asking = _asked(line, 1)
    line._look()  # however late it is
    line.data_received(encode_frame(WorkerReply(1, WorkerOutcome.ANSWERED)))
    assert (await asking).outcome is WorkerOutcome.ANSWERED
    assert told == ["ready"]
    line.connection_lost(None)


async def test_processes_that_cannot_be_started_harm_nothing(tmp_path: Path) -> None:
    for command in (["/nowhere/python"], [sys.executable, "-c", "raise SystemExit(3)"]):
        readers = readers_of(tmp_path, command=command)
        async with memory_in(tmp_path, readers=readers) as memory:
            await give(memory, *MANY[:30])
            assert "tower 0" in texts(await recall(memory, "Where is bird7?"))


async def test_who_asks_too_much_at_once_is_answered_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_QUEUED_RECALLS", 1)
    readers = readers_of(tmp_path)
    async with memory_in(tmp_path, readers=readers) as memory:
        await give(memory, *MANY)
        await memory.settle()  # nothing is derived between one answer and the next
        await ready(readers)
        found = await asyncio.gather(*(recall(memory, "Where is bird7?") for _ in range(8)))
    assert all(one == found[0] for one in found)


async def test_an_index_that_a_reader_cannot_read_is_done_without(tmp_path: Path) -> None:
    readers = readers_of(tmp_path)
    async with memory_in(tmp_path, readers=readers) as memory:
        await give(memory, *MANY)
        await memory.settle()
        await ready(readers)
        expected = await recall(memory, "Where is bird7?", limit=3)

        def ended(_line: object, question: module._QueuedRecall) -> None:
            question.reply.set_result(WorkerReply(1, WorkerOutcome.INDEX_UNUSABLE, why="damaged"))

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(module._WorkerConnection, "ask", ended)
            assert await recall(memory, "Where is bird7?", limit=3) == expected
        assert isinstance(memory._indexing.current, TextIndex)
        await memory.settle()
        await beside(
            readers, memory, RecallRequest(agent="analyst", text="Where is bird7?", limit=3)
        )


async def test_the_first_question_lets_a_process_be_started(tmp_path: Path) -> None:
    readers = readers_of(tmp_path)
    async with memory_in(tmp_path, readers=readers) as memory:
        await give(memory, *MANY[:30])
        assert _children(os.getpid()) == []
        assert "tower 0" in texts(await recall(memory, "Where is bird7?"))
        await readers.is_ready.wait()
        await beside(readers, memory, RecallRequest(agent="analyst", text="Where is bird7?"))


async def test_a_question_that_comes_too_late_starts_none(tmp_path: Path) -> None:
    readers = readers_of(tmp_path)
    await readers.close()
    ask = RecallRequest(agent="analyst", text="Where is bird7?")
    assert await readers.recall(ask, question_from_request(ask), 0) is None
    assert not readers._running


@pytest.mark.parametrize("steps", range(12))
async def test_no_process_is_left_when_memory_is_closed_while_one_begins(
    tmp_path: Path, steps: int
) -> None:
    readers = readers_of(tmp_path)
    readers.open()
    for _ in range(steps):
        await asyncio.sleep(0)
    await readers.close()
    assert _children(os.getpid()) == []


async def test_no_process_is_left_when_memory_is_closed(tmp_path: Path) -> None:
    readers = readers_of(tmp_path, 2, elapsed=count().__next__)
    async with memory_in(tmp_path, readers=readers) as memory:
        await give(memory, *MANY)
        await ready(readers)
        await asyncio.gather(*(memory.recall(ask) for ask in asks()))
        assert len(_children(os.getpid())) == 2
    assert _children(os.getpid()) == []


async def test_another_process_is_started_when_questions_go_on_waiting(tmp_path: Path) -> None:
    now = 0.0
    readers = readers_of(tmp_path, 2, elapsed=lambda: now)
    async with memory_in(tmp_path, readers=readers) as memory:
        await give(memory, *MANY)
        await memory.settle()
        await ready(readers)
        expected = [await beside(readers, memory, ask) for ask in asks()]
        assert len(_children(os.getpid())) == 1, "one question at a time needs one"
        for _ in range(3):  # each time the first finds nobody waiting
            found = await asyncio.gather(*(memory.recall(ask) for ask in asks()))
            now += 10
            assert list(found) == expected
            assert len(_children(os.getpid())) == 1, "a moment in which many ask needs one"
        crowd = [asyncio.create_task(memory.recall(ask)) for ask in asks()]
        await asyncio.sleep(0)  # they have asked
        now += 10
        assert await asyncio.gather(*crowd, *(memory.recall(ask) for ask in asks())) == (
            [*expected, *expected]
        )
        for _ in range(2):  # with both, and no third one
            assert len(_children(os.getpid())) == 2
            found = await asyncio.gather(*(memory.recall(ask) for ask in asks()))
            assert list(found) == expected


async def test_no_process_outlives_the_one_that_began_it(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, *MANY[:3])
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.episodes.test_readers import readers_of\n"
        "async def main():\n"
        "    readers = readers_of(Path(sys.argv[1]))\n"
        "    readers.open()\n"
        "    await readers.is_ready.wait()\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    owner = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        str(tmp_path),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
    )
    assert owner.stdout is not None
    await owner.stdout.readline()
    (pid,) = _children(owner.pid)
    owner.kill()
    await owner.wait()
    await _until(lambda: not _is_alive(pid))


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_frames_are_whole_wherever_they_are_cut(step: int) -> None:
    replies = [WorkerReply(n, WorkerOutcome.FAILED, why="x" * n) for n in range(20)]
    data = b"".join(map(encode_frame, replies))
    frames = FrameDecoder()
    found = [
        decode_reply(frame)
        for at in range(0, len(data), step)
        for frame in frames.feed(data[at : at + step])
    ]
    assert found == replies


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    # Some begin and end beside these, as a tracker of the interpreter's own.
    return [
        one
        for one in map(int, found.split())
        if "memplane.episodes.recall_worker" in _command(one)
    ]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _is_alive(pid: int) -> bool:
    return "memplane.episodes.recall_worker" in _command(pid)


async def _only_child() -> int:
    (pid,) = _children(os.getpid())
    return pid


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - another process makes it so
        await asyncio.sleep(0.01)
