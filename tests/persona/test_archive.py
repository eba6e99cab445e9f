"""A folder as one file, and back. Each hostile archive differs from a good one in one thing."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplane.errors import PersonaError
from memplane.persona.archive import (
    HEADER_NAME,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    export_archive,
    read_archive,
)
from memplane.persona.document_names import explain_invalid_name
from memplane.storage.keys import fold_key

FILES = {
    "MEMORY.md": b"- [Role](user_role.md) \xe2\x80\x94 what they do\r\n",
    "sub/x.md": b"\xff\x00 not even text",
    "user_role.md": b"",
}
NOISE = hashlib.shake_256(b"").digest(1 << 20)
KEYS = st.from_regex(
    r"([A-Za-z0-9][A-Za-z0-9._-]{0,80}/){0,3}[A-Za-z0-9]{1,9}\.md", fullmatch=True
)


# There and back


def test_documents_come_back_byte_for_byte() -> None:
    assert read_archive(export_archive(FILES)) == FILES
    assert read_archive(export_archive({})) == {}


@settings(deadline=None)
@given(
    st.dictionaries(
        KEYS.filter(lambda key: explain_invalid_name(key) is None), st.binary(), max_size=8
    )
)
def test_any_documents_come_back(files: dict[str, bytes]) -> None:
    apart = {fold_key(key): (key, data) for key, data in files.items()}
    kept = dict(apart.values())
    assert read_archive(export_archive(kept)) == kept


def test_long_names_come_back() -> None:
    files = {"/".join(["d" * 201] * 3 + ["f" * 201 + ".md"]): b"deep", "f" * 201 + ".md": b"long"}
    assert read_archive(export_archive(files)) == files


def test_the_same_documents_give_the_same_bytes() -> None:
    backwards = dict(reversed(FILES.items()))
    assert list(backwards) != list(FILES)
    assert export_archive(backwards) == export_archive(FILES)
    assert export_archive(FILES) != export_archive({**FILES, "user_role.md": b"x"})


def test_an_archive_does_not_tell_when_or_where_it_was_made() -> None:
    assert export_archive(FILES)[:10] == b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"


def test_an_archive_is_an_ordinary_tarball() -> None:
    with tarfile.open(fileobj=io.BytesIO(export_archive(FILES)), mode="r:gz") as tar:
        assert tar.getnames() == [HEADER_NAME, *sorted(FILES)]
        assert {(one.mtime, one.mode, one.uid, one.uname) for one in tar} == {(0, 0o600, 0, "")}
        header = json.load(tar.extractfile(HEADER_NAME) or io.BytesIO())
    assert header["format"] == 1
    assert header["files"][1] == {
        "key": "sub/x.md",
        "size": len(FILES["sub/x.md"]),
        "sha256": hashlib.sha256(FILES["sub/x.md"]).hexdigest(),
    }


class Dripping(io.BytesIO):
    """A stream that never gives as much as it is asked for."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 1_000))


@pytest.mark.parametrize("last", [b"", NOISE])
def test_what_repeats_itself_comes_back_too(last: bytes) -> None:
    files = {f"{number}.md": bytes(4 << 20) for number in range(4)} | {"9.md": last}
    archive = export_archive(files)
    assert read_archive(archive) == files
    assert read_archive(Dripping(archive)) == files


def test_what_is_taken_for_a_bomb_does_not_depend_on_the_stream() -> None:
    files = {"1.md": bytes(2 << 20), "2.md": NOISE}
    archive = export_archive(files)
    assert len(archive) < 2 << 20
    assert read_archive(Dripping(archive)) == files


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"../x.md": b""}, r"'../x.md' cannot be a document"),
        ({"CLAUDE.md": b""}, r"'CLAUDE.md' cannot be a document"),
        ({"a.md": b"", "A.md": b""}, r"'a.md' is the same file as 'A.md'"),
        ({"big.md": bytes(MAX_FILE_BYTES + 1)}, r"'big.md' is larger"),
        ({f"{n}.md": b"" for n in range(MAX_FILES + 1)}, r"at most 2000"),
    ],
)
def test_what_could_not_be_read_is_not_exported(files: dict[str, bytes], why: str) -> None:
    with pytest.raises(PersonaError, match=why):
        export_archive(files)


def test_too_much_in_all_is_not_exported() -> None:
    part = bytes(MAX_FILE_BYTES)
    files = {f"{number}.md": part for number in range(MAX_TOTAL_BYTES // MAX_FILE_BYTES + 1)}
    with pytest.raises(PersonaError, match=f"more than {MAX_TOTAL_BYTES}"):
        export_archive(files)


# Hostile archives

Entry = tuple[tarfile.TarInfo, bytes]
Form = Literal[0, 1, 2]


def file(name: str, data: bytes = b"", **changes: Any) -> Entry:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in changes.items():
        setattr(info, field, value)
    return info, data


def listing(files: Mapping[str, bytes], /, **changes: Any) -> Entry:
    listed = [
        {"key": key, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for key, data in files.items()
    ]
    return file(HEADER_NAME, json.dumps({"format": 1, "files": listed, **changes}).encode())


def packed(*entries: Entry, form: Form = tarfile.PAX_FORMAT, end: int = 1024) -> bytes:
    return gzip.compress(b"".join(blocks(*entries, form=form)) + bytes(end))


def blocks(*entries: Entry, form: Form = tarfile.PAX_FORMAT) -> Iterator[bytes]:
    for info, data in entries:
        yield info.tobuf(form, "utf-8", "surrogateescape") + data + bytes(-len(data) % 512)


GOOD = {"a.md": b"text"}


def test_the_hostile_archives_are_made_like_a_good_one() -> None:
    assert read_archive(packed(listing(GOOD), file("a.md", b"text"))) == GOOD
    assert read_archive(packed(listing(GOOD), file("a.md", b"text"), end=10240)) == GOOD


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (file("../a.md", b"text"), r"'../a.md' cannot be a document"),
        (file("sub/../../a.md", b"text"), r"'sub/../../a.md' cannot be a document"),
        (file("/etc/a.md", b"text"), r"'/etc/a.md' cannot be a document"),
        (file("..\\a.md", b"text"), r"cannot be a document"),
        (file("C:a.md", b"text"), r"'C:a.md' cannot be a document"),
        (file("con.md", b"text"), r"'con.md' cannot be a document"),
        (file(".mcp.json", b"{}"), r"'.mcp.json' cannot be a document"),
        (file("CLAUDE.md", b"text"), r"'CLAUDE.md' cannot be a document"),
        (file("a.md", type=tarfile.SYMTYPE, linkname="/etc/passwd"), r"'a.md' is a symbolic link"),
        (file("a.md", type=tarfile.SYMTYPE, linkname="b.md"), r"'a.md' is a symbolic link"),
        (file("a.md", type=tarfile.LNKTYPE, linkname="MEMORY.md"), r"'a.md' is a hard link"),
        (file("a.md", type=tarfile.CHRTYPE, devmajor=1, devminor=5), r"'a.md' is a device"),
        (file("a.md", type=tarfile.BLKTYPE, devmajor=8), r"'a.md' is a device"),
        (file("a.md", type=tarfile.FIFOTYPE), r"'a.md' is a pipe"),
        (file("sub", type=tarfile.DIRTYPE), r"'sub' is a folder"),
        (file("a.md", type=tarfile.CONTTYPE), r"'a.md' is no file"),
        (file("x", type=tarfile.XGLTYPE), r"'x' is no file"),
        (file("a.md", type=tarfile.GNUTYPE_SPARSE), r"'a.md' is a sparse file"),
        (file("a.md", size=0o77777777777), r"'a.md' is larger than"),
        (file("a.md", size=MAX_FILE_BYTES + 1), r"'a.md' is larger than"),
        (file("a.md", b"texts"), r"'a.md' has 5 bytes instead of 4"),
        (file("a.md", b"TEXT"), r"'a.md' is not what was put in"),
        (file("b.md", b"text"), r"'b.md' is not in its list"),
        (file("A.md", b"text"), r"'A.md' is not in its list"),
        (
            file("a.md", b"text", pax_headers={"GNU.sparse.realsize": "10737418240"}),
            r"extended header with more than a name",
        ),
        (
            file("a.md", b"text", pax_headers={"path": "../../x.md"}),
            r"'../../x.md' cannot be a document",
        ),
        (
            file("a.md", b"text", pax_headers={"comment": "x" * 5000}),
            r"extended header that is too long",
        ),
        (
            file("x", b"99 path=a.md\n", type=tarfile.XHDTYPE),
            r"'x' is an extended header with more than a name",
        ),
    ],
)
def test_a_hostile_entry_is_refused_by_name(entry: Entry, why: str) -> None:
    with pytest.raises(PersonaError, match=why):
        read_archive(packed(listing(GOOD), entry))


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(PersonaError, match=r"'a.md' is larger"):
        read_archive(packed(listing(GOOD), file("a.md", size=-512), form=tarfile.GNU_FORMAT))


def test_a_huge_sparse_file_is_refused_before_it_is_read() -> None:
    info, _ = file("a.md", type=tarfile.GNUTYPE_SPARSE, size=10 << 30)
    with pytest.raises(PersonaError, match=r"'a.md' is a sparse file"):
        read_archive(packed(listing(GOOD), (info, b""), form=tarfile.GNU_FORMAT))


def test_a_file_twice_is_refused() -> None:
    twice = [file("a.md", b"text"), file("a.md", b"text")]
    with pytest.raises(PersonaError, match=r"'a.md' is in it twice"):
        read_archive(packed(listing(GOOD), *twice))


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (listing({"../x.md": b""}), r"'../x.md' cannot be a document"),
        (listing({"a.md": b"", "A.md": b""}), r"'a.md' is the same file as 'A.md'"),
        (listing({}, files=[{"key": "a.md", "size": 0, "sha256": ""}] * 2), r"is the same file"),
        (listing({f"{n}.md": b"" for n in range(MAX_FILES + 1)}), r"'2000.md' is one too many"),
        (listing(GOOD, format=2), r"is of format 2; this memplane reads 1"),
        (listing({}, files=[{"key": "a.md"}]), "refused"),
        (
            listing({}, files=[{"key": "a.md", "size": 10 << 30, "sha256": ""}]),
            r"'a.md' is larger",
        ),
        (listing({}, files=[{"key": "a.md", "size": -1, "sha256": ""}]), r"'a.md' is larger"),
        (
            listing(
                {}, files=[{"key": f"{n}.md", "size": 5 << 20, "sha256": ""} for n in range(13)]
            ),
            f"more than {MAX_TOTAL_BYTES}",
        ),
        (file(HEADER_NAME, b"{"), "refused"),
        (file(HEADER_NAME, b"[" * 100_000), "refused"),
        (file(HEADER_NAME, b"\xff"), "refused"),
        (file("a.md", b"text"), rf"'a.md' stands where {HEADER_NAME} should be"),
    ],
)
def test_a_wrong_list_is_refused(header: Entry, why: str) -> None:
    with pytest.raises(PersonaError, match=why):
        read_archive(packed(header, file("a.md", b"text")))


def test_no_header_of_a_tar_breaks_the_reader() -> None:
    tar = bytearray(gzip.decompress(packed(listing(GOOD), file("a.md", b"text"))))
    begin = tar.rindex(b"a.md\0")
    for place in (*range(begin, begin + 148), *range(begin + 156, begin + 512)):
        for value in (0, 0x80, 0xFF, ord("7"), ord("S"), ord("x"), ord("/")):
            changed = bytearray(tar)
            changed[place] = value
            changed[begin + 148 : begin + 156] = b" " * 8
            total = sum(changed[begin : begin + 512])
            changed[begin + 148 : begin + 156] = b"%06o\0 " % total
            try:
                assert read_archive(gzip.compress(bytes(changed))) == GOOD
            except PersonaError:
                continue


def test_a_listed_file_that_is_missing_is_noticed() -> None:
    with pytest.raises(PersonaError, match=r"'b.md' is missing"):
        read_archive(packed(listing({**GOOD, "b.md": b""}), file("a.md", b"text")))


def test_every_shorter_archive_is_refused() -> None:
    whole = export_archive(FILES)
    for length in range(len(whole)):
        with pytest.raises(PersonaError):
            read_archive(whole[:length])


@pytest.mark.parametrize("blocks_kept", range(5))
def test_a_tar_that_was_cut_before_it_was_packed_is_refused(blocks_kept: int) -> None:
    tar = gzip.decompress(packed(listing(GOOD), file("a.md", b"text")))
    assert len(tar) == 6 * 512
    with pytest.raises(PersonaError, match="ends too early"):
        read_archive(gzip.compress(tar[: 512 * (blocks_kept + 1)]))


def test_every_changed_byte_is_noticed_or_harmless() -> None:
    whole = export_archive(GOOD)
    noticed = 0
    for place in range(len(whole)):
        changed = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        try:
            assert read_archive(changed) == GOOD
        except PersonaError:
            noticed += 1
    assert noticed > len(whole) * 0.9


@pytest.mark.parametrize(
    "behind",
    [
        lambda good: good + b"x",
        lambda good: good + good,
        lambda good: gzip.compress(gzip.decompress(good) + b"x" * 512),
        lambda good: gzip.compress(gzip.decompress(good) + bytes(20_000)),
    ],
)
def test_nothing_may_follow(behind: Callable[[bytes], bytes]) -> None:
    good = export_archive(GOOD)
    assert read_archive(good) == GOOD
    with pytest.raises(PersonaError, match="something follows"):
        read_archive(behind(good))


def test_nothing_may_follow_in_the_next_chunk_either() -> None:
    good = export_archive(GOOD)
    name = b"n" * (65_536 - len(good) - 1) + b"\0"
    filled = good[:3] + b"\x08" + good[4:10] + name + good[10:]
    assert read_archive(filled) == GOOD
    with pytest.raises(PersonaError, match="something follows"):
        read_archive(filled + b"x")


def test_an_archive_of_which_nothing_can_be_unpacked_is_refused() -> None:
    class Named:
        """A gzip stream whose header never ends."""

        given = 0

        def read(self, size: int, /) -> bytes:
            self.given += size
            return b"\x1f\x8b\x08\x08".ljust(size, b"x") if self.given == size else b"x" * size

    with pytest.raises(PersonaError, match="it has more than 83886080 bytes"):
        read_archive(Named())


@pytest.mark.parametrize("data", [b"", b"x", b"PK\3\4", bytes(4096), gzip.compress(b"", mtime=0)])
def test_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(PersonaError, match="cut off or damaged"):
        read_archive(data)


def test_noise_in_a_gzip_is_refused() -> None:
    with pytest.raises(PersonaError, match="refused"):
        read_archive(gzip.compress(b"x" * 2048))


class Endless:
    """A gzipped tar that never ends, made while it is read."""

    def __init__(self, first: bytes, again: Iterator[bytes], *, level: int) -> None:
        self._packer = zlib.compressobj(level, wbits=31)
        self._waiting = bytearray(self._packer.compress(first))
        self._again = again
        self.made = len(first)

    def read(self, size: int, /) -> bytes:
        while len(self._waiting) < min(size, 64):
            more = next(self._again)
            self.made += len(more)
            self._waiting += self._packer.compress(more)
        data = bytes(self._waiting[:size])
        del self._waiting[:size]
        return data


def endless_files() -> Iterator[bytes]:
    number = 0
    while True:
        yield from blocks(file(f"{number}.md"))
        number += 1


def endless_zeros() -> Iterator[bytes]:
    while True:
        yield bytes(1 << 20)


def endless_long_names() -> Iterator[bytes]:
    while True:
        yield from blocks(file("x", b"9 path=x\n", type=tarfile.XHDTYPE))


@pytest.mark.parametrize(
    ("again", "level", "why"),
    [
        (endless_files(), 0, "not in its list"),
        (endless_long_names(), 0, "'x' is no file"),
        (endless_zeros(), 0, "something follows"),
        (endless_zeros(), 9, "something follows|times its size"),
    ],
)
def test_an_endless_archive_is_refused_early(again: Iterator[bytes], level: int, why: str) -> None:
    stream = Endless(b"".join(blocks(listing({}))), again, level=level)
    tracemalloc.start()
    with pytest.raises(PersonaError, match=why):
        read_archive(stream)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20
    assert level or stream.made < 4 << 20


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    zeros = {f"{number}.md": bytes(5 << 20) for number in range(10)}
    bomb = packed(listing(zeros), *(file(key, data) for key, data in zeros.items()))
    assert len(bomb) < 100_000
    with pytest.raises(PersonaError, match="200 times"):
        read_archive(bomb)
