"""The chain: what its hashes cover, shown by computing them another way."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.ledger.chain import (
    GENESIS,
    ChainEnd,
    ChainRecord,
    LedgerPosition,
    RecordKind,
    chain_lines,
    compute_record_hash,
    decode_record,
    encode_record,
    find_chain_end,
    make_line_record,
    make_note_record,
)

LINES = st.lists(st.binary(max_size=300).map(lambda raw: raw.replace(b"\n", b"")), max_size=8)


def chained(lines: list[bytes]) -> tuple[bytes, ChainEnd]:
    salts = bytes(range(256))[: 16 * len(lines)]
    return chain_lines(GENESIS, RecordKind.ENTRY, lines, salts)


def test_a_record_is_what_the_format_says() -> None:
    salt, line = bytes(16), b'{"version":1}'
    record = make_line_record(GENESIS, RecordKind.ENTRY, line, salt)
    commitment = hashlib.sha256(salt + line).digest()
    header = b'{"kind":"entry","seq":1,"segment":1,"offset":0,"size":14}'
    digest = hashlib.sha256(bytes(16) + header + commitment).digest()[:16]
    assert encode_record(record) == (
        header[:-1]
        + f',"salt":"{salt.hex()}","commitment":"{commitment.hex()}"'.encode()
        + f',"hash":"{digest.hex()}"}}\n'.encode()
    )
    assert record.link == ChainEnd(1, digest, LedgerPosition(1, 14))


def test_a_note_is_what_the_format_says() -> None:
    before = ChainEnd(7, b"\x01" * 16, LedgerPosition(3, 99))
    record = make_note_record(before, RecordKind.SEALED, {"last": 7, "first": 1})
    header = (
        b'{"kind":"sealed","seq":8,"segment":3,"offset":99,"size":0,"more":{"first":1,"last":7}}'
    )
    assert record.hash == hashlib.sha256(before.hash + header).digest()[:16]
    assert encode_record(record) == header[:-1] + b',"hash":"%s"}\n' % record.hash.hex().encode()
    assert record.link.place == LedgerPosition(4, 0)


@given(LINES)
def test_many_at_once_are_the_same_as_one_by_one(lines: list[bytes]) -> None:
    data, end = chained(lines)
    one_by_one, before = b"", GENESIS
    for at, line in enumerate(lines):
        record = make_line_record(
            before, RecordKind.ENTRY, line, bytes(range(256))[16 * at : 16 * (at + 1)]
        )
        one_by_one += encode_record(record)
        before = record.link
    assert (data, end) == (one_by_one, before)
    assert all(decode_record(line) is not None for line in data.splitlines())


@given(LINES.filter(bool), st.data())
def test_the_end_is_found_behind_any_damage(lines: list[bytes], data: st.DataObject) -> None:
    whole, end = chained(lines)
    assert find_chain_end(whole) == (end, 0)
    cut = data.draw(st.integers(1, len(whole)))
    found = find_chain_end(whole[:-cut])
    kept = whole[:-cut].count(b"\n")
    if kept == 0:
        assert found is None
    else:
        assert found is not None
        assert found[0].seq == kept
        assert found[1] == len(whole) - cut - len(b"".join(whole.splitlines(keepends=True)[:kept]))


@given(LINES.filter(bool), st.data())
def test_no_field_of_a_record_can_change_unseen(lines: list[bytes], data: st.DataObject) -> None:
    whole, _ = chained(lines)
    records = [json.loads(line) for line in whole.splitlines()]
    at = data.draw(st.integers(0, len(records) - 1))
    name = data.draw(st.sampled_from(["kind", "seq", "segment", "offset", "size", "commitment"]))
    value = records[at][name]
    if isinstance(value, int):
        records[at][name] = value + 1
    else:
        records[at][name] = "found" if name == "kind" else "0" * 64
    before = GENESIS.hash
    intact = []
    for body in records:
        record = decode_record(json.dumps(body).encode())
        assert record is not None
        intact.append(compute_record_hash(before, record) == record.hash)
        before = record.hash
    assert not all(intact)


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"{}", b'{"kind":"entry"}', b"\x00" * 40])
def test_what_is_no_record(line: bytes) -> None:
    assert decode_record(line) is None


def test_a_kind_of_a_later_version_is_a_note() -> None:
    record = ChainRecord("novelty", 1, LedgerPosition(1, 0), 0, more={"a": 1})
    found = decode_record(
        encode_record(replace(record, hash=compute_record_hash(bytes(16), record)))
    )
    assert found is not None
    assert found.kind == "novelty"
    assert found.link.place == LedgerPosition(1, 0)
