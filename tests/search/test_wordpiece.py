"""WordPiece tokens: the same ids as the library that the model was trained with."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from memplane.search.embeddings.minilm import VOCABULARY_FILE
from memplane.search.embeddings.wordpiece import WordPieceTokenizer

FIRST, LAST, UNKNOWN = 101, 102, 100


@cache
def vocabulary() -> tuple[str, ...]:
    return tuple(VOCABULARY_FILE.read_text("utf-8").split("\n")[:-1])


@cache
def ours() -> WordPieceTokenizer:
    return WordPieceTokenizer(vocabulary(), max_tokens=256)


@cache
def theirs() -> Tokenizer:
    ids = {token: number for number, token in enumerate(vocabulary())}
    tokenizer = Tokenizer(WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def reference(text: str) -> list[int]:
    return [FIRST, *theirs().encode(text).ids[:254], LAST]


# Characters that are in some versions of Unicode only are left out: the library has its own table.
KNOWN = st.one_of(
    st.characters(max_codepoint=0x24F),
    st.characters(min_codepoint=0x370, max_codepoint=0x4FF),
    st.characters(min_codepoint=0x3040, max_codepoint=0x30FF),
    st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5),
    st.sampled_from("\u2014\u2013\u2026\u201c\u201d\u2018\u2019\u20ac\u2122\u00bd\u00ad\u200b"),
)


@given(st.text(KNOWN, max_size=80))
@example("Where do we keep the nightly backups?")
@example("Ünïcode café, naïve façade; e\u0301 İstanbul ẞ ﬁ")
@example("日本語テスト 한국어 русский עברית ไทย")
@example("a_b-c@example.com costs $5 ^~`|+<=> … “quotes” — ½ ²")
@example("tabs\tand\nlines\r\n\x00\x07\u200b\u00ad\ufffd end")
@example("x" * 150)
@example("😀 emoji")
def test_every_text_has_the_ids_of_the_reference(text: str) -> None:
    assert ours().encode(text) == reference(text)


def test_a_long_text_is_cut() -> None:
    ids = ours().encode("the staging database " * 200)
    assert len(ids) == 256
    assert (ids[0], ids[-1]) == (FIRST, LAST)
    assert ids == reference("the staging database " * 200)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text_has_only_the_outer_ids(text: str) -> None:
    assert ours().encode(text) == [FIRST, LAST]


def test_what_has_no_pieces_is_unknown() -> None:
    assert ours().encode("\U0001f9ff") == [FIRST, UNKNOWN, LAST]
