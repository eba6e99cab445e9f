"""Text becomes terms: the same for whoever asks and for what is asked about."""

from __future__ import annotations

import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.search import tokenizer
from memplane.search.tokenizer import MAX_TERM_CHARS, MAX_TERMS, count_query_terms, count_terms

MIB = 1 << 20


def found(asked: str, told: str) -> set[str]:
    """Return the terms by which a question finds a text."""
    return count_query_terms(asked).keys() & count_terms(told).keys()


# Words


def test_terms_are_counted() -> None:
    text = "Kestrel saw a kestrel, and the KESTREL left."
    assert count_terms(text) == {"kestrel": 3, "saw": 1, "left": 1}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("rollouts", "The rollout was moved."),
        ("patching", "All nodes were patched."),
        ("Which services are restarted?", "restarting a service"),
        ("kestrel", "the kestrel's nest"),
        ("kestrel", "the kestrel\u2019s nest"),
        ("kestrels", "\u201cKestrel\u201d\u2014nothing else"),
        ("STRASSE", "Stra\u00dfe"),
        ("caf\u00e9", "CAFE\u0301"),
        ("file 12", "\ufb01le \uff11\uff12"),
        ("\u0395\u03bb\u03bb\u03ac\u03b4\u03b1", "\u0395\u039b\u039b\u0391\u0301\u0394\u0391"),
    ],
)
def test_another_form_of_a_word_is_found(asked: str, told: str) -> None:
    assert count_terms(asked).keys() <= count_terms(told).keys()
    assert found(asked, told)


@pytest.mark.parametrize(
    "text", ["", " \n\t", "?!", "...", "--", "\U0001f600", "\ud800", "''", "_"]
)
def test_where_there_is_no_word_there_is_no_term(text: str) -> None:
    assert count_terms(text) == {}
    assert count_query_terms(text) == {}


def test_stop_words_are_no_terms() -> None:
    assert count_terms("They would have been with us, but it isn't so; we don't know why.") == {
        "know": 1
    }


def test_a_contraction_is_the_word_before_the_apostrophe() -> None:
    assert count_terms("I'm Ann, she'll go, we've met, John'd know") == {
        "ann": 1,
        "go": 1,
        "met": 1,
        "john": 1,
        "know": 1,
    }


def test_apostrophes_of_typographers_are_the_same() -> None:
    assert count_terms("the kestrel\u2019s nest isn\u2019t here") == {"kestrel": 1, "nest": 1}


def test_a_name_with_an_apostrophe_is_found_by_its_parts() -> None:
    assert count_terms("O'Brien") == {"o": 1, "brien": 1}
    assert count_terms("l'\u00e9tat") == {"l": 1, "\u00e9tat": 1}


def test_a_question_of_stop_words_asks_for_them() -> None:
    assert count_query_terms("Who are you?") == {"who": 1, "are": 1, "you": 1}
    assert count_query_terms("Who is Ann?") == {"ann": 1}


# Names


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("search-service", {"search-service", "search", "servic"}),
        ("deploy_v2", {"deploy_v2", "deploy", "v2"}),
        ("node3.example", {"node3.example", "node3", "exampl"}),
        ("PR#123", {"pr#123", "pr", "123"}),
        ("2026-04-03", {"2026-04-03", "2026", "04", "03"}),
        ("v1.22.3", {"v1.22.3", "v1", "22", "3"}),
        ("a.b@c.example", {"a.b@c.example", "b", "c", "exampl"}),
        ("src/words.py", {"src/words.py", "src", "word", "py"}),
        ("node3:8080", {"node3:8080", "node3", "8080"}),
        ("to-do", {"to-do"}),
        ("\u00e9t\u00e9-2026", {"\u00e9t\u00e9-2026", "\u00e9t\u00e9", "2026"}),
    ],
)
@pytest.mark.parametrize("around", ["{}", "({})", "**{}**", "'{}'", "{}.", "see {}: it", "{}'s"])
def test_a_name_is_found_whole_and_in_parts(name: str, terms: set[str], around: str) -> None:
    assert count_terms(around.format(name)).keys() - {"see"} == terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("https://node3.example/x", {"https", "node3.example/x", "node3", "exampl", "x"}),
        ("wait...go", {"wait", "go"}),
        ("alpha--beta", {"alpha", "beta"}),
        ("__init__", {"init"}),
        ("--dry-run", {"dry-run", "dri", "run"}),
    ],
)
def test_more_than_one_joint_joins_nothing(text: str, terms: set[str]) -> None:
    assert count_terms(text).keys() == terms


def test_digits_are_kept() -> None:
    assert count_terms("port 8080, 5pm, 007") == {"port": 1, "8080": 1, "5pm": 1, "007": 1}


# Other languages


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("\u6771\u4eac\u30bf\u30ef", "\u6771\u4eac \u4eac\u30bf \u30bf\u30ef"),
        ("\u30bf\u30ef\u30fc", "\u30bf\u30ef \u30ef\u30fc"),
        ("\u732b", "\u732b"),
        ("\u732b\u3001\u72ac\u3002", "\u732b \u72ac"),
        ("\uc11c\uc6b8\uc5d0\uc11c", "\uc11c\uc6b8 \uc6b8\uc5d0 \uc5d0\uc11c"),
        ("\u0e2a\u0e27\u0e31\u0e2a", "\u0e2a\u0e27 \u0e27\u0e31 \u0e31\u0e2a"),
        ("\uff76\uff9e\uff77", "\u30ac\u30ad"),
        ("node3\u3092\u518d\u8d77", "node3 \u3092\u518d \u518d\u8d77"),
    ],
)
def test_text_without_blanks_becomes_pairs_of_characters(text: str, terms: str) -> None:
    assert list(count_terms(text)) == terms.split()


def test_a_long_text_without_blanks_is_found_to_its_end() -> None:
    text = "".join(chr(0x4E00 + number) for number in range(1000))
    assert list(count_terms(text)) == [text[at : at + 2] for at in range(999)]


@pytest.mark.parametrize(
    "word",
    [
        "\u0939\u093f\u0928\u094d\u0926\u0940",  # Hindi, with vowel signs
        "\u05e9\u05b8\u05dc\u05d5\u05b9\u05dd",  # Hebrew, with points
        "\u0645\u064f\u062d\u064e\u0645\u064e\u0651\u062f",  # Arabic, with vowels
        "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd",  # Tamil
        "q\u0301",  # a letter that has no form of its own with that accent
    ],
)
def test_marks_do_not_cut_a_word(word: str) -> None:
    assert len(count_terms(f"{word}, {word}!")) == 1


def test_what_is_not_seen_does_not_count() -> None:
    assert count_terms(
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 so\u00adft\ufeff"
    ) == count_terms("\u0645\u06cc\u062e\u0648\u0627\u0647\u0645 soft")


# Bounds


def test_long_words_are_cut() -> None:
    assert count_terms("x" * 100) == {"x" * MAX_TERM_CHARS: 1}
    assert max(map(len, count_terms("-".join(["abcdefgh"] * 30)))) == MAX_TERM_CHARS


def test_long_texts_keep_the_terms_that_come_first() -> None:
    text = " ".join(f"n{number}" for number in range(MAX_TERMS + 10))
    assert list(count_terms(f"{text} n0")) == [f"n{number}" for number in range(MAX_TERMS)]
    assert count_terms(f"{text} n0")["n0"] == 2


@given(st.one_of(st.text(), st.text("a'-_.#|\u0301\u200d\u6771\u0e01 \n\u00a0\ud800\u00df\u0130")))
def test_every_term_keeps_the_bounds(text: str) -> None:
    for terms in (count_terms(text), count_query_terms(text)):
        assert len(terms) <= MAX_TERMS
        for term, count in terms.items():
            assert 1 <= len(term) <= MAX_TERM_CHARS
            assert term.split() == [term]
            assert term.encode()
            assert count >= 1


@given(st.text(max_size=80))
def test_the_way_a_text_is_composed_does_not_matter(text: str) -> None:
    assert count_terms(unicodedata.normalize("NFD", text)) == count_terms(
        unicodedata.normalize("NFC", text)
    )


@given(st.lists(st.text(st.sampled_from("abcXYZ019-_.'"), min_size=1, max_size=80), max_size=20))
def test_a_text_has_the_terms_of_its_words(parts: list[str]) -> None:
    together = count_terms(" ".join(parts))
    assert together == count_terms(" ".join(parts).upper())
    apart: dict[str, int] = {}
    for word in parts:
        for term, count in count_terms(word).items():
            apart[term] = apart.get(term, 0) + count
    assert together == apart


# Each of these would take minutes, or all memory, if time were not in proportion to the text.
HOSTILE = {
    "one word": "a" * MIB,
    "one name": "a-" * (MIB // 2),
    "apostrophes": "a'" * (MIB // 2),
    "joints": "-." * (MIB // 2),
    "underscores": "a_" * (MIB // 2),
    "many names": " ".join(f"a{n:x}-b{n}.c" for n in range(70_000)),
    "accents in turns": "a" + "\u0315\u0300" * (MIB // 4),
    "accented letters": "e\u0301" * (MIB // 3),
    "vowel signs": "\u0939\u093f" * (MIB // 6),
    "one ligature": "\ufdfa" * (MIB // 3),
    "no blanks": "\u6771\u4eac" * (MIB // 6),
    "surrogates": "\ud800" * MIB,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_take_time_in_proportion(name: str) -> None:
    assert len(count_terms(HOSTILE[name])) <= MAX_TERMS


def test_every_thread_has_a_stemmer_of_its_own() -> None:
    # With today's library two threads that share one do no harm, because it never lets go of the
    # interpreter's lock; it says itself that they may.
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(tokenizer._stemmer).result()
        assert theirs is other.submit(tokenizer._stemmer).result()
    assert theirs is not tokenizer._stemmer()
    assert tokenizer._stemmer() is tokenizer._stemmer()


def test_what_is_remembered_of_words_has_an_end_and_changes_no_terms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lately, before = dict[str, str](), dict[str, str]()
    for name, value in (
        ("_recent_tokens", lately),
        ("_older_tokens", before),
        ("_MAX_CACHED_TOKENS", 20),
    ):
        monkeypatch.setattr(tokenizer, name, value)
    text = "The rollouts of search-service don't wait; the rollout of kestrel's is x1."
    first = count_terms(text)
    for number in range(100):
        count_terms(f"word{number} words more{number}")
        assert len(lately) <= 20
        assert len(before) <= 20
    assert "rollouts" not in lately | before
    assert count_terms(text) == count_terms(text) == first
    assert "rollouts" in lately
