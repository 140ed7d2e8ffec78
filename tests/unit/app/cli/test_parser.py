"""What jsonargparse says, in one line."""

import pytest
from jsonargparse import ArgumentParser, _core, _subcommands

from app.cli.parser import _nearest, plain, remembered_actions

NESTED = """Parser key "model":
  Does not validate against any of the Union subtypes
  Subtypes: [<class 'lit_modules.shared.text_module.TextModule'>, <class 'NoneType'>]
  Errors:
    - Problem with given class_path 'lit_modules.AdversarialTraining':
        Parser key "adversary":
          Does not validate against any of the Union subtypes
          Subtypes: [<class 'lit_modules.adversaries.adversary.Adversary'>, <class 'NoneType'>]
          Errors:
            - Problem with given class_path 'lit_modules.adversaries.FreeLB':
                {found}
            - Expected a <class 'NoneType'>
          Given value type: <class 'jsonargparse._util.NestedArg'>
          Given value: NestedArg(key='foo', val='1')
    - Expected a <class 'NoneType'>
  Given value type: <class 'jsonargparse._util.NestedArg'>
  Given value: NestedArg(key='adversary.foo', val='1')"""
UNION = """Parser key "{key}":
  Does not validate against any of the Union subtypes
  Subtypes: [...]
  Errors:
    - {first}
    - {second}
  Given value type: <class 'str'>
  Given value: {value}"""


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            NESTED.format(found="Option 'foo' is not accepted"),
            "got --model.adversary.foo, which FreeLB does not have; --model.adversary.help FreeLB "
            "lists its settings",
        ),
        (
            NESTED.format(
                found='Parser key "norm":\n  '
                "Expected a typing.Literal['l2', 'linf']. Got value: l3"
            ),
            "got --model.adversary.norm l3, expected one of l2, linf",
        ),
        (
            NESTED.format(
                found="Parser key \"tau\":\n  Expected a <class 'float'>. Got value: nan"
            ),
            "got --model.adversary.tau nan, expected a number",
        ),
        (
            UNION.format(
                key="trainer.devices",
                first="Expected a <class 'int'>",
                second="Expected a typing.Literal['auto']",
                value="x y",
            ),
            "got --trainer.devices x y, expected a whole number or one of auto",
        ),
        (
            UNION.format(
                key="run",
                first="Not of type RunName: does not match regular expression ^a$",
                second="Expected a <class 'NoneType'>",
                value="../x",
            ),
            "got --run ../x, expected RunName (letters, digits and . _ @ + = -, a letter or a "
            "digit first)",
        ),
        (
            UNION.format(
                key="run",
                first="Not of type RunName: does not match regular expression ^a$",
                second="Expected a <class 'NoneType'>",
                value="",
            ),
            "got --run '', expected RunName (letters, digits and . _ @ + = -, a letter or a "
            "digit first)",
        ),
        (
            'Parser key "minutes":\n  Not of type Some: -1 does not conform to restriction v>=0',
            "got --minutes -1, expected Some (v>=0)",
        ),
        ("unrecognized arguments: --no.such=1", "unrecognized arguments: --no.such=1"),
        ("Parser key \"config\":\n  File does not exist: 'a'", None),
    ],
)
def test_plain(message: str, expected: str | None) -> None:
    assert plain(message) == (expected or " ".join(message.split()))


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("objective.gama", ", expected perhaps --model.objective.gamma"),
        ("gama", ", expected perhaps --model.objective.gamma"),
        ("objektive.gamma", ", expected perhaps --model.objective.gamma"),
        ("backbon.pretraned", ", expected perhaps --model.backbone.pretrained"),
        ("xyz", ""),
    ],
)
def test_the_nearest_setting_is_named(wrong: str, near: str) -> None:
    assert _nearest("lit_modules.OLSA", "model", wrong) == near


def test_nothing_is_near_in_a_class_that_is_not_there() -> None:
    assert _nearest("no.such.Class", "model", "gamma") == ""


def test_remembered_actions_are_those_of_the_search() -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--a.b", type=int)
    parser.add_argument("--a.c", "--short", default=1)
    names = ["a", "a.b", "a.c", "short", "help", "missing"]
    search = _subcommands.find_action_and_subcommand
    actions = [search(parser, name)[0] for name in names]
    with remembered_actions():
        assert vars(_core)["find_action_and_subcommand"] is not search
        for _ in range(2):
            assert [_subcommands.find_action(parser, name) for name in names] == actions
        # A parser that has got another action is searched again.
        added = parser.add_argument("--missing")
        assert _subcommands.find_action(parser, "missing") is added
        assert _subcommands.find_action(ArgumentParser(), "a.b") is None
        assert parser.parse_args(["--a.b=3"]).a.b == 3
    assert _subcommands.find_action_and_subcommand is search
    assert vars(_core)["find_action_and_subcommand"] is search
