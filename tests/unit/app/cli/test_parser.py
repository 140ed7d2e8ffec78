"""The parser of the commands that train."""

from jsonargparse import ArgumentParser, _core, _subcommands

from app.cli.parser import remembered_actions


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
