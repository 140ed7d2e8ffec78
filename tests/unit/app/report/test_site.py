"""The columns of the site have what their headings say."""

from pathlib import Path

import pytest

from app.report.site import _figure, write_site
from measure.verdict import RunVerdict, VerdictFigure

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


def test_the_index_of_another_site_is_kept(tmp_path: Path) -> None:
    index = tmp_path / "index.html"
    index.write_text("<title>My pages</title>")
    with pytest.raises(ValueError, match=r"with another index\.html, expected a new folder"):
        write_site([], tmp_path)
    assert index.read_text() == "<title>My pages</title>"
