"""The one call: ours, Hugging Face and functions; records that outlive a victim that fails."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attacks
from attacks.constraints import EditDistance
from attacks.constraints.preconstraints import StopWords
from attacks.goals import Targeted, Untargeted, make_goal
from attacks.interface import retarget
from attacks.progress import CountedVictim, Progress
from attacks.search import Greedy
from tests.unit.attacks.outcomes import flipped, read_journal, record, skipped
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
        (
            [("broken \ud800 text", 1)],
            r"got 'broken \\ud800 text' .* half a surrogate pair, expected",
        ),
        ([(("good", "\udc00"), 1)], "as text of sample 0, with half a surrogate pair"),
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

    path = tmp_path / "a.jsonl"
    with pytest.raises(attacks.VictimError, match="RuntimeError: broken pipe"):
        run(fragile, path=path, in_flight=1)
    assert [one.sample_id for one in read_journal(path)[1]] == [0, 1]
    calls, before = 0, run(samples=TEXTS[:2])
    outcome = run(path=path, in_flight=1)
    for name in ("outcome", "adversarial", "queries"):
        whole = [getattr(one, name) for one in run().records]
        assert [getattr(one, name) for one in outcome.records] == whole
        assert [getattr(one, name) for one in before.records] == whole[:2]


def test_of_what_is_done_only_the_answers_are_compared(tmp_path: Path) -> None:
    path, first = tmp_path / "a.jsonl", run()
    assert run(path=path).records != []
    asked: list[Text] = []

    def watched(texts: Sequence[Text]) -> list[list[float]]:
        asked.extend(texts)
        return bag(texts)

    again = run(watched, path=path).records
    texts = {one.text for one in again} | {one.adversarial for one in again if one.adversarial}
    assert sorted(map(str, asked)) == sorted(map(str, texts))
    assert [one.adversarial for one in again] == [one.adversarial for one in first.records]


class Small(torch.nn.Module):
    """Words and their weights."""

    def __init__(self) -> None:
        super().__init__()
        self.good = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, texts: Sequence[Text]) -> Any:
        return torch.stack(
            [self.good * torch.tensor([-1.0, 1.0]) * (value(text) - 0.5) for text in texts]
        )


def hard(texts: Sequence[Text]) -> list[list[float]]:
    return [[0.0, 1.0] if value(text) > 0 else [1.0, 0.0] for text in texts]


def stubborn(texts: Sequence[Text]) -> list[list[float]]:
    """The same on all clean texts, with margins as in `hard`."""
    clean = {text for text, _ in TEXTS}
    return [
        row if text in clean else [0.0, 1.0] for text, row in zip(texts, hard(texts), strict=True)
    ]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (bag, lambda texts: [[2 * a, 2 * b] for a, b in bag(texts)], "of another victim: sample"),
        (bag, lambda texts: [[b, a] for a, b in bag(texts)], "of another victim: sample 0 has cl"),
        (hard, stubborn, "for 'a solid film with a plot', where the victim answers class 1"),
        (
            attacks.CallableVictim(bag, name="v1"),
            attacks.CallableVictim(bag, name="v2"),
            r'other settings \(victim.name "v1" -> "v2"\)',
        ),
        (bag, lambda texts: [[*row, -9.0] for row in bag(texts)], None),
    ],
)
def test_records_of_another_victim(
    first: Any, second: Any, message: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    before = run(first, path=path)
    if message is None:  # a class that nothing comes near to changes no answer
        assert run(second, path=path).records == before.records
        return
    content = path.read_bytes()
    with pytest.raises(ValueError, match=message) as caught:
        run(second, path=path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content
    assert run(first, path=path).records == before.records


def test_weights_that_have_changed(tmp_path: Path) -> None:
    path, model = tmp_path / "a.jsonl", Small()
    run(model, path=path)
    assert run(model, path=path).records
    with torch.no_grad():
        model.good.add_(1e-6)  # less than a score tells
    with pytest.raises(ValueError, match=r"about other settings \(victim\.module\.weights"):
        run(model, path=path)
    ours = attached(METHODS["transformer"], classes=2)
    run(ours, path=tmp_path / "b.jsonl")
    next(ours.parameters()).data.add_(1.0)
    with pytest.raises(ValueError, match=r"victim\.module\.weights"):
        run(ours, path=tmp_path / "b.jsonl")


@pytest.mark.parametrize(
    "samples",
    [TEXTS[1:], [("a good film with a story", 1), *TEXTS[1:]], [(TEXTS[0][0], 0), *TEXTS[1:]]],
)
def test_other_samples_of_the_same_ids(samples: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    run(path=path)
    with pytest.raises(ValueError, match="where sample 0 is 'a good film with a plot' of class 1"):
        run(path=path, samples=samples)


def test_more_and_fewer_samples_are_the_same_attack(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    two = run(path=path, samples=TEXTS[:2]).records
    four = run(path=path).records
    assert four[:2] == two
    assert run(path=path, samples=TEXTS[:1]).records == two[:1]


def composed(**settings: Any) -> attacks.Attack:
    parts: dict[str, Any] = {"transformation": Synonyms(), "search": Greedy(), **settings}
    return attacks.Attack(name="swap", **{"pre_constraints": [Once()], **parts})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": 1}, "seed 0 -> 1"),
        ({"target": 0}, r'attack.goal "Untargeted" -> "Targeted"'),
        ({"score": "probability"}, r'attack.goal.score "margin" -> "probability"'),
        ({"query_budget": 9}, "query_budget null -> 9"),
        (
            {"recipe": composed(transformation=Synonyms({"good": ("bad",)}))},
            "attack.transformation.table",
        ),
        ({"recipe": composed(search=Greedy(ranking="unk"))}, "attack.search.ranking"),
        ({"recipe": composed(constraints=[EditDistance(9)])}, "attack.constraints"),
        ({"recipe": composed(pre_constraints=[StopWords(["a"])])}, "attack.pre_constraints.0"),
    ],
)
def test_a_file_of_other_settings(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    path = tmp_path / "a.jsonl"
    run(path=path)
    assert run(path=path, recipe=composed()).records  # composed anew, it is the same
    with pytest.raises(ValueError, match=f"is about other settings .*{message}") as caught:
        run(path=path, **settings)
    assert len(str(caught.value)) < 700


def test_a_target_for_a_composed_attack() -> None:
    outcome = run(lambda texts: [[*row, -5.0] for row in bag(texts)], target=2)
    assert {one.outcome for one in outcome.records if one.prediction == one.label} == {"failed"}
    assert [one.outcome for one in run(target=0).records] == [
        "succeeded",
        "skipped",
        "succeeded",
        "skipped",
    ]
    # What the attack is after stays, if nothing is said.
    aimed = SWAP.aiming(Targeted(target=0))
    assert run(recipe=aimed).records[1].outcome == "skipped"
    assert retarget(aimed, score="probability").goal == Targeted(target=0, score="probability")
    assert retarget(aimed, target=1).goal == Targeted(target=1)
    assert retarget(aimed) is retarget(aimed, compat="none", score="margin") is aimed


def test_the_score_of_a_composed_attack() -> None:
    (one, *_) = run(score="probability").records
    assert one.score == pytest.approx(1 / (1 + np.exp(3.0)))

    class Own:
        score = "margin"

        def judge(self, logits: Any, labels: Any, *, probabilities: Any = None) -> Any:
            return Untargeted().judge(logits, labels, probabilities=probabilities)

        def reached(self, logits: Any, labels: Any) -> Any:
            return Untargeted().reached(logits, labels)

    own: Any = Own()
    with pytest.raises(ValueError, match="whose goal is a Own, expected Untargeted or Targeted"):
        run(recipe=SWAP.aiming(own), score="probability")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"compat": "textattack"}, "got compat='textattack' for the composed attack swap, whose"),
        ({"resources": "."}, "got resources='.' and the composed attack swap"),
    ],
)
def test_settings_that_a_composed_attack_cannot_have(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run(**settings)


def test_nothing_is_written_where_the_attack_cannot_begin(tmp_path: Path) -> None:
    white = attacks.Attack(
        name="a2t", transformation=Synonyms(), search=Greedy(ranking="gradient"), white_box=True
    )
    with pytest.raises(TypeError, match="shows no gradients"):
        run(recipe=white, path=tmp_path / "a.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_samples_in_flight_are_no_other_settings(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    run(path=path)
    assert run(path=path, in_flight=2).records


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
        bar = Progress(2, "pwws", visible=wanted)
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
    watched = CountedVictim(BagVictim(), counts.append)
    assert watched.name == "bag"
    assert np.array_equal(watched.logits(["good", "bad"]), BagVictim().logits(["good", "bad"]))
    assert counts == [2]
    assert hasattr(watched, "word_weights")
    assert not hasattr(CountedVictim(attacks.CallableVictim(bag), counts.append), "word_weights")


def test_random_attacks_depend_on_the_seed_alone() -> None:
    attack = attacks.Attack(
        name="letters", transformation=Letters(), search=Greedy(), pre_constraints=[Once()]
    )
    samples = TEXTS * 8
    found = [
        [(one.sample_id, one.outcome, one.adversarial, one.queries) for one in outcome.records]
        for outcome in (
            run(samples=samples, recipe=attack),
            run(samples=samples, recipe=attack, in_flight=3),
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
