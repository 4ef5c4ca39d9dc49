"""Foreign text: what cannot be seen is written out, and what is too long is cut."""

import subprocess

import pytest

from fuzz.plain import cut, plain, shell_words


@pytest.mark.parametrize("text", ["", "a b", "old[old] [/] :bug: \\x1b", "→ é 漢 …"])
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", r"\x1b[31m"),
        ("a\r\n\tb", r"a\r\n\tb"),
        ("\x07\x7f\x9b", r"\x07\x7f\x9b"),
        ("\u202eabc\u200b", r"\u202eabc\u200b"),
        ("\udcff\ud800", r"\udcff\ud800"),
        ("\u2028\U000e0001", r"\u2028\U000e0001"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_of_what_is_too_long_both_ends_stay() -> None:
    assert cut("abcdefgh", 7) == "abc…fgh"
    assert cut("abcdefg", 7) == "abcdefg"


def test_what_is_too_long_only_once_it_is_written_out_is_cut_as_well() -> None:
    assert len(plain("\x1b" * 1000, 1000)) <= 1000


@pytest.mark.parametrize(
    "word",
    ["a b", "it's", "old[old]", "\x1b]0;t\x07", "\\\x1b'x'", "\u202e é\n", "\udcff", "x" * 9999],
)
def test_a_shell_reads_the_very_word(word: str) -> None:
    printed = shell_words(["printf", "%s", word])
    assert printed.isprintable()
    done = subprocess.run(["bash", "-c", printed], check=True, capture_output=True)
    assert done.stdout == word.encode(errors="surrogateescape")
