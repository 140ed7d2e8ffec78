import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonargparse import ArgumentParser
from pytorch_lightning.cli import LightningCLI

import datamodules
import lit_modules
from app.cli.robust_cli import RobustCLI
from lit_modules.adversaries import ADVERSARIES as ADVERSARIES_BY_NAME
from lit_modules.shared.settings import parameters
from tests.integration.conftest import OLSA, REVIEWS, ROOT, TINY, Outcome, Steadfast

UNIBERT = ROOT / "configs" / "unibert"
# Second configurations: they change another one.
ADVERSARIAL = ROOT / "configs" / "adversarial"
ADVERSARIES = sorted((ADVERSARIAL / "adversaries").glob("*.yaml"))
OVERLAYS = sorted([*(UNIBERT / "trims").glob("*.yaml"), UNIBERT / "small.yaml"])
DETECTORS = ROOT / "configs" / "detectors"
# Halves of a configuration: a model and a corpus.
HALVES = sorted(DETECTORS.glob("*/*.yaml"))
CHAR_LM = ROOT / "configs" / "char_lm"
KINDS_OF_CHAR_LM = sorted(set(CHAR_LM.glob("*.yaml")) - {CHAR_LM / "base.yaml"})
# Those of attacks are no settings of a run: tests/unit/measure/test_attack_settings.py.
CONFIGS = sorted(
    path
    for path in (ROOT / "configs").rglob("*.yaml")
    if path.relative_to(ROOT / "configs").parts[0] not in ("attack", "studies", "cluster")
    and path not in [*OVERLAYS, *ADVERSARIES, *HALVES, *KINDS_OF_CHAR_LM]
)
CORPORA_OF_UNIBERT = ("ag_news", "snli", "sst2", "yelp")
CORPORA = sorted(
    name
    for name, found in vars(datamodules).items()
    if isinstance(found, type) and issubclass(found, datamodules.TextDataModule)
)
CORPORA.remove("TextDataModule")
COMMANDS = ("train", "fit", "validate", "test", "certify", "attack", "predict")


def test_print_config_round_trip(here: Path, steadfast: Steadfast) -> None:
    arguments = [*OLSA, *REVIEWS, *TINY, "--trainer.max_epochs=3", "--model.objective.gamma=1.5"]
    first = steadfast("train", arguments, "--pgd.epsilon=0.5", "--print_config")
    assert first.status == 0
    Path("c.yaml").write_text(first.out)
    second = steadfast("train", "--config=c.yaml", "--print_config")
    assert second.out == first.out
    content = yaml.safe_load(first.out)
    assert content["model"]["class_path"] == "lit_modules.OLSA"
    assert content["model"]["init_args"]["objective"]["gamma"] == 1.5
    assert content["trainer"]["max_epochs"] == 3


def optimizer(outcome: Outcome) -> tuple[str, dict[str, Any]]:
    """The class of the optimiser in printed settings, and its own settings."""
    content = yaml.safe_load(outcome.out)
    found = content["model"]["init_args"]["optimisation"]["optimizer"]
    return found["class_path"], found["init_args"]


def test_an_optimiser_has_its_own_defaults(here: Path, steadfast: Steadfast) -> None:
    """The weight decay of AdamW, which nobody asked for, is not that of Adam."""
    usual = steadfast("fit", [*OLSA, *REVIEWS], "--print_config")
    assert optimizer(usual)[1]["weight_decay"] == 0.01
    name = "model.optimisation.optimizer"
    Path("c.yaml").write_text(
        "model: {class_path: OLSA, init_args: {optimisation: {optimizer: "
        "{class_path: torch.optim.Adam, init_args: {lr: 0.5}}}}}\n"
    )
    for chosen in ([f"--{name}=Adam", f"--{name}.lr=0.5"], ["--config=c.yaml"]):
        path, settings = optimizer(steadfast("fit", [*OLSA, *REVIEWS], chosen, "--print_config"))
        assert (path, settings["weight_decay"], settings["lr"]) == ("torch.optim.Adam", 0.0, 0.5)


def test_what_was_given_to_an_optimiser_is_given_to_the_next(
    here: Path, steadfast: Steadfast
) -> None:
    name = "model.optimisation.optimizer"
    given = [f"--{name}.lr=0.5", f"--{name}.weight_decay=0.2", f"--{name}=Adam"]
    path, settings = optimizer(steadfast("fit", [*OLSA, *REVIEWS], given, "--print_config"))
    assert (path, settings["weight_decay"], settings["lr"]) == ("torch.optim.Adam", 0.2, 0.5)


def test_overrides_beat_the_file(here: Path, steadfast: Steadfast) -> None:
    Path("c.yaml").write_text(
        "model:\n  class_path: OLSA\n  init_args:\n    objective:\n      gamma: 3\ndata: Reviews\n"
    )
    overrides = ["--model.objective.gamma=1.0", "--data.batch_size=64", "--trainer.max_epochs=3"]
    outcome = steadfast("fit", "--config=c.yaml", overrides, "--print_config")
    content = yaml.safe_load(outcome.out)
    assert content["model"]["init_args"]["objective"]["gamma"] == 1.0
    assert content["data"]["init_args"]["batch_size"] == 64
    assert content["trainer"]["max_epochs"] == 3


def parsers(monkeypatch: pytest.MonkeyPatch) -> dict[str, ArgumentParser]:
    """The real parsers, without running anything."""
    monkeypatch.setattr(LightningCLI, "parse_arguments", stop)
    monkeypatch.setattr(RobustCLI, "parse_arguments", stop)
    cli = RobustCLI.__new__(RobustCLI)
    with pytest.raises(Parsed):
        RobustCLI.__init__(cli, [])
    found: dict[str, ArgumentParser] = dict(cli._subcommand_parsers)
    return found


class Parsed(Exception):
    pass


def stop(*_: Any) -> None:
    raise Parsed


def undocumented(parser: ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.dest.endswith(("help", "print_config")) or action.help == argparse.SUPPRESS:
            continue
        text = re.sub(r"\(.*", "", str(action.help or "")).strip()
        if len(text) < 5:
            yield action.dest


def test_every_setting_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    for command, parser in parsers(monkeypatch).items():
        assert list(undocumented(parser)) == [], command


@pytest.mark.parametrize("command", COMMANDS)
def test_help(here: Path, steadfast: Steadfast, command: str) -> None:
    outcome = steadfast(command, "--help")
    assert outcome.status == 0
    text = " ".join(outcome.out.split())
    assert "Name of the run" in text
    assert "--trainer.help" in text
    assert "--trainer.barebones" not in text
    for setting in ("--checkpoint.monitor", "--trainer.max_epochs"):
        assert (setting in text) == (command in ("train", "fit"))
    for name in (*lit_modules.METHODS, *datamodules.CORPORA):
        assert f" {name}," in text
    if command in ("train", "test"):
        assert "Radius of the ball around each embedded text" in text
    if command == "certify":
        assert "Formula of the Lipschitz constant" in text


def test_help_of_the_trainer(steadfast: Steadfast) -> None:
    outcome = steadfast("train", "--trainer.help")
    assert outcome.status == 0
    assert {"--trainer.barebones", "--trainer.max_epochs"} <= set(outcome.out.split())
    assert "--model" not in outcome.out


@pytest.mark.parametrize("name", [*lit_modules.METHODS])
def test_model_help(here: Path, steadfast: Steadfast, name: str) -> None:
    outcome = steadfast("fit", f"--model.help={name}")
    assert outcome.status == 0
    settings = set(re.findall(r"--model\.([\w.]+\w)", outcome.out)) - {"help"}
    own = {
        "OLSA": {"objective.gamma", "layers.bound", "width", "max_length"},
        "TextClassifier": {"objective.gamma", "width", "max_length"},
        "AdversarialTraining": {"adversary", "classifier", "init_from"},
        "FineTuning": {"backbone.pretrained", "backbone.architecture", "pooling", "max_length"},
        "CharacterLM": {"attention", "base_rate", "width", "max_length"},
        "ASA": {"backbone.vocab_size", "masking.tau", "masking.schedule", "max_length"},
        "WordScores": {"window", "robustness.lists", "max_length"},
        "EncodedScores": {"backbone.pretrained", "fidelity", "robustness.kappa", "max_length"},
        "MonotoneScores": {"window", "positive", "l1", "robustness.lists"},
        "WindowMax": {"classifier", "positive", "pool", "words"},
        "TextCNN": {"pooling", "robustness.lists", "max_length"},
        "LipsLev": {"kernel", "norm", "max_length"},
    }.get(name, {"backbone.pretrained", "unitary.method", "max_length"})
    assert {"optimisation.optimizer"} | own <= settings


@pytest.mark.parametrize("name", ADVERSARIES_BY_NAME)
def test_adversary_help(here: Path, steadfast: Steadfast, name: str) -> None:
    outcome = steadfast("fit", "--model=AdversarialTraining", f"--model.adversary.help={name}")
    assert outcome.status == 0
    assert outcome.out.startswith(
        f"Help for --model.adversary.help=lit_modules.adversaries.{name}\n"
    )
    shown = set(re.findall(r"--model\.adversary\.(\w+)", outcome.out))
    assert set(parameters(ADVERSARIES_BY_NAME[name])) <= shown
    assert "--adversary" not in outcome.out


def test_help_of_a_class_two_levels_down(here: Path, steadfast: Steadfast) -> None:
    outer = "--model.classifier"
    outcome = steadfast(
        "fit",
        "--model=AdversarialTraining",
        f"{outer}=TextClassifier",
        f"{outer}.optimisation.optimizer.help=Adam",
    )
    assert outcome.status == 0
    assert f"\n  {outer}.optimisation.optimizer.betas" in outcome.out
    assert "--optimisation" not in outcome.out


@pytest.mark.parametrize(
    ("below", "path"),
    [*(("reviews", path) for path in ADVERSARIES), ("sst2_continued", ADVERSARIES[0])],
    ids=lambda value: value if isinstance(value, str) else value.stem,
)
def test_adversary_over_a_recipe(steadfast: Steadfast, below: str, path: Path) -> None:
    found = effective(steadfast, ADVERSARIAL / f"{below}.yaml", path)
    wanted = yaml.safe_load(path.read_text())["model"]["init_args"]["adversary"]
    name = wanted["class_path"]
    assert found["model.init_args.adversary.class_path"] == f"lit_modules.adversaries.{name}"
    for key, value in leaves(wanted["init_args"]):
        assert found[f"model.init_args.adversary.init_args.{key}"] == value


@pytest.mark.parametrize("name", CORPORA)
def test_data_help(here: Path, steadfast: Steadfast, name: str) -> None:
    outcome = steadfast("fit", f"--data.help={name}")
    assert outcome.status == 0
    assert "--data.batch_size" in outcome.out


# Evaluations read the same settings: one file of each directory, a few of them in the default run.
FIRST = [*{path.parent: path for path in reversed(CONFIGS)}.values()]


@pytest.mark.parametrize(
    ("command", "path"),
    [
        *(("train", path) for path in CONFIGS),
        *(("certify", path) for path in FIRST[::5]),
        *(
            pytest.param("certify", path, marks=pytest.mark.slow)
            for place, path in enumerate(FIRST)
            if place % 5
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.relative_to(ROOT)),
)
def test_shipped_settings_are_accepted(steadfast: Steadfast, command: str, path: Path) -> None:
    outcome = steadfast(command, f"--config={path}", "--print_config")
    assert outcome.status == 0, outcome.err
    content = yaml.safe_load(outcome.out)
    assert content["model"]["class_path"].startswith("lit_modules.")
    assert content["data"]["class_path"].startswith("datamodules.")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_recipes_train_to_their_end(path: Path) -> None:
    """They say how long, so that no early stopping is added to what a page reports."""
    content = yaml.safe_load(path.read_text())
    assert {"max_epochs", "max_steps"} & content["trainer"].keys()
    assert "early_stopping" not in content


def test_help_says_how_long_a_fit_lasts(steadfast: Steadfast) -> None:
    text = " ".join(steadfast("fit", "--help").out.split())
    assert "1000" not in text.partition("--trainer.max_epochs")[2][:600]
    assert "else that of the method: 20, 10 for a pretrained encoder" in text
    assert "--early_stopping.patience" in text


EFFECTIVE: dict[tuple[Path, ...], dict[str, Any]] = {}
"""Settings that were read before: many tests compare with the same ones."""


def effective(steadfast: Steadfast, *paths: Path) -> dict[str, Any]:
    """What a train with these configurations would do, as flat settings."""
    if paths not in EFFECTIVE:
        outcome = steadfast("train", [f"--config={path}" for path in paths], "--print_config")
        assert outcome.status == 0, outcome.err
        EFFECTIVE[paths] = dict(leaves(yaml.safe_load(outcome.out)))
    return EFFECTIVE[paths]


@pytest.mark.parametrize(
    "path", sorted(DETECTORS.glob("models/*.yaml")), ids=lambda path: path.stem
)
def test_a_detector_is_a_model_and_a_corpus(steadfast: Steadfast, path: Path) -> None:
    corpora = sorted(DETECTORS.glob("corpora/*.yaml"))
    # Halves are independent: each corpus once, with the first model.
    for corpus in corpora if path.stem == "encoder" else corpora[:1]:
        found = effective(steadfast, path, corpus)
        assert found["detect.positive"] in ("hate", "injection", "spam")
        assert found["trainer.max_epochs"] >= 1


def leaves(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


MODEL = "model.init_args."
TRIMS: dict[str, dict[str, Any]] = {
    "bert": {"objective.loss": "cross_entropy", "unitary.method": "none"},
    "bert_multi_margin": {"objective.loss": "multi_margin", "unitary.method": "none"},
    "bert_unitary": {"objective.loss": "cross_entropy", "unitary.method": "qr"},
    "unibert": {"objective.loss": "multi_margin", "unitary.method": "qr"},
}
"""The rows of the paper's Table 4."""


@pytest.mark.parametrize("path", OVERLAYS, ids=lambda path: path.stem)
def test_second_configurations_change_what_they_say(steadfast: Steadfast, path: Path) -> None:
    """And nothing else of the first."""
    base, small = UNIBERT / "sst2.yaml", UNIBERT / "small.yaml"
    before = effective(steadfast, base)
    assert before[f"{MODEL}objective.margin"] == 100
    for paths in {(path,), (path, small)}:
        said: dict[str, Any] = {}
        for one in paths:
            said |= dict(leaves(yaml.safe_load(one.read_text())))
        said["model.class_path"] = "lit_modules.UniBERT"
        assert effective(steadfast, base, *paths) == before | said


@pytest.mark.parametrize("path", KINDS_OF_CHAR_LM, ids=lambda path: path.stem)
def test_rows_of_the_character_models_change_what_they_say(
    steadfast: Steadfast, path: Path
) -> None:
    said = dict(leaves(yaml.safe_load(path.read_text())))
    said["model.class_path"] = "lit_modules.CharacterLM"
    base = CHAR_LM / "base.yaml"
    assert effective(steadfast, base, path) == effective(steadfast, base) | said


@pytest.mark.parametrize("name", TRIMS)
def test_trims(steadfast: Steadfast, name: str) -> None:
    found = effective(steadfast, UNIBERT / "sst2.yaml", UNIBERT / "trims" / f"{name}.yaml")
    assert {key: found[f"{MODEL}{key}"] for key in TRIMS[name]} == TRIMS[name]
    plain = TRIMS[name]["unitary.method"] == "none"
    assert (
        found[f"{MODEL}backbone.pretrained"] == f"runs/pretrain{'-plain' if plain else ''}/backbone"
    )


def test_configurations_of_unibert_differ_in_their_corpus_only(steadfast: Steadfast) -> None:
    first, *others = [effective(steadfast, UNIBERT / f"{c}.yaml") for c in CORPORA_OF_UNIBERT]
    for other in others:
        different = {key for key in first if other.get(key) != first[key]}
        assert different <= {"data.class_path", f"{MODEL}max_length"}


def test_encoder_and_classifier_are_made_for_each_other(steadfast: Steadfast) -> None:
    """The folder of `--run pretrain`, and no longer texts than the encoder has seen."""
    small = effective(steadfast, UNIBERT / "pretrain_small.yaml")
    assert small["data.init_args.length"] <= small[f"{MODEL}max_length"]
    assert (
        small[f"{MODEL}max_length"]
        <= small[f"{MODEL}backbone.architecture.max_position_embeddings"]
    )
    for corpus in CORPORA_OF_UNIBERT:
        found = effective(steadfast, UNIBERT / f"{corpus}.yaml")
        assert found[f"{MODEL}backbone.pretrained"] == "runs/pretrain/backbone"
        assert found[f"{MODEL}max_length"] <= small[f"{MODEL}max_length"]
    paper = effective(steadfast, UNIBERT / "pretrain.yaml")
    assert paper["data.init_args.length"] == paper[f"{MODEL}max_length"] == 512


def test_version_by_module() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "app", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert re.fullmatch(r"steadfast \d+\.\d+\.\d+ \(git \S+\)\n", done.stdout)


def test_usage_names_the_program(steadfast: Steadfast) -> None:
    outcome = steadfast("--help")
    assert outcome.status == 0
    assert outcome.out.startswith("usage: steadfast ")
    listed = {line.split("  ")[1] for line in outcome.out.splitlines() if line.startswith("  ")}
    assert set(COMMANDS) <= listed
    assert {"doctor", "study", "study table", "attack merge", "compare", "report"} <= listed


def test_settings_of_all_corpora_may_come_before_the_corpus(
    here: Path, steadfast: Steadfast
) -> None:
    """As the container gives them."""
    config = str(ROOT / "configs/default.yaml")
    early = ["--data.data_dir=data", "--data.eval_batch_size=7", "--data.num_workers=0"]
    outcome = steadfast("train", early, f"--config={config}", "--print_config")
    assert outcome.status == 0
    assert yaml.safe_load(outcome.out)["data"]["class_path"] == "datamodules.Reviews"
