"""`attack --attack.surrogate RUN` by the real command line: resumed, in shards, elsewhere."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.integration.conftest import QUIET, Steadfast, lines
from tests.integration.test_attack import comparable

FILE = "runs/done/attacks/deepwordbug.jsonl"
GUIDE = Path("runs/guide/checkpoints/best.ckpt")
COMMAND = ["attack", "--run=done", "--attack=deepwordbug", *QUIET]
SURROGATE = ["--attack.surrogate=guide", "--attack.shortlist=2"]


@pytest.fixture
def guided(trained: Path) -> Path:
    """A finished run, and another one of other weights."""
    shutil.copytree(trained, "runs/guide")
    change_weights(2.0)
    return trained


def change_weights(factor: float) -> None:
    content: dict[str, Any] = torch.load(GUIDE, weights_only=False)
    state = content["state_dict"]
    content["state_dict"] = {
        k: v * factor if v.is_floating_point() else v for k, v in state.items()
    }
    torch.save(content, GUIDE)


def test_shards_and_more_samples_file_what_one_attack_files(
    guided: Path, steadfast: Steadfast
) -> None:
    whole = steadfast(COMMAND, SURROGATE, "--num_samples=9", "--attack.tag=whole")
    assert whole.status == 0, whole.err
    assert "surrogate guide applies to deepwordbug-whole" in whole.out
    records = comparable("runs/done/attacks/deepwordbug-whole.jsonl")
    for index in (1, 2):
        assert (
            steadfast(COMMAND, SURROGATE, "--num_samples=4", f"--attack.shard={index}/2").status
            == 0
        )
    assert steadfast("attack", "merge", "--run=done").status == 0
    assert comparable(FILE) == [
        r for r in records if r["sample_id"] in {s["sample_id"] for s in lines(FILE)}
    ]
    assert steadfast(COMMAND, SURROGATE, "--num_samples=9").status == 0
    assert comparable(FILE) == records


def test_records_belong_to_one_surrogate(guided: Path, steadfast: Steadfast) -> None:
    assert steadfast(COMMAND, SURROGATE, "--num_samples=3").status == 0
    before = Path(FILE).read_bytes()
    refused = steadfast(COMMAND, "--num_samples=3")
    assert 'surrogate "guide" -> null' in refused.err
    change_weights(1.5)
    refused = steadfast(COMMAND, SURROGATE, "--num_samples=3")
    assert refused.status == 1
    assert "surrogate_weights" in refused.err
    assert Path(FILE).read_bytes() == before


@pytest.mark.slow
def test_of_victims_from_elsewhere_and_of_typed_texts(guided: Path, steadfast: Steadfast) -> None:
    Path("texts.tsv").write_text("text\tlabel\nfine good film\tpositive\nbad film\tnegative\n")
    victim = ["--victim=run:done", "--attack=deepwordbug", *SURROGATE]
    assert steadfast("attack", victim, "--dataset=texts.tsv").status == 0
    assert steadfast("attack", "text", victim, "--text=fine good film").status == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--attack.surrogate=nobody"], "got run 'nobody', which is not in"),
        (["--attack.surrogate=http://x.org"], "got surrogate http://x.org, expected a run or hf:"),
        pytest.param(
            ["--attack=pruthi", "--attack.surrogate=guide"],
            "got surrogate guide for pruthi, expected",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["--attack.shortlist=2"], "got shortlist 2 without a surrogate", marks=pytest.mark.slow
        ),
        pytest.param(
            ["--attack.surrogate=guide", "--attack.compat=textattack"],
            "got compat textattack and",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_wrong_surrogates(
    guided: Path, steadfast: Steadfast, options: list[str], says: str
) -> None:
    found = steadfast(COMMAND, options)
    assert found.status == 1
    assert says in found.err
    assert found.err.strip().splitlines()[-1].startswith("error: ")
