"""The upkeep of MEMORY.md."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.persona.document import parse
from memplane.persona.index_file import (
    MAX_INDEX_BYTES,
    MAX_INDEX_LINES,
    IndexLink,
    is_fully_loaded,
    read_links,
    split_overflow,
    with_link,
    with_moved_link,
)
from memplane.persona.validation import check_document

INDEX = """\
# Memory

- [Role](user_role.md) — what they do
- [Tests](feedback_tests.md) — no mocks
  and never sleep
- [Plan](project_plan.md) — until May
""".encode()


# Links


def test_links_are_found_with_what_is_said_about_them() -> None:
    assert read_links(INDEX) == (
        IndexLink("user_role.md", "Role", "what they do", 2),
        IndexLink("feedback_tests.md", "Tests", "no mocks", 3),
        IndexLink("project_plan.md", "Plan", "until May", 5),
    )


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("- [A](a.md)", ["a.md"]),
        ("* [A](./a.md): hook", ["a.md"]),
        ("see [A](a.md#part) and [B](<sub/b.md>)", ["a.md", "sub/b.md"]),
        ("- [A \\] b](a%2Db.md)", ["a-b.md"]),
        ("- [A [now]](a.md)", ["a.md"]),
        ("- [A](https://example.com/a.md)", []),
        ("- [A](/etc/a.md)", []),
        ("- [A](a.txt)", []),
        ("- [A] (a.md)", []),
        ("a.md", []),
    ],
)
def test_only_links_to_documents_count(line: str, keys: list[str]) -> None:
    assert [one.key for one in read_links(line.encode())] == keys


@pytest.mark.parametrize(
    "part",
    ["[", "[](", "[](<", "[\\", "](", "- [a", "[[a]", "[" + "[a]" * 400, "## #", "[a](b.md)"],
)
def test_a_hostile_index_is_read_in_time(part: str) -> None:
    index = (part * (256 * 1024 // len(part))).encode()
    begun = time.process_time()
    read_links(index)
    with_link(index, "x.md", "X", "x")
    split_overflow(index)
    assert time.process_time() - begun < 5


# A new link


def test_a_new_link_stands_behind_the_last_of_its_kind() -> None:
    line = "- [Style](feedback_style.md) — short\n".encode()
    before, behind = INDEX[: INDEX.index(b"- [Plan]")], INDEX[INDEX.index(b"- [Plan]") :]
    assert with_link(INDEX, "feedback_style.md", "Style", "short") == before + line + behind


def test_a_new_link_of_a_new_kind_stands_behind_all() -> None:
    line = "- [Ada](relationship_ada.md) — design\n".encode()
    assert with_link(INDEX, "relationship_ada.md", "Ada", "design") == INDEX + line


def test_the_first_link_stands_at_the_end() -> None:
    line = "- [A](a.md) — first\n".encode()
    assert with_link(b"", "a.md", "A", "first") == line
    assert with_link(b"# Memory", "a.md", "A", "first") == b"# Memory\n" + line


def test_a_link_needs_no_hook() -> None:
    assert with_link(b"", "a.md", "A", " ") == b"- [A](a.md)\n"


def test_a_link_is_made_of_one_line_whatever_its_title() -> None:
    index = with_link(b"", "a.md", "A [b]\\\n- [x](x.md)", "one\r\ntwo\0")
    assert [one.key for one in read_links(index)] == ["a.md"]
    assert index.count(b"\n") == 1


def test_a_long_hook_is_cut() -> None:
    index = with_link(b"", "a.md", "T" * 500, "h" * 500)
    (link,) = read_links(index)
    assert (link.title, link.hook) == ("T" * 99 + "…", "h" * 149 + "…")


@given(st.text(), st.text(), st.sampled_from([b"", INDEX, b"# M\r\n", b"\xff"]))
def test_a_link_that_was_made_is_found(title: str, hook: str, before: bytes) -> None:
    index = with_link(before, "sub/a.md", title, hook)
    assert [one.key for one in read_links(index)].count("sub/a.md") == 1
    assert with_link(index, "sub/a.md", title, hook) == index


def test_a_link_that_is_there_keeps_its_words() -> None:
    assert with_link(INDEX, "user_role.md", "Other", "words") == INDEX


def test_line_endings_and_strange_bytes_stay() -> None:
    index = b"\xef\xbb\xbf- [A](a.md) \xff\r\n- [B](b.md)\x85 tail\r\nlast"
    changed = with_link(index, "c.md", "C", "c")
    line = "- [C](c.md) — c\r\n".encode()
    assert changed == index.replace(b"last", line + b"last")


# A link that moves


def test_a_moved_link_changes_nothing_else() -> None:
    index = INDEX.replace(b"\n", b"\r\n") + b"see [R](<./user_role.md#now>) and (user_role.md)"
    moved = with_moved_link(index, "user_role.md", "sub/role.md")
    assert moved == index.replace(b"[Role](user_role.md)", b"[Role](sub/role.md)").replace(
        b"[R](<./user_role.md#now>)", b"[R](sub/role.md#now)"
    )
    assert with_moved_link(index, "role.md", "x.md") == index


@given(st.binary())
def test_a_link_that_is_not_there_does_not_move(index: bytes) -> None:
    assert with_moved_link(index, "not_there.md", "x.md") == index


# More than is loaded


def grouped(*sizes: int, eol: str = "\n") -> bytes:
    lines = ["# Memory", "", "- [Role](user_role.md) — first", ""]
    for group, size in enumerate(sizes):
        lines += [f"## Group {group}", ""]
        lines += [f"- [T{n}](g{group}_{n}.md) — hook" for n in range(size)]
        lines += [""]
    return (eol.join(lines) + eol).encode()


def test_an_index_that_fits_stays() -> None:
    index = grouped(10, 10, 10)
    assert split_overflow(index) == (index, {})


def test_the_largest_group_moves() -> None:
    index = grouped(90, 120, 30)
    short, parts = split_overflow(index)
    assert list(parts) == ["index_group_1.md"]
    assert is_fully_loaded(short)
    line = "- [Group 1](index_group_1.md) — more of this index\n\n".encode()
    start, end = index.index(b"## Group 1"), index.index(b"## Group 2")
    assert short == (index[:start] + index[end:]).replace(b"## Group 0", line + b"## Group 0")
    assert parts["index_group_1.md"].endswith(b"---\n\n" + index[start:end])


def test_of_groups_of_one_size_the_last_moves() -> None:
    index = grouped(80, 80, 80)
    assert list(split_overflow(index)[1]) == ["index_group_2.md"]


def test_no_more_groups_move_than_are_needed() -> None:
    short, parts = split_overflow(grouped(150, 150, 150, 20))
    assert sorted(parts) == ["index_group_1.md", "index_group_2.md"]
    assert read_links(short)[1:3] == (
        IndexLink("index_group_1.md", "Group 1", "more of this index", 3 + 1),
        IndexLink("index_group_2.md", "Group 2", "more of this index", 3 + 2),
    )


def test_bytes_count_as_well_as_lines() -> None:
    index = grouped(5) + b"## Long\n- [L](l.md) " + b"x" * MAX_INDEX_BYTES
    assert index.count(b"\n") < MAX_INDEX_LINES
    short, parts = split_overflow(index)
    assert len(short) < MAX_INDEX_BYTES
    assert list(parts) == ["index_long.md"]


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_nothing_is_lost_and_a_second_time_changes_nothing(eol: str) -> None:
    index = grouped(150, 90, 120, 3, eol=eol)
    short, parts = split_overflow(index)
    after = b"".join([short, *parts.values()])
    assert sorted(one.key for one in read_links(index)) == sorted(
        one.key for one in read_links(after) if one.key not in parts
    )
    for line in index.splitlines(keepends=True):
        assert line in after
    assert after.count(b"\r\n") == (after.count(b"\n") if eol == "\r\n" else 0)
    assert split_overflow(short) == (short, {})


def test_a_part_is_a_proper_document() -> None:
    for key, data in split_overflow(grouped(150, 150))[1].items():
        assert check_document(key, data) == ()
        assert parse(data).type == "reference"


def test_a_group_that_comes_again_is_added_to_its_part() -> None:
    _, parts = split_overflow(grouped(150, 150))
    (key, before), *_ = parts.items()
    assert key == "index_group_1.md"
    again = b"- [Group 1](index_group_1.md)\n## Group 1\n"
    again += b"".join(b"- [N](new_%d.md)\n" % number for number in range(250))
    again += "- [T0](g1_0.md) — hook\n".encode()
    short, more = split_overflow(again, parts=parts)
    assert more[key].startswith(before)
    assert {one.key for one in read_links(again)} - {key} <= {
        one.key for one in read_links(more[key])
    }
    assert more[key].count(b"type: reference") == 1
    assert more[key].count(b"g1_0.md") == 1
    assert [one.key for one in read_links(short)] == [key]


def test_a_list_without_groups_moves_kind_by_kind() -> None:
    lines = [f"- [F{n}](feedback_{n}.md) — hook\n  more\n" for n in range(80)]
    lines += [f"- [P{n}](project_{n}.md) — hook\n" for n in range(90)]
    index = "".join(lines).encode()
    short, parts = split_overflow(index)
    assert list(parts) == ["index_feedback.md"]
    assert is_fully_loaded(short)
    assert parts["index_feedback.md"].endswith("".join(lines[:80]).encode())
    assert short.startswith("".join(lines[80:]).encode())
    assert split_overflow(short) == (short, {})


def test_what_leads_to_parts_stays_in_the_index() -> None:
    pointers = b"".join(b"- [P](index_%d.md)\n" % number for number in range(120))
    flat = b"".join(b"- [F](feedback_%d.md)\n" % number for number in range(100))
    short, parts = split_overflow(flat + pointers)
    assert list(parts) == ["index_feedback.md"]
    assert short == pointers + "- [feedback](index_feedback.md) — more of this index\n".encode()


def test_a_last_line_without_an_end_gets_one() -> None:
    flat = b"".join(b"- [F](feedback_%d.md)\n" % number for number in range(200))
    short, _ = split_overflow(flat + b"- [U](user_a.md)")
    assert short.splitlines()[0] == b"- [U](user_a.md)"
    assert [one.line for one in read_links(short)] == [0, 1]


def test_what_cannot_be_made_to_fit_stays_and_is_complained_of() -> None:
    prose = b"words\n" * 300 + grouped(20)
    assert split_overflow(prose) == (prose, {})
    assert "too-long" in {one.rule for one in check_document("MEMORY.md", prose)}


def test_very_many_groups_do_not_become_very_many_documents() -> None:
    groups = [b"## G%d\n- [a](a%d.md) %s\n" % (n, n, b"x" * 600) for n in range(100)]
    assert 40 < len(split_overflow(b"".join(groups[:80]))[1]) <= 50
    index = b"".join(groups)
    assert split_overflow(index) == (index, {})


def test_what_is_no_text_stays() -> None:
    index = grouped(300) + b"\xff"
    assert split_overflow(index) == (index, {})


@given(st.lists(st.integers(0, 60), max_size=12), st.booleans())
def test_splitting_is_done_after_one_time(sizes: list[int], windows: bool) -> None:  # noqa: FBT001
    index = grouped(*sizes, eol="\r\n" if windows else "\n")
    short, parts = split_overflow(index)
    assert is_fully_loaded(short)
    assert split_overflow(short, parts=parts) == (short, {})
    after = {one.key for one in read_links(b"".join([short, *parts.values()]))}
    assert {one.key for one in read_links(index)} == after - parts.keys()
