"""Which keys are refused, by which rule, and that no accepted key can leave its root."""

from __future__ import annotations

import ntpath
import posixpath
import unicodedata
from pathlib import PurePath, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import assume, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memplane.errors import InvalidKey
from memplane.storage.keys import check_key, find_collisions, fold_key, is_valid, refuse_collision

untimed = hypothesis_settings(deadline=None)

EMPTY = "cannot be empty"
CONTROL = "control characters or half of a surrogate pair"
BACKSLASH = "not by a backslash"
NFC = "composed form"
BYTES = "at most 1024 bytes"
RELATIVE = "cannot begin with '/'"
SEGMENTS = "at most 254 segments"
DRIVE = "drive letter"
SEGMENT = "segment of a key cannot be empty"
DOTS = "cannot hold the segment"
ENDING = "cannot end in a dot or a space"
DEVICE = "name of a device on Windows"
RESERVED = "are memplane's own"


def objection_to(key: str) -> InvalidKey:
    with pytest.raises(InvalidKey) as caught:
        check_key(key)
    return caught.value


REFUSED = [
    ("/a.md", RELATIVE),
    ("//server/share/a.md", RELATIVE),
    ("/", RELATIVE),
    ("a\\b.md", BACKSLASH),
    ("\\\\server\\share", BACKSLASH),
    ("..\\a.md", BACKSLASH),
    ("c:\\a.md", BACKSLASH),
    ("C:/a.md", DRIVE),
    ("c:a.md", DRIVE),
    ("z:", DRIVE),
    ("1:/a.md", DRIVE),
    ("é:a.md", DRIVE),
    ("a\0b.md", CONTROL),
    ("\0", CONTROL),
    ("a\nb.md", CONTROL),
    ("a\tb.md", CONTROL),
    ("a\rb.md", CONTROL),
    ("a\x1bb.md", CONTROL),
    ("a\x7fb.md", CONTROL),
    ("a\x85b.md", CONTROL),
    ("a\ud800b.md", CONTROL),
    ("a\udcffb.md", CONTROL),
    ("a//b.md", SEGMENT),
    ("a/", SEGMENT),
    (".", DOTS),
    ("..", DOTS),
    ("../a.md", DOTS),
    ("claude_memory/../x.md", DOTS),
    ("a/./b.md", DOTS),
    ("a/..", DOTS),
    ("a.", ENDING),
    ("a ", ENDING),
    ("...", ENDING),
    ("a/b./c.md", ENDING),
    ("a/b /c.md", ENDING),
    (" ", ENDING),
    ("cafe\u0301.md", NFC),
    ("\u212b.md", NFC),
    (".memplane", RESERVED),
    (".memplane-new-1234", RESERVED),
    (".Memplane", RESERVED),
    ("a/.memplane-lock/b.md", RESERVED),
]
DEVICES = (
    "con",
    "PRN",
    "Aux",
    "nul",
    *(f"COM{number}" for number in range(1, 10)),
    *(f"lpt{number}" for number in range(1, 10)),
)


@pytest.mark.parametrize(("key", "rule"), REFUSED, ids=[ascii(key) for key, _ in REFUSED])
def test_a_bad_key_is_refused_by_its_rule(key: str, rule: str) -> None:
    error = objection_to(key)
    assert rule in str(error)
    assert error.key == key
    assert not is_valid(key)


def test_the_empty_key_is_refused_and_still_named() -> None:
    error = objection_to("")
    assert EMPTY in str(error)
    assert error.key == "(empty)"
    assert not is_valid("")


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize(
    "key", ["{}", "{}.md", "{}.tar.gz", "a/{}", "{}/a.md", "a/{}.md/b.md", "{} .md"]
)
def test_a_device_of_windows_is_refused_anywhere_and_with_any_extension(
    name: str, key: str
) -> None:
    for spelling in (name.lower(), name.upper(), name.title()):
        error = objection_to(key.format(spelling))
        assert DEVICE in str(error)
        assert error.key == key.format(spelling)


@pytest.mark.parametrize(
    "key",
    ["con$.md", "console.md", "a-con.md", "nul-a.md", "com.md", "com10.md", "lpt.md", "xcon"],
)
def test_what_only_resembles_a_device_is_accepted(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["a" * 1025, "é" * 513, "a/" * 512 + "ab"])
def test_a_key_of_too_many_bytes_is_refused(key: str) -> None:
    error = objection_to(key)
    assert BYTES in str(error)
    assert error.key == key


def test_a_key_of_too_many_segments_is_refused() -> None:
    assert SEGMENTS in str(objection_to("/".join(["a"] * 255)))


@pytest.mark.parametrize(
    "key",
    ["a" * 1024, "é" * 512, "/".join(["a"] * 254), "😀" * 256],
    ids=["bytes", "accents", "segments", "emoji"],
)
def test_a_key_at_the_limit_is_accepted(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize(
    "key",
    [
        "a",
        "manifest.json",
        "claude_memory/MEMORY.md",
        "interactions/2026-01-31.jsonl",
        ".project.json",
        "...a",
        "a..b",
        "a b/c d.md",
        " a",
        "a/ b.md",
        "café/ünïcode.md",
        "日本語/メモ.md",
        "😀.md",
        "a%2e%2e.md",
        "~/a.md",
        "$HOME",
        "-rf",
        "memplane/.memplan",
    ],
)
def test_a_good_key_is_returned_as_it_is(key: str) -> None:
    assert check_key(key) == key
    assert is_valid(key)


# Nothing an attacker writes as a key gets out of the root

PIECES = [
    *("/", "//", "\\", ".", "..", "...", ":", "c:", "1:", "é:", " ", "~", "$", "?", "*", "\0"),
    *("con", "NUL", "aux.", "com1", "COM¹", "lpt³", "CONIN$", "conout$", "nul:", ".memplane"),
    *("a", "b.md", "é", "e\u0301", "\u212b", "\ud800", "\u2028", "\u200b", "\u2215", "\uff0f"),
    *("\uff0e\uff0e", "%2e%2e", "\x7f", "\x85", "😀", "\\\\?\\", "//?/", "\\\\.\\"),
]
ANY_TEXT = st.text() | st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@untimed
@given(ANY_TEXT)
def test_any_text_is_a_key_or_an_invalid_key_and_nothing_else(text: str) -> None:
    if is_valid(text):
        assert check_key(text) == text
        return
    error = objection_to(text)
    assert error.key == (text or "(empty)")
    # It can be printed and logged, whatever the key holds.
    assert str(error).encode().decode().isprintable()


@untimed
@given(ANY_TEXT)
@example("1:a.md")
@example("é:a.md")
@example("claude_memory/1:a.md")
def test_an_accepted_key_stays_below_its_root(key: str) -> None:
    assume(is_valid(key))
    roots: tuple[PurePath, ...] = (PurePosixPath("/root"), PureWindowsPath("X:/root"))
    for root in roots:
        joined = root / key
        assert root in joined.parents
        assert ".." not in joined.parts
    assert posixpath.normpath(posixpath.join("/root", key)) == f"/root/{key}"
    # What Windows itself does: any character before a colon names a drive.
    below = ntpath.normpath(ntpath.join("X:\\root", key))
    assert below == "X:\\root\\" + key.replace("/", "\\")


NUMBERED = [f"{name}{number}" for name in ("COM", "LPT") for number in "123456789¹²³"]
WINDOWS_DEVICES = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", *NUMBERED}


def is_device(segment: str) -> bool:
    """Say whether Windows opens a device: it looks no further than a dot or a colon."""
    name = segment.partition(".")[0].partition(":")[0].rstrip(" ")
    return name.upper() in WINDOWS_DEVICES


def test_the_oracle_for_devices_knows_a_device() -> None:
    assert all(map(is_device, ("con", "nul.txt", "NUL:", "com1 .md", "COM¹", "conin$")))
    assert not any(map(is_device, ("console", "a.con", "com", "com10")))


@untimed
@given(ANY_TEXT)
@example("con:")
@example("a/nul:b.md")
@example("com¹.md")
@example("LPT³")
@example("CONIN$")
@example("conout$.md")
def test_an_accepted_key_never_names_a_device(key: str) -> None:
    assume(is_valid(key))
    assert not any(map(is_device, key.split("/")))


@untimed
@given(ANY_TEXT)
def test_an_accepted_key_is_the_same_on_a_file_system_that_composes(key: str) -> None:
    assume(is_valid(key))
    assert unicodedata.normalize("NFC", key) == key
    assert len(key.encode()) <= 1024


# Keys that some file systems cannot tell apart


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.md", "A.MD"),
        ("claude_memory/a.md", "Claude_Memory/a.md"),
        ("é.md", "É.md"),
        ("é.md", "e\u0301.md"),
        ("É.md", "e\u0301.md"),
        ("straße.md", "STRASSE.md"),
        ("ς.md", "Σ.md"),
        ("K.md", "\u212a.md"),
    ],
)
def test_keys_that_differ_by_case_or_encoding_fold_to_one(one: str, other: str) -> None:
    assert fold_key(one) == fold_key(other)
    assert find_collisions([other, one]) == [tuple(sorted((one, other)))]


@pytest.mark.parametrize(("one", "other"), [("a.md", "b.md"), ("e.md", "é.md"), ("a/b", "a-b")])
def test_keys_that_differ_otherwise_do_not(one: str, other: str) -> None:
    assert fold_key(one) != fold_key(other)
    assert find_collisions([one, other]) == []


@untimed
@given(st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold_key(fold_key(text)) == fold_key(text)


@untimed
@given(st.text())
def test_folding_does_not_see_how_accents_are_encoded(text: str) -> None:
    assert fold_key(unicodedata.normalize("NFD", text)) == fold_key(text)


@untimed
@given(st.lists(st.text("aAbBéÉ", max_size=3), unique=True))
def test_collisions_are_found_whatever_the_order(keys: list[str]) -> None:
    groups = find_collisions(keys)
    assert groups == find_collisions(reversed(keys))
    colliding = [key for group in groups for key in group]
    assert len(colliding) == len(set(colliding))
    for key in keys:
        rivals = [other for other in keys if fold_key(other) == fold_key(key)]
        assert (key in colliding) is (len(rivals) > 1)
        assert len(rivals) == 1 or tuple(sorted(rivals)) in groups


def test_every_group_of_three_is_one_collision() -> None:
    assert find_collisions(["b", "A", "c", "a", "C", "\u212b", "å", "Å"]) == [
        ("A", "a"),
        ("C", "c"),
        ("Å", "å", "\u212b"),
    ]


def test_a_new_key_that_collides_is_refused_and_both_are_named() -> None:
    with pytest.raises(InvalidKey, match="differs only by case") as caught:
        refuse_collision("notes/A.md", "notes/a.md")
    assert caught.value.key == "notes/A.md"
    assert "notes/a.md" in str(caught.value)


def test_a_key_does_not_collide_with_itself_or_with_nothing() -> None:
    refuse_collision("a.md", "a.md")
    refuse_collision("a.md", None)
