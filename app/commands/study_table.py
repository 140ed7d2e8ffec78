"""Print the tables of studies, fill them into pages, or check those of pages."""

import argparse
import sys
from pathlib import Path
from typing import get_args

from app.cli.run_options import command_parser
from app.study import outcomes, pages, study_json, tables
from app.study.derivation import derive
from app.study.study import Study, StudyError
from run_files import atomic
from run_files.terminal import harmless

_ENDINGS: dict[tables.Format, str] = {"markdown": "md", "latex": "tex", "csv": "csv"}


def write_all(
    study: Study, content: study_json.Content, out: Path, samples: outcomes.Outcomes | None = None
) -> None:
    """Write `study.json` with its outcomes, the tables in all formats and the pictures."""
    from app.study.pictures import draw_all

    # First the outcomes: `study.json` names their digest.
    outcomes.write(out / "study.json", samples)
    study_json.write(out / "study.json", content)
    for form, ending in _ENDINGS.items():
        atomic.write_text(out / f"{study.name}.{ending}", tables.render(content, form))
    draw_all(content, out)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if not (args.studies or args.write or args.check):
        msg = "got nothing to do, expected a study, --write PAGE or --check PAGE"
        raise StudyError(msg)
    for name in args.studies:
        path = _file(name, Path(args.runs_dir))
        content = study_json.read(path)
        if args.publish is not None:
            # Published figures must follow from the published outcomes.
            samples = outcomes.read(path, content["outcomes"])
            content = derive(content, samples)
            published = Path(args.publish) / f"{content['study']['name']}.json"
            outcomes.write(published, samples)
            study_json.write(published, content)
            print(harmless(str(published)))
        else:
            print(harmless(tables.render(content, args.format)), end="")
    for name in args.write:
        if not Path(name).is_file():
            msg = f"got --write {name}, which is not a file, expected a page with markers"
            raise StudyError(msg)
        changed = pages.write(Path(name))
        print(harmless(f"{name}: {'written' if changed else 'up to date'}"))
    # Checks come last: a page that was just filled passes.
    problems = pages.check(Path(name) for name in args.check)
    for problem in problems:
        print(harmless(f"error: {problem}"), file=sys.stderr)
    return 1 if problems else 0


def _file(name: str, runs: Path) -> Path:
    """Return the `study.json` of a study file, of the name of a study, or the file itself."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        path = runs / "studies" / path.stem / "study.json"
    elif path.name == name and not path.is_file():
        path = runs / "studies" / name / "study.json"
    if not path.is_file():
        reason = "which is a folder" if path.is_dir() else f"of which there is no {path}"
        msg = (
            f"got {name}, {reason}, expected the figures of a study: "
            "`python -m steadfast study run STUDY.yaml` writes them"
        )
        raise StudyError(msg)
    return path


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = command_parser("study table", __doc__, "--runs_dir")
    add = parser.add_argument
    text = "STUDY.yaml or the name of a study (the study.json of its runs), or a study.json"
    add("studies", nargs="*", metavar="STUDY", help=text)
    choices = get_args(tables.Format)
    add("--format", choices=choices, default="markdown", help="of what is printed")
    text = "write the study.json to DIR/NAME.json instead of printing tables, with the outcomes of "
    text += "samples next to it; intervals and tests are computed again"
    add("--publish", metavar="DIR", help=text)
    text = "fill the tables between the markers of these pages"
    add("--write", nargs="+", default=[], metavar="PAGE", help=text)
    text = "say where pages (or those of a folder) are out of date, and which study.json, given "
    text += "here or shown there, has figures that do not follow from its cells and outcomes; exit "
    text += "status 1 if one is"
    add("--check", nargs="+", default=[], metavar="PAGE", help=text)
    return parser
