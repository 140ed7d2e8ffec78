"""Every use of every encoder of `docs/architectures.py`: it runs, or has its error."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import lit_modules
from docs.architectures import ARCHITECTURES, REFUSED, USES
from layers.unitary import unitary_residual
from layers.weight_names import unitary_blocks, unitary_weights
from tests.encoder_folders import write_encoder
from tests.faults.program import Piped
from tests.faults.settings import LISTS
from tests.integration.conftest import QUIET, REVIEWS, TINY, Outcome, Steadfast
from tests.integration.several import run, weights
from tests.integration.test_asa_pretraining import TEXT as RUNNING
from tests.integration.test_distributed import HALVES, WHOLE
from tests.integration.test_serve import asked
from tests.integration.test_tasks import corpus
from tests.unit.datamodules.running_text import write
from tests.unit.layers.small_encoders import EVERY_KIND, MORE

TEXTS = ["the soup was fresh", "a rude waiter , and cold coffee in the rain", "not bad"]
STEPS = [*TINY, "--trainer.max_steps=2"]
FEW = [*REVIEWS, "--data.limit_train=32", *STEPS]
LAST = "runs/a/checkpoints/last.ckpt"
CPU = "--device=cpu"
LETTERS = "--model.adversary.attack.recipe=deepwordbug"


def encoder(kind: str, prefix: str = "--model", *, pooling: bool = True) -> list[str]:
    """The options of an encoder with random weights."""
    settings = {**EVERY_KIND, **MORE}[kind]
    if "max_position_embeddings" in settings:
        settings = {**settings, "max_position_embeddings": 140}
    # The id of the padding is that of the tokenizer.
    settings = {name: value for name, value in settings.items() if name != "pad_token_id"}
    words = [f"{prefix}.backbone.architecture={json.dumps(settings)}"]
    words += [f"{prefix}.backbone.vocab_size=200", f"{prefix}.max_length=64"]
    return [*words, f"{prefix}.pooling=mean"] if pooling and kind == "xlnet" else words


@dataclass(frozen=True)
class Cell:
    """A use of a kind of encoder, in an empty directory."""

    kind: str
    run: Steadfast

    def fit(self, *words: str | Sequence[str], method: str = "FineTuning") -> Outcome:
        return self.run("fit", f"--model={method}", encoder(self.kind), FEW, *words, "--run=a")

    def against(self, adversary: str, *words: str) -> Outcome:
        Path("frequent.json").write_text(json.dumps({"the": ["and", "was"], "and": ["the"]}))
        model = ["--model=AdversarialTraining", f"--model.adversary={adversary}", *words]
        inner = ["--model.classifier=FineTuning", *encoder(self.kind, "--model.classifier")]
        return self.run("fit", model, inner, FEW, "--run=a")

    def after(self, *words: str | Sequence[str]) -> Outcome:
        """A command on a fine-tuned encoder."""
        outcome = self.fit()
        return self.run(*words) if outcome.status == 0 else outcome


def equal_alone(texts: list[Any]) -> None:
    """Each text alone has the logits that it has in a padded batch, after loading as well."""
    model = lit_modules.load(LAST)
    together = model.predict_texts(texts)
    assert together.isfinite().all()
    for row, text in zip(together, texts, strict=True):
        torch.testing.assert_close(model.predict_texts([text])[0], row, rtol=1e-4, atol=1e-5)


def fine_tuning(cell: Cell) -> Outcome:
    outcome = cell.fit()
    if outcome.status:
        return outcome
    equal_alone(TEXTS)
    # The run resumes.
    longer = [word for word in FEW if "max_steps" not in word]
    words = ["fit", "--model=FineTuning", *encoder(cell.kind), *longer, "--trainer.max_steps=4"]
    outcome = cell.run(words, "--run=a")
    assert torch.load(LAST, weights_only=True)["global_step"] == 4
    return outcome


def pairs(cell: Cell) -> Outcome:
    words = ["--model=FineTuning", *encoder(cell.kind), *corpus("classification"), *STEPS]
    outcome = cell.run("fit", words, "--run=a")
    if outcome.status == 0:
        equal_alone([("a lamp", "anna went to paris and bought it"), ("red", "paris")])
    return outcome


def tagging(cell: Cell) -> Outcome:
    words = encoder(cell.kind, pooling=False)
    return cell.run("train", "--model=FineTuning", words, corpus("tagging"), STEPS, "--run=a")


def unibert(cell: Cell) -> Outcome:
    outcome = cell.fit(method="UniBERT")
    if outcome.status == 0:
        blocks = unitary_blocks(unitary_weights(lit_modules.load(LAST)))
        assert float(unitary_residual(blocks).max()) < 1e-4
    return outcome


def windows(cell: Cell) -> Outcome:
    inner = ["--model.classifier=FineTuning", *encoder(cell.kind, "--model.classifier")]
    return cell.run("fit", "--model=WindowMax", inner, FEW, "--run=a")


def encoding(cell: Cell) -> Outcome:
    Path("encoding.json").write_text(json.dumps({"warm": "hot", "rude": "bad"}))
    Path("lists.json").write_text(json.dumps({"cold": ["warm"], "warm": ["hot"]}))
    outcome = cell.fit("--model.encoding=encoding.json")
    if outcome.status:
        return outcome
    lists = ["--threat=synonyms", "--lists=lists.json", "--k=1"]
    return cell.run("certify", "--run=a", lists, CPU, "--text=cold coffee")


def encoded_scores(cell: Cell) -> Outcome:
    robust = ["--model.robustness.against=synonyms", f"--model.robustness.lists={LISTS}"]
    return cell.fit(robust, "--model.fidelity=0.2", method="EncodedScores")


def pretrained(cell: Cell) -> Outcome:
    """From a folder with a tokenizer of its own kind."""
    words = ["--model=FineTuning", f"--model.backbone.pretrained={folder_of(cell.kind)}"]
    words += ["--model.pooling=mean"] if cell.kind == "xlnet" else []
    two = ["--trainer.limit_train_batches=2", "--trainer.max_epochs=1", "--model.max_length=64"]
    outcome = cell.run("train", words, two, REVIEWS, TINY, "--run=a")
    if outcome.status == 0:
        equal_alone(TEXTS)
    return outcome


def folder_of(kind: str) -> Path:
    return write_encoder(kind, Path("encoder"))


def frozen(cell: Cell) -> Outcome:
    words = ["--model=OLSA", "--model.width=8", "--model.heads=2", "--model.max_length=64"]
    folder = f"--model.backbone.pretrained={folder_of(cell.kind)}"
    return cell.run("train", words, folder, FEW, "--run=a")


def pretraining(cell: Cell, method: str) -> Outcome:
    Path("text").mkdir()
    write(Path("text"), lines=40)
    words = [*encoder(cell.kind, pooling=False), *RUNNING, *STEPS]
    outcome = cell.run("fit", f"--model={method}", words, "--run=a")
    if outcome.status == 0:
        assert Path("runs/a/backbone/model.safetensors").exists()
    return outcome


def exported(cell: Cell) -> Outcome:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    outcome = cell.after("export", "--run=a", "--output=out")
    if outcome.status or "not for transformers" in outcome.err:
        return Outcome(1, outcome.out, outcome.err)
    expected = lit_modules.load("out").predict_texts(TEXTS)
    batch = AutoTokenizer.from_pretrained("out")(TEXTS, return_tensors="pt", padding=True)
    model = AutoModelForSequenceClassification.from_pretrained("out").eval()
    if getattr(model.config, "type_vocab_size", 0) < 2:
        batch.pop("token_type_ids", None)
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits, expected, rtol=1e-4, atol=1e-5)
    return outcome


def onnx(cell: Cell) -> Outcome:
    outcome = cell.after("export", "--run=a", "--output=out", "--onnx=true")
    missing = not Path("out/model.onnx").exists()
    return Outcome(1, outcome.out, outcome.err) if missing else outcome


def diagnose(cell: Cell) -> Outcome:
    outcome = cell.fit(method="FineTuning" if cell.kind == "xlnet" else "UniBERT")
    attack = ["attack", "--run=a", "--attack=deepwordbug", "--num_samples=6", *QUIET]
    for words in (attack, ["diagnose", "--run=a", "--recipe=deepwordbug", CPU]):
        outcome = cell.run(words) if outcome.status == 0 else outcome
    return outcome


def bf16(cell: Cell) -> Outcome:
    outcome = cell.fit("--trainer.precision=bf16-mixed")
    if outcome.status == 0:
        states = torch.load(LAST, weights_only=True)["state_dict"]
        assert all(bool(weight.isfinite().all()) for weight in states.values())
    return outcome


def attention(cell: Cell) -> Outcome:
    return cell.after("attention", "--run=a", f"--text={TEXTS[1]}")


def serve(cell: Cell) -> Outcome:
    outcome = cell.fit()
    if outcome.status:
        return outcome
    program = Piped("serve", "--run=a", "--port=0", CPU)
    try:
        assert program.stdout is not None
        port = int(program.stdout.readline().rpartition(":")[2].strip("/\n"))
        with ExitStack() as stack:
            answer = json.loads(asked(stack, port, "/api/predict", run="a", text=TEXTS[0]).read())
    finally:
        program.kill()
        program.communicate()
    outcome = cell.run("predict", "--run=a", CPU, f"--text={TEXTS[0]}")
    assert answer["prediction"] == json.loads(outcome.out)["prediction"]
    return outcome


RUN: dict[str, Callable[[Cell], Outcome]] = {
    "fine-tuning": fine_tuning,
    "pretrained": pretrained,
    "pairs": pairs,
    "tagging": tagging,
    "unibert": unibert,
    "asa": lambda cell: cell.fit(method="ASA"),
    "freelb": lambda cell: cell.against("FreeLB", "--model.adversary.steps=2"),
    "pgd": lambda cell: cell.after("test", "--run=a", "--pgd.steps=2", *QUIET),
    "smart": lambda cell: cell.against("SMART", "--model.adversary.epsilon=0.1"),
    "tavat": lambda cell: cell.against("TAVAT"),
    "infobert": lambda cell: cell.against("InfoBERT"),
    "ascc": lambda cell: cell.against(
        "ASCC", "--model.adversary.sets=frequent.json", "--model.adversary.steps=2"
    ),
    "amda": lambda cell: cell.against(
        "AMDA", LETTERS, "--model.adversary.clean_epochs=0", "--model.adversary.layers=[1]"
    ),
    "masked-lm": lambda cell: pretraining(cell, "MaskedLM"),
    "asa-pretraining": lambda cell: pretraining(cell, "ASAPretraining"),
    "encoding": encoding,
    "encoded-scores": encoded_scores,
    "windows": windows,
    "frozen": frozen,
    "attack": lambda cell: cell.after(
        "attack", "--run=a", "--attack=deepwordbug", "--num_samples=2", *QUIET
    ),
    "diagnose": diagnose,
    "attention": attention,
    "export": exported,
    "onnx": onnx,
    "serve": serve,
    "bf16": bf16,
}
QUICK = (
    *(("asa", "modernbert"), ("unibert", "modernbert"), ("pretrained", "eurobert")),
    *(("export", "eurobert"), ("asa", "xlnet"), ("masked-lm", "xlnet")),
)
CELLS = [
    pytest.param(use, entry.kind, marks=[] if (use, entry.kind) in QUICK else [pytest.mark.slow])
    for use in RUN
    for entry in ARCHITECTURES
]
KINDS = [entry.kind for entry in ARCHITECTURES]


@pytest.mark.parametrize(("use", "kind"), CELLS)
def test_cell(here: Path, steadfast: Steadfast, use: str, kind: str) -> None:
    outcome = RUN[use](Cell(kind, steadfast))
    reason = REFUSED.get((use, kind))
    if reason is None:
        assert outcome.status == 0, outcome.err
        return
    assert outcome.status != 0
    assert reason in outcome.err
    assert sum(line.startswith("error: ") for line in outcome.err.splitlines()) <= 1
    assert "Traceback" not in outcome.err


def test_every_use_has_a_test() -> None:
    assert {*RUN, "processes"} == USES.keys()
    assert {use for use, _ in REFUSED} <= RUN.keys()
    assert {kind for _, kind in REFUSED} <= set(KINDS)


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs `two-*` of two processes and `one-*` of one process."""
    where = tmp_path_factory.mktemp("processes")
    exact = ["--trainer.precision=64-true", "--model.dropout=0", "--model.backbone_dropout=0"]
    exact += ["--data=Reviews", "--data.limit_train=49", "--trainer.max_epochs=1"]
    for name, more in (("two", HALVES), ("one", WHOLE)):
        fits = [
            ["fit", "--model=FineTuning", *encoder(kind), *exact, *TINY, *more] for kind in KINDS
        ]
        run(
            [[*fit, f"--run={name}-{kind}"] for fit, kind in zip(fits, KINDS, strict=True)],
            where=where,
        )
    return where / "runs"


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_are_one(twice: Path, kind: str) -> None:
    first, second = (weights(twice / f"{name}-{kind}") for name in ("two", "one"))
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(tensor, second[name], rtol=0, atol=1e-6, msg=name)
