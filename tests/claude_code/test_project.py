"""The names Claude Code gives to projects, as its own program makes them."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memplane.integrations.claude_code.project_slug import make_folder_pattern, make_slug

untimed = hypothesis_settings(deadline=None)


@pytest.mark.parametrize(
    ("root", "slug"),
    [
        ("/home/dev/my.project", "-home-dev-my-project"),
        ("dots.and_under", "dots-and-under"),
        ("space and é", "space-and--"),
        ("/Users/Ada/Work", "-Users-Ada-Work"),
        ("/a//b", "-a--b"),
        ("/a/.../b", "-a-----b"),
        ("/a-b", "-a-b"),
        ("/a_-_b", "-a---b"),
        ("/a/b/", "-a-b-"),
        (r"C:\Users\Ada\proj", "C--Users-Ada-proj"),
        (r"\\server\share\p", "--server-share-p"),
        ("/a/😀", "-a---"),
        ("/a/日本", "-a---"),
        ("/a/e\u0301", "-a-e-"),
        ("/a/Ⅷ²٣", "-a----"),
        ("/a/\uff41\uff42", "-a---"),
        ("/a/\udcff", "-a--"),
        ("/", "-"),
        ("", ""),
        ("abcXYZ019", "abcXYZ019"),
    ],
)
def test_a_path_becomes_a_slug(root: str, slug: str) -> None:
    assert make_slug(root) == slug


def test_two_projects_can_have_one_slug() -> None:
    assert make_slug("/a/b.c") == make_slug("/a/b/c") == make_slug("/a-b c")


@untimed
@given(st.text() | st.text(st.sampled_from("aZ9/\\._- é😀\ud800")))
def test_a_slug_has_one_character_for_each_that_javascript_counts(root: str) -> None:
    slug = make_slug(root)
    assert re.fullmatch("[A-Za-z0-9-]*", slug)
    assert len(slug) == len(root.encode("utf-16-le", "surrogatepass")) // 2


@untimed
@given(st.text())
def test_a_slug_is_its_own_slug(root: str) -> None:
    assert make_slug(make_slug(root)) == make_slug(root)


# The folder


@pytest.mark.parametrize("length", [0, 1, 199, 200])
def test_a_slug_of_up_to_200_characters_is_the_folder(length: int) -> None:
    root = "/" * (length > 0) + "a" * (length - 1)
    assert len(root) == length
    assert make_folder_pattern(root) == make_slug(root)


@pytest.mark.parametrize("length", [201, 300, 5000])
def test_a_longer_slug_gives_a_pattern_of_its_first_200_characters(length: int) -> None:
    root = "/" + "ab" * length
    root = root[:length]
    pattern = make_folder_pattern(root)
    assert pattern == make_slug(root)[:200] + "-*"
    assert fnmatchcase(make_slug(root)[:200] + "-1x2y3z", pattern)
    assert not fnmatchcase(make_slug(root)[:200], pattern)
    assert not fnmatchcase(make_slug(root), pattern)


def test_characters_that_count_twice_make_a_slug_long() -> None:
    assert make_folder_pattern("😀" * 100) == "-" * 200
    assert make_folder_pattern("😀" * 101) == "-" * 200 + "-*"


@untimed
@given(st.text())
def test_nothing_in_a_path_acts_as_a_pattern(root: str) -> None:
    assert set("*?[]") & set(make_folder_pattern(root).removesuffix("-*")) == set()
