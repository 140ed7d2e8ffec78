"""Additions of the site to the pages of `docs/` (hooks of mkdocs, docs/decisions/0013-site.md).

- README.md is the home page; other pages of the top level are part of the site, too.
- A link to a file outside of `docs/` leads to a page that shows this file. So an older version of
  the site shows the files of that version, and no address of the repository is needed.
- Notebooks of `examples/notebooks/` are pages, with their stored outputs.
- `<!-- api: PACKAGE -->` becomes the reference of all public names of a package.
- Comments, such as the markers of `study`, are left out.
"""

import ast
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = "examples/notebooks"
LINK = re.compile(r"(?<!`)\]\((?P<target>[^)\s]+)\)")
COMMENT = re.compile(r"(?<!`)<!--.*?-->", re.DOTALL)
API = re.compile(r"^<!-- api: (?P<package>\w+) -->$", re.MULTILINE)
BADGE = re.compile(r"^\[!\[.*\]\(https://.*\n", re.MULTILINE)
FENCE = re.compile(r"^ *(```|~~~)")
LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".sbatch": "bash"}


def site_path(file: str) -> str:
    """Return the page of the site that shows a file or folder of the repository, by its path."""
    if file == "README.md":
        return "index.md"
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    if file.startswith(f"{NOTEBOOKS}/") and file.endswith(".ipynb"):
        return f"notebooks/{Path(file).stem}.md"
    if file.endswith(".md"):
        return file if "/" not in file else f"files/{file}"
    return f"files/{file}.md"


def outside_code(change: Callable[[str], str], text: str) -> str:
    """Return a page whose parts outside of blocks of code are changed."""
    parts: list[list[str]] = [[]]
    fence = None
    for line in text.splitlines(keepends=True):
        found = FENCE.match(line)
        if fence is None and found:
            fence = found[1]
            parts.append([line])
        elif fence is not None and found and found[1] == fence:
            fence = None
            parts[-1].append(line)
            parts.append([])
        else:
            parts[-1].append(line)
    # Pages begin outside of code: every second part is a block.
    blocks = ("".join(part) for part in parts)
    return "".join(part if i % 2 else change(part) for i, part in enumerate(blocks))


def targets(text: str, file: str) -> set[str]:
    """Return the files and folders of the repository that a page links to."""
    found: set[str] = set()

    def collect(part: str) -> str:
        for link in LINK.finditer(part):
            if target := repository_path(link["target"], file):
                found.add(target)
        return part

    outside_code(collect, text)
    return found


def repository_path(target: str, file: str) -> str | None:
    """Return the file in the repository that a link leads to; None if it leads elsewhere."""
    path = target.partition("#")[0]
    if not path or ":" in path:
        return None
    resolved = ((ROOT / file).parent / path).resolve()
    return str(resolved.relative_to(ROOT)) if resolved.is_relative_to(ROOT) else None


def with_site_links(text: str, file: str) -> str:
    """Return a page of the repository whose links lead to pages of the site."""
    here = Path(site_path(file)).parent

    def rewrite(link: re.Match[str]) -> str:
        target = repository_path(link["target"], file)
        if target is None:
            return link[0]
        section = link["target"].partition("#")[2]
        path = os.path.relpath(site_path(target), here)
        return f"]({path}{'#' if section else ''}{section})"

    return outside_code(lambda part: LINK.sub(rewrite, part), text)


def without_comments(text: str) -> str:
    """Return a page without its comments; references are put in before."""
    return outside_code(lambda part: COMMENT.sub("", part), text)


def public_names(package: str) -> list[str]:
    """Return the public names of a package with their modules: `certify.certificate.certify`."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    return [
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.partition(".")[0] in (package, "layers")
        for alias in node.names
    ]


def with_reference(text: str) -> str:
    """Return a page with the reference of packages at its markers."""

    def expand(marker: re.Match[str]) -> str:
        names = sorted(public_names(marker["package"]), key=lambda name: name.rpartition(".")[2])
        return "\n\n".join(f"::: {name}" for name in names)

    return API.sub(expand, text)


def notebook_page(text: str) -> str:
    """Return a notebook as Markdown: its texts, its code, and its stored outputs."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else fenced(source, "python"))
        parts += [output_block(output) for output in cell.get("outputs", ())]
    return "\n\n".join(parts) + "\n"


def output_block(output: dict[str, Any]) -> str:
    """Return an output of a cell as Markdown: a table, a picture or text."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "text/html" in data:
        # A blank line would end the block of HTML in Markdown.
        return f'<div class="output" markdown="0">{"".join(data["text/html"])}</div>'.replace(
            "\n\n", "\n"
        )
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    return fenced("".join(data["text/plain"]).rstrip(), "text")


def fenced(text: str, language: str) -> str:
    """Return a block of code, in a fence that does not occur in it."""
    fence = "`" * (3 + max((len(run) for run in re.findall("`{3,}", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def file_page(file: str) -> str:
    """Return the page that shows a file, or the files of a folder."""
    path = ROOT / file
    if path.is_dir():
        names = sorted(one.name for one in path.iterdir() if one.is_file())
        title, body = f"{file}/", "\n".join(f"- [{name}]({path.name}/{name})" for name in names)
    else:
        title, body = file, fenced(path.read_text(encoding="utf-8"), LANGUAGES.get(path.suffix, ""))
    return f"---\nsearch:\n  exclude: true\n---\n\n# {title}\n\n{body}\n"


def page_text(file: str) -> str:
    """Return the Markdown of a file outside of `docs/`, before its links are rewritten."""
    path = ROOT / file
    if path.is_dir() or path.suffix not in (".md", ".ipynb"):
        return file_page(file)
    text = path.read_text(encoding="utf-8")
    if file == "README.md":
        # The site loads no picture from elsewhere.
        return "---\nhide: [navigation]\n---\n\n" + BADGE.sub("", text)
    return notebook_page(text) if path.suffix == ".ipynb" else text


def outside_pages(docs: dict[str, str]) -> dict[str, str]:
    """Return the Markdown of all files outside of `docs/` that pages link to, by path.

    The home page and the notebooks are among them; `docs` are the pages of `docs/`, by path.
    """
    notebooks = sorted((ROOT / NOTEBOOKS).glob("*.ipynb"))
    waiting = {"README.md", *(str(path.relative_to(ROOT)) for path in notebooks)}
    for file, text in docs.items():
        waiting |= targets(text, file)
    pages: dict[str, str] = {}
    while waiting:
        file = waiting.pop()
        if file in pages or file.startswith("docs/"):
            continue
        pages[file] = page_text(file)
        waiting |= targets(pages[file], file)
    return pages


SOURCES: dict[str, str] = {}
"""File in the repository of each page outside of `docs/`, by page of the site."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of files outside of `docs/`."""
    from mkdocs.structure.files import File, InclusionLevel

    docs = {f"docs/{page.src_uri}": page.content_string for page in files.documentation_pages()}
    for file, text in outside_pages(docs).items():
        page = site_path(file)
        SOURCES[page] = file
        added = File.generated(config, page, content=text)
        if page.startswith("files/"):
            added.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(added)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite the links of a page, expand its references and drop its comments."""
    source = page.file.src_uri
    text = with_site_links(markdown, SOURCES.get(source, f"docs/{source}"))
    return without_comments(with_reference(text))
