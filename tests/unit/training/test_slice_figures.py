from datamodules import Example
from run_files.results import Results
from run_files.summary_table import table
from training.slice_figures import slice_figures

EXAMPLES = [
    Example("a", 1, 0, ("source=web", "lang=de")),
    Example("b", 1, 1, ("source=web", "lang=en")),
    Example("c", 0, 2, ("source=a/b", "lang=en")),
    Example("d", 0, 3, ("source=a/b", "lang=en")),
    Example("e", 0, 4, ("source=other", "lang=en")),
]
PREDICTIONS = {0: 1, 1: 0, 2: 0, 3: 1}


def test_figures_of_a_detector_by_value() -> None:
    figures = slice_figures(EXAMPLES, PREDICTIONS, 1)
    assert {n: v for n, v in figures.items() if n.startswith("source=")} == {
        "source=web/samples": 2,
        "source=web/accuracy": 0.5,
        "source=web/positives": 2,
        "source=web/recall": 0.5,
        "source=web/negatives": 0,  # and so no false alarms
        "source=a/b/samples": 2,
        "source=a/b/accuracy": 0.5,
        "source=a/b/positives": 0,
        "source=a/b/negatives": 2,
        "source=a/b/false_alarms": 0.5,
    }
    assert figures["lang=en/recall"] == 0.0
    rows = printed({f"test/{name}": value for name, value in figures.items()})
    assert rows["source=web"] == "detected 0.500 [0.095 - 0.905], 1 of 2"
    assert rows["source=a/b"] == "false alarms 0.500 [0.095 - 0.905], 1 of 2"


def test_other_classifiers_have_the_accuracy() -> None:
    figures = slice_figures(EXAMPLES, PREDICTIONS, None)
    assert {name.rpartition("/")[2] for name in figures} == {"samples", "accuracy"}
    rows = printed({f"test/{name}": value for name, value in figures.items()})
    assert rows["source=web"] == "accuracy 0.500 [0.095 - 0.905] on 2 texts"


def printed(metrics: dict[str, float | None]) -> dict[str, str]:
    results = Results(
        run="r", method="m", corpus="c", seed=0, seconds={"test": 1.0}, metrics=metrics, versions={}
    )
    lines = (line.partition("  ") for line in table(results).splitlines())
    return {name: text.strip() for name, _, text in lines}
