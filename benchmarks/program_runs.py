"""Parts of runs, and a trainer that keeps nothing, for benchmarks."""

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import yaml

import datamodules
import lit_modules
from lit_modules.shared.settings import plain, rebuilt


def load_run(run: Path, data_dir: Path | None = None) -> tuple[lit_modules.TaskModule, Any]:
    """Return the model of a run, in evaluation mode, and its corpus, set up to be tested on."""
    model = lit_modules.load(run / "checkpoints" / "best.ckpt")
    part = yaml.safe_load((run / "config.yaml").read_text())["data"]
    cls = getattr(datamodules, part["class_path"].rsplit(".", 1)[-1])
    more = {} if data_dir is None else {"data_dir": str(data_dir)}
    corpus: Any = cls(**rebuilt(cls, plain(part.get("init_args") or {})) | more)
    corpus.prepare_data()
    corpus.setup("test")
    corpus.tokenizer = model.tokenizer
    return model, corpus


def quiet_trainer(**settings: Any) -> pl.Trainer:
    """Return Lightning's own trainer on the CPU, which prints and keeps nothing."""
    quiet: dict[str, Any] = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "use_distributed_sampler": False,
    }
    return pl.Trainer(**quiet | settings)
