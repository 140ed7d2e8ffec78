"""The model of `--run` or `--victim` as the subject of a measurement."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from app.cli.victim_options import folder_of, victim_of
from attacks.victims.front_end_victim import FrontEndVictim
from attacks.victims.kinds import ModuleVictim
from datamodules import CORPORA
from lit_modules import TaskModule
from measure.archive import FolderArchive
from measure.named_victims import NamedVictim
from run_files.run_directory import RunDirectory
from run_files.weights import weights_of


class MeasuredModel(NamedTuple):
    """A model with the folder of its outcomes.

    Attributes:
        named: the model.
        files: the run, or the folder of a victim.
        about: weights of a run, or name and front end of a victim: a part of the subject.
        identity: entries of `results.json` that identify it; a victim has no corpus of its own.
        module: the module of a run; None of a victim.
    """

    named: NamedVictim
    files: RunDirectory
    about: dict[str, Any]
    identity: dict[str, Any]
    module: TaskModule | None

    def archive(self, data: str) -> FolderArchive:
        """Return the archive of an outcome on data of this name."""
        return FolderArchive(self.files, {"corpus": data, **self.identity})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock a run: a training would replace the weights during the measurement."""
        if self.module is not None:
            self.files.lock()
        try:
            yield
        finally:
            self.files.unlock()


def measured_model(args: Any) -> MeasuredModel:
    """Load the model that the options of `add_victim` name.

    Raises:
        ValueError: a front end before a run, or see `victim_of`.
        OSError: the model is not found.
    """
    files = RunDirectory(folder_of(args) if args.run is None else Path(args.runs_dir) / args.run)
    named = victim_of(args, files.path)
    name = named.facts["victim"]
    if args.run is None:
        front_end = named.victim.digest if isinstance(named.victim, FrontEndVictim) else None
        about = {"victim": name, "front_end": front_end, "dtype": named.facts.get("dtype")}
        identity: dict[str, Any] = {"run": files.name, "method": name, "seed": 0}
        return MeasuredModel(named, files, about, identity, None)
    module = named.victim.module if isinstance(named.victim, ModuleVictim) else None
    if not isinstance(module, TaskModule):
        msg = (
            f"got --words.front_end and --run {files.name}, expected one of the two: the figures "
            f"of a run are its own; --victim run:{files.name} has a folder for others"
        )
        raise ValueError(msg)
    about = weights_of(Path(named.facts["checkpoint"])).about()
    return MeasuredModel(named, files, about, _identity(module, files), module)


def _identity(module: TaskModule, run: RunDirectory) -> dict[str, Any]:
    """Return the entries of `results.json` that identify a run."""
    if (results := run.results()) is not None:
        keys = ("run", "method", "corpus", "seed", "no_certificate")
        return {key: results.get(key) for key in keys if key in results}
    config = run.config()
    data = str(config["data"]["class_path"]).rpartition(".")[2]
    corpus = CORPORA[data].corpus if data in CORPORA else data
    seed = int(config.get("seed_everything", 0))
    identity = {"run": run.name, "method": module.method, "corpus": corpus, "seed": seed}
    if module.no_certificate is not None:
        identity["no_certificate"] = module.no_certificate
    return identity
