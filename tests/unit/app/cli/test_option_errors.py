"""Errors of jsonargparse in one line."""

import pytest

from app.cli.option_errors import _nearest, plain

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
CLASS = """Parser key "{key}":
  Does not validate against any of the Union subtypes
  Subtypes: [...]
  Errors:
    - {first}
    - Expected a <class 'NoneType'>
  Given value type: <class 'jsonargparse._util.NestedArg'>
  Given value: NestedArg(key='{nested}', val='{value}')"""
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
            "got --run ../x, expected a name (letters, digits and . _ @ + = -, a letter or a "
            "digit first)",
        ),
        (
            UNION.format(
                key="run",
                first="Not of type RunName: does not match regular expression ^a$",
                second="Expected a <class 'NoneType'>",
                value="",
            ),
            "got --run '', expected a name (letters, digits and . _ @ + = -, a letter or a "
            "digit first)",
        ),
        (
            'Parser key "minutes":\n  Not of type Some: -1 does not conform to restriction v>=0',
            "got --minutes -1, expected Some (v>=0)",
        ),
        (
            UNION.format(
                key="data",
                first="Expected a path but mine/ either not accessible or invalid",
                second="Expected a dot import path string: mine/",
                value="mine/",
            ),
            "got --data mine/, expected a file or a class, such as package.module.Name",
        ),
        (
            UNION.format(
                key="data",
                first="Expected a path but mine.texts either not accessible or invalid",
                second="Problem with given class_path 'mine.texts':\n  No module named 'mine'",
                value="mine.texts",
            ),
            "got --data mine.texts (No module named 'mine'), expected a file",
        ),
        (
            CLASS.format(
                key="trainer.callbacks",
                first="Expected a dot import path string: Foo",
                nested="class_path",
                value="Foo",
            ),
            "got --trainer.callbacks.class_path Foo, expected a class, such as package.module.Name",
        ),
        (
            CLASS.format(
                key="model",
                first="Problem with given class_path 'lit_modules.OLSA':\n"
                '  Parser key "optimisation.optimizer":\n'
                "    Expected a dot import path string: Foo",
                nested="optimisation.optimizer.class_path",
                value="Foo",
            ),
            "got --model.optimisation.optimizer.class_path Foo, expected a class, such as "
            "package.module.Name",
        ),
        (
            CLASS.format(
                key="model",
                first="Problem with given class_path 'lit_modules.OLSA':\n"
                "  ambiguous option: --optimisation.lr=1e30 could match "
                "--optimisation.lr_scheduler.help, --optimisation.lr_scheduler",
                nested="optimisation.lr",
                value="1e30",
            ),
            "got --model.optimisation.lr, which OLSA does not have, expected perhaps "
            "--model.optimisation.optimizer.lr; --model.help OLSA lists its settings",
        ),
        (
            CLASS.format(
                key="model",
                first="Problem with given class_path 'lit_modules.OLSA':\n"
                '  Parser key "optimisation.optimizer":\n'
                "    Type typing.Callable[...] expects a function or a callable class: Option "
                "'lrr' is not accepted. Got value: Namespace(class_path='torch.optim.AdamW', "
                "init_args=Namespace(lrr='1'))",
                nested="optimisation.optimizer.lrr",
                value="1",
            ),
            "got --model.optimisation.optimizer.lrr, which AdamW does not have; "
            "--model.optimisation.optimizer.help AdamW lists its settings",
        ),
        (
            "Parser key \"radii\":\n  Expected a <class 'list'>. Got value: nan",
            "got --radii nan, expected one or more finite numbers of at least 0, for example "
            "--radii '[0, 0.5, 1]'",
        ),
        (
            "Parser key \"sweep\":\n  Expected a <class 'list'>. Got value: nan",
            "got --sweep nan, expected a list",
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
        ("optimisation.learning", ""),
        ("xyz", ""),
    ],
)
def test_the_nearest_setting_is_named(wrong: str, near: str) -> None:
    assert _nearest("lit_modules.OLSA", "model", wrong) == near


def test_nothing_is_near_in_a_class_that_is_not_there() -> None:
    assert _nearest("no.such.Class", "model", "gamma") == ""
