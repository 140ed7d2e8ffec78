"""`diagnose` by the real command line, on a model with layers made for it."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from app.cli.main import entry
from app.commands.diagnose import parser
from app.study.reuse import missing
from app.study.study import Stage
from attacks.digests import file_digest
from lit_modules import OLSA
from run_files.run_directory import RunDirectory
from tests.integration.conftest import REVIEWS, TINY, Steadfast, lines
from tests.integration.test_attack import LETTERS, attack
from text import Batch

RUN = ["--run=done", "--recipe=letters", "--device=cpu"]


@pytest.fixture(scope="module")
def _attacked(_trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, before = tmp_path_factory.mktemp("attacked"), Path.cwd()
    shutil.copytree(_trained, path / "runs")
    os.chdir(path)
    try:
        Path("letters.yaml").write_text(yaml.safe_dump(LETTERS))
        assert entry(attack("--run=done", "--attack=letters.yaml", "--num_samples=30")) == 0
    finally:
        os.chdir(before)
        os.environ.pop("PL_GLOBAL_SEED", None)
    return path


@pytest.fixture
def attacked(here: Path, _attacked: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a run under an attack on 30 samples, whose method has three layers to show."""
    shutil.copytree(_attacked, here, dirs_exist_ok=True)

    def activations(self: OLSA, batch: Batch) -> list[torch.Tensor]:
        assert not self.training
        x = self.embed(batch)
        return [x, x.square(), torch.ones_like(x)]

    monkeypatch.setattr(OLSA, "activations", activations)
    return here / "runs" / "done"


def read(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "diagnostics.json").read_text())
    return content


def test_what_it_writes(attacked: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("diagnose", RUN)
    assert outcome.status == 0, outcome.err
    assert outcome.err == ""
    records = lines(attacked / "attacks/letters.jsonl")
    right = [one for one in records if one["prediction"] == one["label"]]
    changed = [one for one in right if one["adversarial"] != one["text"]]
    content = read(attacked)
    assert content["run"] == "done"
    assert content["versions"].keys() >= {"steadfast", "torch"}
    found = content["attacks"]["letters"]
    assert found["records"] == 30
    assert found["distances"]["count"] == len(right)
    similarities = found["similarities"]
    assert similarities["all"]["count"] == len(changed)
    for kind in ("succeeded", "failed"):
        count = sum(one["outcome"] == kind for one in changed)
        assert similarities[kind]["count"] == count
    assert found["pooling"] == "mean"  # as OLSA has it
    first, second, constant = similarities["all"]["mean"]
    assert -1 <= first < 1
    assert -1 <= second < 1
    assert constant == pytest.approx(1.0)
    assert similarities["all"]["std"][2] == pytest.approx(0.0, abs=1e-7)
    assert found["against"] == []
    assert len(found["unrelated"]) == 3
    assert all(
        one < other + 1e-9
        for one, other in zip(found["unrelated"], (first, second, 1.0), strict=True)
    )
    assert "layer  3  1.000 ± 0.000" in outcome.out
    assert (attacked / "layer_similarity.png").read_bytes().startswith(b"\x89PNG")

    events = EventAccumulator(str(attacked), size_guidance={"scalars": 0, "images": 0})
    events.Reload()
    curve = events.Scalars("diagnostics/letters/similarity")
    assert [one.step for one in curve] == [1, 2, 3]
    assert curve[0].value == pytest.approx(first, rel=1e-6)
    distance = events.Scalars("diagnostics/distance_mean")[0].value
    assert distance == pytest.approx(found["distances"]["mean"], rel=1e-6)
    (image,) = events.Images("diagnostics/letters/layer_similarity")
    assert (image.width, image.height) == (960, 600)


def test_the_same_command_gives_the_same_bytes(attacked: Path, steadfast: Steadfast) -> None:
    contents = []
    for _ in range(2):
        assert steadfast("diagnose", RUN, "--num_samples=20").status == 0
        names = ("diagnostics.json", "layer_similarity.png")
        contents.append([(attacked / name).read_bytes() for name in names])
    assert contents[0] == contents[1]
    assert read(attacked)["attacks"]["letters"]["records"] == 20
    # Other batches are the same but for rounding.
    similarities = read(attacked)["attacks"]["letters"]["similarities"]["all"]
    assert steadfast("diagnose", RUN, "--num_samples=20", "--batch_size=3").status == 0
    other = read(attacked)["attacks"]["letters"]["similarities"]["all"]
    assert other["mean"] == pytest.approx(similarities["mean"], abs=1e-5)


def test_another_attack_is_filed_beside_the_first(attacked: Path, steadfast: Steadfast) -> None:
    for suffix in ("jsonl", "json"):
        shutil.copy(attacked / f"attacks/letters.{suffix}", attacked / f"attacks/b.{suffix}")
    assert steadfast("diagnose", RUN).status == 0
    assert steadfast("diagnose", RUN, "--recipe=b", "--pooling=first").status == 0
    content = read(attacked)["attacks"]
    assert content.keys() == {"letters", "b"}
    assert content["b"]["pooling"] == "first"


def test_a_study_knows_a_diagnosis_by_weights_texts_and_options(
    attacked: Path, steadfast: Steadfast
) -> None:
    run, stage = RunDirectory(attacked), Stage(command="diagnose")

    def left(*words: str) -> str | None:
        return missing(run, stage, vars(parser().parse_args([*RUN, *words])))

    assert left() == "not measured"
    shutil.copytree(attacked, "runs/other")
    assert steadfast("diagnose", RUN, "--against", "other").status == 0
    assert left("--against", "other") is None
    assert left("--against", "other", "--batch_size=3") is None
    assert left() == 'measured with against ["other"], not []'
    assert "samples 1000, not 20" in str(left("--against", "other", "--num_samples=20"))
    # One sample fewer, and then other weights.
    texts = Path("runs/other/attacks/letters.jsonl")
    texts.write_text("".join(texts.read_text().splitlines(keepends=True)[1:]))
    assert str(left("--against", "other")).startswith("measured with texts of other")
    shutil.copy(attacked / "checkpoints/last.ckpt", attacked / "checkpoints/best.ckpt")
    assert str(left("--against", "other")).startswith("measured with weights of done")


def test_runs_in_one_figure(attacked: Path, steadfast: Steadfast) -> None:
    shutil.copytree(attacked, "runs/other")
    command = ["diagnose", *RUN, "--against", "other"]
    outcome = steadfast(command)
    assert outcome.status == 0, outcome.err
    first = read(attacked)["attacks"]["letters"]
    (other,) = first.pop("against")
    assert other["run"] == "other"
    assert other["texts_of"] == "other"
    assert other["similarities"] == first["similarities"]
    assert "done (accuracy" in outcome.out
    assert "other (accuracy" in outcome.out
    # On the first run's texts, the other needs none of its own.
    shutil.rmtree("runs/other/attacks")
    outcome = steadfast(command)
    assert outcome.status == 1
    assert "run other, which was never attacked" in outcome.err
    assert steadfast(command, "--same_texts").status == 0
    (other,) = read(attacked)["attacks"]["letters"]["against"]
    assert other["texts_of"] == "done"
    assert not Path("runs/other/diagnostics.json").exists()


def test_a_checkpoint(attacked: Path, steadfast: Steadfast) -> None:
    last = ["diagnose", "--ckpt_path=runs/done/checkpoints/last.ckpt", "--recipe=letters"]
    outcome = steadfast(last)
    assert outcome.status == 0, outcome.err
    assert "letters was made against another checkpoint than runs/done/" in outcome.err
    # Beside other figures of these weights, and not among those of the best ones.
    assert not Path("runs/done/diagnostics.json").exists()
    (apart,) = Path("runs/done/others").iterdir()
    found = read(apart)["attacks"]["letters"]
    assert found["checkpoint"] == "last.ckpt"
    assert found["weights"]["checkpoint"] == file_digest("runs/done/checkpoints/last.ckpt")
    assert found["weights"]["checkpoint"].encode() in (apart / "layer_similarity.png").read_bytes()
    Path("runs/done/checkpoints/best.ckpt").write_bytes(b"PK")
    outcome = steadfast("diagnose", RUN)
    assert outcome.status == 1
    assert "best.ckpt, which cannot be read" in outcome.err


def test_a_checkpoint_of_another_run_is_refused(attacked: Path, steadfast: Steadfast) -> None:
    shutil.copytree("runs/done", "runs/b")
    foreign = "--ckpt_path=runs/b/checkpoints/best.ckpt"
    for command in (["diagnose", *RUN], ["attention", "--run=done", "--text=a"]):
        outcome = steadfast(command, foreign)
        assert outcome.status == 1
        assert "got run 'done' and a checkpoint that is not of it" in outcome.err
    assert not Path("runs/done/diagnostics.json").exists()


def test_a_bert(here: Path, steadfast: Steadfast) -> None:
    Path("letters.yaml").write_text(yaml.safe_dump(LETTERS))
    architecture = {
        "model_type": "bert",
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    model = ["--model=UniBERT", f"--model.backbone.architecture={json.dumps(architecture)}"]
    # After a single step some samples are right, and by so little that an attack has a chance.
    arguments = [
        *model,
        "--model.backbone.vocab_size=300",
        *REVIEWS,
        *TINY,
        "--trainer.max_steps=1",
    ]
    assert steadfast("fit", arguments, "--run=done").status == 0
    command = attack("--run=done", "--attack=letters.yaml", "--num_samples=20")
    assert steadfast(command).status == 0
    outcome = steadfast("diagnose", RUN)
    assert outcome.status == 0, outcome.err
    found = read(here / "runs/done")["attacks"]["letters"]
    assert found["method"] == "UniBERT"
    assert found["pooling"] == "first"
    assert len(found["similarities"]["all"]["mean"]) == len(found["unrelated"]) == 3
    assert all(-1 <= value < 1 for value in found["similarities"]["all"]["mean"])


def test_errors_are_one_line(attacked: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("diagnose", "--run=done")
    assert outcome.status == 1
    assert outcome.err.startswith("error: got --recipe textfooler and run done, which has those of")
    assert outcome.err.count("\n") == 1
    assert "Traceback" in steadfast("diagnose", "--run=done", "--debug").err
    assert not (attacked / "diagnostics.json").exists()


def test_a_wrong_command_line_has_status_2(here: Path, steadfast: Steadfast) -> None:
    assert steadfast("diagnose", "--pooling=max").status == 2
    outcome = steadfast("diagnose", "--help")
    assert outcome.status == 0
    assert "--same_texts" in outcome.out


def test_the_layers_of_olsa(trained: Path, steadfast: Steadfast) -> None:
    command = attack("--run=done", "--attack=deepwordbug", "--num_samples=30")
    assert steadfast(command).status == 0
    outcome = steadfast("diagnose", "--run=done", "--recipe=deepwordbug", "--device=cpu")
    assert outcome.status == 0, outcome.err
    assert "layer  1" in outcome.out
    found = read(trained)["attacks"]["deepwordbug"]
    assert len(found["similarities"]["all"]["mean"]) == len(found["unrelated"]) == 1
    # An attack changes a text less than another text differs from it.
    assert found["unrelated"][0] < found["similarities"]["all"]["mean"][0] < 1
