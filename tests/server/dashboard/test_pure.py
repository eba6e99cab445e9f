"""The pure parts of pages: addresses of lists, charts, words, toasts, health."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.episodes.api_types import (
    BlockExplanation,
    MemoryBlock,
    MemoryStatus,
    SignalContribution,
)
from memplane.errors import InvalidRequest
from memplane.observations.api_types import ConfidenceHistory, ConfidencePoint
from memplane.server.dashboard import display_format
from memplane.server.dashboard.charts import (
    CHART_HEIGHT,
    CHART_WIDTH,
    draw_confidence,
    draw_histogram,
    draw_stacked,
)
from memplane.server.dashboard.forms import Form
from memplane.server.dashboard.health import assess_health
from memplane.server.dashboard.list_query import ListQuery
from memplane.server.dashboard.recall_lab import explain_block
from memplane.server.dashboard.toasts import (
    add_toast,
    read_return_path,
    read_toast,
    restrict_to_site,
)
from memplane.service.model import LedgerStatus, Status, StorageStatus

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


# Lists


def test_an_address_says_which_memories_and_what_means_nothing_is_passed_over() -> None:
    listed = ListQuery.of({"q": "tea", "service": "general", "tier": "2", "x": "y", "state": ""})
    asked = listed.query()
    assert (asked.q, asked.service, asked.tier, asked.state) == ("tea", "general", 2, None)
    assert (asked.sort, asked.order, asked.contested) == ("confidence", "desc", None)
    assert listed.is_narrowed
    assert not ListQuery.of({"sort": "updated", "group": "service"}).is_narrowed


@pytest.mark.parametrize(
    "query", [{"sort": "colour"}, {"category": "misc"}, {"tier": "high"}, {"tier": "-1"}]
)
def test_an_address_that_asks_for_what_there_is_not_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        ListQuery.of(query).query()


def test_a_filter_is_switched_on_and_off_and_keeps_the_rest() -> None:
    listed = ListQuery.of({"q": "a b", "sort": "updated"})
    on = listed.toggled("service", "caddy")
    assert parse_qs(urlsplit(on).query) == {
        "q": ["a b"],
        "sort": ["updated"],
        "service": ["caddy"],
    }
    back = ListQuery.of({name: value[0] for name, value in parse_qs(urlsplit(on).query).items()})
    assert back.toggled("service", "caddy") == listed.link()
    assert ListQuery.of({}).link() == "/memories"


def test_a_column_is_sorted_the_useful_way_first_and_then_the_other() -> None:
    listed = ListQuery.of({})
    assert (listed.aria_sort("confidence"), listed.aria_sort("service")) == ("descending", "none")
    assert "dir=asc" in listed.sorted_by("confidence")
    assert "dir=asc" in listed.sorted_by("service")
    by_service = ListQuery.of({"sort": "service"})
    assert by_service.aria_sort("service") == "ascending"
    assert "dir=desc" in by_service.sorted_by("service")


@given(st.dictionaries(st.sampled_from(["q", "service", "agent", "origin"]), st.text(min_size=1)))
def test_a_link_says_what_it_was_made_of(said: dict[str, str]) -> None:
    link = ListQuery.of(said).link()
    assert link.startswith("/memories")
    again = {name: one[0] for name, one in parse_qs(urlsplit(link).query).items()}
    assert ListQuery.of(again) == ListQuery.of(said)


# Charts


def point(day: int, value: float, kind: str = "reinforced") -> ConfidencePoint:
    at = (NOW + timedelta(days=day)).isoformat().replace("+00:00", "Z")
    return ConfidencePoint(at=at, value=value, kind=kind)


def test_a_course_runs_from_left_to_right_in_steps() -> None:
    chart = draw_confidence(
        ConfidenceHistory(
            points=(point(0, 0.7, "asserted"), point(10, 0.8), point(20, 0.8, "now")),
            forecast=(point(20, 0.8, "now"), point(40, 0.2, "faded")),
            threshold=0.3,
        )
    )
    assert chart is not None
    assert chart.was == "M0.0 48.0H150.0V32.0H300.0V32.0"
    assert chart.will_be == f"M300.0 32.0H{float(CHART_WIDTH)}V128.0"
    assert chart.threshold == 112.0
    assert [one.label for one in chart.events] == ["asserted, 0.70", "reinforced, 0.80"]
    assert chart.days == ("10 Mar 2026", "30 Mar 2026", "19 Apr 2026")


def test_without_anything_that_happened_there_is_no_course() -> None:
    assert draw_confidence(ConfidenceHistory(points=(), forecast=(), threshold=0.3)) is None


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=12))
def test_columns_stay_inside_and_the_highest_fills_the_height(counts: list[int]) -> None:
    drawn = draw_histogram(counts)
    assert drawn.most == max([*counts, 1])
    for one in drawn.columns:
        assert 0 <= one.x <= one.x + one.width <= CHART_WIDTH
        assert one.y + one.height == pytest.approx(CHART_HEIGHT, abs=0.2)
    assert max(one.height for one in drawn.columns) == (CHART_HEIGHT if any(counts) else 0)


@given(st.lists(st.tuples(*[st.integers(0, 1000)] * 3), min_size=1, max_size=60))
def test_columns_on_columns_do_not_overlap(values: list[tuple[int, int, int]]) -> None:
    days = [f"2026-01-{1 + at % 28:02}" for at in range(len(values))]
    layers = [(name, [one[at] for one in values]) for at, name in enumerate("abc")]
    drawn = draw_stacked(days, layers)
    for at in range(len(values)):
        tower = [layer.columns[at] for layer in drawn.layers]
        for lower, upper in itertools.pairwise(tower):
            assert upper.y + upper.height == pytest.approx(lower.y, abs=0.2)
        assert tower[-1].y >= -0.1


def test_no_days_make_an_empty_chart() -> None:
    assert draw_stacked([], [("a", [])]).days == ()


# Words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "now"),
        (59, "59 s ago"),
        (61, "1 min ago"),
        (7200, "2 h ago"),
        (86_400 * 3, "3 d ago"),
        (86_400 * 90, "3 months ago"),
        (86_400 * 800, "2 years ago"),
        (-86_400 * 3 - 60, "in 3 d"),
    ],
)
def test_ages_are_said_as_people_say_them(seconds: int, words: str) -> None:
    stamp = (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    assert display_format.format_age(stamp, NOW) == words
    assert display_format.format_age(None, NOW) == "never"


@pytest.mark.parametrize(
    ("value", "text"), [(0.9, "0.9"), (0.95, "0.95"), (1.0, "1.0"), (0, "0.0")]
)
def test_confidence_is_written_in_hundredths(value: float, text: str) -> None:
    assert display_format.format_confidence(value) == text


@given(st.text())
def test_nothing_hides_in_a_text_that_is_shown(text: str) -> None:
    seen = display_format.escape_invisible(text)
    assert not any(one in seen for one in "\u202e\u200b\u2066\u0000\u2028")
    assert display_format.escape_invisible(seen) == seen


@given(st.text(), st.text())
def test_a_difference_has_all_of_both_texts(old: str, new: str) -> None:
    pieces = list(display_format.word_diff(old, new))
    assert "".join(one.text for one in pieces if one.change != "new") == old
    assert "".join(one.text for one in pieces if one.change != "gone") == new


@given(st.text(max_size=300), st.text(max_size=30))
def test_marking_hits_loses_nothing(text: str, search: str) -> None:
    assert "".join(one.text for one in display_format.highlighted(text, search)) == text


def test_hits_are_words_that_begin_so_in_any_case() -> None:
    bits = display_format.highlighted("Restart it; unrestarted (restarts)", "restart (.*")
    assert [one.text for one in bits if one.is_hit] == ["Restart", "restarts"]


# Toasts


def test_an_address_tells_what_was_done_and_what_undoes_it() -> None:
    path = add_toast("/memories?q=a#x", 5, "retire", "b12f")
    assert path == "/memories?q=a&done=5&action=retire&batch=b12f#x"
    query = {name: one[0] for name, one in parse_qs(urlsplit(path).query).items()}
    toast = read_toast(query)
    assert toast is not None
    assert (toast.words, toast.batch) == ("5 memories moved to the trash", "b12f")


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"done": "1"},
        {"done": "x", "action": "retire"},
        {"done": "1", "action": "<b>you won</b>"},
        {"done": "1", "action": "retire", "batch": '"><script>'},
        {"done": "9" * 99, "action": "retire"},
    ],
)
def test_an_address_can_only_tell_what_we_say(query: dict[str, str]) -> None:
    assert read_toast(query) is None


def test_what_cannot_be_undone_offers_no_undo() -> None:
    toast = read_toast({"done": "1", "action": "purge", "batch": "b1"})
    assert toast is not None
    assert toast.batch == ""


@given(st.text())
def test_a_way_back_is_always_a_path_of_ours(back: str) -> None:
    found = read_return_path(Form({"back": [back]}))
    assert found.startswith("/")
    assert urlsplit(f"http://here{found}").netloc == "here"
    assert urlsplit(found).netloc == ""
    assert restrict_to_site(found, "/") == found


# Health and reasons


def status(**more: object) -> Status:
    parts: dict[str, object] = {
        "storage": StorageStatus(kind="local", where="/data", reason="nothing is configured"),
        "ledger": LedgerStatus(where="/ledger", agents=1, recorded=7),
        "memory": MemoryStatus(agents=1, episodes=7, underived=0, unindexed=0, busy=False),
    }
    made: Status = Status(version="1", home="/", pid=1, address="", **{**parts, **more})  # type: ignore[arg-type]
    return made


def test_all_is_well_when_nothing_is_wrong() -> None:
    assert [one.grade for one in assess_health(status())] == ["good"] * 3
    assert len(assess_health(status(memory=None))) == 2


@pytest.mark.parametrize(
    ("part", "grade"),
    [
        (LedgerStatus(where="", agents=1, failing="disk full"), "bad"),
        (LedgerStatus(where="", agents=1, degraded="a gap"), "look"),
        (LedgerStatus(where="", agents=1, refused=2), "look"),
        (LedgerStatus(where="", agents=1, verbatim=True), "look"),
    ],
)
def test_a_ledger_that_is_not_well_is_said_to_be(part: LedgerStatus, grade: str) -> None:
    assert assess_health(status(ledger=part))[0].grade == grade


def test_entries_that_are_not_kept_are_said_to_be() -> None:
    for memory in (status().memory, None):
        found = assess_health(status(memory=memory, failing="the disk is full"))[1]
        assert (found.grade, found.words) == ("bad", "the disk is full")


@pytest.mark.parametrize(
    ("changes", "grade"),
    [
        ({"complaint": "half configured"}, "bad"),
        ({"rejected": 1}, "look"),
        ({"waiting": 1}, "look"),
    ],
)
def test_storage_that_is_not_well_is_said_to_be(changes: dict[str, object], grade: str) -> None:
    stored: StorageStatus = StorageStatus(kind="", where="", reason="", **changes)  # type: ignore[arg-type]
    assert assess_health(status(storage=stored))[-1].grade == grade


@pytest.mark.parametrize(
    ("changes", "grade"),
    [({"degraded": "no index"}, "look"), ({"unreadable": 1}, "look"), ({"underived": 3}, "good")],
)
def test_memory_that_is_not_well_is_said_to_be(changes: dict[str, object], grade: str) -> None:
    usual: dict[str, object] = {"agents": 1, "episodes": 1, "underived": 0, "unindexed": 0}
    found: MemoryStatus = MemoryStatus(busy=False, **{**usual, **changes})  # type: ignore[arg-type]
    assert assess_health(status(memory=found))[1].grade == grade


def test_the_weightiest_reasons_come_first() -> None:
    signals = {
        "age": SignalContribution(added=-0.5, place=2),
        "words": SignalContribution(added=0.1, place=1),
    }
    why = BlockExplanation(part="match", terms={"a": 0.1, "b": 0.9}, signals=signals)
    told = explain_block(MemoryBlock(text="x", why=why))
    assert told.why == "it matches the question"
    assert told.terms == (("b", 0.9), ("a", 0.1))
    assert [one[0] for one in told.signals] == ["age", "words"]
    assert told.most == 0.9
    assert explain_block(MemoryBlock(text="x")).why == ""
