"""Execute notebooks and store their outputs, without Jupyter.

    python -m examples.notebooks.execute --write     # all notebooks of this folder, anew
    python -m examples.notebooks.execute NAME ...    # without --write: only run them

Each notebook runs in an empty folder. A cell has the outputs that Jupyter would store: its printed
text, and the value of its last expression, as HTML, as a picture or as text.
"""

import argparse
import ast
import base64
import io
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
Output = dict[str, Any]


def execute(notebook: dict[str, Any]) -> list[list[Output]]:
    """Run the cells in the present folder, and return the outputs of each cell of code."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [run_cell("".join(cell["source"]), names) for cell in cells]


def run_cell(source: str, names: dict[str, Any]) -> list[Output]:
    """Run one cell, and return its outputs."""
    tree, value = ast.parse(source), None
    last = tree.body[-1]
    printed = io.StringIO()
    with redirect_stdout(printed):
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(tree.body[:-1], []), "cell", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        else:
            exec(compile(tree, "cell", "exec"), names)
    outputs: list[Output] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(text)})
    if value is not None:
        data = {name: lines(text) for name, text in shown(value).items()}
        outputs.append(
            {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": data}
        )
    return outputs


def shown(value: Any) -> dict[str, str]:
    """Return the forms of a value that a notebook stores, by their media type."""
    forms = {"text/plain": repr(value)}
    if html := getattr(value, "_repr_html_", lambda: None)():
        forms["text/html"] = html
    if callable(save := getattr(value, "savefig", None)):
        picture = io.BytesIO()
        save(picture, format="png", dpi=72, bbox_inches="tight")
        forms["image/png"] = base64.b64encode(picture.getvalue()).decode()
    return forms


def lines(text: str) -> list[str]:
    """Return a text as the format of notebooks has it."""
    return text.splitlines(keepends=True)


def store(notebook: dict[str, Any], outputs: Sequence[list[Output]]) -> str:
    """Return the notebook with its outputs, as a file."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, (cell, own) in enumerate(zip(cells, outputs, strict=True), 1):
        numbered = [
            {**output, "execution_count": count} if "execution_count" in output else output
            for output in own
        ]
        cell.update(execution_count=count, outputs=numbered)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run notebooks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="names without .ipynb; all by default")
    parser.add_argument("--write", action="store_true", help="store the outputs")
    options = parser.parse_args(arguments)
    for path in sorted(HERE.glob("*.ipynb")):
        if options.names and path.stem not in options.names:
            continue
        notebook = json.loads(path.read_text(encoding="utf-8"))
        os.environ["COLUMNS"] = "100"
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            outputs = execute(notebook)
        if options.write:
            path.write_text(store(notebook, outputs), encoding="utf-8")
        print(f"{path.name}: {len(outputs)} cells")


if __name__ == "__main__":
    main()
