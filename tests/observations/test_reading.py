"""From what an agent wrote to assertions, and to hints where it cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.exchange.marker_parser import format_bracket
from memplane.observations.assertion_parser import (
    MalformedAssertion,
    ParsedAssertion,
    assertion_key,
    find_category,
    parse_assertions,
    parse_structured,
)
from memplane.observations.model import Assertion, Category, SourceClass
from memplane.observations.reject_reasons import RejectReason


def said(category: str, service: str, text: str) -> Assertion:
    return Assertion(category=category, service=service, text=text, source=SourceClass.AGENT)


def read_one(text: str, **aliases: str) -> ParsedAssertion:
    (found,) = parse_assertions(text, source=SourceClass.AGENT, aliases=aliases)
    return found


def misread(text: str) -> MalformedAssertion:
    found = read_one(text)
    assert isinstance(found, MalformedAssertion)
    return found


class TestMarkers:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (
                "[MEMORY:timing:jellyfin] Takes 60s to start",
                [("timing", "jellyfin", "Takes 60s to start")],
            ),
            ("[MEMORY:remediation] Retry DNS once", [("remediation", "", "Retry DNS once")]),
            ("x `[MEMORY:timing:a] foo` bar", []),
            ("- **[MEMORY:timing:a]** foo", [("timing", "a", "foo")]),
            ("[MEMORY:timing:a]: foo", [("timing", "a", "foo")]),
            (
                "[MEMORY:timing:a] foo [MEMORY:dependency:b] bar",
                [("timing", "a", "foo"), ("dependency", "b", "bar")],
            ),
            ("> [MEMORY:timing:a] foo", []),
            (
                "[MEMORY:timing:a] takes 60s\nwhen the disk is cold",
                [("timing", "a", "takes 60s when the disk is cold")],
            ),
            (
                "[MEMORY:timing:a] takes 60s\nNow checking postgres.",
                [("timing", "a", "takes 60s")],
            ),
        ],
    )
    def test_are_read_as_the_table_of_the_contract_has_it(
        self, text: str, expected: list[tuple[str, str, str]]
    ) -> None:
        assert parse_assertions(text, source=SourceClass.AGENT) == tuple(
            said(*one) for one in expected
        )

    @pytest.mark.parametrize("text", ["[MEMORY:misc] foo", "[MEMORY:known-issue:x] foo"])
    def test_of_an_unknown_category_come_with_the_known_ones(self, text: str) -> None:
        found = misread(text)
        assert found.reason is RejectReason.UNKNOWN_CATEGORY
        assert all(category in found.hint for category in Category)
        assert found.said.text == "foo"
        assert found.corrected is None

    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            ("[MEMORY:Timing:a] foo", "[MEMORY:timing:a]"),
            ("[MEMORY: timing] foo", "[MEMORY:timing]"),
            ("[ MEMORY : timing : a ] foo", "[MEMORY:timing:a]"),
            ("[memory:timing:a] foo", "[MEMORY:timing:a]"),
            ("[Memory:Timing:Jellyfin] foo", "[MEMORY:timing:Jellyfin]"),
            ("[MEMORY timing:a] foo", "[MEMORY:timing:a]"),
            ("[MEMORY timing] foo", "[MEMORY:timing]"),
            ("[MEMORY:timing a] foo", "[MEMORY:timing:a]"),
            ("[MEMORY:timing/a] foo", "[MEMORY:timing:a]"),
            ("[MEMORY=timing:a] foo", "[MEMORY:timing:a]"),
            ("[MEMORY:timing:] foo", "[MEMORY:timing]"),
            ("[MEMORY::timing] foo", "[MEMORY:timing]"),
            ("[MEMORY: jellyfin:timing] foo", "[MEMORY:timing:jellyfin]"),
            ("[MEMORY:jellyfin:Timing] foo", "[MEMORY:timing:jellyfin]"),
            ("[memory:timing:my.svc] foo", "[MEMORY:timing:my-svc]"),
            ("[MEMORY:timing:a foo", "[MEMORY:timing:a]"),
        ],
    )
    def test_that_are_misspelt_come_with_the_right_spelling(self, text: str, hint: str) -> None:
        found = misread(text)
        assert (found.reason, found.hint, found.said.text) == (RejectReason.MALFORMED, hint, "foo")
        assert found.corrected is not None
        assert format_bracket(found.corrected.category, found.corrected.service) == hint

    @pytest.mark.parametrize(
        "text", ["[MEMORY] foo", "[MEMORY:] foo", "[memory] foo", "[memory: misc] foo"]
    )
    def test_that_nobody_can_read_come_with_the_grammar(self, text: str) -> None:
        found = misread(text)
        assert (found.reason, found.corrected) == (RejectReason.MALFORMED, None)
        assert found.hint.startswith("[MEMORY:<category>:<service>]")

    @pytest.mark.parametrize(
        ("service", "better"),
        [
            ("my.svc", "my-svc"),
            ("a/b", "a-b"),
            ("my svc", "my-svc"),
            ("a:b", "a-b"),
            ("caf\u00e9", "caf"),
            ("x" * 65, "x" * 64),
        ],
    )
    def test_of_a_service_with_other_characters_come_with_a_better_name(
        self, service: str, better: str
    ) -> None:
        found = misread(f"[MEMORY:timing:{service}] foo")
        assert found.reason is RejectReason.BAD_SERVICE
        assert found.hint.endswith(f" {better}")
        assert found.corrected == said("timing", better, "foo")

    def test_of_a_service_without_any_letter_come_without_a_better_name(self) -> None:
        found = misread("[MEMORY:timing:...] foo")
        assert (found.reason, found.corrected) == (RejectReason.BAD_SERVICE, None)

    def test_that_are_swapped_come_with_the_corrected_reading(self) -> None:
        found = misread("[MEMORY:jellyfin:timing] foo")
        assert found.reason is RejectReason.SWAPPED
        assert found.said == said("jellyfin", "timing", "foo")
        assert found.corrected == said("timing", "jellyfin", "foo")
        assert found.hint == "category timing, service jellyfin"

    def test_that_are_swapped_with_what_is_no_service_are_not_offered_as_they_are(self) -> None:
        found = misread("[MEMORY:my.svc:timing] foo")
        assert (found.reason, found.corrected) == (
            RejectReason.BAD_SERVICE,
            said("timing", "my-svc", "foo"),
        )

    @pytest.mark.parametrize("text", ["[MEMORY:timing:a]", "**[MEMORY:timing:a]:**\n\nfoo"])
    def test_without_an_observation_are_empty(self, text: str) -> None:
        assert misread(text).reason is RejectReason.EMPTY

    def test_may_name_a_category_by_an_alias_if_there_are_any(self) -> None:
        assert read_one("[MEMORY:known-issue:x] foo", **{"known-issue": "behavior"}) == said(
            "behavior", "x", "foo"
        )
        assert isinstance(read_one("[MEMORY:odd] foo", odd="stranger"), MalformedAssertion)
        assert read_one("[MEMORY:timing] foo", timing="behavior") == said("timing", "", "foo")

    def test_keep_their_order_with_those_that_cannot_be_read(self) -> None:
        text = "[MEMORY:timing] one\n[memory:timing] two\n[MEMORY:misc] three [MEMORY:timing] four"
        texts = [
            one.said.text if isinstance(one, MalformedAssertion) else one.text
            for one in parse_assertions(text, source=SourceClass.SUBAGENT)
        ]
        assert texts == ["one", "two", "three", "four"]

    def test_of_an_aborted_message_are_not_taken_from_half_a_line(self) -> None:
        text = "[MEMORY:timing:a] whole\n[MEMORY:timing:b] ha"
        assert parse_assertions(text, source=SourceClass.AGENT, aborted=True) == (
            said("timing", "a", "whole"),
        )
        assert len(parse_assertions(text, source=SourceClass.AGENT)) == 2

    def test_have_their_source(self) -> None:
        (one,) = parse_assertions("[MEMORY:timing] foo", source=SourceClass.SUBAGENT)
        assert isinstance(one, Assertion)
        assert one.source is SourceClass.SUBAGENT


class TestStructuredOutput:
    @pytest.mark.parametrize("document", [None, [], {}, {"memories": []}, {"memories": None}])
    def test_may_have_nothing(self, document: object) -> None:
        assert parse_structured(document) == ()

    @pytest.mark.parametrize(
        ("item", "expected"),
        [
            (
                {"category": "timing", "service": "jellyfin", "observation": "foo"},
                ("timing", "jellyfin", "foo"),
            ),
            ({"category": "timing", "observation": "foo"}, ("timing", "", "foo")),
            ({"category": "timing", "service": None, "observation": "foo"}, ("timing", "", "foo")),
            ({"key": "jellyfin:timing", "value": "foo"}, ("timing", "jellyfin", "foo")),
            ({"key": "timing:jellyfin", "value": "foo"}, ("timing", "jellyfin", "foo")),
            ({"key": "remediation", "value": "foo"}, ("remediation", "", "foo")),
            ({"key": "timing:behavior", "value": "foo"}, ("behavior", "timing", "foo")),
            ({"category": "timing", "key": "x", "observation": "foo"}, ("timing", "", "foo")),
        ],
    )
    def test_has_items_in_two_forms(
        self, item: dict[str, object], expected: tuple[str, str, str]
    ) -> None:
        assert parse_structured({"memories": [item]}) == (said(*expected),)

    @pytest.mark.parametrize(
        ("item", "reason"),
        [
            ({"key": "caddy:reverse:proxy", "value": "foo"}, RejectReason.UNKNOWN_CATEGORY),
            ({"key": "", "value": "foo"}, RejectReason.UNKNOWN_CATEGORY),
            ({"key": "timing:my:svc", "value": "foo"}, RejectReason.BAD_SERVICE),
            ({"key": "timing", "value": " "}, RejectReason.EMPTY),
            ({"key": "timing"}, RejectReason.MALFORMED),
            ({"key": 1, "value": "foo"}, RejectReason.MALFORMED),
            ({"category": "misc", "observation": "foo"}, RejectReason.UNKNOWN_CATEGORY),
            ({"category": "Timing", "observation": "foo"}, RejectReason.UNKNOWN_CATEGORY),
            (
                {"category": "timing", "service": "a.b", "observation": "foo"},
                RejectReason.BAD_SERVICE,
            ),
            (
                {"category": "jellyfin", "service": "timing", "observation": "foo"},
                RejectReason.SWAPPED,
            ),
            ({"category": "timing", "service": 5, "observation": "foo"}, RejectReason.MALFORMED),
            ({"category": "timing"}, RejectReason.MALFORMED),
            ({}, RejectReason.MALFORMED),
            ("timing: foo", RejectReason.MALFORMED),
            (["timing", "foo"], RejectReason.MALFORMED),
            (None, RejectReason.MALFORMED),
        ],
    )
    def test_that_cannot_be_read_is_no_silence(self, item: object, reason: RejectReason) -> None:
        (found,) = parse_structured({"memories": [item]})
        assert isinstance(found, MalformedAssertion)
        assert found.reason is reason
        assert found.hint
        assert "[MEMORY" not in found.hint  # markers are not taught where they are not read

    @pytest.mark.parametrize("document", [{"memories": "foo"}, {"memories": {}}, 5, "foo", True])
    def test_that_is_no_list_is_no_silence(self, document: object) -> None:
        (found,) = parse_structured(document)
        assert isinstance(found, MalformedAssertion)
        assert found.reason is RejectReason.MALFORMED

    def test_hints_at_a_category_in_capitals(self) -> None:
        (found,) = parse_structured([{"category": "Timing", "observation": "foo"}])
        assert isinstance(found, MalformedAssertion)
        assert found.hint == "write timing"

    def test_knows_aliases_in_keys(self) -> None:
        found = parse_structured(
            [{"key": "x:quirk", "value": "foo"}], aliases={"quirk": "behavior"}
        )
        assert found == (said("behavior", "x", "foo"),)

    def test_has_a_limit(self) -> None:
        assert len(parse_structured([{"key": "timing", "value": "foo"}] * 1000)) == 100


class TestTheKey:
    def test_is_equal_for_the_same_words(self) -> None:
        one, other = (
            said("timing", "a", "Takes  60s."),
            said("timing", "a", "takes\n\uff16\uff10S"),
        )
        assert assertion_key(one) == assertion_key(other)

    @pytest.mark.parametrize(
        "other",
        [
            said("behavior", "a", "Takes 60s"),
            said("timing", "b", "Takes 60s"),
            said("timing", "a", "Takes 30s"),
        ],
    )
    def test_differs_for_anything_else(self, other: Assertion) -> None:
        assert assertion_key(said("timing", "a", "Takes 60s")) != assertion_key(other)


_PIECES = st.sampled_from(
    [
        "[MEMORY:timing:a] ",
        "[MEMORY:misc] ",
        "[memory: Timing]",
        "[MEMORY",
        "[EVENT:x]",
        "one two",
        "]",
        ":",
        "`",
        "```",
        "\n",
        "    ",
        "> ",
        "- ",
        "<!--",
        "-->",
        "<pre>",
        "</pre>",
    ]
)
_TEXTS = st.lists(_PIECES, max_size=40).map("".join) | st.text(max_size=200)
_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=20),
    lambda some: (
        st.lists(some, max_size=5)
        | st.dictionaries(
            st.sampled_from(["memories", "key", "value", "category", "service", "observation"]),
            some,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(_TEXTS, st.booleans())
def test_reading_never_raises_and_what_is_read_has_a_category_and_a_text(
    text: str,
    aborted: bool,  # noqa: FBT001
) -> None:
    for one in parse_assertions(text, source=SourceClass.AGENT, aborted=aborted):
        if isinstance(one, Assertion):
            assert find_category(one.category)
            assert one.text
        else:
            assert one.hint


@given(_TEXTS)
def test_an_aborted_message_says_nothing_that_the_whole_one_does_not(text: str) -> None:
    whole = parse_assertions(text, source=SourceClass.AGENT)
    for one in parse_assertions(text, source=SourceClass.AGENT, aborted=True):
        assert one in whole
    assert parse_assertions(
        f"{text}\n", source=SourceClass.AGENT, aborted=True
    ) == parse_assertions(f"{text}\n", source=SourceClass.AGENT)


@given(st.lists(st.sampled_from([*Category]), min_size=1, max_size=30))
def test_order_is_kept(categories: list[Category]) -> None:
    text = "\n".join(f"[MEMORY:{one}:s{at}] text {at}" for at, one in enumerate(categories))
    assert parse_assertions(text, source=SourceClass.AGENT) == tuple(
        said(one.value, f"s{at}", f"text {at}") for at, one in enumerate(categories)
    )


@given(_TEXTS.filter(lambda text: "`" not in text), st.sampled_from(["~~~~~", "`````"]))
def test_nothing_is_read_in_code(text: str, fence: str) -> None:
    safe = text.replace("~", "")
    assert parse_assertions(f"{fence}\n{safe}\n{fence}", source=SourceClass.AGENT) == ()


@given(_TEXTS)
def test_nothing_is_read_in_a_quote(text: str) -> None:
    quoted = "\n".join(f"> {line}" for line in text.replace("\r\n", "\n").split("\n"))
    assert parse_assertions(quoted, source=SourceClass.AGENT) == ()


@given(
    st.sampled_from([*Category]),
    st.from_regex(r"[a-zA-Z0-9_-]{0,64}", fullmatch=True),
    st.from_regex(r"[A-Z][a-z0-9 ]{1,60}[a-z]", fullmatch=True),
)
def test_what_is_spelled_right_is_read_as_it_was_said(
    category: Category, service: str, text: str
) -> None:
    marker = f"{format_bracket(category.value, service)} {text}"
    assert parse_assertions(marker, source=SourceClass.AGENT) == (
        said(category.value, service, " ".join(text.split())),
    )


@given(_JSON)
def test_structured_output_never_raises(document: object) -> None:
    for one in parse_structured(document):
        assert isinstance(one, Assertion | MalformedAssertion)
