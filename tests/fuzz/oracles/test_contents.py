"""The contents oracle: strings and blocks have the bytes that the mutator wrote."""

from __future__ import annotations

import re
from zlib import crc32

import attrs
import pytest
from judging import Judge, Step, answer

from fuzz.protocol import actions as do
from fuzz.protocol.contract import Contract
from fuzz.protocol.layout import layout_of_blocks
from fuzz.protocol.written import contents_of

STRING, CHECK = do.AllocateString(12), do.CheckContents()


@pytest.fixture
def contract(contract: Contract) -> Contract:
    actions = (*contract.actions, "check_contents")
    return attrs.evolve(contract, actions=actions, observes=("contents",), contents="bytes")


def check(*rows: list[int]) -> Step:
    return answer(CHECK, contents=[*rows])


def test_the_bytes_are_a_number_and_a_hash_of_number_and_offset() -> None:
    assert contents_of(1, 12) == bytes([1, 0, 0, 0, 0, 0, 0, 0, 44, 202, 105, 7])
    assert contents_of(2, 12) == bytes([2, 0, 0, 0, 0, 0, 0, 0, 238, 140, 42, 200])


@pytest.mark.parametrize("number", [1, 255, 65_536, 70_000])
def test_each_byte_is_what_the_page_states(number: int) -> None:
    expected = [
        (number * 40503 + offset) % 65536 * 2654435761 % 2**32 >> 24 for offset in range(8, 70_000)
    ]
    assert contents_of(number, 70_000) == number.to_bytes(8, "little") + bytes(expected)


def test_a_short_object_has_the_first_bytes_of_a_long_one() -> None:
    assert [contents_of(258, length) for length in (0, 1, 3)] == [b"", b"\2", b"\2\1\0"]


def test_each_string_keeps_its_number(contract: Contract) -> None:
    judge = Judge(contract)
    judge(STRING, do.AllocateString(0), STRING, do.Free(0), check([0], [3]))


def test_a_string_that_only_an_array_refers_to_is_checked_too(contract: Contract) -> None:
    judge = Judge(contract)
    judge(STRING, do.AllocateArray(1), do.Write(1, 0, 0), do.Free(0), STRING, check([2], [1]))
    assert "expected 2, got 1" in str(judge.mismatch(check([2])))


def test_no_answer_is_a_mismatch(contract: Contract) -> None:
    problem = str(Judge(contract).mismatch(STRING, CHECK))
    assert problem.startswith("contents: contents: expected 1, got None")


def test_a_wrong_byte_is_shown_with_its_offset_and_the_expected_ones(contract: Contract) -> None:
    mismatch = Judge(contract).mismatch(STRING, check([1, 9, 0, 105, 7]))
    assert (mismatch.expected, mismatch.got) == ("ca 69 07 at offset 9", "00 69 07")
    assert mismatch.why == "string #1 has 12 bytes and the number 1"


def test_as_many_bytes_are_expected_as_were_answered(contract: Contract) -> None:
    mismatch = Judge(contract).mismatch(STRING, check([1, 9, 0]))
    assert (mismatch.expected, mismatch.got) == ("ca at offset 9", "00")


def test_the_number_of_another_object_is_shown_as_its_bytes(contract: Contract) -> None:
    mismatch = Judge(contract).mismatch(STRING, STRING, check([1], [258]))
    assert mismatch.expected == "00 00 00 00 00 00 00 at offset 1"
    assert mismatch.got == "01 00 00 00 00 00 00"


@pytest.mark.parametrize("row", [[], [1, 9], [1, 12, 0], [1, -1, 0], [2**64], [-1, 9, 0]])
def test_a_row_without_a_meaning_is_a_mismatch(contract: Contract, row: list[int]) -> None:
    problem = str(Judge(contract).mismatch(STRING, check(row)))
    assert "expected the row [1], got the row" in problem


def test_a_resized_block_keeps_its_number(contract: Contract) -> None:
    blocks = attrs.evolve(contract, layout=layout_of_blocks(100), nursery_bytes=0, prebuilt=())
    judge = Judge(blocks)
    judge(do.Malloc(20), do.Malloc(1), do.Free(0), do.Malloc(9), do.Realloc(1, 20), check([2], [3]))
    problem = str(judge.mismatch(check([2], [3, 16, 0])))
    assert "at offset 16, got 00 (block #4 has 20 bytes" in problem


def test_all_bytes_of_wide_characters_are_compared(contract: Contract) -> None:
    string = attrs.evolve(contract.layout.kinds["string"], item_bytes=4)
    layout = attrs.evolve(contract.layout, kinds={**contract.layout.kinds, "string": string})
    wide = attrs.evolve(contract, layout=layout)
    judge = Judge(wide)
    problem = str(judge.mismatch(do.AllocateString(3), check([1]), check([1, 11, 0])))
    assert "at offset 11, got 00 (string #1 has 12 bytes" in problem
    checksum = check([crc32(contents_of(1, 12))])
    Judge(attrs.evolve(wide, contents="checksums"))(do.AllocateString(3), checksum)


def test_a_checksum_names_the_block_too(contract: Contract) -> None:
    judge = Judge(attrs.evolve(contract, contents="checksums"))
    judge(STRING)
    right = crc32(contents_of(1, 12))
    judge(check([right]))
    for row in ([1], [right, 0], []):
        problem = str(judge.mismatch(check(row)))
        assert re.search(r"expected the row \[\d+\], got .*CRC-32 of the bytes", problem)


def test_a_contract_of_an_earlier_version_is_not_judged(contract: Contract) -> None:
    Judge(attrs.evolve(contract, contents=None))(STRING, CHECK)
