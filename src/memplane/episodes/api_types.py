"""What is asked of memory and what it answers: the shapes that every door shares (pure)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from memplane.auth.memory_scope import MemoryScope, ReadScope, WholeAgent, make_scope

MAX_BLOCKS = 8
DEFAULT_RECALL_BYTES = 8192
MAX_RECALL_LIMIT = 50
MAX_RECALL_BYTES = 65_536


class RetainReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an entry that was given.

    `status` is `retained`, `known` (it was there) or `forgotten` (it was, and stays so).
    """

    id: str
    status: str
    durable: bool
    searchable: bool
    redacted: int = 0


class Asker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who asks, as a pod says: kept beside a turn; the named view is a scope."""

    subject: str = ""
    role: str = ""
    purpose: str = ""
    invocation_id: str = ""
    view: str | None = None


class RetainRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that an agent is to remember, of one of its users or for all of them.

    Without a `user` it is that of the user that the entry's own request names, if any.
    """

    agent: str
    entry: msgspec.Raw
    user: str | None = None
    view: str | None = None
    asker: Asker = Asker()
    holds_token: bool = False
    """Whether it came with a token of the agent's."""

    @property
    def scope(self) -> MemoryScope:
        """The scope that is named.

        Raises:
            InvalidRequest: The user or the view cannot be one.
        """
        return make_scope(self.agent, self.user, self.view)


class NoteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A note that an agent is to remember, of one of its users or for all of them."""

    agent: str
    text: str
    user: str | None = None
    view: str | None = None


class RecallBlocks(StrEnum):
    """Which blocks an answer has beside those that match, and what was said with weight."""

    ANSWERS = "answers"
    """The last turns. A question that was answered with "I don't know" is no match."""
    ALL = "all"
    """A timeline and a count of routine turns, too."""


class RecallRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A question to an agent's memory: in words, or as the messages of a conversation.

    With `limit` only what matches is answered, one block for each turn. `here` are the places of
    answers in the conversation that asks; the turns that stand there are not told again, and
    neither are the entries that the answer is to be `without`.

    A `user` is answered with what is theirs and what is shared, and a `view` with what is its own
    and shared; without them the answer is of what is shared. An operator may ask `all_users`.

    With a `source`, such as `web:host` or `tool`, only turns that repeat it are answered, as many
    as match. `blocks` says what stands beside matches; without it the setting does.
    """

    agent: str
    user: str | None = None
    view: str | None = None
    all_users: bool = False
    text: str = ""
    messages: Any = None
    here: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_RECALL_LIMIT)] | None = None
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=MAX_RECALL_BYTES)] = DEFAULT_RECALL_BYTES
    explain: bool = False
    source: str = ""
    blocks: RecallBlocks | None = None

    @property
    def scope(self) -> ReadScope:
        """What the answer may have.

        Raises:
            InvalidRequest: The user or the view cannot be one.
        """
        if self.all_users:
            return WholeAgent(self.agent)
        return make_scope(self.agent, self.user, self.view)


class SignalContribution(msgspec.Struct, frozen=True, kw_only=True):
    """What a signal added to a score, and the place that it alone would give."""

    added: float
    place: int


class BlockExplanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a block was chosen: the part that it stands in, and what each word added.

    `signals` says for each signal of the ranking what it added, and the block's place by it alone.
    Of a turn that repeats too much, what it repeats of the `withheld` sources is not told.
    """

    part: str
    terms: dict[str, float] = {}
    coverage: float = 0.0
    signals: dict[str, SignalContribution] = {}
    withheld: tuple[str, ...] = ()


class MemoryBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One memory of a recall answer.

    `entry_ids` may name only some of the entries that it comes from; `made_of` are all of them
    then, so that forgetting any takes it out of a conversation. It is told to nobody outside.

    `origin` is what kind of source the words are of: `user`, `agent`, `tool`, `web`, `file` or
    `import`; `sources` names each that they repeat. What is not `trusted` is `untrusted`: data
    that somebody else wrote.

    `user` and `view` say whose it is, where all users or an explanation were asked for.
    """

    text: str
    score: float | None = None
    kind: str = ""
    source: str = ""
    ts: str = ""
    id: str = ""
    entry_ids: tuple[str, ...] = ()
    origin: str = ""
    trust: str = ""
    sources: tuple[str, ...] = ()
    user: str = ""
    view: str = ""
    why: BlockExplanation | None = None
    made_of: tuple[str, ...] = ()


class RecallResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a question; without anything that matches there is no memory in it."""

    memories: tuple[MemoryBlock, ...] = msgspec.field(default_factory=tuple)

    @property
    def told(self) -> tuple[MemoryBlock, ...]:
        """The memories as they are told outside."""
        return tuple(msgspec.structs.replace(one, made_of=()) for one in self.memories)


class ForgetCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many entries were forgotten now, and how many had been before."""

    forgotten: int
    already: int


class MemoryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How much is remembered, and how much of it is still to be worked on.

    `degraded` is what an operator should know although retaining and recalling go on.
    """

    agents: int
    episodes: int
    underived: int
    unindexed: int
    busy: bool
    unreadable: int = 0
    degraded: str = ""
    unembedded: int = 0


class TableRebuild(msgspec.Struct, frozen=True, kw_only=True):
    """One table that was derived again: its rows now and before, and whether they are the same."""

    name: str
    rows: int
    before: int
    digest: str
    same: bool


class RebuildResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a rebuild made, table by table; what differed was replaced."""

    tables: tuple[TableRebuild, ...]

    @property
    def same(self) -> bool:
        """Whether the live database was what the ledgers say."""
        return all(one.same for one in self.tables)


class ForgetCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One place that was searched for what was forgotten.

    One that is `unsure` is not clean either: the words were gone before they could be looked for.
    """

    place: str
    clean: bool
    note: str = ""
    unsure: bool = False


class ForgetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator wants forgotten, and how thoroughly.

    `verify` searches every derived place afterwards; `purge` also erases the payload from the
    ledgers, and with `copies` from later turns that repeat it. With `known_only` an id may be
    abbreviated, and must be one that was recorded; without, it is taken as it is.
    """

    agent: str
    ids: tuple[str, ...]
    user: str | None = None
    """Whose they have to be; None is anybody's."""
    reason: str = ""
    verify: bool = False
    purge: bool = False
    copies: bool = False
    known_only: bool = False


class ForgetReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of what an operator wanted forgotten.

    `ids` are the entries that it was about, whole. `repeated` are later turns that repeat what
    was purged, and were left. Whose words were `erased_before` cannot be compared with anything.
    """

    forgotten: int
    already: int
    ids: tuple[str, ...] = ()
    purged: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    erased_before: tuple[str, ...] = ()
    checked: tuple[ForgetCheck, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether every place that was searched is clean."""
        return all(one.clean for one in self.checked)


class SourceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A source that an agent's turns repeat, how many do, and whether it is trusted."""

    source: str
    turns: int
    trust: str


class SourceList(msgspec.Struct, frozen=True, kw_only=True):
    """The sources that an agent's turns repeat, those of the most turns first."""

    sources: tuple[SourceSummary, ...] = ()


class RollbackRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator wants rolled back: all that came of a source, or of a session.

    A source is a name such as `web:host`, or a kind such as `tool`. With `dry_run` nothing
    happens, and the receipt says what would go. `verify` and `purge` are those of a forget.
    """

    agent: str
    source: str = ""
    session: str = ""
    reason: str = ""
    dry_run: bool = False
    verify: bool = False
    purge: bool = False


class OriginTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A turn of a source or a session, as an operator recognises it."""

    id: str
    ts: str = ""
    question: str = ""
    sources: tuple[str, ...] = ()


class RollbackReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was rolled back, or would be.

    The first of the `turns` are listed; `count` is how many there are. `memories` are the
    observations that changed; undoing the `batch` brings them back. Turns stay forgotten.
    """

    count: int
    turns: tuple[OriginTurn, ...] = ()
    memories: tuple[int, ...] = ()
    batch: str = ""
    done: bool = False
    forgotten: ForgetReceipt | None = None
