import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from app.commands.study_table import write_all
from app.study import study_json
from app.study.study import StudyError
from tests.run_command import run_command
from tests.unit.app.study.study_samples import cell, study

table_main = partial(run_command, "study table")

ROOT = Path(__file__).parents[4]
FIGURES = [cell("a", 0, "1100"), cell("b", 0, "1111")]
CONTENT = study_json.content(study(), FIGURES, {})


def test_all_files(tmp_path: Path) -> None:
    write_all(study(), CONTENT, tmp_path / "out")
    names = ["study.json", "tiny.csv", "tiny.md", "tiny.tex"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    assert study_json.read(tmp_path / "out" / "study.json") == CONTENT


@pytest.mark.parametrize(
    ("form", "said"), [("markdown", "| B "), ("latex", "\\toprule"), ("csv", "figure,sst2,b")]
)
def test_print(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, said: str) -> None:
    write_all(study(), CONTENT, tmp_path / "runs" / "studies" / "tiny")
    assert table_main(["tiny.yaml", "--runs_dir", str(tmp_path / "runs"), "--format", form]) == 0
    printed = capsys.readouterr().out
    assert said in printed
    path = tmp_path / "runs" / "studies" / "tiny" / "study.json"
    assert table_main([str(path), "--format", form]) == 0
    assert capsys.readouterr().out == printed
    assert table_main(["tiny", "--runs_dir", str(tmp_path / "runs"), "--format", form]) == 0
    assert capsys.readouterr().out == printed


def test_publish_write_and_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_all(study(), CONTENT, Path("out"), study_json.outcomes_of(study(), FIGURES))
    assert table_main(["out/study.json", "--publish", "docs/results"]) == 0
    names = ["tiny.json", "tiny.outcomes.json.gz"]
    assert sorted(path.name for path in Path("docs/results").iterdir()) == names
    assert Path("docs/results/tiny.json").read_bytes() == Path("out/study.json").read_bytes()
    page = Path("docs/page.md")
    page.write_text("<!-- study: docs/results/tiny.json -->\n<!-- /study -->\n")
    assert table_main(["--check", "docs"]) == 1
    assert "error: docs/page.md:2: the figures" in capsys.readouterr().err
    assert table_main(["--write", "docs/page.md", "--check", "docs"]) == 0
    assert table_main(["--check", "docs", "docs/page.md"]) == 0
    assert "docs/page.md: written" in capsys.readouterr().out


def test_nothing_to_do() -> None:
    with pytest.raises(StudyError, match="nothing to do"):
        table_main([])
    with pytest.raises(StudyError, match="`python -m steadfast study run"):
        table_main(["configs/studies/absent.yaml"])
    with pytest.raises(SystemExit):
        table_main(["--help"])


@pytest.mark.long
def test_no_heavy_library_is_loaded() -> None:
    heavy = ("torch", "transformers", "datasets", "scipy", "statsmodels", "matplotlib", "pandas")
    program = (
        "import sys; from app.commands import study_table; from app.study import pages; "
        f"sys.exit(any(name in sys.modules for name in {heavy}))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
