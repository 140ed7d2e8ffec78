"""Recipes, runs and tables of ASA's measurements, from the command line to the last cell."""

import json
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from app.cli.main import entry
from benchmarks import asa_tables, program_runs
from benchmarks.asa_runs import (
    METHODS,
    TASKS,
    Changes,
    Folder,
    Run,
    leaves,
    planned,
    recipe,
    tau_of,
)
from benchmarks.asa_tables import NOT_RUN, Tables
from layers.architectures import build_masked_lm
from layers.pretrained_encoders import save_model
from tests.unit.layers.small_encoders import ARCHITECTURES
from text import save_tokenizer, train_word_piece

WORDS = ("film", "plot", "good", "bad", "very", "is", "the", "was", "not", "dull")


def sentence(generator: random.Random, length: int = 6) -> list[str]:
    return generator.choices(WORDS, k=length)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """SST-2 and WNUT-17, in their layouts."""
    generator, folder = random.Random(0), tmp_path / "data"
    for split in ("train", "validation", "test"):
        for task in ("sst2", "wnut17"):
            (folder / task).mkdir(parents=True, exist_ok=True)
        lines = [f"{' '.join(sentence(generator))}\t{i % 2}\n" for i in range(12)]
        (folder / f"sst2/{split}.tsv").write_text(f"sentence\tlabel\n{''.join(lines)}")
        posts = []
        for _ in range(12):
            words = sentence(generator, generator.randint(3, 40))
            tags = ("B-person" if word == "film" else "O" for word in words)
            posts.append("".join(f"{w}\t{t}\n" for w, t in zip(words, tags, strict=True)))
        (folder / f"wnut17/{split}.conll").write_text("\n".join(posts))
    return folder


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """A BERT with random weights."""
    folder = tmp_path / "encoder"
    folder.mkdir()
    tokenizer = train_word_piece([" ".join(WORDS)], 60, max_length=24)
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "vocab_size": tokenizer.vocab_size}
    save_model(build_masked_lm({**ARCHITECTURES["bert"], **sizes}), folder)
    save_tokenizer(tokenizer, folder)
    return folder


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that are called, in this process, which saves the seconds of importing torch."""
    made: list[str] = []

    def call(command: str, options: list[str]) -> None:
        made.append(f"{command} {options[options.index('--run') + 1]}")
        try:
            assert entry([command, *options, "--trainer.accelerator=cpu"]) == 0
        finally:
            os.environ.pop("PL_GLOBAL_SEED", None)

    monkeypatch.setattr(program_runs, "call", call)
    # It is set for the runs.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return made


def cells(text: str, title: str) -> list[list[str]]:
    """The table below a title, without its head."""
    part = text.split(f"## {title}")[1].split("\n\n")[1]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines()[2:]]


@pytest.mark.long
def test_from_runs_to_tables(
    tmp_path: Path,
    data: Path,
    encoder: Path,
    calls: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs, out, figure = tmp_path / "runs", tmp_path / "out.json", tmp_path / "figure.png"
    common = ["--runs_dir", str(runs), "--group", "sst2", "wnut17", "mrpc"]
    given = ["--runs_dir", str(runs), "--data_dir", str(data), "--epochs", "1"]
    given += ["--encoder", str(encoder), "--set", "max_length=24", "lr=1e-2"]
    asa_tables.main([*given, "--group", "sst2", "--seeds", "0", "1"])
    kinds = ("fit", "test", "predict")
    names = [f"sst2-{method}-seed{seed}" for seed in (0, 1) for method in ("plain", "asa")]
    assert calls == [f"{kind} {name}" for name in names for kind in kinds]
    asa_tables.main([*given, "--group", "wnut17", "--seeds", "0"])
    # Finished runs are not repeated; the schedule is that of ASA.
    more = ["--methods", "scheduled", "freelb", "plain", "asa", "--tau", "0.1", "0.3"]
    calls.clear()
    asa_tables.main([*given, "--group", "sst2", "--seeds", "0", *more])
    names = ["sst2-scheduled-seed0", "sst2-freelb-seed0", "sst2-asa-tau0.1-seed0"]
    assert calls == [f"{kind} {name}" for name in names for kind in kinds]
    folder = Folder(runs)
    schedule = folder.recipe(Run("sst2", "scheduled", 0))["model"]["init_args"]["masking"][
        "schedule"
    ]
    assert schedule == folder.curve(Run("sst2", "asa", 0))
    assert len(schedule) == 2
    assert 0 < schedule[0] < 1
    capsys.readouterr()
    words = [*common, "--print", "--data_dir", str(data), "--out", str(out)]
    asa_tables.main([*words, "--figure", str(figure)])
    text = capsys.readouterr().out
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "- SST-2: encoder encoder, lr 0.01, batch 32, 1 epochs, warm-up 0.06, 24 tokens" in text
    main = cells(text, "ASA beside")
    assert [line[0] for line in main][:3] == ["plain", "ASA", "difference (95 %)"]
    assert all("(2)" in line[1] and "(1)" in line[2] for line in main[:2])
    assert [line[3] for line in main] == [NOT_RUN] * 9
    assert main[4][1].endswith("(least 0.50)")
    # Of a sweep there is one seed of one task.
    assert main[5][0] == "ASA, tau 0.1"
    assert "(1)" in main[5][1]
    assert main[5][2] == main[7][1] == NOT_RUN
    rules = cells(text, "Masking rules")
    assert [line[1] == NOT_RUN for line in rules] == [False, True, False, True, False]
    assert [line[1] == NOT_RUN for line in cells(text, "Adversarial")] == [
        False,
        False,
        True,
        False,
    ]
    sweep = cells(text, "tau")
    assert [line[0] for line in sweep] == ["0.1", "0.3", "0.5"]
    assert [NOT_RUN in line[1] for line in sweep] == [False, False, True]
    assert "% masked" in sweep[0][1]
    masks = cells(text, "Masked units")
    assert [line[:3] for line in masks[:2]] == [["SST-2", "0.3", "drawn"], ["SST-2", "0.3", "none"]]
    assert masks[0][-1] == "12"
    moved = cells(text, "Divergence")
    assert [line[:2] for line in moved] == [["SST-2", "0.1"], ["SST-2", "0.3"], ["WNUT-17", "0.5"]]
    assert all(float(line[2]) >= 0 <= float(line[3]) for line in moved)
    content = json.loads(out.read_text())
    assert len(content["runs"]) == 9
    assert set(content["masked"]) == {"sst2", "wnut17"}
    # Without the data: no comparisons, and what was measured of masks.
    asa_tables.main([*common, "--print"])
    without = capsys.readouterr().out
    assert cells(without, "ASA beside")[:2] == main[:2]
    assert cells(without, "ASA beside")[2][1:] == [NOT_RUN] * 4
    assert cells(without, "Masked units") == masks
    assert cells(without, "Divergence") == moved
    # With fewer samples they are measured anew.
    asa_tables.main([*words, "--mask_samples", "4"])
    assert cells(capsys.readouterr().out, "Masked units")[0][-1] != "4"
    # Other data than those that were tested on.
    lines = (data / "sst2/test.tsv").read_text().replace("\t1\n", "\t0\n")
    (data / "sst2/test.tsv").write_text(lines)
    with pytest.raises(ValueError, match=r"got predictions of run .* give the --data_dir"):
        asa_tables.main(words)
    with pytest.raises(ValueError, match=r"got trainer\.max_epochs 2 for run 'sst2-plain-seed0'"):
        asa_tables.main([*given, "--group", "sst2", "--epochs", "2"])


# Recipes

CURVE = [0.1, 0.2]


def test_names() -> None:
    for run in (Run("paws_qqp", "asa", 3), Run("sst2", "asa", 0, 0.1), Run("dream", "smart", 12)):
        assert Run.named(run.name) == run
    assert [Run.named(name) for name in ("pre-asa-seed0", "sst2-asa", "sst2-olsa-seed0")] == [
        None
    ] * 3


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_recipes_differ_in_the_method_alone(task: str, method: str) -> None:
    base = recipe(Run(task, "asa", 4), Changes())
    found = recipe(Run(task, method, 4), Changes(), curve=CURVE if method == "scheduled" else None)
    assert found.keys() == base.keys()
    assert all(found[part] == base[part] for part in ("data", "trainer", "checkpoint"))
    assert found["seed_everything"] == 4
    settings = found["model"]["init_args"]
    if method in ("freelb", "smart"):
        assert found["model"]["class_path"] == "AdversarialTraining"
        settings = settings["classifier"]["init_args"]
    settings, known = leaves(settings), leaves(base["model"]["init_args"])
    changed = {name for name in known | settings if known.get(name) != settings.get(name)}
    assert changed == {
        "asa": set(),
        "scheduled": {"masking.kind", "masking.schedule"},
        "bernoulli": {"masking.kind"},
        "magnitude": {"masking.kind"},
    }.get(method, {"masking.tau", "masking.penalty"})


def test_changes() -> None:
    changes = Changes("folder", 100, 7, {"lr": 1e-4, "pooling": "mean", "masking.share": 0.05})
    found = recipe(Run("sst2", "asa", 0, 0.6), changes)
    settings = leaves(found["model"]["init_args"])
    assert settings["optimisation.optimizer.init_args.lr"] == 1e-4
    assert settings["backbone.pretrained"] == "folder"
    assert (settings["pooling"], settings["masking.tau"]) == ("mean", 0.6)
    assert settings["masking.share"] == 0.05
    assert (found["data"]["init_args"]["limit_train"], found["trainer"]["max_epochs"]) == (100, 7)
    plain = recipe(Run("sst2", "plain", 0), changes)["model"]["init_args"]
    assert plain["pooling"] == "mean"
    assert "masking" not in plain
    assert tau_of(found) == 0.6
    for name in ("hidden_size", "masking", "masking.kind", "masking.tau"):
        with pytest.raises(ValueError, match=f"got --set {name}, expected lr or a setting of ASA"):
            recipe(Run("sst2", "asa", 0), Changes(settings={name: 1}))


def test_plan() -> None:
    runs = planned(["sst2", "wnut17"], ["smart", "asa"], [0, 1], taus=[0.3, 0.5])
    names = [run.name for run in runs]
    assert names[:6] == [
        *("sst2-asa-seed0", "sst2-smart-seed0", "sst2-asa-tau0.5-seed0"),
        *("wnut17-asa-seed0", "wnut17-smart-seed0", "wnut17-asa-tau0.3-seed0"),
    ]
    assert len(names) == 12
    assert planned(["sst2"], [], [0], taus=[0.3]) == [Run("sst2", "asa", 0)]


# Tables


def finished(folder: Path, run: Run, value: float) -> None:
    content = {"metrics": {f"test/{TASKS[run.task].shown}": value}, "seconds": {"test": 1.0}}
    (folder / run.name).mkdir(parents=True)
    (folder / run.name / "results.json").write_text(json.dumps(content))
    path = folder / "recipes" / f"{run.name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(recipe(run, Changes())))


def made(path: Path, values: dict[str, Sequence[float]]) -> Tables:
    for method, each in values.items():
        for seed, value in enumerate(each):
            finished(path, Run("stsb", method, seed), value)
    return Tables(Folder(path), ["stsb"])


def test_cells(tmp_path: Path) -> None:
    tables = made(tmp_path, {"plain": [0.8, 0.9], "asa": [0.95], "smart": []})
    assert tables.column("stsb", "plain").cell == "85.0 ± 7.1 (2)"
    assert tables.column("stsb", "asa").cell == "95.0 (1)"
    assert tables.column("stsb", "smart").cell == NOT_RUN
    lines = tables.main().splitlines()
    assert lines[0] == "| model | STS-B (spearman) | mean |"
    assert lines[2] == "| plain | 85.0 ± 7.1 (2) | 85.0 |"


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("asa", {"backbone_dropout": 0.3}, "backbone_dropout 0.3 for run 'stsb-asa-seed1'"),
        ("plain", {"lr": 0.5}, "optimisation.optimizer.lr 0.5 for run 'stsb-plain-seed1'"),
        ("freelb", {"lr": 0.5}, "optimisation.optimizer.lr 0.5 for run 'stsb-freelb-seed1'"),
        # ASA's own, which the others do not have.
        ("asa", {"symmetric": True}, "symmetric True for run 'stsb-asa-seed1'"),
    ],
)
def test_runs_of_other_settings_are_not_compared(
    tmp_path: Path, method: str, settings: dict[str, Any], message: str
) -> None:
    made(tmp_path, {name: [0.8, 0.9] for name in ("plain", "asa", "freelb")})
    run = Run("stsb", method, 1)
    changed = recipe(run, Changes(settings=settings))
    Folder(tmp_path).recipe_path(run).write_text(yaml.safe_dump(changed))
    expected = re.escape(f"got model.{message}, unlike 'stsb-asa-seed0', expected the same")
    with pytest.raises(ValueError, match=expected):
        Tables(Folder(tmp_path), ["stsb"])


def test_nothing_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asa_tables.main(["--print", "--runs_dir", str(tmp_path), "--group", "dream"])
    assert "| plain | - | - |" in capsys.readouterr().out
    with pytest.raises(ValueError, match="got no tasks to draw"):
        Tables(Folder(tmp_path), ["dream"]).draw(tmp_path / "figure.png")
    with pytest.raises(ValueError, match="got no finished run 'dream-asa-seed0', expected one"):
        Folder(tmp_path).make(Run("dream", "scheduled", 1), Changes())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--data_dir DIR and --encoder FOLDER"),
        (["--print", "--set", "pooling"], "expected NAME=VALUE"),
    ],
)
def test_what_is_missing(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        asa_tables.main(words)
    assert message in capsys.readouterr().err
