"""The text index: which of an agent's documents may answer a question.

It is made from the database, and may be thrown away and made again. It yields candidates only;
what they are worth is for `scoring` to say. All of it blocks, so it belongs into a thread.

Each term is written behind the number of its scope, so a question cannot reach a document of a
scope that it does not name, and no other scope's documents count in it.
"""

from __future__ import annotations

import math
import os
import shutil
import stat
import struct
import threading
import zlib
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Final, Protocol, cast

import msgspec
import tantivy

from memplane.errors import IndexUnusable
from memplane.kit.durable_files import open_folder, replace_file, sync_folder
from memplane.kit.private_files import make_private_folder
from memplane.search.bm25 import idf

_VERSION: Final = 1
_LABEL_FILE: Final = "memplane.json"
_WRITER_HEAP_BYTES: Final = 15_000_000  # the least that the library takes
_MAX_TERM_REPEATS: Final = 32  # more of the same term changes no order
_MAX_CACHED_COUNTS: Final = 100_000
_MIN_SEARCHED_TERMS: Final = 3
_MAX_READ_POSTINGS: Final = 60_000
_MAX_EQUAL_HITS: Final = 4096
_CHUNK_BYTES: Final = 1 << 20
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"

_KEY: Final = "key"
_TERMS: Final = "terms"
_EVERY_DOCUMENT: Final = "|"  # a term that all have, and that no agent's term can be

_FOOTER: Final = struct.Struct("<II")
_MAGIC: Final = 1337


class DocumentChange(Protocol):
    """What a document is from now on."""

    @property
    def key(self) -> int: ...

    @property
    def scope(self) -> int: ...

    def terms(self, mark: str, max_count: int) -> list[str] | None:
        """Return each of its terms behind a mark, repeated at most `max_count` times.

        None when there is to be no document.
        """
        ...


class CountedChange(msgspec.Struct, frozen=True):
    """A change whose terms are counted already."""

    key: int
    scope: int
    counts: Mapping[str, int] | None

    def terms(self, mark: str, max_count: int) -> list[str] | None:
        if self.counts is None:
            return None
        return [
            mark + term
            for term, count in self.counts.items()
            for _ in range(min(count, max_count))
        ]


class TextIndex:
    """An index in a folder. One thread may change it while any number search in it."""

    def __init__(self, folder: Path, generation: str, index: tantivy.Index) -> None:
        self.generation: Final = generation
        self._folder = folder
        self._index = index
        self._write_lock = threading.Lock()
        self._writer: tantivy.IndexWriter | None = None
        self._is_closed = False
        self._snapshot = _IndexSnapshot(index.searcher())

    @classmethod
    def create(cls, folder: Path, generation: str) -> TextIndex:
        """Make an empty index in the folder, in the place of whatever is there.

        Raises:
            IndexUnusable: It cannot be made.
        """
        erase_index(folder)
        with _translate_errors("made"):
            make_private_folder(folder)
            folder.chmod(0o700)
            index = _open(folder)
            _restrict_permissions(folder)
            label = msgspec.json.encode(_Label(_VERSION, generation))
            descriptor = open_folder(folder, (), create=False)
            try:
                replace_file(
                    descriptor, _LABEL_FILE, label
                )  # last, so that half an index has none
            finally:
                os.close(descriptor)
        return cls(folder, generation, index)

    def apply(self, changes: Sequence[DocumentChange]) -> None:
        """Make changes, all or none; they are durable and can be found when it returns.

        Of several changes to one key the last one counts. The more come at once, the fewer pieces
        the index has, and the sooner it answers.

        Raises:
            IndexUnusable: They may not have been made. Making them again does no harm.
        """
        latest = {change.key: change for change in changes}
        if not latest:
            return
        with self._write_lock, _translate_errors("changed"):
            self._commit(latest.values())
            _restrict_permissions(self._folder)
            sync_folder(self._folder)  # the library syncs it before it names the commit
            self._index.reload()
            self._snapshot = _IndexSnapshot(self._index.searcher())

    def _commit(self, changes: Collection[DocumentChange]) -> None:
        if self._is_closed:
            raise IndexUnusable("the text index is closed")
        old = tantivy.Query.term_set_query(_schema(), _KEY, [change.key for change in changes])
        writer, self._writer = self._writer or self._index.writer(_WRITER_HEAP_BYTES, 1), None
        try:
            writer.delete_documents_by_query(old)
            # One after the other: made before, all together would take a lot of memory.
            for change in changes:
                terms = change.terms(_mark(change.scope), _MAX_TERM_REPEATS)
                if terms is not None:
                    writer.add_document(_document(change.key, change.scope, terms))
            writer.commit()
        except BaseException:
            # What it still holds must not come with a later commit. The name would keep it, and
            # with it the lock, as long as somebody keeps the error.
            del writer
            raise
        self._writer = writer

    def candidates(self, scopes: Sequence[int], terms: Sequence[str], limit: int) -> list[int]:
        """Return the keys of documents that have some of the terms, the likely ones first.

        There are half as many again as are asked for, because the library rounds lengths, and more
        where these are equally likely: which of them were written first must not decide. Terms
        that very many documents have are left out where there are rarer ones.

        Raises:
            IndexUnusable: The index cannot be read.
        """
        with _translate_errors("read"):
            snapshot = self._snapshot
            searcher = snapshot.searcher
            known = [_QueryTerm.of(snapshot, scopes, term) for term in {*terms}]
            rarest = _limit_postings(
                sorted([query_term for query_term in known if query_term.written])
            )
            documents = sum(snapshot.written(_number(scope)) for scope in scopes)
            max_hits = min(limit + (limit + 1) // 2, documents)
            if not rarest or max_hits < 1:
                return []
            of_all = snapshot.written(_EVERY_DOCUMENT)
            query = tantivy.Query.boolean_query(
                [
                    (
                        tantivy.Occur.Should,
                        _weigh(scoped_term, count, idf(documents, query_term.written), of_all),
                    )
                    for query_term in rarest
                    for scoped_term, count in query_term.owned
                ]
            )
            hits = _hits(searcher, query, max_hits)
            largest = min(documents, _MAX_EQUAL_HITS)
            while len(hits) == max_hits < largest and hits[limit - 1][0] == hits[-1][0]:
                max_hits = min(4 * max_hits, largest)
                hits = _hits(searcher, query, max_hits)
            keys = searcher.fast_field_values(_KEY, [address for _, address in hits])
            return cast("list[int]", keys)

    def frequencies(self, scopes: Sequence[int], terms: Sequence[str]) -> dict[str, int]:
        """Return for each term how many of the scopes' documents have it.

        Raises:
            IndexUnusable: The index cannot be read.
        """
        with _translate_errors("read"):
            snapshot = self._snapshot
            return {
                term: sum(snapshot.live(_scoped_term(scope, term)) for scope in scopes)
                for term in terms
            }

    def refresh(self) -> None:
        """See what another process has committed.

        Raises:
            IndexUnusable: The index cannot be read.
        """
        with _translate_errors("read"):
            self._index.reload()
            self._snapshot = _IndexSnapshot(self._index.searcher())

    def close(self) -> None:
        """Stop changing it, and let go of its lock. Searches go on over what was committed."""
        with self._write_lock:
            self._is_closed = True
            writer, self._writer = self._writer, None
            if writer is not None:
                # What was committed is there, with its segments merged or not.
                with suppress(IndexUnusable), _translate_errors("closed"):
                    writer.wait_merging_threads()
                    _restrict_permissions(self._folder)


def open_index(folder: Path) -> TextIndex | None:
    """Open the index in a folder; None when there is none that can be used."""
    try:
        label = msgspec.json.decode((folder / _LABEL_FILE).read_bytes(), type=_Label)
        documents = _checked_documents(folder)
        if label.version != _VERSION or documents is None:
            return None
        with _translate_errors("opened"):
            index = _open(folder)
            _restrict_permissions(folder)
            document_count = index.searcher().doc_freq(_TERMS, _EVERY_DOCUMENT)
    except (OSError, msgspec.MsgspecError, IndexUnusable):
        return None
    # A wrong number of documents would end the process as soon as it writes.
    return TextIndex(folder, label.generation, index) if document_count == documents else None


def erase_index(folder: Path) -> None:
    """Remove an index, or what is left of one; it must be closed.

    Raises:
        IndexUnusable: It cannot be removed.
    """
    with _translate_errors("removed"), suppress(FileNotFoundError):
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
        else:
            folder.unlink()
        sync_folder(folder.parent)


def _restrict_permissions(folder: Path) -> None:
    """Let files be their owner's alone, as their folder is: the library follows the umask."""
    for path in folder.iterdir():
        with suppress(OSError):  # the library may have removed it, as what was merged
            if stat.S_ISREG(mode := path.lstat().st_mode) and mode & 0o077:
                path.chmod(0o600)


@contextmanager
def _translate_errors(action: str) -> Generator[None]:
    """Turn what the library and the file system raise into our error."""
    try:
        yield
    except IndexUnusable:
        raise
    except BaseException as error:
        # A panic inside the library is no Exception, and its class cannot be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise IndexUnusable(f"the text index cannot be {action}: {error}") from error


@cache
def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field(_KEY, indexed=True, fast=True)
    # Each term is given as a text of its own, so that none can be cut into several.
    builder.add_text_field(_TERMS, tokenizer_name="raw", index_option="freq")
    return builder.build()


def _open(folder: Path) -> tantivy.Index:
    index = tantivy.Index(_schema(), path=str(folder))
    index.config_reader("manual")
    return index


def _document(key: int, scope: int, terms: Sequence[str]) -> tantivy.Document:
    terms_to_write = [_EVERY_DOCUMENT, _number(scope), *map(_writable, terms)]
    fields: dict[str, object] = {_KEY: key, _TERMS: terms_to_write}
    return tantivy.Document.from_dict(fields, _schema())  # pyright: ignore[reportUnknownMemberType]


def _scoped_term(scope: int, term: str) -> str:
    """Write a term as the scope's own."""
    return _writable(_mark(scope) + term)


@cache
def _mark(scope: int) -> str:
    return f"{_number(scope)}|"


def _writable(scoped_term: str) -> str:
    """Write half a character, which the library does not take, as something else."""
    return (
        scoped_term
        if scoped_term.isascii()
        else scoped_term.encode("utf-8", "backslashreplace").decode()
    )


@cache
def _number(scope: int) -> str:
    """Write a scope's number in base 36, without a bar in any case."""
    if scope < 0:
        raise ValueError("a scope's number is not negative")
    higher, digit = divmod(scope, len(_DIGITS))
    return (_number(higher) if higher else "") + _DIGITS[digit]


def _weigh(scoped_term: str, written: int, weight: float, of_all: int) -> tantivy.Query:
    """Return the query for a scope's term, with the weight that it has in the scopes asked about.

    The library weighs it by how many were `written` among all documents of all scopes, where
    hardly any term is common.
    """
    among_all = math.log1p((of_all - written + 0.5) / (written + 0.5))
    query = tantivy.Query.term_query(_schema(), _TERMS, scoped_term, "freq")
    return tantivy.Query.boost_query(query, weight / among_all)


class _QueryTerm(msgspec.Struct, frozen=True, order=True):
    """A term, how many documents were written with it, and in how many of each scope it is."""

    written: int
    term: str
    owned: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, snapshot: _IndexSnapshot, scopes: Sequence[int], term: str) -> _QueryTerm:
        counted = (
            (scoped_term, snapshot.written(scoped_term))
            for scoped_term in (_scoped_term(scope, term) for scope in scopes)
        )
        owned = tuple((scoped_term, count) for scoped_term, count in counted if count)
        return cls(sum(count for _, count in owned), term, owned)


def _limit_postings(rarest: list[_QueryTerm]) -> list[_QueryTerm]:
    """Take terms as long as not too many documents have them; a few in any case."""
    read = list(accumulate(query_term.written for query_term in rarest))
    return [
        query_term
        for place, query_term in enumerate(rarest)
        if place < _MIN_SEARCHED_TERMS or read[place] <= _MAX_READ_POSTINGS
    ]


class _Hits(Protocol):
    """What the library's types leave open."""

    hits: list[tuple[float, tantivy.DocAddress]]


def _hits(
    searcher: tantivy.Searcher, query: tantivy.Query, max_hits: int
) -> list[tuple[float, tantivy.DocAddress]]:
    return cast("_Hits", searcher.search(query, limit=max_hits, count=False)).hits


class _SearchCount(Protocol):
    """What the library's types leave out."""

    count: int


class _IndexSnapshot:
    """One state of the index, and what was counted in it: any number of threads may count."""

    def __init__(self, searcher: tantivy.Searcher) -> None:
        self.searcher: Final = searcher
        self._written: dict[str, int] = {}
        self._live = self._written
        # The library's own figure counts deleted documents too, while their segment lives.
        self._is_exact = self.written(_EVERY_DOCUMENT) == searcher.num_docs
        if not self._is_exact:
            self._live = {}

    def written(self, scoped_term: str) -> int:
        """Return how many documents were written with a term."""
        count = self._written.get(scoped_term)
        if count is None:
            count = self.searcher.doc_freq(_TERMS, scoped_term)
            if len(self._written) < _MAX_CACHED_COUNTS:
                self._written[scoped_term] = count
        return count

    def live(self, scoped_term: str) -> int:
        """Return how many documents have a term."""
        if self._is_exact:
            return self.written(scoped_term)
        count = self._live.get(scoped_term)
        if count is None:
            query = tantivy.Query.term_query(_schema(), _TERMS, scoped_term, "freq")
            count = cast("_SearchCount", self.searcher.search(query, limit=1, count=True)).count
            if len(self._live) < _MAX_CACHED_COUNTS:
                self._live[scoped_term] = count
        return count


class _Label(msgspec.Struct):
    """Our own file beside those of the library."""

    version: int
    generation: str


class _Deletes(msgspec.Struct):
    num_deleted_docs: int
    opstamp: int


class _IndexSegment(msgspec.Struct):
    segment_id: str
    max_doc: int
    deletes: _Deletes | None


class _Commit(msgspec.Struct):
    """The library's own file that says which segments there are."""

    segments: list[_IndexSegment]


class _Footer(msgspec.Struct):
    crc: int


def _checked_documents(folder: Path) -> int | None:
    """Check each file of the last commit; returns how many documents they hold, None if damaged.

    The library does not: it would answer wrongly, or end the process.
    """
    commit = msgspec.json.decode((folder / "meta.json").read_bytes(), type=_Commit)
    files = [path for path in folder.iterdir() if path.is_file()]
    for segment in commit.segments:
        name = segment.segment_id.replace("-", "")
        deletes = segment.deletes
        if deletes is not None and not 0 < deletes.num_deleted_docs <= segment.max_doc:
            return None
        current = f"{name}.{deletes.opstamp}.del" if deletes is not None else ""
        parts = [
            path
            for path in files
            if path.name.partition(".")[0] == name
            # A process that was killed may leave other lists of what is deleted, in pieces.
            and (path.suffix != ".del" or path.name == current)
        ]
        if not all(map(_is_whole, parts)):
            return None
    return sum(segment.max_doc for segment in commit.segments)


def _is_whole(path: Path) -> bool:
    """Compare a file with the checksum that the library wrote at its end."""
    with path.open("rb") as file:
        remaining = file.seek(0, os.SEEK_END) - _FOOTER.size
        if remaining < 0:
            return False
        file.seek(remaining)
        length, magic = _FOOTER.unpack(file.read(_FOOTER.size))
        remaining -= length
        if remaining < 0 or magic != _MAGIC:
            return False
        file.seek(remaining)
        stated_crc = msgspec.json.decode(file.read(length), type=_Footer).crc
        file.seek(0)
        crc = 0
        while chunk := file.read(min(remaining, _CHUNK_BYTES)):
            crc = zlib.crc32(chunk, crc)
            remaining -= len(chunk)
    return crc == stated_crc
