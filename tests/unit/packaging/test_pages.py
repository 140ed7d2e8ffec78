"""Pages name only files, sections and tests that exist."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = {"config.yaml", "counter-fitted-vectors.txt"}
"""Files that pages mention and that do not belong to the project."""


def list_files() -> list[str]:
    """Return the files of the project, also in a checkout without git."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    names = listed.stdout.splitlines() or [
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()
    ]
    return [name for name in names if (ROOT / name).is_file()]


FILES = list_files()
STEMS = {Path(file).stem for file in FILES}
TESTS = {
    name
    for file in FILES
    if file.startswith("tests/") and file.endswith(".py")
    for name in re.findall(r"def (test_\w+)\(", (ROOT / file).read_text())
}


def sections(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()).strip() for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def missing(page: Path) -> Iterator[str]:
    """Yield the links, tests and files of a page that do not exist."""
    text = page.read_text()
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, section = link.partition("#")
        target = page.parent / path if path else page
        if "://" not in link and not (
            target.exists() and (not section or section in sections(target))
        ):
            yield link
    for code in re.findall(r"`([^`\n]+)`", text):
        if re.fullmatch(r"test_\w+", code) and code not in TESTS | STEMS:
            yield code
        for name in re.findall(r"(?<![\w*])[\w./-]+\.(?:py|yaml|yml|sh|sbatch|toml)\b", code):
            exists = any(f"/{file}".endswith(f"/{name.lstrip('./')}") for file in FILES)
            if not exists and Path(name).name not in EXAMPLES:
                yield name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    assert list(missing(page)) == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_code_inside_lists_is_code_on_the_site(page: Path) -> None:
    # GitHub takes six spaces for code, Python-Markdown eight.
    assert not re.findall(r"(?m)^\n {5,7}(?=\S)", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_a_page_fit_an_editor(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    # A row of a table is one line.
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []
