"""Several devices, one object, and every fault there is, around the production steps.

A history is a seed. Each device runs `sync_document`, stopped by hand at every await: there it may
be killed, overtaken by a typing user or by other devices, lose its memory, get no answer, or get
a lying one. Every line is typed once in a history, so that the judge can say of each whether it
was rightly kept or rightly gone.

What a text is, and how two are merged, is a `Craft`: plain sets of lines, or real documents with
the production merges (`tests.persona.crafts`).
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Coroutine, Generator, Sequence
from dataclasses import astuple, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any, Protocol

from memplane.errors import BackendUnavailable, ConcurrencyError
from memplane.persona import steps as production
from memplane.persona.model import (
    NEW_STATE,
    DocumentState,
    LocalChange,
    MergeBase,
    MergedDocument,
    OptionalText,
    RemoteDocument,
)
from memplane.storage.lineage import Lineage


class _Tick:
    """One moment at which the world may do something else, or end."""

    def __await__(self) -> Generator[None, None, None]:
        yield


_TICK = _Tick()


def lines_of(text: OptionalText) -> frozenset[bytes]:
    return frozenset(text.split()) if text else frozenset()


def text_of(lines: frozenset[bytes]) -> bytes:
    return b"\n".join(sorted(lines))


def combine_lines(
    base: MergeBase | None, local: OptionalText, remote: RemoteDocument
) -> MergedDocument:
    """Merge as sets of lines: what one side removed goes, what one side added stays."""
    if local == remote.text:
        return MergedDocument(local)
    before = lines_of(base.text) if base else frozenset()
    ours, theirs = lines_of(local), lines_of(remote.text)
    merged = (ours | theirs) - (before - ours) - (before - theirs)
    if not merged and (local is None or remote.text is None):
        return MergedDocument(None)
    return MergedDocument(text_of(merged))


class Craft(Protocol):
    """How lines make a text, and how two texts become one."""

    def lines_of(self, text: OptionalText) -> frozenset[bytes]: ...
    def typed(self, text: OptionalText, line: bytes) -> bytes: ...
    def without(self, text: bytes, line: bytes) -> bytes: ...
    def combine(
        self, base: MergeBase | None, local: OptionalText, remote: RemoteDocument, changed: str
    ) -> MergedDocument: ...
    def may_return(self, removal: Deed, deeds: Sequence[Deed]) -> bool:
        """Say whether a line may come back though somebody removed it so."""
        ...


class Lines:
    """Texts are sets of lines."""

    def lines_of(self, text: OptionalText) -> frozenset[bytes]:
        return lines_of(text)

    def typed(self, text: OptionalText, line: bytes) -> bytes:
        return text_of(lines_of(text) | {line})

    def without(self, text: bytes, line: bytes) -> bytes:
        return text_of(lines_of(text) - {line})

    def combine(
        self, base: MergeBase | None, local: OptionalText, remote: RemoteDocument, changed: str
    ) -> MergedDocument:
        return combine_lines(base, local, remote)

    def may_return(self, removal: Deed, deeds: Sequence[Deed]) -> bool:
        return False


LINES = Lines()


@dataclass(frozen=True, slots=True)
class Deed:
    """Something a user did to a file, and which deeds its text came from."""

    number: int
    lines: frozenset[bytes]
    """Those that it removed."""
    deletion: bool
    seen: frozenset[int]

    def is_beside(self, other: Deed) -> bool:
        """Say whether neither knew of the other."""
        return other.number not in self.seen and self.number not in other.seen


@dataclass(slots=True)
class Faults:
    """How likely each misfortune is, at each occasion."""

    lost_answer: float = 0.12
    no_answer: float = 0.06
    late: float = 0.06
    storm: float = 0.08
    own_conflict: float = 0.04
    missing: float = 0.05
    unreachable: float = 0.05
    wrong_belief: float = 0.3


@dataclass(slots=True)
class Put:
    """A put on its way."""

    sender: str
    text: OptionalText
    expected: str | None
    lineage: Lineage
    changed: str
    seen: frozenset[int]


@dataclass(slots=True)
class World:
    """The container, what still travels to it, and what users did."""

    chance: random.Random
    faults: Faults
    craft: Craft
    moment: int = 0
    remote: RemoteDocument | None = None
    versions: int = 0
    seen: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    """The deeds that each version of the object came from: what the judge knows, and nobody
    else."""
    deeds: list[Deed] = field(default_factory=list["Deed"])
    travelling: list[Put] = field(default_factory=list[Put])
    typed: set[bytes] = field(default_factory=set[bytes])
    excused: set[bytes] = field(default_factory=set[bytes])
    healed: bool = False

    def misfortune(self, likely: float) -> bool:
        return not self.healed and self.chance.random() < likely

    def deliver(self, put: Put) -> str | None:
        """Carry out a put if its condition holds; return the new version."""
        found = self.remote.etag if self.remote else None
        if put.expected != found:
            return None
        self.versions += 1
        etag = f"v{self.versions}"
        self.remote = RemoteDocument(
            put.text, etag, put.lineage, put.changed, _covered(self.remote)
        )
        self.seen[etag] = put.seen | self.seen.get(put.expected or "", frozenset())
        return etag


@dataclass(slots=True)
class Device:
    """One machine: a file, a memory of earlier syncs, and perhaps a sync under way."""

    world: World
    number: int
    steps: ModuleType = production
    skew: int = 0
    file: OptionalText = None
    changed: str = ""
    seen: frozenset[int] = frozenset()
    state: DocumentState = NEW_STATE
    numbers: int = 0
    epoch: int = 0
    names: int = 0
    staged: dict[str, bytes] = field(default_factory=dict[str, bytes])
    discarded: set[str] = field(default_factory=set[str])
    aside: list[bytes] = field(default_factory=list[bytes])
    removed: set[bytes] = field(default_factory=set[bytes])
    running: Coroutine[Any, Any, Any] | None = None
    _read: frozenset[int] = frozenset()
    _looked: tuple[bytes, frozenset[int]] | None = None

    # The ports, as the steps know them.

    @property
    def device(self) -> str:
        return f"d{self.number}e{self.epoch}"

    async def read_local(self) -> OptionalText:
        looked, self._looked = self._looked, None
        if looked is not None:
            text, self._read = looked
            return text
        await _TICK
        self._read = self.seen
        return self.file

    async def read_remote(self) -> RemoteDocument | None:
        await _TICK
        world = self.world
        if world.misfortune(world.faults.unreachable):
            raise BackendUnavailable("no answer")
        if world.misfortune(world.faults.missing):
            return None
        found = world.remote
        await _TICK
        return found

    async def put(
        self, text: OptionalText, expected: str | None, lineage: Lineage, changed: str
    ) -> str:
        world = self.world
        await _TICK
        put = Put(self.device, text, expected, lineage, changed, self._read)
        if world.misfortune(world.faults.no_answer):
            raise BackendUnavailable("no answer")
        if world.misfortune(world.faults.late):
            world.travelling.append(put)
            raise BackendUnavailable("no answer yet")
        if world.misfortune(world.faults.storm):
            raise ConcurrencyError("somebody else")
        etag = world.deliver(put)
        if world.misfortune(world.faults.lost_answer):
            raise BackendUnavailable("the answer was lost")
        if world.misfortune(world.faults.own_conflict):
            raise ConcurrencyError("it landed, and its repetition met it")
        await _TICK
        if etag is None:
            raise ConcurrencyError("somebody else was quicker")
        return etag

    async def next_number(self) -> int:
        self.numbers += 1
        return self.numbers

    async def keep(self, state: DocumentState) -> None:
        await _TICK
        self.state = state
        await _TICK

    async def stage(self, text: bytes, over: OptionalText) -> str:
        await _TICK
        name = self._new_name()
        self.staged[name] = text
        await _TICK
        return name

    async def is_staged(self, name: str) -> bool:
        return name in self.staged

    async def clear(self, apply: LocalChange) -> None:
        await _TICK
        self.staged.pop(apply.name, None)
        self.discarded.discard(apply.name)
        await _TICK

    async def swap(self, name: str, expected: OptionalText) -> bool:
        await _TICK
        if self.file != expected:
            return False
        self._write(self.staged.pop(name))
        self._learn()
        await _TICK
        return True

    async def new_name(self) -> str:
        return self._new_name()

    async def discard(self, name: str, expected: bytes) -> bool:
        await _TICK
        if self.file != expected:
            return False
        self._write(None)
        self._learn()
        self.discarded.add(name)
        await _TICK
        return True

    async def is_discarded(self, name: str) -> bool:
        return name in self.discarded

    async def set_aside(self, text: bytes, why: str) -> None:
        await _TICK
        self.aside.append(text)

    def combine(
        self, base: MergeBase | None, local: OptionalText, remote: RemoteDocument
    ) -> MergedDocument:
        return self.world.craft.combine(base, local, remote, self.changed)

    def _learn(self) -> None:
        """Remember, for the judge, where the file's text comes from."""
        apply = self.state.apply
        self.seen |= self.world.seen.get(apply.etag, frozenset()) if apply else frozenset()

    def _write(self, text: OptionalText) -> None:
        self.file = text
        now = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=self.world.moment + self.skew)
        self.changed = now.isoformat()

    def _new_name(self) -> str:
        self.names += 1
        return f"n{self.names}"

    # What happens to a device.

    def start(self) -> None:
        if self.running is None:
            # All files are read before any of them is dealt with: the first look may be old.
            early = self.file is not None and self.world.chance.random() < 0.5
            self._looked = (self.file, self.seen) if self.file is not None and early else None
            self.running = self.steps.sync_document(self, self.state, self._belief())

    def _belief(self) -> Any:
        """Begin as a push does, from what the last sync knew; or from a listing; or read."""
        base = self.state.base
        world = self.world
        if not world.remote or world.misfortune(world.faults.missing):
            return self.steps.AssumedRemote(None)
        if base is None or base.etag is None or not world.misfortune(world.faults.wrong_belief):
            return None
        return self.steps.AssumedRemote(
            RemoteDocument(base.text, base.etag, base.lineage, base.changed)
        )

    def advance(self) -> None:
        if self.running is None:
            return
        try:
            self.running.send(None)
        except (StopIteration, BackendUnavailable):
            self.running = None

    def kill(self) -> None:
        if self.running is not None:
            self.running.close()
            self.running = None

    def lose_memory(self) -> None:
        """The sync database is gone: a new device name, and the file as it is found.

        What this device had sent arrives at once or never: puts do not travel for days.
        """
        self.kill()
        world = self.world
        for put in [one for one in world.travelling if one.sender == self.device]:
            world.travelling.remove(put)
            if world.chance.random() < 0.5:
                world.deliver(put)
        there = world.craft.lines_of(world.remote.text if world.remote else None)
        # What was deleted here and had not reached the container cannot be known any more.
        world.excused |= self.removed & there
        self.epoch += 1
        self.state = DocumentState(adopted=self.file)

    def type_line(self, line: bytes) -> None:
        self.world.typed.add(line)
        self._note()
        self._write(self.world.craft.typed(self.file, line))

    def remove_line(self) -> None:
        lines = sorted(self.world.craft.lines_of(self.file))
        if self.file is not None and lines:
            gone = self.world.chance.choice(lines)
            self._note(frozenset({gone}))
            self._write(self.world.craft.without(self.file, gone))

    def delete_file(self) -> None:
        if self.file is not None:
            self._note(self.world.craft.lines_of(self.file), deletion=True)
            self._write(None)

    def _note(self, removed: frozenset[bytes] = frozenset(), *, deletion: bool = False) -> None:
        world = self.world
        deed = Deed(len(world.deeds), removed, deletion, self.seen)
        world.deeds.append(deed)
        self.seen |= {deed.number}
        self.removed |= removed


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a history showed; empty when all promises held."""

    seed: int
    final: OptionalText = None
    lost: frozenset[bytes] = frozenset()
    revived: frozenset[bytes] = frozenset()
    apart: bool = False

    def __bool__(self) -> bool:
        return bool(self.lost or self.revived or self.apart)


@dataclass(frozen=True, slots=True)
class Habits:
    """How often things happen in a history, as weights; each history has its own mixture."""

    type_line: float
    remove_line: float
    delete_file: float
    kill: float
    lose_memory: float
    arrive_late: float
    sync: float

    @classmethod
    def drawn(cls, chance: random.Random) -> Habits:
        usual = (10.0, 4.0, 1.5, 5.0, 1.0, 4.0, 75.0)
        return cls(*(weight * chance.choice((0.2, 1.0, 1.0, 4.0)) for weight in usual))


def run_history(
    seed: int,
    *,
    steps: ModuleType = production,
    faults: Faults | None = None,
    craft: Craft = LINES,
) -> Verdict:
    """Live through one history, let everything heal, and judge."""
    chance = random.Random(seed)  # noqa: S311 - a history must be repeatable
    world = World(chance, faults or Faults(), craft)
    devices = [
        Device(world, number, steps, chance.choice((-1000, 0, 0, 1000)))
        for number in range(chance.randint(2, 5))
    ]
    names = [one.name for one in fields(Habits)]
    weights = list(itertools.accumulate(astuple(Habits.drawn(chance))))
    for moment in range(chance.randint(30, 200)):
        world.moment = moment
        (what,) = chance.choices(names, cum_weights=weights)
        _happen(what, world, chance.choice(devices), b"%d" % moment)
    _heal(world, devices)
    return _judge(seed, world, devices)


def _happen(what: str, world: World, device: Device, line: bytes) -> None:
    match what:
        case "type_line":
            device.type_line(line)
        case "arrive_late":
            if world.travelling:
                at = world.chance.randrange(len(world.travelling))
                world.deliver(world.travelling.pop(at))
        case "sync":
            device.start()
            for _ in range(world.chance.randint(1, 14)):
                device.advance()
        case _:
            getattr(device, what)()


_ROUNDS = 4
_LONG = 2_000


def _heal(world: World, devices: list[Device]) -> None:
    """Late puts arrive, processes end, and every device syncs until nothing changes."""
    for put in world.travelling:
        world.deliver(put)
    world.travelling.clear()
    world.healed = True
    for device in devices:
        if world.chance.random() < 0.5:
            device.kill()
    for _ in range(_ROUNDS):
        for device in devices:
            device.start()
            for _ in range(_LONG):
                if device.running is None:
                    break
                device.advance()


def _judge(seed: int, world: World, devices: list[Device]) -> Verdict:
    final = world.remote.text if world.remote else None
    apart = any(device.file != final or device.running is not None for device in devices)
    read = world.craft.lines_of
    present = read(final).union(*(read(device.file) for device in devices))
    aside = frozenset[bytes]().union(*(read(text) for one in devices for text in one.aside))
    removed = frozenset[bytes]().union(*(deed.lines for deed in world.deeds))
    lost = world.typed - removed - present - aside
    back = (removed - world.excused) & present
    revived = frozenset(line for line in back if not _may_return(line, world))
    return Verdict(seed, final, frozenset(lost), revived, apart)


def _may_return(line: bytes, world: World) -> bool:
    removals = [deed for deed in world.deeds if line in deed.lines]
    return all(world.craft.may_return(removal, world.deeds) for removal in removals)


def _covered(remote: RemoteDocument | None) -> str:
    """Return which text a tombstone is about; the container has that from the sender."""
    return hashlib.sha256((remote.text if remote else None) or b"").hexdigest()
