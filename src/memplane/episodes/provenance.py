"""Where the words of a turn come from: the user, the agent, or what the agent read (pure).

A reply that repeats what a tool, a page or a file said is as trustworthy as those are. So each
piece of a reply is compared with what stands in its own request; a piece that shares half of its
pairs of telling words with a result is that result's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice, pairwise
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from memplane.exchange.tool_results import ToolOutput
from memplane.search.sentence_splitter import word_set

MAX_SOURCE_CHARS: Final = 120
_MIN_TELLING_WORDS: Final = 3
_MIN_REPEATED_CHARS: Final = 24
_MAX_PIECES: Final = 1_000
_NOT_IN_NAMES: Final = frozenset(" ,[]")
_MAX_SPANS: Final = 64
_WORDS: Final = re.compile(r"\w+")
_BLANKS: Final = {
    code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")
}
"""What separates words in a text of ASCII."""
_PIECES: Final = re.compile(r"(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f])\s*|\n+")
_BLOCK_ORIGIN: Final = re.compile(r"(?m)^\[(?:kind|source)=[^\n]*\borigin=([^\s,\]]+)[^\n]*\]$")
_NEXT_BLOCK: Final = re.compile(r"(?m)^(?:\[(?:kind|source|ts|score)=|--- END MEMORY)")
_NAME_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_WEB_TOOLS: Final = word_set(
    "web fetch browse browser url http https crawl scrape navigate webpage wikipedia"
)
_FILE_TOOLS: Final = word_set("file files read cat grep glob notebook pdf document")
_URL_ARGUMENTS: Final = ("url", "uri", "link", "href", "domain")
_PATH_ARGUMENTS: Final = ("file_path", "path", "filename", "file", "notebook_path", "title")
_COMMON_WORDS: Final = word_set(
    """
    a an the and or but if then so of to in on at by for from with as into about it its this that
    these those is are was were be been has have had do does did will would can could should may
    might must i you he she we they me my your his her our their not no yes there here also
    according says said states stated shows showed found which who what when where how
    """
)


class Origin(StrEnum):
    """What kind of source words come from."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    WEB = "web"
    FILE = "file"
    IMPORT = "import"


class Trust(StrEnum):
    """Whether words may be more than quoted data, and how many of them may be recalled."""

    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"


class RepeatedSpan(msgspec.Struct, frozen=True):
    """A part of a reply that repeats a source, from one character to before another."""

    start: int
    end: int
    source: str


class Provenance(msgspec.Struct, frozen=True):
    """Where the words of a turn come from, as far as they are not the user's or the agent's own.

    Args:
        repeated: The parts of the reply that repeat a source.
        imported: The source that the whole entry was imported from, such as `import:mail`.
    """

    repeated: tuple[RepeatedSpan, ...] = ()
    imported: str = ""

    @property
    def sources(self) -> tuple[str, ...]:
        """Each source that the turn has words of, once."""
        spans = (span.source for span in self.repeated)
        return tuple(dict.fromkeys(filter(None, (self.imported, *spans))))


OWN_WORDS: Final = Provenance()
"""Of a turn in which the user and the agent say everything themselves."""


class TrustPolicy(msgspec.Struct, frozen=True):
    """Which sources an operator trusts, each by its name (`web:docs.example`) or kind (`file`)."""

    trusted: tuple[str, ...] = ()

    def is_trusted(self, source: str) -> bool:
        """Say whether the words of a source may be recalled like the user's own."""
        return matches_source(source, self.trusted)

    def judge(self, sources: Iterable[str]) -> Trust:
        """Return the trust in something that was made of sources: that in the worst of them."""
        trusted = all(map(self.is_trusted, sources))
        return Trust.TRUSTED if trusted else Trust.UNTRUSTED


EVERYTHING_UNTRUSTED: Final = TrustPolicy()
"""The policy of an operator who has named no source."""


def matches_source(source: str, wanted: Iterable[str]) -> bool:
    """Say whether a source is one of those, by its whole name or its kind."""
    return any(source == one or source.startswith(f"{one}:") for one in wanted)


def origin_of_source(source: str) -> Origin:
    """Return what kind of source a name is of."""
    kind = source.partition(":")[0]
    return Origin(kind) if kind in _SOURCE_KINDS else Origin.TOOL


_SOURCE_KINDS: Final = frozenset({Origin.TOOL, Origin.WEB, Origin.FILE, Origin.IMPORT})


def name_source(kind: Origin, name: str) -> str:
    """Name a source: its kind, and what tells it from others of the kind."""
    plain = "".join(one if one.isprintable() and one not in _NOT_IN_NAMES else "_" for one in name)
    return f"{kind}:{plain or 'unknown'}"[:MAX_SOURCE_CHARS]


def name_result_source(result: ToolOutput) -> str:
    """Name the source of what a tool returned: a web site, a file, or the tool itself."""
    parts = {part.lower() for part in _NAME_PARTS.findall(result.tool)}
    path = _first_text(result.arguments, _PATH_ARGUMENTS)
    if host := _host(_first_text(result.arguments, _URL_ARGUMENTS)):
        return name_source(Origin.WEB, host)
    if parts & _WEB_TOOLS:
        return name_source(Origin.WEB, result.tool)
    if result.is_attachment or (path and (parts & _FILE_TOOLS or not parts)):
        return name_source(Origin.FILE, path or "attachment")
    if parts & _FILE_TOOLS:
        return name_source(Origin.FILE, path or result.tool)
    return name_source(Origin.TOOL, result.tool)


def _first_text(arguments: Mapping[str, object], names: Iterable[str]) -> str:
    values = (arguments.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value), "")


def _host(address: str) -> str:
    try:
        return (urlsplit(address if "//" in address else f"//{address}").hostname or "").lower()
    except ValueError:
        return ""


class SentenceSources:
    """Which source a sentence of a turn repeats, found by its words: texts are cleaned meanwhile.

    Args:
        provenance: Where the turn's words come from.
        answer: The reply; empty where the sentences are the user's.
    """

    def __init__(self, provenance: Provenance, answer: str) -> None:
        self._imported = provenance.imported
        spans = provenance.repeated if answer else ()
        self._spans = [
            (span.source, f" {' '.join(_words(answer[span.start : span.end]))} ") for span in spans
        ]

    def source_of(self, sentence: str) -> str:
        """Return the source of a sentence; empty where it is the speaker's own."""
        if self._imported or not self._spans:
            return self._imported
        said = f" {' '.join(_words(sentence))} "
        return next((source for source, text in self._spans if said in text), "")


def own_words(answer: str, provenance: Provenance) -> str:
    """Return what is left of a reply without what repeats a source."""
    parts: list[str] = []
    end = 0
    for span in provenance.repeated:
        parts.append(answer[end : span.start].strip())
        end = span.end
    return " ".join(filter(None, (*parts, answer[end:].strip())))


# Which parts of a reply repeat something.


def find_repeated_spans(
    answer: str, question: str, results: Sequence[ToolOutput], injected: str = ""
) -> tuple[RepeatedSpan, ...]:
    """Return the parts of a reply that repeat what stands in its request.

    Args:
        answer: What the model answered.
        question: What the user asked; words that are the user's own are nobody else's.
        results: What tools returned, the newest first.
        injected: The memory in the prompt; blocks in it name the source that they quote.
    """
    texts = [(name_result_source(one), one.text) for one in results]
    texts += _quoted_blocks(injected)
    if not texts or not answer:
        return ()
    known = _PhraseIndex.of(texts, question, answer)
    pieces = list(_pieces(answer))
    sources = [known.source_of(answer[start:end]) for start, end in pieces]
    return _limit_spans(list(_join_spans(pieces, _fill_scraps(sources))), len(answer))


def _limit_spans(spans: Sequence[RepeatedSpan], length: int) -> tuple[RepeatedSpan, ...]:
    """Keep the first spans; where there are too many, the last of them reaches to the end."""
    if len(spans) <= _MAX_SPANS:
        return tuple(spans)
    last = spans[_MAX_SPANS - 1]
    return (*spans[: _MAX_SPANS - 1], RepeatedSpan(last.start, length, last.source))


def _quoted_blocks(injected: str) -> Iterator[tuple[str, str]]:
    """Yield the untrusted memories of a prompt, which a model may say again in other words."""
    for head in _BLOCK_ORIGIN.finditer(injected):
        end = _NEXT_BLOCK.search(injected, head.end())
        yield head[1], injected[head.end() : end.start() if end else len(injected)]


_Pair: TypeAlias = tuple[str, str]


class _PhraseIndex(msgspec.Struct, frozen=True):
    """Which of a reply's pairs of telling words sources have, and what they say in plain words."""

    sources: Sequence[str]
    pairs: Mapping[_Pair, int]
    own: Collection[_Pair]
    plain: Sequence[str]

    @classmethod
    def of(cls, texts: Sequence[tuple[str, str]], question: str, answer: str) -> _PhraseIndex:
        sought = frozenset(pairwise(_telling(_words(answer))))
        pairs: dict[_Pair, int] = {}
        plain: list[str] = []
        for place, (_, text) in reversed(list(enumerate(texts))):
            words = _words(text)
            pairs.update(dict.fromkeys(sought.intersection(pairwise(_telling(words))), place))
            plain.append(f" {' '.join(words)} ")
        own = frozenset(pairwise(_telling(_words(question))))
        return cls([source for source, _ in texts], pairs, own, plain[::-1])

    def source_of(self, piece: str) -> str | None:
        """Return the source that a piece repeats, empty for none; None if it is too short."""
        words = _words(piece)
        telling = _telling(words)
        if len(telling) < _MIN_TELLING_WORDS:
            return self._source_in_full(" ".join(words)) or None
        pairs = [pair for pair in pairwise(telling) if pair not in self.own]
        found = Counter(self.pairs[pair] for pair in pairs if pair in self.pairs)
        if pairs and 2 * found.total() >= len(pairs):
            return self.sources[min(found, key=lambda place: (-found[place], place))]
        return ""

    def _source_in_full(self, said: str) -> str:
        """Return the source that says something word for word."""
        if len(said) < _MIN_REPEATED_CHARS:
            return ""
        return next(
            (self.sources[at] for at, text in enumerate(self.plain) if f" {said} " in text), ""
        )


def _words(text: str) -> list[str]:
    folded = text.casefold()
    # As the pattern finds them, in a third of the time.
    return folded.translate(_BLANKS).split() if folded.isascii() else _WORDS.findall(folded)


def _telling(words: Iterable[str]) -> list[str]:
    return [word for word in words if word not in _COMMON_WORDS]


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence or line begins and ends; behind very many, all the rest is one."""
    position = 0
    for between in islice(_PIECES.finditer(text), _MAX_PIECES):
        if between.start() > position:
            yield position, between.start()
        position = between.end()
    if position < len(text):
        yield position, len(text)


def _fill_scraps(sources: Sequence[str | None]) -> list[str]:
    """Give a piece that says little by itself the source of what stands around it."""
    before, after = _carry(sources), _carry(sources[::-1])[::-1]
    return [
        source if source is not None else _agree(before[place], after[place])
        for place, source in enumerate(sources)
    ]


def _carry(sources: Iterable[str | None]) -> list[str | None]:
    """Return for each piece the last source that is known up to there."""
    carried: list[str | None] = []
    for source in sources:
        carried.append(source if source is not None or not carried else carried[-1])
    return carried


def _agree(before: str | None, after: str | None) -> str:
    """Return the source around a scrap, if there is one on each side that has anything."""
    around = [one for one in (before, after) if one is not None]
    return around[0] if around and all(around) else ""


def _join_spans(
    pieces: Sequence[tuple[int, int]], sources: Iterable[str]
) -> Iterator[RepeatedSpan]:
    """Yield one span for neighbouring pieces of one source."""
    last: RepeatedSpan | None = None
    for (start, end), source in zip(pieces, sources, strict=True):
        if last is not None and last.source == source:
            last = RepeatedSpan(last.start, end, source)
            continue
        if last is not None and last.source:
            yield last
        last = RepeatedSpan(start, end, source)
    if last is not None and last.source:
        yield last


# As it is written in a row.


def encode_provenance(provenance: Provenance) -> str:
    """Write where words come from, a line for each part; empty where nothing is to be said."""
    lines = [f"{span.start} {span.end} {span.source}" for span in provenance.repeated]
    return "\n".join((f"* {provenance.imported}", *lines) if provenance.imported else lines)


def decode_provenance(text: str) -> Provenance:
    """Read what `encode_provenance` wrote."""
    if not text:
        return OWN_WORDS
    lines = [line.split(" ") for line in text.split("\n")]
    return Provenance(
        tuple(RepeatedSpan(int(one[0]), int(one[1]), one[2]) for one in lines if one[0] != "*"),
        next((one[1] for one in lines if one[0] == "*"), ""),
    )
