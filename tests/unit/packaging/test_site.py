"""The site: each page has its place, and links lead to pages of the site."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs import site_hooks
from tests.unit.packaging.metadata import ROOT, project

PAGES = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}
MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"


class Settings(yaml.SafeLoader):
    """Reads `mkdocs.yml` without the objects that its tags name."""


Settings.add_multi_constructor("!", lambda *_: None)
Settings.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def listed(entry: Any) -> list[str]:
    """The pages of a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    children = entry.values() if isinstance(entry, dict) else entry
    return [page for child in children for page in listed(child)]


def test_each_page_is_in_the_navigation_once() -> None:
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(), Settings)
    notebooks = {str(path.relative_to(ROOT)) for path in ROOT.glob("examples/notebooks/*.ipynb")}
    pages = {site_hooks.site_path(file) for file in PAGES | notebooks | {"README.md"}}
    others = {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    navigation = listed(settings["nav"])
    assert sorted(navigation) == sorted(pages | others)


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("docs/gate.md", "verdict.md#levels", "verdict.md#levels"),
        ("README.md", "docs/methods/olsa.md", "methods/olsa.md"),
        ("docs/methods/olsa.md", "../../README.md", "../index.md"),
        ("docs/attacks.md", "../configs/attack/custom.yaml", "files/configs/attack/custom.yaml.md"),
        ("docs/robust_words.md", "../CONTRIBUTING.md#a-threat", "CONTRIBUTING.md#a-threat"),
        ("examples/notebooks/a.ipynb", "../../docs/gate.md", "../gate.md"),
        ("docs/gate.md", "../examples/notebooks/a.ipynb", "notebooks/a.md"),
        ("docs/data.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("docs/gallery.md", "pictures/report.png", "pictures/report.png"),
        ("README.md", "#more", "#more"),
    ],
)
def test_a_link_leads_to_a_page_of_the_site(page: str, link: str, expected: str) -> None:
    text = f"A [link]({link}).\n\n```python\na = b[0](c.md)\n```\n"
    assert site_hooks.with_site_links(text, page) == text.replace(f"]({link})", f"]({expected})")


def test_every_linked_file_becomes_a_page() -> None:
    pages = site_hooks.outside_pages({file: (ROOT / file).read_text() for file in PAGES})
    made = {site_hooks.site_path(file) for file in [*pages, *PAGES]}
    for file, text in pages.items():
        for target in site_hooks.targets(text, file):
            assert site_hooks.site_path(target) in made or (ROOT / target).suffix == ".png"
    assert {"README.md", "SECURITY.md", "configs/attack/custom.yaml", "attacks/recipes"} <= {*pages}


def test_comments_are_left_out_but_not_in_code() -> None:
    code = "\n\n```text\n<!-- kept -->\n```\n`<!-- c -->`\n"
    page = f"a <!-- study: x.json all -->1<!-- /study --> b{code}"
    assert site_hooks.without_comments(page) == f"a 1 b{code}"


@pytest.mark.parametrize("package", ["attacks", "certify", "layers", "lit_modules", "datamodules"])
def test_the_reference_has_all_public_names(package: str) -> None:
    text = (ROOT / "docs" / "api" / f"{package}.md").read_text()
    names = re.findall(r"^::: (\S+)$", site_hooks.with_reference(text), re.MULTILINE)
    module = __import__(package)
    for name in names:
        if name.rpartition(".")[2][0].isupper() and not name.startswith(f"{package}.recipes"):
            assert hasattr(module, name.rpartition(".")[2]) or name == f"{package}.composition"
    public = getattr(module, "__all__", ()) or getattr(module, "_HOMES", ())
    assert {*public} <= {name.rpartition(".")[2] for name in names}


def test_an_output_of_a_notebook_cannot_end_its_block() -> None:
    cell = {
        "cell_type": "code",
        "source": ["print('```')"],
        "outputs": [
            {"output_type": "stream", "text": ["```\n", "<b>\n"]},
            {"output_type": "execute_result", "data": {"text/html": ["<p>\n\n</p>"]}},
        ],
    }
    page = site_hooks.notebook_page(json.dumps({"cells": [cell]}))
    assert "````python\nprint('```')\n````" in page
    assert "````text\n```\n<b>\n````" in page
    assert "\n\n" not in page[page.index("<div") :].strip()


def test_notes_of_a_release_are_the_top_section(tmp_path: Path) -> None:
    steps = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]["release"]
    run = {step.get("name"): step.get("run") for step in steps["steps"]}
    version = project()["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    for tag, status in ((f"v{version}", 0), ("v99", 1)):
        command = [
            "bash",
            "-e",
            "-o",
            "pipefail",
            "-c",
            run["The top section has the name of the tag"],
        ]
        environment = {**os.environ, "GITHUB_REF_NAME": tag}
        done = subprocess.run(
            command, cwd=tmp_path, check=False, env=environment, capture_output=True
        )
        assert done.returncode == status
    subprocess.run(["bash", "-e", "-c", run["Notes"]], cwd=tmp_path, check=True)
    notes = (tmp_path / "notes.md").read_text()
    assert f"\n## {version}\n{notes}\n## ".replace("\n\n## ", "\n## ") in changelog
    assert "\n## " not in notes


@pytest.mark.slow
@pytest.mark.skipif(not MKDOCS.is_file(), reason="no .venv-docs: `make docs` makes it")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [str(MKDOCS), "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = {
        str(path.parent.relative_to(tmp_path / "site")): path.read_text()
        for path in tmp_path.glob("site/**/index.html")
    }
    assert not [name for name, page in pages.items() if "<!-- study" in page]
    assert 'id="steadfast.load"' in pages["api/steadfast"]
    assert "<del>" in pages["notebooks/attack_your_model"]
    assert "custom.yaml" in pages["files/configs/attack/custom.yaml"]
    index = json.loads((tmp_path / "site/search/search_index.json").read_text())
    assert not [entry for entry in index["docs"] if entry["location"].startswith("files/configs")]
