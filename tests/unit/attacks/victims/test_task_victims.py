"""Victims that are no classifiers: answers of plain transformers, exhaustive attacks, resuming."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import attacks
from attacks.composition import Attack
from attacks.search import Beam
from attacks.task_goals import EntitiesChanged, LabelsChanged, Moved
from attacks.victims.kinds import VictimError
from attacks.victims.task_victims import ChoiceVictim, ScoreVictim, TagVictim
from measure.named_victims import task_victim
from tests.unit.attacks.toys import Synonyms
from text.entities import entities

WORDS = "good bad film a in paris york smith".split()
TAGS = ("O", "B-X", "I-X", "B-Y", "I-Y")
TEXTS = ("a good film in paris", "bad york smith", "smith in a film", "paris york a bad bad film")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import transformers

    folder = tmp_path_factory.mktemp("models")
    letters = [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *(i[2:] for i in letters)]
    (folder / "vocab.txt").write_text("\n".join([*vocabulary, *letters]))
    heads: dict[str, dict[str, Any]] = {
        "TokenClassification": {"id2label": dict(enumerate(TAGS))},
        "SequenceClassification": {"id2label": {0: "score"}},
        "MultipleChoice": {},
    }
    for name, settings in heads.items():
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=len(vocabulary) + len(letters),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=24,
            initializer_range=0.5,
            **settings,
        )
        getattr(transformers, f"BertFor{name}")(config).save_pretrained(folder / name)
        tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=24)
        tokenizer.save_pretrained(folder / name)
    return folder


@cache
def plain_tagger(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    path = str(folder / "TokenClassification")
    model = AutoModelForTokenClassification.from_pretrained(path)
    return AutoTokenizer.from_pretrained(path), model.eval()


@torch.no_grad()
def plain_tags(folder: Path, words: Sequence[str]) -> tuple[str, ...]:
    """Tags of plain transformers, one text at a time: the first token of each word."""
    tokenizer, model = plain_tagger(folder)
    coded = tokenizer(list(words), is_split_into_words=True, return_tensors="pt")
    tags = model(**coded).logits[0].argmax(dim=-1).tolist()
    ids = coded.word_ids(0)
    return tuple(model.config.id2label[tags[ids.index(i)]] for i in range(len(words)))


def test_a_tagger_of_a_folder_answers_as_plain_transformers(folder: Path) -> None:
    victim = task_victim(str(folder / "TokenClassification"), "cpu")
    assert isinstance(victim, TagVictim)
    goal = EntitiesChanged(tags=tuple(victim.class_names))
    texts = [*TEXTS, "unknwon paris", " ".join(["a"] * 40), ""]
    answers = victim.logits(texts)
    predictions = [tuple(tags) for tags in goal.predictions(answers) if isinstance(tags, tuple)]
    for text, predicted in list(zip(texts, predictions, strict=True))[:-2]:
        assert predicted == plain_tags(folder, text.split())
    # 24 tokens are seen, two of them [CLS] and [SEP]; the other words are in no entity.
    assert len(answers[5].seen) == 22
    assert predictions[5][22:] == ("O",) * 18
    assert predictions[6] == ()
    alone = [victim.logits([text])[0].logits for text in TEXTS]
    for one, answer in zip(alone, answers, strict=False):
        assert answer.logits == pytest.approx(one, abs=1e-5)


def test_the_best_single_change_of_a_tagger_is_found(folder: Path) -> None:
    victim = task_victim(str(folder / "TokenClassification"), "cpu")
    goal = EntitiesChanged(tags=tuple(victim.class_names))
    golds = [
        tuple(tags)
        for text in TEXTS
        for tags in goal.predictions(victim.logits([text]))
        if isinstance(tags, tuple)
    ]
    # Some words must be free: all after the first two are in no entity.
    golds = [(*gold[:2], *["O"] * (len(gold) - 2)) for gold in golds]
    samples = [
        attacks.Sample(sample_id=i, text=text, label=gold)
        for i, (text, gold) in enumerate(zip(TEXTS, golds, strict=True))
    ]
    table = {word: [w for w in WORDS if w != word] for word in WORDS}
    attack = Attack(
        name="each", transformation=Synonyms(table), search=Beam(width=1, depth=1), goal=goal
    )
    outcome = attacks.attack(victim, samples, recipe=attack, goal=goal)
    for record, gold in zip(outcome.records, golds, strict=True):
        words = str(record.text).split()
        if entities(plain_tags(folder, words)) != entities(gold):
            assert record.outcome == "skipped"
            continue
        changed = [
            [*words[:i], word, *words[i + 1 :]]
            for i, tag in enumerate(gold)
            for word in table[words[i]]
            if tag == "O"
        ]
        wins = [w for w in changed if entities(plain_tags(folder, w)) != entities(gold)]
        assert record.outcome == ("succeeded" if wins else "failed")
        if wins:
            assert str(record.adversarial).split() in wins
            assert record.adversarial_prediction == plain_tags(
                folder, str(record.adversarial).split()
            )
    figures = outcome.summary.metrics()
    assert 0 <= figures["f1"] <= figures["clean_f1"] <= 1


class Stopping(ScoreVictim):
    """A model that fails after some questions."""

    left = 10**9

    def logits(self, texts: Sequence[Any]) -> Any:
        self.left -= 1
        if self.left < 0:
            msg = "stopped"
            raise VictimError(msg)
        return super().logits(texts)


def test_a_regression_resumes_to_the_same_records(folder: Path, tmp_path: Path) -> None:
    model = task_victim(str(folder / "SequenceClassification"), "cpu")
    assert isinstance(model, ScoreVictim)
    assert model.task == "regression"
    samples = [attacks.Sample(sample_id=i, text=t, label=0.5 * i) for i, t in enumerate(TEXTS)]
    victim = Stopping(model.model, model.tokenizer, name="score")

    def run(path: Path | None) -> list[dict[str, Any]]:
        outcome = attacks.attack(
            victim, samples, recipe="deepwordbug", goal=Moved(delta=0.4), in_flight=1, path=path
        )
        return [{**record.line(), "seconds": 0} for record in outcome.records]

    whole = run(None)
    numbers = model.logits([line["adversarial"] for line in whole])[:, 0]
    for line, number in zip(whole, numbers, strict=True):
        assert line["adversarial_prediction"] == pytest.approx(number, abs=1e-5)
        moved = abs(line["adversarial_prediction"] - line["prediction"])
        assert line["outcome"] == ("succeeded" if moved >= 0.4 else "failed")
    assert {line["outcome"] for line in whole} >= {"succeeded"}
    victim.left = 6
    with pytest.raises(VictimError, match="stopped"):
        run(tmp_path / "records.jsonl")
    victim.left = 10**9
    assert run(tmp_path / "records.jsonl") == whole
    with pytest.raises(ValueError, match="delta"):
        attacks.attack(
            victim,
            samples,
            recipe="deepwordbug",
            goal=Moved(delta=0.1),
            path=tmp_path / "records.jsonl",
        )


def test_choices_are_scored_as_plain_transformers_does(folder: Path) -> None:
    victim = task_victim(str(folder / "MultipleChoice"), "cpu")
    assert isinstance(victim, ChoiceVictim)
    choices = ["good film", "a bad york smith"]
    first = [TEXTS[0]] * 2
    coded = victim.tokenizer(first, choices, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = victim.model(**{k: v[None] for k, v in coded.items()}).logits[0].numpy()
    answer = victim.logits([(TEXTS[0], "\n".join(choices)), (TEXTS[1], "a\nin paris")])
    assert answer.shape == (2, 2)
    assert answer[0] == pytest.approx(expected, abs=1e-5)
    # Two and four choices are six, and not three for each.
    with pytest.raises(VictimError, match=r"got 2 and 4 choices, expected as many for each text"):
        victim.logits([(TEXTS[0], "a\nb"), (TEXTS[1], "a\nb\nin\nparis")])
    label = int(answer[0].argmax())
    sample = attacks.Sample(sample_id=0, text=(TEXTS[0], "\n".join(choices)), label=label)
    (record,) = attacks.attack(victim, [sample], recipe="deepwordbug").records
    assert isinstance(record.adversarial, tuple)
    assert isinstance(sample.text, tuple)
    assert record.adversarial[1] == sample.text[1]
    assert record.adversarial[0] != sample.text[0]


def test_a_goal_of_another_task_is_refused(folder: Path) -> None:
    tagger = task_victim(str(folder / "TokenClassification"), "cpu")
    sample = attacks.Sample(sample_id=0, text="a film", label=("O", "O"))
    with pytest.raises(VictimError, match=r"got the goal Untargeted for victim .* of tagging"):
        attacks.attack(tagger, [sample], recipe="deepwordbug")
    with pytest.raises(VictimError, match="got the goal LabelsChanged"):
        attacks.attack(tagger, [sample], recipe="deepwordbug", goal=LabelsChanged(names=("a",)))
    goal = EntitiesChanged(tags=TAGS)
    short = attacks.Sample(sample_id=0, text="a film", label=("O",))
    with pytest.raises(ValueError, match="got 1 tags for 2 words"):
        attacks.attack(tagger, [short], recipe="deepwordbug", goal=goal)
    strange = attacks.Sample(sample_id=0, text="a film", label=("O", "B-Z"))
    with pytest.raises(VictimError, match=r"got tags \['B-Z'\]"):
        attacks.attack(tagger, [strange], recipe="deepwordbug", goal=goal)
