"""Finding what an agent remembers about a question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice, zip_longest
from typing import Final, NamedTuple, Protocol

import msgspec

from memplane.database.interface import Connection
from memplane.episodes import provenance_store
from memplane.episodes import store as table
from memplane.episodes.api_types import RecallBlocks, RecallRequest, RecallResponse
from memplane.episodes.artefacts import Artefact, ArtefactKind
from memplane.episodes.episode import Episode
from memplane.episodes.injection_store import find_turns_at
from memplane.episodes.non_answer import is_non_answer
from memplane.episodes.pending_turns import NO_PENDING_WORK, PendingIndexWork, PendingTurns
from memplane.episodes.provenance import (
    EVERYTHING_UNTRUSTED,
    OWN_WORDS,
    Provenance,
    Trust,
    TrustPolicy,
    matches_source,
)
from memplane.episodes.question import Question, extract_question
from memplane.episodes.response_builder import (
    EpisodeMatch,
    ResponseBudget,
    SalientMatch,
    SearchResult,
    build_match_response,
    build_mixed_response,
    build_source_response,
)
from memplane.episodes.scope_store import VisibleScopes, get_visible_scopes
from memplane.episodes.vector_cache import SimilarTurns
from memplane.search.bm25 import (
    CorpusStatistics,
    ScoredDocument,
    TermWeight,
    compute_coverage,
    idf,
    is_match,
    normalize_score,
    score_documents,
    select_informative,
    total_weight,
    weigh_terms,
)
from memplane.search.index import TextIndex
from memplane.search.time_expressions import asks_for_time, parse_periods
from memplane.search.tokenizer import count_query_terms
from memplane.search.turn_ranker import (
    Query,
    RankedTurn,
    explain_rank,
    has_answer,
    rank_turns,
)
from memplane.search.turn_terms import (
    MatchedTermCounts,
    SearchTurn,
    TermFinder,
    extract_name_terms,
    extract_words,
    merge_counts,
)

EXACT_SCORING_MAX_EPISODES: Final = 24
_MAX_INDEXED_SCOPES: Final = 16
_MAX_MATCHES: Final = 8
_MAX_EXPLORED_MATCHES: Final = 2
_MIN_QUERY_TERMS: Final = 2
_MAX_QUERY_TERMS: Final = 256
_MAX_SALIENT_ARTEFACTS: Final = 32
_MAX_TIMELINE_LINES: Final = 8
_MAX_RECENT_TURNS: Final = 4
_QUESTION_MARKS: Final = ("?", "\uff1f", "\u061f")
_MIN_OTHER_CANDIDATES: Final = 4
_MAX_EXPLORED_CANDIDATES: Final = 4096
_CHUNK_TURNS: Final = 100


class _SearchLimits(NamedTuple):
    """How many likely turns are ranked, and how many of these bring what was said around them."""

    turns: int
    with_neighbours: int


# A prompt's few matches are found as well by looking at less; whoever asks for turns wants many.
_PROMPT_LIMITS: Final = _SearchLimits(20, 4)
_SEARCH_LIMITS: Final = _SearchLimits(32, 6)


def recall_episodes(
    rows: Connection,
    index: TextIndex | None,
    ask: RecallRequest,
    question: Question,
    *,
    shares: ResponseBudget,
    now: QueryContext,
    tails: PendingTurns,
    trust: TrustPolicy = EVERYTHING_UNTRUSTED,
) -> RecallResponse:
    """Answer a question from the rows and the index; without an index it takes longer."""
    known = get_visible_scopes(rows, ask.scope)
    terms = _terms(question)
    if not known.episodes or not (terms or now.meant):
        return RecallResponse()
    reach = _PROMPT_LIMITS if ask.limit is None else _SEARCH_LIMITS
    likely = max(reach.turns, ask.limit or 0)
    here = frozenset(ask.without)
    if ask.here:
        here |= find_turns_at(rows, ask.scope, ask.here)
    choice = _make_source_choice(rows, known, trust, ask.source)
    similar = now.meant.compare(rows, known) if now.meant is not None else None
    sought = _find_candidates(
        _SearchScope(rows, index, tails, known, likely, here, choice, similar), terms
    )
    asked = _build_query(question, sought, now.at)
    ranking = _RankingInput(rows, known, sought, reach.with_neighbours, similar, here, choice)
    matched = _matches(ranking, asked, ask)
    matches = [one.match for one in matched]
    if ask.limit is not None or ask.source:
        found = SearchResult(matches=matches, trust=trust)
        build = build_source_response if ask.source else build_match_response
        most = ask.limit or _MAX_MATCHES
        return build(found, limit=most, max_bytes=ask.max_bytes, explain=ask.explain)
    weighty = _find_salient(rows, known, sought, matched=bool(matches))
    weighty = [one for one in weighty if not here.issuperset(one.artefact.sources)]
    if not matches and not weighty:
        return RecallResponse()
    recent = _list_recent(rows, known, matches, ask)
    is_brief = ask.blocks is RecallBlocks.ANSWERS
    lines = [] if is_brief else _list_timeline(rows, known, matched)
    said = {question.text, *question.context}
    found = SearchResult(
        matches=matches,
        weighty=weighty,
        timeline=[one for one in lines if not here.issuperset(one.sources)],
        recent=[one for one in recent if one.question not in said and one.id not in here],
        noise=None if is_brief else table.get_noise_summary(rows, known),
        newest=recent[0].at if recent else 0,
        trust=trust,
    )
    return build_mixed_response(found, shares, max_bytes=ask.max_bytes, explain=ask.explain)


def question_from_request(ask: RecallRequest) -> Question:
    """Return what is asked: a text, or the end of a conversation."""
    return Question(ask.text, ()) if ask.text else extract_question(ask.messages)


class QueryContext(msgspec.Struct, frozen=True):
    """When a question is asked, and what it means, where that is known."""

    at: int
    meant: SemanticQuery | None = None


class SemanticQuery(Protocol):
    """A question that can be compared with turns by meaning."""

    def compare(self, rows: Connection, seen: VisibleScopes) -> SimilarTurns:
        """Compare it with every visible turn that has a vector."""
        ...


class _MatchWithTimeline(msgspec.Struct, frozen=True):
    """A match, and the line of the timeline for the stretch that it is in."""

    match: EpisodeMatch
    lines: Sequence[Artefact]


def _terms(question: Question) -> Mapping[str, int]:
    """Return the words to look for; a question of hardly any takes some from what came before."""
    terms = dict(count_query_terms(question.text)) if question.text.strip() else {}
    if len(terms) < _MIN_QUERY_TERMS:
        for earlier in question.context[-1:]:
            terms = {**count_query_terms(earlier), **terms}
    return dict(islice(terms.items(), _MAX_QUERY_TERMS))


def _build_query(question: Question, sought: _Candidates, now: int) -> Query:
    return Query(
        terms=sought.terms,
        weights=sought.weights,
        words=extract_words(question.text),
        names=extract_name_terms(question.text),
        periods=parse_periods(question.text, now),
        wants_time=asks_for_time(question.text),
    )


class _Candidates(msgspec.Struct, frozen=True):
    """The words that were looked for, what they are worth here, and the likely turns.

    `matching` have words of the question, the best first; `similar` are nearest to it in meaning.
    `held` is what was found of the words in turns so far, by key.
    """

    terms: Mapping[str, int]
    weights: Sequence[TermWeight]
    statistics: CorpusStatistics
    matching: Sequence[ScoredDocument]
    similar: Mapping[int, float]
    turns: Mapping[int, SearchTurn]
    finder: TermFinder
    held: dict[int, MatchedTermCounts]

    def list_likely(self) -> list[SearchTurn]:
        """Return the likely turns by words and by meaning in turn, the best first."""
        by_words = [document.key for document in self.matching]
        by_meaning = sorted(self.similar, key=self._order_by_meaning)
        pairs = zip_longest(by_words, by_meaning)
        keys = dict.fromkeys(key for pair in pairs for key in pair if key is not None)
        return [self.turns[key] for key in keys]

    def _order_by_meaning(self, key: int) -> tuple[float, int, str]:
        turn = self.turns[key]
        return (-self.similar[key], -turn.at, turn.id)

    def look_into(self, turns: Iterable[SearchTurn]) -> None:
        """Find the words in turns that were not looked into yet."""
        new = [turn for turn in turns if turn.key not in self.held]
        self.held.update(self.finder.count_in_turns(new))

    def worth(self) -> dict[str, float]:
        """Return what each of the words says."""
        documents, frequencies = self.statistics.documents, self.statistics.frequencies
        return {term: round(idf(documents, frequencies[term]), 4) for term in self.terms}

    def coverage(self, text: str) -> float:
        """Return how much of the question a text has, from 0 to 1."""
        return compute_coverage(self.weights, _terms_in(text))


@lru_cache(4096)
def _terms_in(text: str) -> Mapping[str, int]:
    """Return the words of something weighty, which is looked at again with every question."""
    return count_query_terms(text)


class _SourceChoice(msgspec.Struct, frozen=True):
    """Which turns are looked for: all, few of which are untrusted, or those of one source.

    There is nothing to choose where all words are the user's and the agent's own.
    """

    rows: Connection
    known: VisibleScopes
    trust: TrustPolicy
    source: str
    is_needed: bool

    def is_wanted(self, provenance: Provenance) -> bool:
        """Say whether a turn is one of those that are looked for first."""
        if self.source:
            return any(matches_source(one, (self.source,)) for one in provenance.sources)
        return self.trust.judge(provenance.sources) is Trust.TRUSTED

    def split(self, keys: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the keys of wanted turns, and those of the others."""
        repeating = provenance_store.find_provenance(self.rows, self.known, keys)
        wanted = {key for key in keys if self.is_wanted(repeating.get(key, OWN_WORDS))}
        return [key for key in keys if key in wanted], [key for key in keys if key not in wanted]

    def limit_others(self, wanted: int, found: int) -> int:
        """Return how many turns are looked at besides those that were found: a few, or the rest.

        Where all turns repeat something, their users' own words are in no other ones.
        """
        return 0 if self.source else max(_MIN_OTHER_CANDIDATES, wanted // 4, wanted - found)


def _make_source_choice(
    rows: Connection, known: VisibleScopes, trust: TrustPolicy, source: str
) -> _SourceChoice:
    is_needed = bool(source) or provenance_store.has_repeating(rows, known)
    return _SourceChoice(rows, known, trust, source, is_needed)


class _SearchScope(msgspec.Struct, frozen=True):
    """Where visible episodes are looked for, and how many of them are scored.

    Those that were said `here` stand in the conversation that asks.
    """

    rows: Connection
    index: TextIndex | None
    tails: PendingTurns
    known: VisibleScopes
    likely: int
    here: frozenset[str]
    choice: _SourceChoice
    similar: SimilarTurns | None


class _FoundByWords(msgspec.Struct, frozen=True):
    """The turns that may have words of the question, and what each word says."""

    turns: list[SearchTurn]
    pending: PendingIndexWork
    weights: Sequence[TermWeight]
    statistics: CorpusStatistics


def _find_candidates(where: _SearchScope, terms: Mapping[str, int]) -> _Candidates:
    """Find the likely turns of all that there are, by words and by meaning."""
    found = _find_by_words(where, terms)
    nearest = _find_nearest(where)
    missing = nearest.keys() - {turn.key for turn in found.turns}
    similar = table.get_searchable(where.rows, where.known, sorted(missing))
    telling = {one.term: terms[one.term] for one in found.weights}
    finder = TermFinder(telling)
    held = finder.count_in_turns([*found.turns, *similar])
    waiting, held_waiting = found.pending.find_turns(telling)
    held.update(held_waiting)
    all_turns = (*found.turns, *similar, *waiting)
    turns = {turn.key: turn for turn in all_turns if turn.id not in where.here}
    documents = [(key, merge_counts(held[key]), turn.length) for key, turn in turns.items()]
    scored = score_documents(found.weights, documents, found.statistics)
    return _Candidates(
        telling,
        found.weights,
        found.statistics,
        _choose_likely(where, _best(scored, turns, found.statistics)),
        {key: cosine for key, cosine in nearest.items() if key in turns},
        turns,
        finder,
        held,
    )


def _find_by_words(where: _SearchScope, terms: Mapping[str, int]) -> _FoundByWords:
    rows, index, known = where.rows, where.index, where.known
    if index is None or known.episodes <= EXACT_SCORING_MAX_EPISODES or _are_many(known):
        turns = list(table.list_searchable(rows, known))
        statistics = _statistics(known, dict.fromkeys(terms, 0), turns)
        weights = select_informative(weigh_terms(terms, statistics), statistics)
        return _FoundByWords(turns, NO_PENDING_WORK, weights, statistics)
    pending = where.tails.of(rows, known)
    uncounted, changed = pending.uncounted, pending.changed
    counted = index.frequencies(known.numbers, list(terms))
    if pending.tails:
        counted = {term: count + pending.count(term) for term, count in counted.items()}
    statistics = _statistics(known, counted, uncounted)
    weights = select_informative(weigh_terms(terms, statistics), statistics)
    wanted = where.likely + min(len(where.here), where.likely)
    keys = _find_keys(where, index, [one.term for one in weights], wanted)
    new = {turn.key for turn in (*uncounted, *changed)}
    indexed = [key for key in keys if key not in new and not pending.has(key)]
    turns = [*table.get_searchable(rows, known, indexed), *uncounted, *changed]
    return _FoundByWords(turns, pending, weights, statistics)


def _find_nearest(where: _SearchScope) -> Mapping[int, float]:
    """Return the turns that are nearest to the question in meaning, where they are compared."""
    if where.similar is None:
        return {}
    wanted = where.likely + min(len(where.here), where.likely)
    nearest = where.similar.find_best(wanted)
    if not where.choice.is_needed:
        return nearest
    reach = wanted
    first, others = _split_nearest(where, nearest)
    while len(first) < wanted and len(nearest) >= reach and reach < _MAX_EXPLORED_CANDIDATES:
        reach *= 4
        nearest = where.similar.find_best(reach)
        first, others = _split_nearest(where, nearest)
    few = where.choice.limit_others(where.likely, len(first))
    return {key: nearest[key] for key in (*first[:wanted], *others[:few])}


def _split_nearest(
    where: _SearchScope, nearest: Mapping[int, float]
) -> tuple[list[int], list[int]]:
    return where.choice.split(sorted(nearest, key=lambda key: (-nearest[key], key)))


def _are_many(known: VisibleScopes) -> bool:
    """Say whether a read sees more scopes than the text index should be asked about."""
    return len(known.scopes) > _MAX_INDEXED_SCOPES


def _find_keys(
    where: _SearchScope, index: TextIndex, terms: Sequence[str], wanted: int
) -> list[int]:
    """Find turns in the index; where most are untrusted, as many as it takes to find others."""
    numbers, choice = where.known.numbers, where.choice
    keys = index.candidates(numbers, terms, wanted)
    if not choice.is_needed:
        return keys
    reach = wanted
    first, others = choice.split(keys)
    while len(first) < wanted and len(keys) >= reach and reach < _MAX_EXPLORED_CANDIDATES:
        reach *= 4
        keys = index.candidates(numbers, terms, reach)
        first, others = choice.split(keys)
    return first[: wanted + (wanted + 1) // 2] + others[: choice.limit_others(wanted, len(first))]


def _choose_likely(where: _SearchScope, best: Sequence[ScoredDocument]) -> list[ScoredDocument]:
    """Choose what is ranked: the likely turns, of which some may be untrusted besides."""
    if not where.choice.is_needed:
        return list(best[: where.likely])
    chosen: set[int] = set()
    others: list[int] = []
    for at in range(0, len(best), _CHUNK_TURNS):
        first, rest = where.choice.split([one.key for one in best[at : at + _CHUNK_TURNS]])
        chosen.update(first[: where.likely - len(chosen)])
        others += rest
        if len(chosen) >= where.likely:
            break
    chosen.update(others[: where.choice.limit_others(where.likely, len(chosen))])
    return [one for one in best if one.key in chosen]


def _best(
    scored: Sequence[ScoredDocument], turns: Mapping[int, SearchTurn], statistics: CorpusStatistics
) -> list[ScoredDocument]:
    """Return what is worth showing, the best first; of equal ones the newest."""
    matching = [one for one in scored if is_match(one, statistics)]
    matching.sort(key=lambda one: (-one.score, -turns[one.key].at, turns[one.key].id))
    return matching


def _statistics(
    known: VisibleScopes, counted: dict[str, int], uncounted: Sequence[SearchTurn]
) -> CorpusStatistics:
    """Count who has which term: what was counted already, and the turns that were not."""
    if uncounted:
        for held in TermFinder(counted).count_in_turns(uncounted).values():
            for term in merge_counts(held):
                counted[term] += 1
    return CorpusStatistics(known.episodes, known.terms, counted)


class _RankingInput(msgspec.Struct, frozen=True):
    """The turns that were found, and what the question means, where that is known."""

    rows: Connection
    known: VisibleScopes
    sought: _Candidates
    with_neighbours: int
    similar: SimilarTurns | None
    here: frozenset[str]
    choice: _SourceChoice


def _matches(where: _RankingInput, asked: Query, ask: RecallRequest) -> list[_MatchWithTimeline]:
    """Rank the turns that have words of the question, and those around them."""
    rows, known, sought = where.rows, where.known, where.sought
    having = sought.list_likely()
    if not having:
        return []
    runs = table.get_neighbours(rows, known, having, where.with_neighbours)
    if where.similar is not None:
        keys = [turn.key for run in runs for turn in run]
        asked = replace(asked, similarities=where.similar.get(keys))
    sought.look_into(turn for run in runs for turn in run)
    ranked = rank_turns(asked, runs, sought.statistics, sought.held)
    if where.here:
        # A turn here may stand around one from elsewhere, and has helped to rank that.
        ranked = [one for one in ranked if one.turn.id not in where.here]
    if not ranked or not has_answer(asked, ranked, sought.statistics):
        return []
    best = _score_best(sought, asked)
    worth = sought.worth()
    found: list[_MatchWithTimeline] = []
    for place, (one, episode) in enumerate(_shown(where, ranked, ask)):
        derived: list[Artefact] = []
        if place < _MAX_EXPLORED_MATCHES and ask.limit is None:
            derived = table.list_derived_artefacts(rows, known, one.turn.key)
        match = EpisodeMatch(
            episode,
            best * one.score / ranked[0].score,
            {term: worth[term] for term in merge_counts(sought.held[one.turn.key])},
            one.coverage,
            _salience(derived, episode),
            explain_rank(one, ranked) if ask.explain else {},
        )
        found.append(
            _MatchWithTimeline(
                match, [one for one in derived if one.kind is ArtefactKind.TIMELINE]
            )
        )
    return found


def _score_best(sought: _Candidates, asked: Query) -> float:
    """Return what the best match is worth for people, from 0 to 1."""
    by_meaning = max(asked.similarities.values(), default=0.0)
    if not sought.matching:
        return by_meaning
    return max(by_meaning, normalize_score(sought.matching[0], total_weight(sought.weights)))


def _shown(
    where: _RankingInput, ranked: Sequence[RankedTurn], ask: RecallRequest
) -> list[tuple[RankedTurn, Episode]]:
    """Choose the turns to show.

    A prompt's memories are few: they have one step of a tool loop, and one turn of a question
    that was repeated. Untrusted turns come besides, wherever they rank: how many of them are
    shown is decided later.
    """
    shown: list[tuple[RankedTurn, Episode]] = []
    wanted, at, others = ask.limit or _MAX_MATCHES, 0, 0
    is_prompt = ask.limit is None
    is_brief = ask.blocks is RecallBlocks.ANSWERS
    steps: set[str] = set()
    questions: set[str] = set()
    while at < len(ranked) and (missing := wanted + others - len(shown)) > 0:
        batch = ranked[at : at + missing]
        keys = [one.turn.key for one in batch]
        episodes = table.get_episodes(where.rows, where.known, keys)
        for one, episode in zip(batch, episodes, strict=True):
            is_wanted = where.choice.is_wanted(episode.provenance)
            if where.choice.source and not is_wanted:
                continue
            if is_brief and is_non_answer(episode.question, episode.answer):
                continue
            if is_prompt and _is_another_step(episode, steps):
                continue
            if is_prompt and is_brief and _is_repeated(episode, questions):
                continue
            shown.append((one, episode))
            others += not is_wanted
        at += missing
    return shown


def _list_timeline(
    rows: Connection, known: VisibleScopes, matched: Iterable[_MatchWithTimeline]
) -> list[Artefact]:
    """Return the newest lines of the timeline, and those around the matches."""
    newest = table.list_timeline(rows, known, _MAX_TIMELINE_LINES)
    return list(dict.fromkeys((*newest, *(line for one in matched for line in one.lines))))


def _list_recent(
    rows: Connection, known: VisibleScopes, matches: Sequence[EpisodeMatch], ask: RecallRequest
) -> list[Episode]:
    """Return the newest turns, without further steps of a tool loop that is among them."""
    steps = {match.episode.question for match in matches if match.episode.calls}
    newest = table.list_newest(rows, known, _MAX_RECENT_TURNS)
    if ask.blocks is RecallBlocks.ANSWERS:
        newest = [turn for turn in newest if not is_non_answer(turn.question, turn.answer)]
    return [turn for turn in newest if not _is_another_step(turn, steps)]


def _is_repeated(turn: Episode, questions: set[str]) -> bool:
    """Say whether the same question is shown already, whatever its case and spaces.

    What is no question, such as a command of each day, has another outcome each time.
    """
    question = " ".join(turn.question.split()).casefold()
    if not question.endswith(_QUESTION_MARKS):
        return False
    is_shown = question in questions
    questions.add(question)
    return is_shown


def _is_another_step(turn: Episode, steps: set[str]) -> bool:
    """Say whether a step of the same tool loop is told already; all of them have its question."""
    if not turn.calls or not turn.question:
        return False
    is_told = turn.question in steps
    steps.add(turn.question)
    return is_told


def _salience(derived: Iterable[Artefact], turn: Episode) -> int:
    """Say how much weight a turn has, by what was derived from it."""
    weights = (
        one.salience
        for one in derived
        if one.kind in table.SALIENT_KINDS and turn.id in one.sources
    )
    return max(weights, default=0)


def _find_salient(
    rows: Connection, known: VisibleScopes, sought: _Candidates, *, matched: bool
) -> list[SalientMatch]:
    """Return what was said with weight, nearest to the question first.

    Beside a match a weak overlap is not asked for; alone there must be one.
    """
    looked_at = table.list_salient_artefacts(rows, known, _MAX_SALIENT_ARTEFACTS)
    found = [SalientMatch(one, sought.coverage(one.text)) for one in looked_at]
    found.sort(key=lambda one: -(one.coverage * 100 + one.artefact.salience))
    return [one for one in found if matched or one.coverage > 0]
