"""Two processes on the CPU, as `--trainer.devices=2` starts them, do what one does."""

import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.faults.program import Piped
from tests.faults.settings import LISTS
from tests.integration.conftest import ATTACK, OLSA, lines, results
from tests.integration.several import QUIET, TWO, run, until, weights
from tests.unit.datamodules import characters
from tests.unit.datamodules.running_text import write

pytestmark = pytest.mark.distributed

# Rounding is not what is tested: Adam makes steps of gradients that are nothing else. And with odd
# sizes the last batch is shared out unevenly: 67 = 4 * 16 + 2 + 1; of 65 one process gets none.
FIT = [
    *QUIET,
    "--trainer.precision=64-true",
    "--trainer.max_epochs=2",
    "--trainer.accumulate_grad_batches=2",
    "--trainer.gradient_clip_val=0.5",
    "--trainer.log_every_n_steps=1",
    "--trainer.limit_val_batches=2",
    "--trainer.limit_test_batches=1",
    "--data=Reviews",
]
BERT = (
    '--model.backbone.architecture={"model_type": "bert", "hidden_size": 8, '
    '"num_hidden_layers": 2, "num_attention_heads": 2, '
    '"intermediate_size": 12, "max_position_embeddings": 128}'
)
NO_DROPOUT = '"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0'
ADVERSARIAL = [
    "--model=AdversarialTraining",
    "--model.classifier=TextClassifier",
    "--model.classifier.width=8",
    "--model.classifier.heads=2",
    "--model.classifier.dropout=0",
    "--data.limit_train=65",
]
RUNS = {
    "olsa": [*OLSA, "--data.limit_train=67"],
    "reward": [
        *OLSA,
        "--model.objective.loss=cross_entropy",
        "--model.depth=2",
        "--data.limit_train=67",
    ],
    "transformer": [
        "--model=TextClassifier",
        "--model.width=8",
        "--model.heads=2",
        "--model.dropout=0",
        "--data.limit_train=65",
    ],
    "unibert": [
        "--model=UniBERT",
        BERT,
        "--model.backbone.vocab_size=100",
        "--model.dropout=0",
        "--model.backbone_dropout=0",
        "--data.limit_train=65",
    ],
    "smart": [
        *ADVERSARIAL,
        "--model.adversary=SMART",
        "--model.adversary.epsilon=0.1",
        "--model.adversary.step_size=0.1",
        "--model.adversary.noise=0.01",
    ],
    "freelb": [*ADVERSARIAL, "--model.adversary=FreeLB", "--model.adversary.steps=3"],
    "text": [
        *ADVERSARIAL,
        "--model.adversary=TextAdversary",
        "--model.adversary.attack.recipe=deepwordbug",
        "--model.adversary.share=0.7",
        "--model.adversary.clean_weight=0.5",
    ],
    "tavat": [*ADVERSARIAL, "--model.adversary=TAVAT", "--model.adversary.steps=3"],
    "ascc": [
        *(*ADVERSARIAL, "--model.adversary=ASCC", f"--model.adversary.sets={LISTS}"),
        # From a step of 0.1 on, a difference in the last digit stays one.
        *("--model.adversary.steps=2", "--model.adversary.step_size=0.1"),
    ],
    "dne": [*ADVERSARIAL, "--model.adversary=DNE", f"--model.adversary.sets={LISTS}"],
    # Its votes have no gradient, which the attacks of the test follow.
    "ranmask": [*ADVERSARIAL, "--model.adversary=RanMASK", "--model.adversary.votes=0"],
    "temperature": [*ADVERSARIAL, "--model.adversary=TemperatureScaling"],
    "mrat": [
        *(*ADVERSARIAL, "--model.adversary=MRAT", "--model.adversary.attack.recipe=deepwordbug"),
        *("--model.adversary.clean_epochs=0", "--model.adversary.adversarial_share=0.3"),
    ],
    "encoded": [
        *("--model=EncodedScores", BERT.replace("}", f", {NO_DROPOUT}}}"), "--model.dropout=0"),
        *("--model.backbone.vocab_size=100", "--model.max_length=96", "--model.fidelity=0.2"),
        *("--model.robustness.against=synonyms", f"--model.robustness.lists={LISTS}"),
        *("--model.draws=2", "--data.limit_train=65"),
    ],
    "unlabelled": [
        *("--model=WordScores", "--model.unlabelled=answers.jsonl", "--data.limit_train=65")
    ],
}
"""Of classifiers."""
MASKED_LM = [
    *FIT[:-1],
    "--model=MaskedLM",
    BERT.replace("}", f", {NO_DROPOUT}}}"),
    "--model.backbone.vocab_size=60",
    "--model.unitary.method=qr",
    "--data=RunningText",
    "--data.files=text/*.txt",
    "--data.cache_dir=packed",
    "--data.length=16",
    "--data.limit_tokens=1200",
]
ASA = [
    "--model=ASA",
    BERT,
    "--model.backbone.vocab_size=80",
    "--model.dropout=0",
    "--model.backbone_dropout=0",
    "--model.masking.initial_keep=0.6",
    "--model.masking.tau=10",
]
OTHER = [*FIT[:-1], *ASA, "--data.data_dir=data"]
RUNS["asa"] = [*ASA, "--data.limit_train=65"]
CHARACTERS = [
    *FIT[:-1],
    "--model=CharacterLM",
    "--model.attention=l2_contractive",
    *("--model.width=8", "--model.heads=2", "--model.depth=1", "--model.hidden=16"),
    *("--model.dropout=0", "--model.optimisation.warmup=4"),
    *("--data=PTBCharacters", "--data.data_dir=data"),
]
TASKS = {
    "char_lm": CHARACTERS,
    "masked_lm": MASKED_LM,
    "asa_pretraining": [*MASKED_LM, "--model=ASAPretraining", "--model.masking.initial_keep=0.6"],
    "regression": [*OTHER, "--data=STSB"],
    "tagging": [*OTHER, "--data=WNUT17"],
    "choice": [*OTHER, "--data=HellaSwag"],
}
"""What is no classification."""
QUICK = ("olsa", "unibert", "text", "tavat", "tagging")
"""In the default run: an own encoder, a pretrained one, two adversaries, ASA on another task."""
REST = tuple(name for name in (*RUNS, *TASKS) if name not in QUICK)
HALVES = [*TWO, "--data.batch_size=8", "--data.eval_batch_size=48"]
WHOLE = ["--data.batch_size=16", "--data.eval_batch_size=96"]
FEW = {1: "one", 5: "five"}
CLOCK = ("_per_second", "/attack_share", "/adversarial_seconds")


def write_tasks(folder: Path) -> None:
    """Small corpora of the tasks, 65 samples to train on: one process gets none of the last."""
    words = "anna went to paris and bought a red lamp".split()

    def sentence(i: int) -> list[str]:
        return [words[(i * step + step) % len(words)] for step in range(1, 4 + i % 5)]

    for split, count in (("train", 65), ("validation", 9), ("test", 11)):
        scores = [f"g\tf\t{(i % 11) / 2}\t{' '.join(sentence(i))}\tit is {i}" for i in range(count)]
        tags = [
            "".join(f"{word}\t{'B-person' if word == 'anna' else 'O'}\n" for word in sentence(i))
            for i in range(count)
        ]
        choices = [
            json.dumps({"ctx": " ".join(sentence(i)), "label": i % 4, "endings": words[:4]})
            for i in range(count)
        ]
        for name, content in {
            f"stsb/{split}.tsv": "\n".join(["genre\tfile\tscore\tsentence1\tsentence2", *scores]),
            f"wnut17/{split}.conll": "\n".join(tags),
            f"hellaswag/{split}.jsonl": "\n".join(choices),
        }.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content + "\n")


def write_corpora(where: Path) -> None:
    texts = [
        f"{word} film {i}\t{i % 2}" for i, word in enumerate("good bad fine long dull".split())
    ]
    for count, name in FEW.items():
        (where / f"{name}.tsv").write_text("\n".join(["text\tlabel", *texts[:count]]) + "\n")
    (where / "train.tsv").write_text("\n".join(["text\tlabel", *texts, *texts]) + "\n")
    # 23 to 5 batches: one process has 3 of them, the other one 2.
    answers = [
        {"text": f"{text} film", "prediction": "positive", "probability": 0.6 + i / 60}
        for i, text in enumerate((8 * ["good", "bad", "fine"])[:23])
    ]
    (where / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    (where / "text").mkdir()
    write(where / "text")
    write_tasks(where / "data")
    characters.write(where / "data" / "ptb_characters", train=65, other=9)


def trainings(kind: str, more: list[str], names: Sequence[str]) -> list[list[str]]:
    given = TASKS | {name: [*FIT, *settings, *ATTACK] for name, settings in RUNS.items()}
    return [["train", *given[name], *more, f"--run={kind}-{name}"] for name in names]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the runs `two-*` of two processes and `one-*` of one process."""
    where = tmp_path_factory.mktemp("distributed")
    write_corpora(where)

    def commands(kind: str, more: list[str]) -> list[list[str]]:
        predict = ["predict", *QUIET, *more[: -2 if kind == "one" else 2], f"--run={kind}-olsa"]
        few = [
            [
                "train",
                *(*QUIET, *OLSA, *ATTACK, "--trainer.max_epochs=1", "--data=TextFiles", *more),
                *("--data.train=train.tsv", "--data.validation=one.tsv", f"--data.test={name}.tsv"),
                f"--run={kind}-{name}",
            ]
            for name in FEW.values()
        ]
        return [*trainings(kind, more, QUICK), predict, *few]

    nameless = ["fit", *OLSA, *QUIET, *TWO, "--data=Reviews", "--trainer.max_steps=1"]
    out, _ = run([nameless, *commands("two", HALVES)], where=where)
    assert out.count("_OLSA_Reviews\n") == 1
    run(commands("one", WHOLE), where=where)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        yield where


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same for the methods that the default run leaves out."""
    where = tmp_path_factory.mktemp("distributed")
    write_corpora(where)
    run(trainings("two", HALVES, REST), where=where)
    run(trainings("one", WHOLE, REST), where=where)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        yield where


def scalars(name: str) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows of a run, by name: steps and values."""
    # One process wrote the files of all runs: their names are not in the order of their making.
    events = EventAccumulator(
        f"runs/{name}", size_guidance={"scalars": 0}, purge_orphaned_data=False
    )
    events.Reload()
    return {
        tag: sorted((event.step, event.value) for event in events.Scalars(tag))
        for tag in events.Tags()["scalars"]
        if not tag.startswith("hp/") and not tag.endswith(CLOCK)
    }


def records_of(name: str) -> list[str]:
    """Files with a line for each sample; a method without certificate has no certificates."""
    certified = "--model=OLSA" in RUNS.get(name, OLSA)
    assert Path(f"runs/one-{name}/certificates.jsonl").is_file() == certified
    return ["pgd.jsonl", *(["certificates.jsonl"] if certified else [])]


def assert_close(two: list[dict[str, Any]], one: list[dict[str, Any]]) -> None:
    assert len(two) == len(one)
    for first, second in zip(two, one, strict=True):
        assert first.keys() == second.keys()
        for key, value in second.items():
            if key == "checkpoint":  # of each run's own
                continue
            if isinstance(value, float | list):
                assert first[key] == pytest.approx(value, rel=1e-6, abs=1e-6), key
            else:
                assert first[key] == value, key


def assert_same_training(where: Path, name: str) -> None:
    two, one = scalars(f"two-{name}"), scalars(f"one-{name}")
    assert two.keys() == one.keys()
    # Five batches, two to a step: three steps in each of two epochs, all of them logged.
    assert [step for step, _ in one["train/loss"]] == list(range(6))
    for tag, values in one.items():
        assert [step for step, _ in two[tag]] == [step for step, _ in values], tag
        expected = pytest.approx([value for _, value in values], rel=1e-6, abs=1e-6)
        assert [value for _, value in two[tag]] == expected, tag
    first, second = (weights(where / "runs" / f"{kind}-{name}") for kind in ("two", "one"))
    assert first.keys() == second.keys()
    for key, tensor in second.items():
        torch.testing.assert_close(first[key], tensor, rtol=0, atol=1e-6, msg=key)


@pytest.mark.parametrize("name", QUICK)
def test_training_is_the_same(both: Path, name: str) -> None:
    assert_same_training(both, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", REST)
def test_training_of_every_other_method_is_the_same(rest: Path, name: str) -> None:
    assert_same_training(rest, name)


def assert_same_measurements(name: str) -> None:
    assert_close([results(f"two-{name}")["metrics"]], [results(f"one-{name}")["metrics"]])
    if name in TASKS:  # have nothing else to say of a sample
        return
    for file in records_of(name):
        two, one = lines(f"runs/two-{name}/{file}"), lines(f"runs/one-{name}/{file}")
        assert [record["sample_id"] for record in one] == sorted({r["sample_id"] for r in one})
        assert len(one) == 96
        assert_close(two, one)


@pytest.mark.parametrize("name", QUICK)
def test_measurements_are_the_same(both: Path, name: str) -> None:
    assert_same_measurements(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", REST)
def test_measurements_of_every_other_method_are_the_same(rest: Path, name: str) -> None:
    assert_same_measurements(name)


def test_predictions_are_the_same(both: Path) -> None:
    two, one = lines("runs/two-olsa/predictions.jsonl"), lines("runs/one-olsa/predictions.jsonl")
    assert [record["sample_id"] for record in one] == list(range(1000))
    assert_close(two, one)


@pytest.mark.parametrize("name", FEW.values())
def test_every_sample_counts_once(both: Path, name: str) -> None:
    count = {name: count for count, name in FEW.items()}[name]
    assert_close([results(f"two-{name}")["metrics"]], [results(f"one-{name}")["metrics"]])
    for file in records_of(name):
        two, one = lines(f"runs/two-{name}/{file}"), lines(f"runs/one-{name}/{file}")
        assert [record["sample_id"] for record in two] == list(range(count))
        assert_close(two, one)
    wanted = results(f"one-{name}")["metrics"]
    attacked = lines(f"runs/two-{name}/pgd.jsonl")
    right = [record["prediction"] == record["label"] for record in attacked]
    assert wanted["test/accuracy"] == pytest.approx(sum(right) / count)
    survived = [record["survived"] for record in attacked]
    assert wanted["test/pgd_accuracy"] == pytest.approx(sum(survived) / count)
    for record in attacked:
        assert record["survived"] == (record["label"] == record["pgd_prediction"])


def test_two_processes_agree_on_a_name(both: Path) -> None:
    """Only the first makes one up."""
    names = [path.name for path in (both / "runs").iterdir()]
    assert len([name for name in names if name.endswith("OLSA_Reviews")]) == 1


def test_nothing_is_left_of_the_parts(both: Path) -> None:
    assert not list(both.rglob("*.parts"))


@pytest.mark.slow
def test_three_samples_on_four_processes(both: Path) -> None:
    rows = (both / "five.tsv").read_text().splitlines()[:4]
    (both / "three.tsv").write_text("\n".join(rows) + "\n")
    source = [*QUIET, "--ckpt_path=runs/one-five/checkpoints/best.ckpt", "--data=TextFiles"]
    source += ["--data.test=three.tsv", '--data.classes=["0", "1"]']
    four = ["--trainer.devices=4", "--trainer.strategy=ddp"]
    names = ("certify", "test", "predict")
    run([[name, *source, *four, f"--run=four-{name}"] for name in names], where=both)
    run([[name, *source, f"--run=alone-{name}"] for name in names], where=both)
    for name, file in zip(names, ("certificates", "pgd", "predictions"), strict=True):
        four_ranks, alone = (
            lines(f"runs/{kind}-{name}/{file}.jsonl") for kind in ("four", "alone")
        )
        assert [record["sample_id"] for record in alone] == [0, 1, 2]
        assert_close(four_ranks, alone)
        if name != "predict":
            assert_close(
                [results(f"four-{name}")["metrics"]], [results(f"alone-{name}")["metrics"]]
            )


@pytest.mark.slow
@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_first_process_stops_both(
    here: Path, signum: signal.Signals, status: int
) -> None:
    program = Piped(
        "fit",
        *OLSA,
        *QUIET,
        *TWO,
        "--data=Reviews",
        "--data.batch_size=2",
        "--trainer.max_epochs=1000",
        "--checkpoint_every_n_minutes=0.001",
        "--run=a",
    )
    last = Path("runs/a/checkpoints/last.ckpt")
    until(last.exists, program)
    program.send_signal(signum)
    _, err = program.communicate()
    assert program.returncode == status, err
    assert err.count("saved ") == 1
    assert torch.load(last, weights_only=True)["global_step"] > 0


@pytest.mark.slow
def test_an_error_is_said_and_leaves_no_process(here: Path) -> None:
    program = Piped("fit", *OLSA, *QUIET, *TWO, "--data=SST2", "--data.data_dir=nowhere", "--run=a")
    _, err = program.communicate()  # ends only when no process holds the other end any more
    assert program.returncode != 0
    assert "error: " in err
    assert "nowhere" in err
