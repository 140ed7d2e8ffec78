"""Small models whose attention is looked at, as checkpoints; and attention that is made up."""

from pathlib import Path
from typing import Any

import torch

from lit_modules import ASA, TaskModule
from measure.attention.attention_maps import AttentionMaps, Pass
from tests.unit.lit_modules.builders import Build, make, trainer
from text import TaskName

TEXTS = ["good", "not a good film, and it is long", "a bad one", "it is what it is"]
ARCHITECTURE = {
    "model_type": "bert",
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}
CLASSES: dict[TaskName, list[str]] = {
    "classification": ["bad", "good"],
    "regression": [],
    "tagging": ["O", "B-thing", "I-thing"],
    "choice": ["A", "B", "C"],
}
SETTINGS: dict[str, Any] = {"architecture": ARCHITECTURE, "vocab_size": 60, "max_length": 30}


def asa(**settings: Any) -> Build:
    return lambda: make(ASA, **{**SETTINGS, "initial_keep": 0.6, **settings})


def saved(
    path: Path, build: Build, *, task: TaskName = "classification", pairs: bool = False
) -> TaskModule:
    """A model with random weights that are far from nothing, and its checkpoint."""
    torch.manual_seed(0)
    module = build()
    tokenizer = module.build_tokenizer(TEXTS)
    module.attach(tokenizer, CLASSES[task], pairs=pairs, task=task)
    module.configure_model()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    run = trainer()
    run.strategy.connect(module)
    path.parent.mkdir(parents=True, exist_ok=True)
    run.save_checkpoint(path)
    return module.eval()


def made(tokens: list[str], *, adversary: bool = True, name: str = "made") -> AttentionMaps:
    """Two layers of two heads over some tokens; the first token is masked for the second head."""
    length = len(tokens)
    plain = torch.full((2, length, length), 1 / length)
    masked = torch.zeros(2, length, length, dtype=torch.bool)
    masked[1, :, 0] = True
    attacked = plain * ~masked
    attacked = attacked / attacked.sum(dim=-1, keepdim=True)
    answers = [("bad", "0.2500"), ("good", "0.7500")]
    return AttentionMaps(
        name=name,
        method="ASA",
        checkpoint=Path("a.ckpt"),
        row=0,
        tokens=tokens,
        cut=False,
        plain=Pass(maps=[plain, plain], answers=answers, prediction="good"),
        attacked=Pass(maps=[attacked, plain], answers=answers, prediction="good")
        if adversary
        else None,
        masked=[masked, masked & False] if adversary else [],
        chances=[masked.float(), 0.25 * torch.ones_like(plain)] if adversary else [],
    )
