"""The text index: what it finds, for whom, and what is left after a crash or damage."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from memplane.errors import IndexUnusable
from memplane.search import index as module
from memplane.search.index import CountedChange, TextIndex, erase_index, open_index

ALL: Final = 10_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index" / "first"


@pytest.fixture
def index(folder: Path) -> Iterator[TextIndex]:
    made = TextIndex.create(folder, "first")
    yield made
    made.close()


def opened(folder: Path) -> TextIndex:
    found = open_index(folder)
    assert found is not None
    return found


# Finding


def test_documents_are_found_by_their_terms(index: TextIndex) -> None:
    index.apply(
        [
            CountedChange(1, 7, {"kestrel": 1, "nest": 2}),
            CountedChange(2, 7, {"crow": 1, "nest": 1}),
            CountedChange(3, 7, {"host": 1}),
        ]
    )
    assert index.candidates([7], ["kestrel"], ALL) == [1]
    assert set(index.candidates([7], ["nest", "unheard"], ALL)) == {1, 2}
    assert index.candidates([7], ["kestrel", "nest"], ALL) == [1, 2]
    assert index.candidates([7], ["unheard"], ALL) == []
    assert index.candidates([7], [], ALL) == []
    assert index.frequencies([7], ["nest", "host", "unheard"]) == {
        "nest": 2,
        "host": 1,
        "unheard": 0,
    }


def test_the_last_change_to_a_key_counts(index: TextIndex) -> None:
    index.apply([CountedChange(1, 7, {"old": 1}), CountedChange(1, 7, {"new": 1})])
    assert index.candidates([7], ["old"], ALL) == []
    assert index.candidates([7], ["new"], ALL) == [1]
    index.apply([CountedChange(1, 7, {"newer": 1}), CountedChange(2, 7, {"newer": 1})])
    assert index.frequencies([7], ["old", "new", "newer"]) == {"old": 0, "new": 0, "newer": 2}
    index.apply(
        [CountedChange(1, 7, {"newest": 1}), CountedChange(1, 7, None), CountedChange(3, 7, None)]
    )
    assert index.candidates([7], ["newest", "newer"], ALL) == [2]


def test_nothing_to_change_changes_nothing(index: TextIndex) -> None:
    index.apply([])
    index.apply([CountedChange(1, 7, {})])
    assert index.candidates([7], [""], ALL) == []


def test_half_as_many_again_are_found_as_are_asked_for(index: TextIndex) -> None:
    index.apply([CountedChange(key, 7, {"nest": key}) for key in range(1, 9)])
    for limit, found in ((-1, 0), (0, 0), (1, 2), (2, 3), (3, 5), (4, 6), (8, 8), (2**63, 8)):
        assert len(index.candidates([7], ["nest"], limit)) == found


def test_of_those_that_are_equally_likely_none_is_left_out(index: TextIndex) -> None:
    index.apply([CountedChange(key, 7, {"nest": 1}) for key in range(1, 300)])
    index.apply([CountedChange(key, 7, {"tower": 1}) for key in range(300, 400)])
    assert len(index.candidates([7], ["nest"], 8)) == 299


def test_of_very_many_terms_the_rarest_are_looked_for(index: TextIndex) -> None:
    common = {f"common{number}": 1 for number in range(200)}
    index.apply(
        [
            CountedChange(1, 7, {"rare": 1}),
            *(CountedChange(key, 7, {**common, "filler": key}) for key in range(2, 12)),
        ]
    )
    assert 1 in index.candidates([7], [*common, "rare"], ALL)


def test_the_likely_ones_come_first_after_many_deletions_too(index: TextIndex) -> None:
    index.apply([CountedChange(key, 7, {"nest": 1, "filler": 9}) for key in range(1, 100)])
    index.apply(
        [CountedChange(100, 7, {"nest": 9, "filler": 1}), CountedChange(101, 7, {"filler": 1})]
    )
    index.apply([CountedChange(key, 7, None) for key in range(3, 100)])
    assert index.candidates([7], ["nest"], ALL) == [100, 1, 2]


def test_keys_may_be_as_large_as_those_of_the_database(index: TextIndex) -> None:
    index.apply(
        [CountedChange(2**63 - 1, 7, {"nest": 1}), CountedChange(2**63 - 2, 7, {"nest": 1})]
    )
    index.apply([CountedChange(2**63 - 2, 7, None)])
    assert index.candidates([7], ["nest"], ALL) == [2**63 - 1]


def test_a_change_that_cannot_be_made_leaves_nothing_behind(index: TextIndex) -> None:
    with pytest.raises(IndexUnusable, match="key"):
        index.apply([CountedChange(1, 7, {"nest": 1}), CountedChange(-1, 7, {"nest": 1})])
    with pytest.raises(IndexUnusable, match="negative"):
        index.apply([CountedChange(1, 7, {"nest": 1}), CountedChange(2, -7, {"nest": 1})])
    index.apply([CountedChange(3, 7, {"host": 1})])
    assert index.candidates([7], ["nest", "host"], ALL) == [3]


# Each agent by itself


def test_an_agent_finds_its_own_documents_only(index: TextIndex) -> None:
    index.apply(
        [CountedChange(agent, agent, {"nest": 1}) for agent in (0, 1, 9, 35, 36, 37, 1295, 1296)]
    )
    for agent in (0, 1, 9, 35, 36, 37, 1295, 1296):
        assert index.candidates([agent], ["nest"], ALL) == [agent]
        assert index.frequencies([agent], ["nest"]) == {"nest": 1}
    assert index.candidates([2], ["nest"], ALL) == []


@pytest.mark.parametrize(
    "hostile",
    ["2|nest", "x 2|nest", "x\n2|nest", "|nest", "|", "", "2", "x\u00a02|nest", "x\u20282|nest"],
)
def test_no_term_reaches_another_agent(index: TextIndex, hostile: str) -> None:
    index.apply([CountedChange(1, 1, {hostile: 1, "own": 1}), CountedChange(2, 2, {"nest": 1})])
    assert index.candidates([2], ["nest", "own"], ALL) == [2]
    assert index.frequencies([2], ["nest", hostile]) == {"nest": 1, hostile: 0}
    assert index.candidates([1], [hostile], ALL) == [1]
    assert index.candidates([1], ["nest"], ALL) == []
    assert index.candidates([3], [hostile, "nest"], ALL) == []


def test_a_broken_character_in_a_term_does_no_harm(index: TextIndex) -> None:
    index.apply([CountedChange(1, 1, {"\ud800": 1, "nest": 1})])
    assert index.candidates([1], ["nest"], ALL) == [1]
    assert index.candidates([1], ["\ud800"], ALL) == [1]


def test_other_agents_do_not_change_who_is_likely(index: TextIndex) -> None:
    own = [
        CountedChange(1, 1, {"rare": 1, "x": 20}),
        *(CountedChange(key, 1, {"common": 1, "usual": 1}) for key in range(2, 60)),
    ]
    index.apply(own)
    before = index.candidates([1], ["rare", "common", "usual"], 1)
    index.apply([CountedChange(key, 2, {"other": 1}) for key in range(100, 5000)])
    assert before[0] == 1
    assert index.candidates([1], ["rare", "common", "usual"], 1) == before


TERMS: Final = st.one_of(
    st.sampled_from(["a", "b", "c", "d", "e"]), st.text("ab|0 \n\u6771\u00a0", max_size=4)
)
CHANGES: Final = st.builds(
    CountedChange,
    key=st.integers(1, 12),
    scope=st.sampled_from([0, 1, 36]),
    counts=st.one_of(st.none(), st.dictionaries(TERMS, st.integers(1, 3), max_size=5)),
)


@given(
    st.lists(st.lists(CHANGES, max_size=8), min_size=1, max_size=5), st.lists(TERMS, max_size=8)
)
@settings(max_examples=40)
def test_it_finds_what_a_look_at_every_document_finds(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[CountedChange]], terms: list[str]
) -> None:
    index = TextIndex.create(tmp_path_factory.mktemp("model") / "index", "g")
    live: dict[int, tuple[int, Mapping[str, int]]] = {}
    for batch in batches:
        index.apply(batch)
        for change in batch:
            live.pop(change.key, None)
            if change.counts is not None:
                live[change.key] = change.scope, change.counts
        for agent in (0, 1, 36, 37):
            own = {key: counts for key, (whose, counts) in live.items() if whose == agent}
            found = index.candidates([agent], terms, ALL)
            assert len(found) == len(set(found))
            assert set(found) == {key for key, counts in own.items() if counts.keys() & set(terms)}
            assert index.frequencies([agent], terms) == {
                term: sum(term in counts for counts in own.values()) for term in terms
            }
    index.close()


# While it is being changed


def test_many_small_changes_do_not_make_many_pieces(folder: Path, index: TextIndex) -> None:
    for key in range(1, 61):
        index.apply([CountedChange(key, 7, {"nest": 1, f"n{key}": 1})])
    assert len(list(folder.glob("*.term"))) < 30
    index.close()
    again = opened(folder)
    assert again.frequencies([7], ["nest"]) == {"nest": 60}
    assert len(list(folder.glob("*.term"))) < 30


def test_others_search_while_one_changes(index: TextIndex) -> None:
    index.apply([CountedChange(key, 7, {"nest": 1}) for key in range(1, 11)])
    failures: list[BaseException] = []
    done = threading.Event()

    def search() -> None:
        try:
            while not done.is_set():
                # Each batch replaces all ten, so that none of them is ever missing.
                assert set(index.candidates([7], ["nest"], ALL)) == set(range(1, 11))
                assert index.frequencies([7], ["nest"]) == {"nest": 10}
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(25):
            index.apply(
                [CountedChange(key, 7, {"nest": 1, f"n{number}": 1}) for key in range(1, 11)]
            )
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []


def test_two_cannot_change_one_index(folder: Path, index: TextIndex) -> None:
    index.apply([CountedChange(1, 7, {"nest": 1})])
    second = opened(folder)
    with pytest.raises(IndexUnusable, match="LockBusy"):
        second.apply([CountedChange(2, 7, {"nest": 1})])
    assert second.candidates([7], ["nest"], ALL) == [1]
    index.close()
    second.apply([CountedChange(2, 7, {"nest": 1})])
    assert set(second.candidates([7], ["nest"], ALL)) == {1, 2}
    second.close()


def test_a_closed_index_is_still_searched_but_not_changed(index: TextIndex) -> None:
    index.apply([CountedChange(1, 7, {"nest": 1})])
    index.close()
    index.close()
    assert index.candidates([7], ["nest"], ALL) == [1]
    with pytest.raises(IndexUnusable, match="closed"):
        index.apply([CountedChange(2, 7, {"nest": 1})])


def test_a_panic_of_the_library_is_our_error(index: TextIndex) -> None:
    searcher = index._index.searcher()
    query = tantivy.Query.all_query()
    with pytest.raises(BaseException, match="greater than 0") as raw:
        searcher.search(query, limit=0)
    assert not isinstance(raw.value, Exception)
    with pytest.raises(IndexUnusable, match="greater than 0"), module._translate_errors("read"):
        searcher.search(query, limit=0)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interruption_is_not_the_index_s_fault(kind: type[BaseException]) -> None:
    with pytest.raises(kind), module._translate_errors("read"):
        raise kind


# In its folder


def test_what_was_applied_is_there_when_it_is_opened_again(folder: Path, index: TextIndex) -> None:
    index.apply([CountedChange(1, 7, {"nest": 1}), CountedChange(2, 7, {"nest": 1})])
    index.apply([CountedChange(2, 7, None)])
    index.close()
    again = opened(folder)
    assert again.generation == "first"
    assert again.candidates([7], ["nest"], ALL) == [1]
    again.apply([CountedChange(3, 7, {"nest": 1})])
    again.close()
    assert opened(folder).frequencies([7], ["nest"]) == {"nest": 2}


def test_a_new_index_takes_the_place_of_an_old_one(folder: Path, index: TextIndex) -> None:
    index.apply([CountedChange(1, 7, {"nest": 1})])
    index.close()
    (folder / "stray").write_text("left")
    TextIndex.create(folder, "second").close()
    again = opened(folder)
    assert again.generation == "second"
    assert again.candidates([7], ["nest"], ALL) == []
    assert not (folder / "stray").exists()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o377])
def test_the_folder_is_for_its_owner_alone(folder: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        TextIndex.create(folder, "g").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not _open_to_others(folder)


def test_files_are_for_their_owner_alone_whatever_the_umask_is(folder: Path) -> None:
    before = os.umask(0)
    try:
        index = TextIndex.create(folder, "g")
        for key in range(12):  # pieces are merged meanwhile
            index.apply([CountedChange(key, 7, {"nest": 1})])
        index.close()
        assert not _open_to_others(folder)
        (folder / "meta.json").chmod(0o644)  # as an older version left it
        assert open_index(folder) is not None
    finally:
        os.umask(before)
    assert not _open_to_others(folder)


def _open_to_others(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir() if one.stat().st_mode & 0o077]


def test_an_erased_index_is_gone(folder: Path, index: TextIndex) -> None:
    index.apply([CountedChange(1, 7, {"nest": 1})])
    index.close()
    erase_index(folder)
    assert not folder.exists()
    assert open_index(folder) is None
    erase_index(folder)
    folder.write_text("no folder")
    erase_index(folder)
    assert not folder.exists()


def test_erasing_does_not_follow_a_link(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept")
    folder.parent.mkdir()
    folder.symlink_to(kept)
    erase_index(folder)
    assert not folder.is_symlink()
    assert (kept / "file").read_text() == "kept"


def test_where_none_can_be_made_our_error_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IndexUnusable):
        TextIndex.create(tmp_path / "file" / "index", "g")


def test_there_is_none_in_a_folder_without_one(tmp_path: Path) -> None:
    assert open_index(tmp_path) is None
    assert open_index(tmp_path / "nothing") is None


def test_an_index_of_another_version_is_none(folder: Path, index: TextIndex) -> None:
    index.close()
    label = folder / "memplane.json"
    body = json.loads(label.read_bytes())
    other: object
    for other in ({**body, "version": body["version"] + 1}, {**body, "generation": 3}, [], body):
        label.write_text(json.dumps(other))
        assert (open_index(folder) is None) is (other != body)


def test_an_index_with_other_fields_is_none(folder: Path) -> None:
    folder.mkdir(parents=True)
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("terms", tokenizer_name="whitespace")
    tantivy.Index(builder.build(), path=str(folder))
    (folder / "memplane.json").write_text('{"version": 1, "generation": "g"}')
    assert open_index(folder) is None


# After a crash

APPLYING: Final = """
import sys
from pathlib import Path
from memplane.search.index import CountedChange, open_index

index = open_index(Path(sys.argv[1]))
for batch in range(1, 1000):
    terms = {"all": 1, f"batch{batch}": 1}
    changes = [CountedChange(batch * 100 + n, 7, terms) for n in range(50)]
    index.apply([*changes, CountedChange((batch - 1) * 100, 7, None)])
    print(batch, flush=True)
"""


@pytest.mark.parametrize("after", [1, 4, 9])
def test_a_killed_process_leaves_the_last_commit(folder: Path, after: int) -> None:
    TextIndex.create(folder, "g").close()
    with subprocess.Popen(
        [sys.executable, "-c", APPLYING, str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = 0
        while told < after:
            told = int(process.stdout.readline())
        process.kill()
        rest = [int(line) for line in process.stdout if line.endswith("\n")]
    assert process.returncode == -signal.SIGKILL
    told = max([told, *rest])
    index = opened(folder)
    batches = [f"batch{number}" for number in range(1, told + 2)]
    counts = list(index.frequencies([7], batches).values())
    # The one that was being applied is there as a whole, with its deletion, or not at all.
    applied = told + 1 if counts[-1] else told
    assert counts[:applied] == [49] * (applied - 1) + [50]
    assert index.frequencies([7], ["all"]) == {"all": 50 * applied - (applied - 1)}
    index.apply([CountedChange(1, 7, {"all": 1})])
    assert 1 in index.candidates([7], ["all"], ALL)
    index.close()


FILLING_UP: Final = """
import json, resource, signal, sys
from pathlib import Path
from memplane.errors import IndexUnusable
from memplane.search.index import CountedChange, TextIndex

index = TextIndex.create(Path(sys.argv[1]), "g")
index.apply([CountedChange(1, 7, {"first": 1})])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
free = resource.getrlimit(resource.RLIMIT_FSIZE)
many = [CountedChange(key, 7, {f"t{key}x{n}": 1 for n in range(50)}) for key in range(2, 300)]
errors, seen = [], []
for largest in (100, 2_000, 20_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, free[1]))
    try:
        index.apply(many)
    except IndexUnusable as error:
        errors.append(error)
    seen.append(index.candidates([7], ["first", "t2x0"], 10))
    resource.setrlimit(resource.RLIMIT_FSIZE, free)
index.apply([CountedChange(1000, 7, {"second": 1})])
after = sorted(index.candidates([7], ["first", "second", "t2x0"], 10))
index.apply(many)
index.close()
print(json.dumps([len(errors), seen, after, index.candidates([7], ["t2x0"], 10)]))
"""


def test_a_full_disk_is_our_error_and_passes(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FILLING_UP, str(folder)], capture_output=True, text=True, check=True
    )
    failed, seen, after, at_last = json.loads(ran.stdout)
    assert failed == 3
    assert seen == [[1], [1], [1]]
    assert after == [1, 1000]
    assert at_last == [2]
    assert opened(folder).candidates([7], ["t2x0"], ALL) == [2]


# After damage

USING: Final = """
import json, shutil, sys
from pathlib import Path
from memplane.search.index import CountedChange, open_index

whole, copy = Path(sys.argv[1]), Path(sys.argv[2])
terms = [f"t{n}" for n in range(10)]
for line in sys.stdin:
    name, at, what = json.loads(line)
    shutil.copytree(whole, copy)
    body = bytearray((copy / name).read_bytes())
    (copy / name).unlink()
    if what != "gone":
        body[at:] = b"" if what == "cut" else bytes(what) + body[at + len(what):]
        (copy / name).write_bytes(body)
    index = open_index(copy)
    found = None
    if index is not None:
        found = [sorted(index.candidates([1], terms, 1000)), index.frequencies([1], terms)]
        for number in range(9):  # enough for a merge of all there is
            index.apply([CountedChange(5000 + number, 1, {"t0": 1}), CountedChange(2, 1, None)])
        index.close()
    print(json.dumps(found), flush=True)
    shutil.rmtree(copy)
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an index of three pieces, in each of which something was deleted."""
    folder = tmp_path_factory.mktemp("whole") / "index"
    index = TextIndex.create(folder, "g")
    for start in (1, 101, 201):
        index.apply(
            [
                CountedChange(key, 1, {f"t{key % 10}": 1, f"u{key}": 1})
                for key in range(start, start + 50)
            ]
        )
    index.apply([CountedChange(key, 1, None) for key in range(1, 251, 7)])
    index.close()
    return folder


def damages(path: Path) -> Iterator[tuple[str, int, object]]:
    """Yield ways to damage a file: its name, an offset, and what is to be there."""
    size = path.stat().st_size
    for at in sorted({0, 1, size // 3, size // 2, size - 1} & set(range(size))):
        yield path.name, at, "cut"
    for step in range(6):
        yield path.name, size * step // 6, [0xFF, 0x00, 0x7F]
    yield path.name, size // 2, [0xA5]
    yield path.name, 0, "gone"


def after_damage(whole: Path, copy: Path, cases: Sequence[object]) -> list[object]:
    """Open and use a damaged copy for each case, all in one process of their own."""
    ran = subprocess.run(
        [sys.executable, "-c", USING, str(whole), str(copy)],
        input="\n".join(map(json.dumps, cases)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


KINDS: Final = (
    *("term", "idx", "pos", "fast", "fieldnorm", "store", "del"),
    *("meta.json", "memplane.json", ".managed.json", ".tantivy-writer.lock"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_index_is_none_or_answers_rightly(
    whole: Path, tmp_path: Path, kind: str
) -> None:
    path = min(whole.glob(f"*{kind}"))
    cases = list(damages(path))
    right, *found = after_damage(whole, tmp_path / "copy", [(path.name, 0, []), *cases])
    assert right is not None
    assert len(found) == len(cases)
    assert [(case, one) for case, one in zip(cases, found, strict=True) if one] == [
        (case, right) for case, one in zip(cases, found, strict=True) if one
    ]
    if kind in KINDS[:7]:
        assert found == [None] * len(cases)


def test_wrong_numbers_in_the_list_of_pieces_are_noticed(whole: Path, tmp_path: Path) -> None:
    body = (whole / "meta.json").read_bytes()
    cases: list[tuple[str, int, object]] = []
    for name in (b'"max_doc": ', b'"num_deleted_docs": ', b'"opstamp": '):
        at = body.index(name) + len(name)
        cases += [("meta.json", at, [digit]) for digit in b"0123456789" if digit != body[at]]
    right, *found = after_damage(whole, tmp_path / "copy", [("meta.json", 0, []), *cases])
    assert right is not None
    assert found[:9] == [None] * 9
    assert [one for one in found if one] == [right for one in found if one]


def test_the_pieces_that_a_killed_process_left_are_no_damage(whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    piece = next(copy.glob("*.term"))
    (copy / f"{piece.stem}.999999.del").write_bytes(b"half")
    (copy / f"{'0' * 32}.term").write_bytes(b"half")
    (copy / ".tmpA1b2C3").write_bytes(b"half")
    index = opened(copy)
    index.apply([CountedChange(1, 1, {"nest": 1})])
    assert index.candidates([1], ["nest"], ALL) == [1]
    index.close()
