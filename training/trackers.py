"""Reports runs to MLflow and to Weights & Biases."""

import importlib.util
import json
import os
import uuid
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger, MLFlowLogger, WandbLogger
from pytorch_lightning.utilities import rank_zero_only

from run_files import atomic
from run_files.run_directory import RunDirectory
from text.bounded_files import DataError, read_json
from text.extras import install
from text.file_lock import locked

_EXPERIMENT = "steadfast"
_INSTALLED_BY = {"mlflow": "mlflow-skinny", "wandb": "wandb"}


@dataclass(frozen=True, kw_only=True)
class TrackerSettings:
    """Services that get metrics and settings, too, besides TensorBoard and `metrics.csv`.

    Args:
        mlflow: a folder, or the address of an MLflow server: report to it; null: do not. Needs
            `pip install 'steadfast-nlp[mlflow]'`.
        wandb: a project of Weights & Biases: report to it; null: do not. Needs
            `pip install 'steadfast-nlp[wandb]'`. With `WANDB_MODE=offline`, all of it stays in the
            run.
    """

    mlflow: str | None = None
    wandb: str | None = None

    def __post_init__(self) -> None:
        """Check that the chosen services are installed.

        Raises:
            ValueError: a client is missing, or a value is empty.
        """
        for extra, package in _INSTALLED_BY.items():
            target = getattr(self, extra)
            if target == "":
                msg = f"got --track.{extra} without a value, expected one, or null"
                raise ValueError(msg)
            if target is not None and importlib.util.find_spec(extra) is None:
                msg = (
                    f"got --track.{extra} {target} where {extra} is not installed, expected it: "
                    f"{install(extra)} (in a checkout: pip install {package})"
                )
                raise ValueError(msg)


class MLflow(MLFlowLogger):
    """Reports to MLflow, which refuses the @ in `certify/accuracy@0.5`: it becomes ` at `."""

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace) -> None:
        """Log settings; see Lightning."""
        # MLflow's store of files cannot hold both `model` and `model/depth`.
        settings = dict(params if isinstance(params, Mapping) else vars(params))
        outer = {name.rpartition("/")[0] for name in settings}
        super().log_hyperparams(
            {f"{name}/class" if name in outer else name: value for name, value in settings.items()}
        )

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log metrics; see Lightning."""
        super().log_metrics({name.replace("@", " at "): metrics[name] for name in metrics}, step)


def trackers(settings: TrackerSettings, run: RunDirectory) -> list[Logger]:
    """Return the loggers of the chosen services; nothing is sent yet.

    A run that resumes, or is evaluated, resumes in the service as well.
    """
    names, loggers = _known(run), list[Logger]()
    if settings.mlflow is not None:
        loggers.append(
            MLflow(
                experiment_name=os.environ.get("MLFLOW_EXPERIMENT_NAME", _EXPERIMENT),
                run_name=run.name,
                tracking_uri=_address(settings.mlflow),
                run_id=names.get("mlflow"),
            )
        )
    if settings.wandb is not None:
        loggers.append(
            # The id is chosen here, so that it is known before the service is reached.
            WandbLogger(
                name=run.name,
                project=settings.wandb,
                save_dir=run.path,
                id=names.get("wandb", uuid.uuid4().hex[:12]),
                resume="allow",
            )
        )
    return loggers


def keep_names(run: RunDirectory, loggers: Sequence[Logger]) -> None:
    """Store the names of a run in the services, so that it can resume there."""
    names = {
        "mlflow" if isinstance(logger, MLflow) else "wandb": str(
            logger.run_id if isinstance(logger, MLflow) else logger.version
        )
        for logger in loggers
        if isinstance(logger, MLflow | WandbLogger)
    }
    if not names:
        return
    # Two evaluations of one run may end at the same time.
    with locked(_file(run)):
        stored = _known(run)
        if stored | names != stored:
            atomic.write_text(_file(run), json.dumps(stored | names, indent=2) + "\n")


def _file(run: RunDirectory) -> Path:
    return run.path / "trackers.json"


def _known(run: RunDirectory) -> dict[str, Any]:
    try:
        names = read_json(_file(run), "what services call the run")
    except DataError:
        return {}
    return names if isinstance(names, dict) else {}


def _address(server: str) -> str:
    """Return the address of a server as it is, that of a folder as MLflow writes it."""
    if "://" in server and not server.startswith("file:"):
        return server
    # MLflow's store of files is no longer developed, but needs nothing besides its client.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    return Path(server.removeprefix("file:")).absolute().as_uri()
