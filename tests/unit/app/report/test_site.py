"""The columns of the site have what their headings say."""

from pathlib import Path
from typing import Any

import pytest

from app.cli.main import entry
from app.report.run_tables import trade_off
from app.report.site import _figure, write_site
from measure.verdict import RunVerdict, VerdictFigure
from tests.unit.app.report.report_samples import certified_run

PGD = VerdictFigure(
    name="test/pgd_accuracy", kind="radius", title="Accuracy under PGD", value=0.004
)


def test_accuracy_under_pgd_is_no_certified_radius() -> None:
    radius = VerdictFigure(
        name="certify/radius_correct", kind="radius", title="Mean certified radius", value=0.7
    )
    verdict = RunVerdict(level="untested", headline="Untested", figures=(PGD,))
    assert _figure(verdict, "radius") is None
    both = RunVerdict(level="untested", headline="Untested", figures=(PGD, radius))
    found = _figure(both, "radius")
    assert found is not None
    assert found.title == "Mean certified radius"


def test_a_blind_attack_is_not_the_strongest() -> None:
    """Its accuracy measures no robustness: no other run is held against it."""

    def run(*attacks: tuple[float, bool]) -> RunVerdict:
        clean = VerdictFigure(name="test/accuracy", kind="clean", title="Accuracy", value=0.9)
        under = (
            VerdictFigure(name=f"attack/{i}/accuracy", kind="attack", title="x", value=v, doubted=d)
            for i, (v, d) in enumerate(attacks)
        )
        return RunVerdict(level="partial", headline="x", figures=(clean, *under))

    both, blind, sees = run((0.3, True), (0.5, False)), run((0.8, True)), run((0.4, False))
    found = _figure(both, "attack")
    assert found is not None
    assert found.value == 0.5
    assert trade_off("x", {"a": blind, "b": sees}) is None
    assert trade_off("x", {"a": both, "b": sees}) is not None
    only = _figure(blind, "attack")
    assert only is not None
    assert only.doubted


@pytest.mark.parametrize("command", ["report", "site"])
def test_runs_of_one_name_are_refused(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One page would replace the other."""
    for folder in ("a", "b"):
        certified_run(tmp_path / folder / "x")
    where = ["--runs_dir", str(tmp_path), "--output", str(tmp_path / "out")]
    assert entry([command, *where, "--run", "a/x", "b/x"]) == 1
    assert "got several runs named x, expected different names" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_index_of_another_site_is_kept(tmp_path: Path) -> None:
    index = tmp_path / "index.html"
    index.write_text("<title>My pages</title>")
    with pytest.raises(ValueError, match=r"with another index\.html, expected a new folder"):
        write_site([], tmp_path)
    assert index.read_text() == "<title>My pages</title>"


@pytest.mark.long
def test_the_table_sorts_numbers_and_names_in_a_browser(tmp_path: Path, browser: Any) -> None:
    names = ["10", "2", "1a", "b", "3x"]
    shares = {name: {"test/accuracy": 0.75} for name in names} | {"b": {"test/accuracy": 0.5}}
    runs = [certified_run(tmp_path / name, metrics=shares[name]) for name in names]
    index = write_site(runs, tmp_path / "site").index
    page = browser.new_page()
    page.goto(index.resolve().as_uri())
    rows = page.locator("table.runs tbody th")
    page.locator("thead button").first.click()
    assert rows.all_inner_texts() == ["b", "10", "3x", "2", "1a"]
    page.locator("thead button").first.click()
    assert rows.all_inner_texts() == ["1a", "2", "3x", "10", "b"]
    page.locator("thead button").nth(2).click()
    assert rows.last.inner_text() == "b"
