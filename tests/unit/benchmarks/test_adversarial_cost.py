"""The benchmark of adversarial training: what it counts, on models that cost nothing."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from attacks.outcome import Sample
from benchmarks import adversarial_cost
from benchmarks.adversarial_epochs import by_adversary, task
from benchmarks.adversarial_steps import (
    METHODS,
    NAIVE,
    Cost,
    OwnStep,
    Steps,
    cost,
    random_batch,
    random_model,
)
from benchmarks.adversarial_texts import Way, compare_ways, textattack_way, textfooler_process
from benchmarks.parity import textattack_child, textattack_process
from benchmarks.parity.sides import TimedVictim
from benchmarks.timing import Times
from lit_modules.adversaries import FreeLB

SHORT = ["--model", "tiny", "--batch", "2", "--repeats", "1"]


def sample(number: int) -> Sample:
    return Sample(sample_id=number, text=f"text {number}", label=number % 2)


# Steps


def test_ratios_are_taken_beside_each_other() -> None:
    naive = [Times(9.0, 1.0), Times(9.0, 2.0), Times(9.0, 4.0)]
    seen = [Times(9.0, 2.0), Times(9.0, 8.0), Times(9.0, 12.0)]
    assert cost(seen, naive) == Cost(9.0, 8.0, 3.0, 2.0, 4.0, None)
    # Of the wall clock, where the processor only waits.
    on_gpu = [Times(wall, 1.0, peak) for wall, peak in ((1.0, 5.0), (3.0, 7.0))]
    assert cost(on_gpu, [Times(1.0, 1.0, 5.0)] * 2) == Cost(2.0, 1.0, 2.0, 1.0, 3.0, 7.0)


@pytest.mark.parametrize("name", [NAIVE, *METHODS])
def test_a_step_is_a_step(name: str) -> None:
    module, tokenizer = random_model("tiny", "cpu", length=8)
    steps = Steps(module)
    for group in steps.optimizer.param_groups:
        group["lr"] = 0.1
    before = [parameter.detach().clone() for parameter in module.parameters()]
    batch = random_batch(2, 8, tokenizer, "cpu")
    assert batch.mask.all()
    adversary = None if name == NAIVE else METHODS[name]()
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
        ([], "--lengths N ..., --corpus NAME, --textattack or --figure FILE"),
        (["--corpus", "sst2"], "--data_dir DIR"),
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


# A corpus


@pytest.mark.long
def test_an_epoch_from_some_batches(tmp_path: Path) -> None:
    folder = tmp_path / "sst2"
    folder.mkdir()
    rows = "".join(f"film {i} is {'good' if i % 2 else 'bad'}\t{i % 2}\n" for i in range(200))
    for split in ("train", "validation"):
        (folder / f"{split}.tsv").write_text(f"sentence\tlabel\n{rows}")
    one = task("sst2", tmp_path, batches=2, init_from=None, device="cpu")
    assert (len(one.batches), one.total) == (2, 4)
    assert not {*one.first.sample_ids.tolist()} & {*one.batches[0].sample_ids.tolist()}

    class Prepared(FreeLB):
        """Looks at all texts before an epoch."""

        def start_epoch(self, module: Any) -> None:
            assert sorted(module.samples) == ids
            sum(range(3_000_000))

    ids = sorted(i for batch in one.batches for i in batch.sample_ids.tolist())
    found = by_adversary(one, {"FreeLB": FreeLB(), "before": Prepared()})
    assert list(found) == [NAIVE, "FreeLB", "before"]
    assert found[NAIVE].ratio == 1
    assert found[NAIVE].generation == 0
    assert found["FreeLB"].generation < found["before"].generation < 1


# Texts


def test_ways_to_attack_are_compared() -> None:
    asked: list[tuple[str, list[int]]] = []
    victim = TimedVictim(random_model("tiny", "cpu", length=8)[0], batch_size=2)

    def way(name: str, outcome: str) -> Way:
        def attack(samples: Sequence[Sample]) -> tuple[list[dict[str, Any]], float]:
            asked.append((name, [one.sample_id for one in samples]))
            sum(range(200_000))
            victim.spent += 2.0
            kinds = [outcome if one.sample_id % 2 else "skipped" for one in samples]
            return [{"outcome": kind, "queries": 3, "text": None} for kind in kinds], 0.0

        return Way(victim, attack)

    batches = [[sample(i) for i in row] for row in ((0, 1), (2, 3), (4, 5))]
    found = compare_ways({"a": way("a", "failed"), "b": way("b", "succeeded")}, batches)
    # One after the other, batch for batch.
    assert asked == [(name, [i, i + 1]) for i in (0, 2, 4) for name in "ab"]
    # The first batch only warms up.
    assert (found["a"].queries, found["b"].queries) == (12, 12)
    assert (found["a"].success, found["b"].success) == (0, 1)
    assert (found["a"].agree, found["b"].agree) == (1, 0.5)
    assert found["a"].ratio == 1
    assert found["b"].ratio > 0
    assert found["a"].victim == 4.0


def test_work_of_other_processes_counts() -> None:
    def attack(samples: Sequence[Sample]) -> tuple[list[dict[str, Any]], float]:
        return [{"outcome": "failed", "queries": 1, "text": None} for _ in samples], 5.0

    victim = TimedVictim(random_model("tiny", "cpu", length=8)[0], batch_size=2)
    costs = compare_ways({"elsewhere": Way(victim, attack)}, [[sample(0)]] * 2)
    assert 5 <= costs["elsewhere"].processor < 6


CHILD = """
import json, sys
settings = json.loads(sys.stdin.readline())
assert settings["query_budget"] == 7 and "the" in settings["stop_words"], settings
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    results = []
    for text, label in zip(request["texts"], request["labels"]):
        print(json.dumps({"texts": [text, "other"]}), flush=True)
        first, _ = json.loads(sys.stdin.readline())
        assert abs(sum(first) - 1) < 1e-6 and len(first) == 2, first
        results.append({"outcome": "failed", "queries": 2, "text": text})
    print(json.dumps({"results": results, "processor": 1.5}), flush=True)
"""


def test_another_process_asks_our_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = tmp_path / "child.py"
    child.write_text(CHILD)
    monkeypatch.setattr(textattack_process, "PROGRAM", child)
    module, _ = random_model("tiny", "cpu", length=8)
    program = Path(sys.executable), tmp_path / "v.txt", tmp_path, 7
    with textfooler_process(*program) as process:
        theirs = textattack_way(process, module.eval())
        for _ in range(2):
            answers, processor = theirs.attack([sample(1), sample(0)])
            assert [one["text"] for one in answers] == ["text 0", "text 1"]
            assert processor == 1.5
        assert theirs.victim.spent > 0
    child.write_text("raise SystemExit('no textattack here')")
    with (
        pytest.raises(RuntimeError, match=r"an interpreter that can import textattack 0\.3\.11"),
        textfooler_process(*program) as process,
    ):
        textattack_way(process, module).attack([sample(0)])


def test_neighbours_as_the_other_process_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SimpleNamespace(WordEmbedding=lambda *parts: parts)
    monkeypatch.setitem(sys.modules, "textattack.shared", made)
    path = tmp_path / "vectors.txt"
    path.write_text("a 1 0\nb 2 0\nc 1 1\nd 0 1\n")
    matrix, index, words, nearest = textattack_child.embedding(path, 3)
    assert matrix.shape == (4, 2)
    assert index == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert words[2] == "c"
    # The word itself first, also beside one in the same direction.
    assert nearest.tolist()[0] == [0, 1, 2, 3]
    assert nearest.tolist()[1] == [1, 0, 2, 3]
    assert np.array_equal(nearest[:, 0], np.arange(4))
