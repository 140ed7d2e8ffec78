"""The one call: ours, Hugging Face and functions; records that outlive a victim that fails."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attacks
from attacks.goals import Targeted, Untargeted
from attacks.interface import make_goal
from attacks.journal import read
from attacks.progress import Progress, Watched
from attacks.search import Greedy
from tests.unit.attacks.outcomes import flipped, record, skipped
from tests.unit.attacks.toys import BagVictim, Letters, Once, Synonyms, value
from tests.unit.lit_modules.builders import METHODS, attached
from text import Text

TEXTS: list[tuple[Text, int]] = [
    ("a good film with a plot", 1),
    ("a bad film", 0),
    ("the plot is good and fine", 1),
    ("awful", 1),
]
SWAP = attacks.Attack(
    name="swap", transformation=Synonyms(), search=Greedy(), pre_constraints=[Once()]
)


def bag(texts: Sequence[Text]) -> list[list[float]]:
    """What a user writes: from strings to a list of logits."""
    return [[0.5 - value(text), value(text) - 0.5] for text in texts]


def run(model: Any = bag, samples: Any = TEXTS, **settings: Any) -> attacks.Outcome:
    return attacks.attack(model, samples, **{"recipe": SWAP, "progress": False, **settings})


def test_a_function() -> None:
    outcome = run()
    assert [one.sample_id for one in outcome.records] == [0, 1, 2, 3]
    assert [one.outcome for one in outcome.records] == [
        "succeeded",
        "failed",
        "succeeded",
        "skipped",
    ]
    assert outcome.records[0].adversarial == "a solid film with a plot"
    assert "swap" in str(outcome)
    assert "clean accuracy" in str(outcome)


def test_samples_keep_their_ids() -> None:
    samples = [attacks.Sample(sample_id=7, text=TEXTS[0][0], label=1)]
    (one,) = run(samples=samples).records
    assert one.sample_id == 7


def test_a_module_of_ours() -> None:
    module = attached(METHODS["transformer"], classes=2)
    outcome = run(module, [("good film, not bad", 0), ("a plot", 1)])
    assert len(outcome.records) == 2


def test_texts_of_a_pair() -> None:
    seen: list[Sequence[str]] = []

    class Seen:
        def allowed(self, document: Any, *, columns: Sequence[str]) -> range:
            seen.append(columns)
            return range(len(document))

    attack = attacks.Attack(
        name="swap", transformation=Synonyms(), search=Greedy(), pre_constraints=[Seen(), Once()]
    )
    outcome = run(samples=[(("good film", "plot"), 1)], recipe=attack)
    assert isinstance(outcome.records[0].adversarial, tuple)
    run(samples=[(("good film", "plot"), 1)], recipe=attack, columns=["premise", "hypothesis"])
    assert seen[0] == ("text", "text_pair")
    assert seen[-1] == ["premise", "hypothesis"]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "got no samples"),
        ([attacks.Sample(sample_id=1, text="a", label=0)] * 2, "the same sample_id"),
        ("a good film", "got one str as samples"),
        ({"text": "a"}, "got one dict as samples"),
        (["a good film"], "got 'a good film' as sample 0, expected"),
        ([("good", "film", 1)], r"as sample 0, expected \(text, class\)"),
        ([(("good", "film", "plot"), 1)], "got .* as text of sample 0, expected a string, or a"),
        ([(None, 1)], "got None as text of sample 0"),
        ([((None, "film"), 1)], "as text of sample 0"),
        ([("good", None)], "got label None of sample 0, expected the number"),
        ([("good", "positive")], "got label 'positive' of sample 0"),
        ([("good", "1")], "got label '1' of sample 0"),
        ([("good", 0.5)], "got label 0.5 of sample 0"),
        ([("good", 1), (("good", "film"), 1)], "got single texts and pairs"),
        ([{"sentence": "good", "label": 1}], "got row 0 with sentence, label, expected text"),
        ([{"text": "good", "class": 1}], "got row 0 with text, class, expected label"),
        ([{"text": None, "label": 1}], "got None as text"),
    ],
)
def test_samples_that_are_none(samples: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        run(samples=samples)
    assert "\n" not in str(caught.value)


def test_columns_name_every_text() -> None:
    with pytest.raises(ValueError, match=r"got columns \['a', 'b'\] for samples of 1 text"):
        run(columns=["a", "b"])


@pytest.mark.parametrize(
    ("rows", "columns", "text"),
    [
        ([{"text": "good film", "label": 1}], None, "good film"),
        ([{"sentence": "good film", "label": 1, "idx": 0}], ["sentence"], "good film"),
        ([{"text": "good", "text_pair": "film", "label": 1}], None, ("good", "film")),
        ([{"premise": "a", "hypothesis": "b", "label": 1}], ["premise", "hypothesis"], ("a", "b")),
        ([(["good", "film"], np.int64(1))], None, ("good", "film")),
        ([["good film", torch.tensor(1)]], None, "good film"),
    ],
)
def test_rows_of_data_sets(rows: Any, columns: Any, text: Text) -> None:
    (one,) = run(samples=rows, columns=columns).records
    assert (one.text, one.label) == (text, 1)
    assert type(one.label) is int


def test_a_model_that_is_none() -> None:
    with pytest.raises(TypeError, match="expected a module with predict_texts"):
        run(42)


def test_a_victim_without_gradients() -> None:
    attack = attacks.Attack(
        name="a2t", transformation=Synonyms(), search=Greedy(ranking="gradient"), white_box=True
    )
    with pytest.raises(TypeError, match="shows no gradients"):
        run(recipe=attack)
    assert run(BagVictim(), recipe=attack).records


def test_a_victim_that_fails_costs_what_was_in_flight_only(tmp_path: Path) -> None:
    calls = 0

    def fragile(texts: Sequence[Text]) -> list[list[float]]:
        nonlocal calls
        calls += 1
        if any("plot is" in str(text) for text in texts):
            msg = "broken pipe"
            raise RuntimeError(msg)
        return bag(texts)

    path, limits = tmp_path / "a.jsonl", attacks.Limits(in_flight=1)
    with pytest.raises(attacks.VictimError, match="RuntimeError: broken pipe"):
        run(fragile, path=path, limits=limits)
    assert [one.sample_id for one in read(path)[1]] == [0, 1]
    calls, before = 0, run(samples=TEXTS[:2])
    outcome = run(path=path, limits=limits)
    for name in ("outcome", "adversarial", "queries"):
        whole = [getattr(one, name) for one in run().records]
        assert [getattr(one, name) for one in outcome.records] == whole
        assert [getattr(one, name) for one in before.records] == whole[:2]


def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first = run(path=path)

    def never(texts: Sequence[Text]) -> list[list[float]]:
        raise AssertionError(texts)

    assert run(never, path=path).records == first.records


@pytest.mark.parametrize(
    "settings",
    [
        {"seed": 1},
        {"target": 0},
        {"score": "probability", "recipe": SWAP.aiming(Untargeted(score="probability"))},
        {"limits": attacks.Limits(query_budget=9)},
    ],
)
def test_a_file_of_other_settings(tmp_path: Path, settings: dict[str, Any]) -> None:
    path = tmp_path / "a.jsonl"
    run(path=path)
    if "target" in settings:
        settings = {"recipe": SWAP.aiming(make_goal(0))}
    with pytest.raises(ValueError, match="is about other settings"):
        run(path=path, **settings)


def test_samples_in_flight_are_no_other_settings(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    run(path=path)
    assert run(path=path, limits=attacks.Limits(in_flight=2)).records


def test_goals() -> None:
    assert make_goal() == Untargeted()
    assert make_goal(compat="textattack") == Untargeted(score="probability")
    assert make_goal(2, score="probability") == Targeted(target=2, score="probability")


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'attak'"):
        attacks.attak  # noqa: B018 # asking is the test
    assert all(hasattr(attacks, name) for name in attacks.__all__)


def test_a_bar_only_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, wanted in ((io.StringIO(), True), (Terminal(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        bar = Progress(2, "pwws", wanted=wanted)
        bar.asked(3)
        bar.add(record())
        bar.close()
        assert stream.getvalue() == ""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    bar = Progress(3, "pwws", before=[flipped(0)])
    for one in (record(1), skipped(2), record(3)):
        bar.asked(100)
        bar.add(one)
    assert bar.figures().startswith("accuracy under attack 0.500, ")
    assert bar.figures().endswith(" queries/s")
    monkeypatch.setattr("attacks.progress._EVERY", 0)
    bar.asked(1)
    bar.close()
    shown = stream.getvalue()
    assert "pwws" in shown
    assert "3/3" in shown
    assert "accuracy under attack 0.500" in shown


def test_a_watched_victim_can_do_what_it_could() -> None:
    counts: list[int] = []
    watched = Watched(BagVictim(), counts.append)
    assert watched.name == "bag"
    assert np.array_equal(watched.logits(["good", "bad"]), BagVictim().logits(["good", "bad"]))
    assert counts == [2]
    assert hasattr(watched, "word_weights")
    assert not hasattr(Watched(attacks.CallableVictim(bag), counts.append), "word_weights")


def test_random_attacks_depend_on_the_seed_alone() -> None:
    attack = attacks.Attack(
        name="letters", transformation=Letters(), search=Greedy(), pre_constraints=[Once()]
    )
    samples = TEXTS * 8
    found = [
        [(one.sample_id, one.outcome, one.adversarial, one.queries) for one in outcome.records]
        for outcome in (
            run(samples=samples, recipe=attack),
            run(samples=samples, recipe=attack, limits=attacks.Limits(in_flight=3)),
            run(samples=samples, recipe=attack, batch_size=2),
            run(samples=samples, recipe=attack, seed=1),
        )
    ]
    assert found[0] == found[1] == found[2]
    assert found[0] != found[3]


def test_a_hugging_face_model_needs_its_tokenizer() -> None:
    class Model(torch.nn.Module):
        config = None

    with pytest.raises(TypeError, match="without tokenizer"):
        run(Model())
