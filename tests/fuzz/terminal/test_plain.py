"""Foreign text: invisible characters are written out, and long text is cut."""

import subprocess
from pathlib import Path

import pytest
from waiting import PATIENCE_SECONDS

from fuzz.plain import cut, path_argument, plain, shell_words


@pytest.mark.parametrize("text", ["", "a b", "old[old] [/] :bug: \\x1b", "→ é 漢 …"])
def test_visible_text_does_not_change(text: str) -> None:
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
def test_invisible_characters_are_written_out(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_both_ends_of_a_long_text_stay() -> None:
    assert cut("abcdefgh", 7) == "abc…fgh"
    assert cut("abcdefg", 7) == "abcdefg"


def test_text_that_becomes_too_long_is_cut_as_well() -> None:
    assert len(plain("\x1b" * 1000, 1000)) <= 1000


def test_a_path_is_never_an_option_of_a_command() -> None:
    assert path_argument(Path("-x/y")) == "./-x/y"
    assert path_argument(Path("x/-y")) == "x/-y"


@pytest.mark.parametrize(
    "word",
    ["a b", "it's", "old[old]", "\x1b]0;t\x07", "\\\x1b'x'", "\u202e é\n", "\udcff", "x" * 9999],
)
def test_a_shell_reads_the_same_word(word: str) -> None:
    printed = shell_words(["printf", "%s", word])
    assert printed.isprintable()
    done = subprocess.run(
        ["bash", "-c", printed], check=True, capture_output=True, timeout=PATIENCE_SECONDS
    )
    assert done.stdout == word.encode(errors="surrogateescape")
