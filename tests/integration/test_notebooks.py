"""The notebooks run, and their stored outputs are those of their cells."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from examples.notebooks.execute import execute, lines, run_cell
from tests.integration.conftest import ROOT

FOLDER = ROOT / "examples" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
Outputs = list[dict[str, Any]]


def forms(outputs: Outputs) -> list[list[str]]:
    """The kinds of the outputs of a cell."""
    return [sorted(output.get("data", [output["output_type"]])) for output in outputs]


def text(outputs: list[Outputs]) -> str:
    """All that cells print, and their values as text."""
    return "".join(
        "".join(output.get("text") or output["data"]["text/plain"]) + "\n"
        for cell in outputs
        for output in cell
    )


EXPECTED = {
    "attack_your_model": "deepwordbug  0.",
    "certificates_in_words": "of these certified: 0",
    "detector_in_ci": "Holds: 1 of 1 criteria.",
    "detector_that_holds": "holds: 0 of 20 detections are evaded",
    "read_a_study": "Sums of word scores",
    "robust_classifier": "letters: trained against typos,deepwordbug",
}
QUICK = ("certificates_in_words", "detector_in_ci", "read_a_study")


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NOTEBOOKS],
)
def test_a_notebook_runs_cell_by_cell(name: str, here: Path) -> None:
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text())
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    outputs = execute(notebook)
    assert [forms(own) for own in outputs] == [forms(cell["outputs"]) for cell in cells]
    for printed in (text(outputs), text([cell["outputs"] for cell in cells])):
        assert EXPECTED[name] in printed


def test_the_attack_gets_past_the_plain_detector_only() -> None:
    notebook = json.loads((FOLDER / "detector_that_holds.ipynb").read_text())
    printed = text([cell.get("outputs", []) for cell in notebook["cells"]])
    assert "plain: 20 of 20 detections are evaded" in printed
    assert "Certified against any text added" in json.dumps(notebook)


def test_outputs_of_a_cell() -> None:
    names: dict[str, Any] = {}
    assert run_cell("a = 1\nprint('x')", names) == [
        {"output_type": "stream", "name": "stdout", "text": ["x\n"]}
    ]
    (output,) = run_cell("a + 1", names)
    assert output["data"] == {"text/plain": ["2"]}
    assert run_cell("None", names) == []
    source = "from matplotlib.figure import Figure\nFigure(figsize=(1, 1))"
    (output,) = run_cell(source, names)
    picture = base64.b64decode("".join(output["data"]["image/png"]))
    assert picture.startswith(b"\x89PNG")
    assert lines("a\nb") == ["a\n", "b"]
