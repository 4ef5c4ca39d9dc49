"""Actions are plain data, and their names are those of the trace format."""

import os
import sys
from pathlib import Path

import attrs
import pytest
from waiting import completed

import fuzz
from fuzz.protocol import actions
from fuzz.protocol import actions as do
from fuzz.protocol.actions import ACTIONS, NAMES, SLOT_FIELDS, Action, name_of

NAMES_IN_TRACES = {
    *("allocate_node", "allocate_string", "allocate_array", "allocate_weakref", "load_prebuilt"),
    *("free", "read", "read_number", "read_weakref", "write", "write_number", "copy_array"),
    *("fill_array", "move_array"),
    *("take_identity", "collect_minor", "collect_progress", "collect_step", "collect_full"),
    *("enable_sampling", "disable_sampling", "pause_sampling", "resume_sampling", "fork"),
    *("malloc", "calloc", "realloc", "set_period", "read_profile"),
    *("pin", "unpin", "set_callback", "add_memory_pressure", "allocate_old_string", "check_heap"),
    *("check_contents", "allocate_group"),
    *("end_thread", "begin_thread"),
    "run_at_once",
    *("register_finalizer", "unregister_finalizer", "run_finalizers", "resurrect"),
    *("allocate_ephemeron", "read_ephemeron"),
}


def test_a_name_has_an_underscore_before_each_capital_but_the_first() -> None:
    assert name_of(do.AllocateString) == "allocate_string"


def test_the_names_are_those_of_the_trace_format() -> None:
    assert set(ACTIONS) == NAMES_IN_TRACES


def test_every_name_leads_to_the_class_that_this_module_shows() -> None:
    shown = [each for each in vars(actions).values() if isinstance(each, type)]
    assert set(ACTIONS.values()) == {
        each for each in shown if issubclass(each, Action) and each is not Action
    }


def test_the_tables_are_the_same_while_no_garbage_is_collected() -> None:
    """Not even the classes of which attrs made others, that have slots."""
    code = """
import gc
gc.disable()
from fuzz.protocol import actions
assert len(actions.Action.__subclasses__()) > len(actions.ACTIONS)
for name, action in actions.ACTIONS.items():
    assert action is getattr(actions, action.__name__)
    print(name, *actions.SLOT_FIELDS[action])
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
    command = [sys.executable, "-c", code]
    ran = completed(command, env=environment)
    rows = [" ".join([name, *SLOT_FIELDS[each]]) for name, each in ACTIONS.items()]
    assert ran.stdout.splitlines() == rows


def test_the_names_by_class_are_the_classes_by_name() -> None:
    assert {name: action for action, name in NAMES.items()} == ACTIONS


def test_an_action_of_another_module_is_not_in_the_format() -> None:
    class Foreign(Action):
        pass

    assert name_of(Foreign) not in ACTIONS


def test_an_action_cannot_be_changed() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        do.Free(1).root = 2  # type: ignore[misc]  # It is frozen.


def test_actions_with_the_same_arguments_are_the_same() -> None:
    assert {do.Write(1, 0, None), do.Write(1, 0, None), do.Write(1, 0, 0)} == {
        do.Write(1, 0, 0),
        do.Write(1, 0, None),
    }


def test_other_actions_with_the_same_arguments_are_others() -> None:
    assert do.Pin(1) != do.Unpin(1)


def test_an_action_shows_what_it_is_made_of() -> None:
    assert repr(do.Write(1, 0, None)) == "Write(thread=0, root=1, field=0, value=None)"


def test_the_allocations_are_the_actions_called_so() -> None:
    assert {name for name, each in ACTIONS.items() if each.allocates} == {
        name for name in ACTIONS if name.startswith("allocate_") or name in {"malloc", "calloc"}
    }


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        *((do.Pin, ("root",)), (do.Unpin, ("root",)), (do.Write, ("root", "value"))),
        *((do.CopyArray, ("source", "dest")), (do.SetCallback, ())),
    ],
)
def test_fields_that_name_objects_are_distinguished_from_numbers(
    action: type[Action], fields: tuple[str, ...]
) -> None:
    assert SLOT_FIELDS[action] == fields
