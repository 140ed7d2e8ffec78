"""Shortens the errors of jsonargparse about options to one line, in plain words."""

import difflib
import re
import sys

from app.cli.commands import chooser
from app.cli.run_options import short_name
from lit_modules.shared.settings import names
from measure.radii import RADII_RULE
from run_files.terminal import harmless
from text.module_names import real_name

_KEY = re.compile(r'Parser key "(?P<key>.+?)":')
_CLASS = re.compile(r"Problem with given class_path '(?P<path>.+)':")
_WANTED = re.compile(r"Expected an? (?P<type>.+?)(?:\. Got value: (?P<value>.*))?")
_GIVEN = re.compile(r"Given value:(?: (?P<value>.*))?")
_REQUIRED = re.compile(r".*following arguments are required: (?P<names>.+)")
_OBJECT = re.compile(r"Namespace\(class_path='(?P<path>.+?)'.*")
_OPTION = re.compile(
    r"Option '(?P<name>.+)' is not accepted|"
    r"(?:unrecognized arguments|ambiguous option): --(?P<nested>[\w.]+).*"
)
_RESTRICTED = re.compile(
    r"Not of type (?P<type>\w+): (?:(?P<value>.+) does not conform to restriction |"
    r"does not match regular expression )?(?P<rule>.*)"
)
_NESTED = re.compile(r"NestedArg\(key='(?P<key>.+?)', val='?(?P<value>.*?)'?\)")
_RULES = {
    "RunName": "letters, digits and . _ @ + = -, a letter or a digit first",
    "radii": RADII_RULE,
}
"""Rules in words, instead of a type's regular expression, or of the type of a setting."""
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<option>--?[\w.]*)")
_SETTING = re.compile(r"--[\w.]+")
_PLAIN = {"float": "a number", "int": "a whole number", "bool": "true or false", "str": "a text"}
_PLAIN |= {"list": "a list", "Iterable": "a list", "RunName": "a name"}
_CALLABLE = re.compile(r"Type .+? expects a function or a callable class: (?=Parser key |Option )")
"""The beginning of jsonargparse's errors about settings of optimisers and schedulers."""
_BUILT = re.compile(r"\. Got value: Namespace\((?:class_path='(?P<path>.+?)')?.*\)$")
_FORMS = {"path but ": "a file", "dot import path string": "a class, such as package.module.Name"}
"""Forms of an object; of a tensor, too, where a number will do: left out of messages there."""
_FRAME = ("Does not validate against", "Subtypes: ", "Errors:", "Given value type: ")


def one_line(message: str, prog: str) -> str:
    """Return the line of an error of jsonargparse in a command, `prog`; see `plain`."""
    name = prog.partition(" ")[2]
    match = _UNKNOWN.match(message)
    if match is not None and (options := chooser(name, match["option"])) is not None:
        text = f"got {match['option']} without {options}, expected both"
    else:
        text = _SETTING.sub(lambda setting: short_name(name, setting[0]), plain(message))
    return harmless(f"error: {text} (`{prog} --help` lists the options)") + "\n"


def plain(message: str) -> str:
    """Shorten an error of jsonargparse 4 about a setting to one line; join lines of other errors.

    For example `got --model.masking.tau nan, expected a number`.
    """
    # The lines go from a setting to the nested one that is wrong. The last ones have the expected
    # type, or an unknown name.
    keys: list[str] = []
    expectations: list[str] = []
    reasons: list[str] = []
    owner, required, value = "", "", None
    for line in message.splitlines():
        text = _CALLABLE.sub("", _BUILT.sub("", line.strip().removeprefix("- ")))
        owner = ((match := _BUILT.search(line)) and match["path"]) or owner
        if match := _KEY.match(text):
            keys.append(match["key"].removeprefix("init_args."))
            text = text[match.end() :].strip()
        if match := _CLASS.fullmatch(text):
            owner = match["path"]
        elif (match := _OPTION.fullmatch(text)) and owner:
            group, name = ".".join(keys), match["name"] or match["nested"]
            cls = owner.rpartition(".")[2]
            lacks = f"got --{group}.{name}, which {cls} does not have{_nearest(owner, group, name)}"
            return f"{lacks}; --{group}.help {cls} lists its settings"
        elif forms := [_FORMS[words] for words in _FORMS if text.startswith(f"Expected a {words}")]:
            expectations += forms
        elif match := _WANTED.fullmatch(text):
            expectations.append(_name(match["type"]))
            value = match["value"] or value
        elif match := _GIVEN.fullmatch(text):
            value = match["value"] or "''" if value is None else value
        elif match := _RESTRICTED.fullmatch(text):
            kind = match["type"]
            expectations.append(f"{_name(kind)} ({_RULES.get(kind, match['rule'])})")
            value = match["value"] or value
        elif match := _REQUIRED.fullmatch(text):
            required = match["names"]
        elif text and not text.startswith(_FRAME):
            reasons.append(text)
    if keys and value is not None and required and (match := _OBJECT.fullmatch(value)):
        key, name = ".".join(keys), match["path"].rsplit(".", 1)[-1]
        first = required.split(",")[0].strip()
        return f"got --{key} {name} without {required}, expected --{key}.{first} as well"
    if not keys or value is None:
        return " ".join(message.split())
    outermost = [match["key"] for match in _NESTED.finditer(message)][-1:]
    name = ".".join([keys[0], *outermost] if _NESTED.fullmatch(value) else keys)
    value = _NESTED.sub(r"\g<value>", value)
    left_out = {"NoneType", *(_FORMS.values() if "a number" in expectations else ())}
    expected = " or ".join(name for name in dict.fromkeys(expectations) if name not in left_out)
    expected = _RULES.get(keys[-1], expected)
    reason = f" ({'; '.join(dict.fromkeys(reasons))})" if reasons else ""
    return f"got --{name} {value}{reason}{expected and f', expected {expected}'}"


def _nearest(path: str, group: str, name: str) -> str:
    """Return a hint at the setting of a class with the most similar name, in any of its groups."""
    module, _, cls = path.rpartition(".")
    options = list(names(getattr(sys.modules.get(real_name(module)), cls, object)))
    # Each class of optimisers has settings of its own, and all have a learning rate.
    options = [f"{option}.lr" for option in options if option.endswith("optimizer")] + options
    by_last_part = {option.rpartition(".")[2]: option for option in options}
    for part in reversed(name.split(".")):
        matches = difflib.get_close_matches(part, by_last_part, n=1, cutoff=0.75)
        if matches and not name.startswith(f"{(near := by_last_part[matches[0]])}."):
            return f", expected perhaps --{group}.{near}"
    return ""


def _name(kind: str) -> str:
    """Return a type in plain words."""
    if kind.startswith("typing.Literal["):
        choices = kind.removeprefix("typing.Literal[").removesuffix("]").split(", ")
        return f"one of {', '.join(choice.strip(chr(39)) for choice in choices)}"
    name = re.sub(r"<class '(?:.*\.)?(.+?)'>", r"\1", kind)
    return _PLAIN.get(name, name)
