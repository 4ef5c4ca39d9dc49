"""The targets MODULE:CLASS: a user's classes, imported into this process.

An import runs code, and a trace may come from anywhere. So only the command line may name such a
target: a trace that names one is refused until the user names it too.
"""

from __future__ import annotations

import inspect
import os
import sys
from importlib import import_module
from types import ModuleType

from fuzz.problems import BadInputError, did_you_mean, noted, summary_of, traceback_of
from fuzz.protocol.target import Target

METHODS = ("start", "perform")


def make_user_target(name: str) -> Target:
    """An instance of that class. Raises BadInputError, and what the class raises."""
    module_name, _, class_name = name.partition(":")
    if not module_name or not class_name:
        raise BadInputError(f"the target {name}: name a module and a class in it, MODULE:CLASS")
    found = _class_in(_imported(module_name, name), class_name, name)
    try:
        inspect.signature(found).bind()
    except TypeError as problem:
        raise BadInputError(
            f"the target {name}: {class_name}() needs arguments ({problem}); "
            "give them defaults, or name a subclass without arguments"
        ) from problem
    made: Target = found()
    return made


def _imported(module_name: str, name: str) -> ModuleType:
    """A module, found as by `python -m`: in the current folder first.

    Then that folder becomes the last one of the path, so that it hides no later import.
    """
    here = os.getcwd()  # noqa: PTH109 - as text, for sys.path
    sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except Exception as raised:
        missing = raised.name if isinstance(raised, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            raise BadInputError(
                f"the target {name}: there is no module {missing} in {here} or on Python's path; "
                "run gcfuzz in the folder that has it, or set PYTHONPATH"
            ) from raised
        error = BadInputError(
            f"the target {name}: importing {module_name} raised {summary_of(raised)}"
        )
        raise noted(error, traceback_of(raised)) from raised
    finally:
        sys.path.remove(here)
    if here not in sys.path:
        sys.path.append(here)
    return module


def _class_in(module: ModuleType, class_name: str, name: str) -> type:
    found: object = module
    for part in class_name.split("."):
        if not hasattr(found, part):
            where = module.__name__ if found is module else class_name
            there = module.__file__ or "no file"
            targets = [
                name
                for name, each in vars(module).items()
                if isinstance(each, type) and all(hasattr(each, method) for method in METHODS)
            ]
            raise BadInputError(
                f"the target {name}: {where} has no class {part} "
                f"({there}){did_you_mean(part, targets)}"
            )
        found = getattr(found, part)
    if not isinstance(found, type):
        raise BadInputError(
            f"the target {name}: {class_name} is not a class; for a function that creates one, use "
            f"--command 'python -m fuzz.targets {name}'"
        )
    missing = [method for method in METHODS if not callable(getattr(found, method, None))]
    if missing:
        raise BadInputError(
            f"the target {name}: {class_name} is not a target, since it has no method "
            f"{' and no method '.join(missing)}; `gcfuzz help test-suites` has an example"
        )
    return found
