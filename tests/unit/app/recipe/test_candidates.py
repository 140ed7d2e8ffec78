"""The choice among candidates, on figures and on records."""

import pytest

from app.recipe.candidates import KappaCandidate, choose, grid, table
from measure.labelled_predictions import Predictions
from text.estimates import wilson


def candidate(
    kappa: float, clean: int, three: int, everything: int, **more: bool
) -> KappaCandidate:
    """Figures in % of 100 rows."""
    certified = {"3": wilson(three, 100), "all": wilson(everything, 100)}
    collapsed = more.get("collapsed", False)
    return KappaCandidate(
        kappa=kappa,
        k="all",
        clean=wilson(clean, 100),
        certified=certified,
        balanced={"clean": clean / 100, "3": three / 100, "all": everything / 100},
        share=0.5,
        collapsed=collapsed,
    )


GRID = [candidate(0.3, 80, 50, 20), candidate(0.5, 75, 48, 40), candidate(0.9, 70, 45, 44)]


@pytest.mark.parametrize(
    ("by", "clean_loss", "kappa"),
    [
        ("certified", 5, 0.5),
        ("certified", 4.9, 0.3),
        ("certified", 10, 0.9),
        ("certified-3", 10, 0.3),
        ("mean", 0, 0.5),
    ],
)
def test_the_criterion_decides(by: str, clean_loss: float, kappa: float) -> None:
    assert choose(GRID, by, clean_loss).kappa == kappa
    assert f"{kappa:g} *" in table(GRID, choose(GRID, by, clean_loss))


def test_a_collapsed_candidate_is_chosen_only_alone() -> None:
    # On data with a rare class, one answer for everything is accurate and certified.
    constant = candidate(0.95, 87, 87, 87, collapsed=True)
    assert choose([*GRID, constant], "certified", 100).kappa == 0.9
    assert choose([constant], "certified", 5) == constant
    assert "(collapsed)" in table([constant], constant)


@pytest.mark.parametrize(
    ("predictions", "collapsed"),
    [([0] * 20, True), ([0] * 18 + [1, 0], False), ([0] * 18 + [1, 1], False), ([1] * 20, True)],
)
def test_collapse_is_about_the_other_classes(predictions: list[int], collapsed: bool) -> None:
    labels = [0] * 18 + [1] * 2
    made = Predictions(labels=labels, predictions=predictions)
    assert made.collapsed is collapsed


def test_a_rare_class_counts_as_much_as_another() -> None:
    def records(ham: int, spam: int) -> list[dict[str, object]]:
        right = [(0, i < ham) for i in range(90)] + [(1, i < spam) for i in range(10)]
        holds = {"3": True, "all": True}
        return [{"label": y, "prediction": y if hit else 1 - y, "holds": holds} for y, hit in right]

    timid, balanced = (
        KappaCandidate.of(0.9, "all", records(90, 2)),
        KappaCandidate.of(0.3, "all", records(80, 9)),
    )
    assert timid.clean.value > balanced.clean.value
    assert choose([balanced, timid], "certified", 5) == balanced


def test_figures_of_certificates() -> None:
    def record(label: int, prediction: int, three: bool, everything: bool) -> dict[str, object]:
        holds = {"1": True, "3": three, "all": everything}
        return {"label": label, "prediction": prediction, "holds": holds}

    records = [record(0, 0, True, True), record(1, 1, True, False), record(1, 0, True, True)]
    measured = KappaCandidate.of(0.5, "3", records)
    assert (measured.name, measured.clean.value) == ("kappa-0.5-k-3", 2 / 3)
    # A wrong prediction is not certified.
    assert [share.value for share in measured.certified.values()] == [2 / 3, 1 / 3]
    # One of one text of class 0, and one of two of class 1.
    assert measured.balanced == {"clean": 0.75, "3": 0.75, "all": 0.5}
    assert measured.share == 2 / 3
    assert measured.line()["certified@all"] == 1 / 3


def test_the_grid_has_each_pair_once() -> None:
    assert grid(["auto"], (0.3, 0.9), ["all"]) == [(0.3, "all"), (0.9, "all")]
    assert grid(["0.9", "0.1", "0.9"], (), ["all", "2"]) == [
        (0.1, "2"),
        (0.9, "2"),
        (0.1, "all"),
        (0.9, "all"),
    ]
    for wrong in ("0", "some"):
        with pytest.raises(ValueError, match=r"got .*k.*expected"):
            grid(["auto"], (0.5,), [wrong])
