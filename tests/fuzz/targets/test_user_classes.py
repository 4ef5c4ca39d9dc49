"""A user's class as a target: it is imported, and what is wrong with its name is said."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.problems import BadInputError
from fuzz.targets.user_classes import make_user_target

CLASSES = '''
class Right:
    def start(self, configuration):
        """Not called here."""

    def perform(self, action):
        """Nor is this."""


class Halfway:
    def start(self, configuration):
        """Not called here."""


class Needing(Right):
    def __init__(self, heap):
        """It must be made without arguments."""


right = Right()
'''


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The current folder has both modules. Afterwards neither it nor they are known."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("their_classes.py").write_text(CLASSES)
    Path("broken_classes.py").write_text("1 / 0\n")
    yield
    sys.modules.pop("their_classes", None)


def test_a_class_of_a_module_is_made() -> None:
    assert type(make_user_target("their_classes:Right")).__name__ == "Right"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("their_classes:", "name a module and a class in it, MODULE:CLASS"),
        ("other_classes:Right", "there is no module other_classes in .* or on Python's path; "),
        ("broken_classes:Right", "importing broken_classes raised ZeroDivisionError"),
        ("their_classes:Rihgt", "their_classes has no class Rihgt .* did you mean `Right`"),
        ("their_classes:right", "right is not a class; for a function"),
        ("their_classes:Halfway", "it has no method perform; "),
        ("their_classes:Needing", r"Needing\(\) needs arguments .*; give them defaults"),
    ],
)
def test_a_name_of_no_usable_class_gets_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(BadInputError, match=f"^the target {name}: .*{sentence}"):
        make_user_target(name)
