"""The benchmark of adversarial training: what it counts, on models that cost nothing."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import adversarial_cost
from benchmarks.adversarial_steps import (
    DEFENCES,
    METHODS,
    NAIVE,
    Cost,
    OwnStep,
    Steps,
    build,
    cost,
    random_batch,
    random_model,
)
from benchmarks.timing import Times

SHORT = ["--model", "tiny", "--batch", "2", "--repeats", "1"]


# Steps


def test_ratios_are_taken_beside_each_other() -> None:
    naive = [Times(9.0, 1.0), Times(9.0, 2.0), Times(9.0, 4.0)]
    seen = [Times(9.0, 2.0), Times(9.0, 8.0), Times(9.0, 12.0)]
    assert cost(seen, naive) == Cost(9.0, 8.0, 3.0, 2.0, 4.0, None)
    # Of the wall clock, where the processor only waits.
    on_gpu = [Times(wall, 1.0, peak) for wall, peak in ((1.0, 5.0), (3.0, 7.0))]
    assert cost(on_gpu, [Times(1.0, 1.0, 5.0)] * 2) == Cost(2.0, 1.0, 2.0, 1.0, 3.0, 7.0)


@pytest.mark.parametrize("name", [NAIVE, *METHODS, *DEFENCES])
def test_a_step_is_a_step(name: str) -> None:
    module, tokenizer = random_model("tiny", "cpu", length=8)
    steps = Steps(module)
    for group in steps.optimizer.param_groups:
        group["lr"] = 0.1
    before = [parameter.detach().clone() for parameter in module.parameters()]
    batch = random_batch(2, 8, tokenizer, "cpu")
    assert batch.mask.all()
    adversary = None if name == NAIVE else build(name, module, tokenizer)
    steps.step(adversary, batch)
    moved = [
        not torch.equal(was, now) for was, now in zip(before, module.parameters(), strict=True)
    ]
    assert sum(moved) > 0.8 * len(moved)
    assert all(parameter.grad is None for parameter in module.parameters())
    averages = adversary is not None and adversary.averages
    assert averages == (name == "SMART-1, proximal")
    assert (steps.average is not None) == averages
    if steps.average is not None:
        assert any(
            not torch.equal(was, now)
            for was, now in zip(before, steps.average.weights, strict=True)
        )


def test_the_step_of_asa_is_that_of_its_training(monkeypatch: pytest.MonkeyPatch) -> None:
    module, tokenizer = random_model("tiny", "cpu", length=8)
    batch = random_batch(2, 8, tokenizer, "cpu")
    torch.manual_seed(0)
    problem = Steps(module)._problem(OwnStep(), batch)
    loss = OwnStep().step(problem).loss
    # What a trainer has to do with it.
    monkeypatch.setattr("lit_modules.asa.batch_weight", lambda *_: 1.0)
    monkeypatch.setattr("lit_modules.asa.global_means", lambda _, values, weight: values)
    for name, answer in (("step_weight", 1.0), ("logs_this_step", False)):
        monkeypatch.setattr(module, name, lambda *_, found=answer: found)
    for name in ("log_step", "log"):
        monkeypatch.setattr(module, name, lambda *_, **__: None)
    monkeypatch.setattr(type(module), "trainer", None)
    torch.manual_seed(0)
    whole = module.training_step(batch, 0)
    assert torch.equal(whole, loss)


@pytest.mark.long
def test_lengths_are_measured_kept_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, figure = tmp_path / "out.json", tmp_path / "figure.png"
    out.write_text('{"texts": {"kept": true}}')
    words = ["--lengths", "4", "8", *SHORT, "--methods", "FreeLB-3", "ASA"]
    adversarial_cost.main([*words, "--out", str(out)])
    content = json.loads(out.read_text())
    assert content["texts"] == {"kept": True}
    assert list(content["lengths"]["costs"]) == ["4", "8"]
    assert list(content["lengths"]["costs"]["8"]) == [NAIVE, "FreeLB-3", "ASA"]
    assert content["lengths"]["costs"]["8"][NAIVE]["ratio"] == 1
    graphs = {name: one["graph"] for name, one in content["lengths"]["costs"]["4"].items()}
    assert graphs["ASA"] > 1.5 * graphs[NAIVE]
    assert graphs["FreeLB-3"] < 1.2 * graphs[NAIVE]
    printed = capsys.readouterr().out
    assert "| step | N = 4 | N = 8 | paper, N = 512 |" in printed
    assert "| FreeLB-3 | " in printed
    assert "| graph of a text | N = 4 | N = 8 |" in printed
    adversarial_cost.main(["--out", str(out), "--figure", str(figure)])
    assert figure.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="a file without lengths"):
        adversarial_cost.main(["--out", str(tmp_path / "no.json"), "--figure", str(figure)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--lengths N ... or --figure FILE"),
        (["--figure", "a.png"], "--out FILE with --figure"),
        (["--lengths", "4", "--repeats", "0"], "positive numbers"),
        (["--lengths", "0"], "positive numbers"),
    ],
)
def test_what_is_missing(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        adversarial_cost.main(words)
    assert message in capsys.readouterr().err
