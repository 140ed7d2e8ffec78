"""The command line: LightningCLI with a run directory."""

import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from jsonargparse import Namespace, set_parsing_settings
from jsonargparse._actions import _ActionPrintConfig
from jsonargparse.typing import NonNegativeFloat, restricted_string_type
from pytorch_lightning.cli import ArgsType, LightningArgumentParser, LightningCLI
from pytorch_lightning.plugins.io import CheckpointIO

# Imported, the classes of all methods and corpora can be named without their modules.
import datamodules
import lit_modules
from app.cli.arguments import (
    COMMON,
    TRAINING,
    check_classes,
    check_groups,
    classes_first,
    device_words,
    with_configs,
    with_stored_settings,
)
from app.cli.data_files import file_words
from app.cli.parser import (
    Parser,
    TrainerHelp,
    check_length,
    check_numbers,
    keep_own_defaults,
    keep_stored_names,
    remembered_actions,
)
from app.cli.run_options import full_names
from attacks import PGDSettings
from lit_modules import Detection, FineTuning, MaskedLM, TextModule
from measure.attack_settings import AttackSettings
from measure.trainer import MeasuringTrainer
from measure.verdict import judge_run
from run_files import run_directory
from run_files.checkpoint_lookup import find_checkpoint
from run_files.distributed import dry, first_process
from run_files.harmless_settings import HARMLESS
from run_files.results import reopened
from run_files.run_directory import RunDirectory
from run_files.summary_table import notes, table
from run_files.terminal import harmless
from run_files.version import line
from text import check_range
from training import resume
from training.arithmetic import Arithmetic
from training.backbone_export import Export
from training.checkpoint_callbacks import (
    AtomicCheckpointIO,
    BestCheckpoint,
    CheckpointSettings,
    LastCheckpoint,
)
from training.console import OneLine, Parts, progress
from training.early_stopping import EarlyStoppingSettings, StopEarly, limits
from training.interrupt import Stopped, interruption
from training.join import JoinCorpus
from training.keep_handlers import KeepHandlers
from training.learning_rates import LearningRates
from training.metrics_file import MetricsFile
from training.nonfinite import FiniteLoss, OnNonFinite
from training.random_state import RandomState
from training.recorder import Recorder, RunLogger
from training.trackers import TrackerSettings, trackers

log = logging.getLogger(__name__)

# Settings can run code (SECURITY.md): only files are read, not addresses, which Lightning allows.
set_parsing_settings(config_read_mode_fsspec_enabled=False)
keep_own_defaults()
keep_stored_names()

MAX_EPOCHS = (
    "Stop training after this number of epochs; -1 for no limit. null: no limit if max_steps or "
    "max_time is set, else that of the method: "
    f"{TextModule.default_epochs}, {FineTuning.default_epochs} for a pretrained encoder that is "
    f"fine-tuned, {MaskedLM.default_epochs} in pre-training. See also --early_stopping.patience. "
)

RunName = restricted_string_type(
    "RunName", r"^[A-Za-z0-9][A-Za-z0-9._@+=-]*\Z", docstring="letters, digits and . _ @ + = -"
)

_PARSERS: dict[str | None, dict[str, Any]] = {}
"""Attributes of the command line by command: each parser takes a tenth of a second to build."""


class RobustCLI(LightningCLI):
    """`train`, `fit`, `test`, `certify`, `attack` and so on, with any method on any corpus."""

    def __init__(self, args: Sequence[str] | None = None) -> None:
        self.argv = list(sys.argv[1:] if args is None else args)
        super().__init__(
            lit_modules.TextModule,
            datamodules.Corpus,
            subclass_mode_model=True,
            subclass_mode_data=True,
            trainer_class=MeasuringTrainer,
            trainer_defaults={
                # Attacks need gradients during evaluation, which inference mode forbids.
                "inference_mode": False,
                # The samplers of our corpora split the samples over processes, without repeats.
                "use_distributed_sampler": False,
                # The whole configuration is logged by our Recorder.
                "enable_autolog_hparams": False,
                "log_every_n_steps": 10,
            },
            seed_everything_default=0,
            save_config_callback=None,
            auto_configure_optimizers=False,
            parser_kwargs={
                "description": "Train, attack and certify text classifiers.",
                "version": line(),
                "prog": "steadfast",
            },
            parser_class=Parser,
            args=self.argv,
        )

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        """Make a parser without abbreviations, which would hide misspelt settings."""
        return super().init_parser(**{**kwargs, "allow_abbrev": False})

    def setup_parser(self, *arguments: Any) -> None:
        """Build the parser of the command, once in a process."""
        command = self._first_command()
        if command in _PARSERS:
            self.__dict__ |= _PARSERS[command]
            return
        super().setup_parser(*arguments)
        if command is not None:
            parts = ("parser", "_subcommand_parsers", "_subcommand_method_arguments")
            _PARSERS[command] = {part: getattr(self, part) for part in parts}

    def _first_command(self) -> str | None:
        """Return the command if no option comes before it."""
        return self.argv[0] if self.argv and self.argv[0] in self.subcommands() else None

    def after_instantiate_classes(self) -> None:
        """Let the parser, which stays in memory, forget this command."""
        self.parser._instantiators = None

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """Return the commands, each with the hidden parameters of its trainer method."""
        hidden = {"model", "datamodule", "weights_only"}
        return {
            "train": hidden,
            "fit": hidden | {"train_dataloaders", "val_dataloaders"},
            "validate": hidden | {"dataloaders", "verbose"},
            "test": hidden | {"dataloaders", "verbose"},
            "certify": hidden,
            "attack": hidden | {"settings"},
            "predict": hidden | {"dataloaders", "return_predictions"},
        }

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the options of a run."""
        text = "Name of the run; all its files are in RUNS_DIR/NAME. An interrupted run resumes; a "
        text += "finished one is never overwritten. null: a new name with the date."
        parser.add_argument("--run", type=RunName | None, default=None, help=text)
        parser.add_argument("--runs_dir", type=str, default="runs", help="Directory of all runs.")
        text = "Show where an error came from (also: STEADFAST_DEBUG=1)."
        parser.add_argument("--debug", action="store_true", help=text)
        parser.add_argument("--trainer.help", action=TrainerHelp)
        parser.add_class_arguments(CheckpointSettings, "checkpoint")
        parser.add_class_arguments(EarlyStoppingSettings, "early_stopping")
        parser.add_class_arguments(TrackerSettings, "track")
        parser.add_class_arguments(Detection, "detect")
        for action in parser._actions:
            if action.dest == "trainer.max_epochs":
                # Lightning would train 1,000 epochs.
                action.help = MAX_EPOCHS
        text = "Write last.ckpt also inside an epoch, this many minutes after it was last written; "
        text += "it is always written at the end of an epoch."
        name = "--checkpoint_every_n_minutes"
        parser.add_argument(name, type=NonNegativeFloat, default=5.0, help=text)
        text = "Action on an infinite or NaN loss. stop: end the run before the weights are saved, "
        text += "and name the samples; skip: leave out the optimiser's step."
        parser.add_argument("--on_nonfinite_loss", type=OnNonFinite, default="stop", help=text)

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Parse the command line; settings of a stored run have lower priority."""
        command = next((word for word in self.argv if word in self.subcommands()), None)
        argv = classes_first(file_words(device_words(full_names(command or "", self.argv))))
        check_classes(argv)
        check_groups(argv)
        try:
            argv = with_configs(argv)
        except ValueError as error:
            self._parser(command).error(str(error))
        argv = with_stored_settings(argv, self.subcommands())
        if (first := self._first_command()) is not None:
            # The parser of all commands would check every setting twice more. It prints settings.
            vars(parser).pop("print_config", None)  # of a wrong command line before
            with remembered_actions():
                settings = self._parser(first).parse_args(argv[1:])
            self.config = Namespace({"subcommand": first, first: settings})  # type: ignore[no-untyped-call] # jsonargparse has no types here
            _ActionPrintConfig.print_config_if_requested(parser, self.config)  # type: ignore[no-untyped-call] # nor here
        else:
            self.config = parser.parse_args(argv)
        command = self.config["subcommand"]
        try:
            check_numbers(self.config[command])
            seed = self.config[command]["seed_everything"]
            if not isinstance(seed, bool):
                check_range({"--seed": seed}, least=0, most=2**32 - 1)
            if command in TRAINING:
                check_length(self.config[command]["trainer"])
        except ValueError as error:
            self._parser(command).error(str(error))

    def _parse_ckpt_path(self) -> None:
        """Do nothing: settings in a checkpoint never override those of the user."""

    def before_instantiate_classes(self) -> None:
        """Find the run, and decide whether to resume it, before anything is built."""
        TrackerSettings(**self._get(self.config, "track").as_dict())
        self._check_detection()
        try:
            PGDSettings(**(self._get(self.config, "pgd") or {}))
        except ValueError as error:
            msg = str(error).replace("got ", "got --pgd.", 1)
            raise ValueError(msg) from error
        # Lightning would dump them with a second check; the parser has just checked them.
        # As JSON, whose values are the same: YAML takes ten times as long.
        settings = self._parser(self.subcommand).dump(
            self.config[self.subcommand],
            format="json",
            skip_link_targets=False,
            skip_unset=False,
            skip_validation=True,
        )
        self.config_dump = json.loads(settings)
        self.settings: dict[str, Any] = {key: self.config_dump[key] for key in COMMON}
        self.run_name_given = self._get(self.config, "run")
        self.runs = Path(self._get(self.config, "runs_dir"))
        path = self._get(self.config, "ckpt_path")
        self.checkpoint: Path | None = None if path is None else Path(str(path))
        training = self.subcommand in TRAINING
        self.run = self._run_to_train() if training else self._run_to_evaluate()

    def _check_detection(self) -> None:
        """Refuse wrong settings of a detector, and any of them where nothing is trained."""
        Detection(**self._get(self.config, "detect").as_dict())
        named = [word.split("=")[0] for word in self.argv if word.startswith("--detect")]
        if named and self.subcommand not in TRAINING:
            msg = (
                f"got {named[0]} with `{self.subcommand}`, expected it with `train` or `fit`: a "
                "threshold is chosen at the end of a fit, and stored with the weights"
            )
            raise ValueError(msg)

    def _fresh_run(self) -> RunDirectory:
        paths = (str(self.settings[part]["class_path"]) for part in ("model", "data"))
        name = run_directory.fresh_name(self.runs, *(path.rpartition(".")[2] for path in paths))
        # Started processes parse the same command line, and need the same name.
        os.environ[run_directory.NAME_VARIABLE] = name
        return RunDirectory(self.runs / name)

    def _run_to_train(self) -> RunDirectory:
        name = self.run_name_given
        run = RunDirectory(self.runs / name) if name else self._fresh_run()
        self.plan = resume.plan_training(run, self.settings, all_stages=self.subcommand == "train")
        self.checkpoint = resume.first_checkpoint(run, self.plan, self.checkpoint)
        if self.plan.checkpoint == run.previous and run.last.is_file() and first_process():
            # Renamed for inspection: the next checkpoint would overwrite it.
            run.last.replace(run.last.with_name("damaged.ckpt"))
        return run

    def _run_to_evaluate(self) -> RunDirectory:
        self.plan = resume.Plan(())
        run, self.checkpoint = find_checkpoint(
            str(self.subcommand), self.runs, self.run_name_given, self.checkpoint, begins=True
        )
        run = run or self._fresh_run()
        if run.begun:
            parts = ("model", "data")
            resume.check_same(run, self.settings, parts, HARMLESS, checkpoint=self.checkpoint)
        return run

    def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
        """Build the trainer with everything that keeps the run."""
        config = {**self._get(self.config_init, "trainer"), **kwargs}
        patience = self._limit(config) if self.subcommand in TRAINING else 0
        self.recorder = Recorder(
            self.run,
            self.settings,
            seed=int(self.settings["seed_everything"]),
            reopened=self.plan.step if self.plan.reopened else None,
            checkpoint=None if self.subcommand in TRAINING else self.checkpoint,
            start=self.checkpoint if self._begins_elsewhere() else None,
        )
        config["default_root_dir"] = config["default_root_dir"] or str(self.run.path)
        config["logger"] = self._loggers(config["logger"])
        trainer = self._instantiate_trainer(config, self._callbacks(config, patience))
        assert isinstance(trainer, MeasuringTrainer)  # trainer_class above
        trainer.recorder, trainer.stages = self.recorder, self.plan.stages
        trainer.detection = self._get(self.config_init, "detect")
        return trainer

    def _begins_elsewhere(self) -> bool:
        """Return True if a fit begins with the checkpoint of another run, or with new weights."""
        return self.subcommand in TRAINING and self.plan.checkpoint is None

    def _limit(self, config: dict[str, Any]) -> int:
        """Set the length of a fit in the settings; return the patience of early stopping."""
        stored = self.run.config() if self.run.begun else None
        chosen_patience = self.settings["early_stopping"]["patience"]
        epochs: int = self.model.default_epochs
        config["max_epochs"], patience = limits(
            config, chosen_patience, default_epochs=epochs, stored=stored
        )
        # `config.yaml` stores the resolved values, not "null".
        self.settings["trainer"]["max_epochs"] = config["max_epochs"]
        self.settings["early_stopping"] = {"patience": patience}
        return patience

    def _loggers(self, logger: Any) -> Any:
        """Return the loggers of the run and its trackers; False if logging is off."""
        if logger is False:
            return False
        if logger is None or logger is True:
            step = self.plan.step
            logger = [
                RunLogger(self.run, begin=step if "fit" in self.plan.stages else None),
                MetricsFile(self.run.metrics_path, begin=step),
            ]
        several = logger if isinstance(logger, list) else [logger]
        return [*several, *trackers(self._get(self.config_init, "track"), self.run)]

    def _callbacks(self, config: dict[str, Any], patience: int) -> list[pl.Callback]:
        """Return the callbacks, and turn off those of Lightning that they replace."""
        settings: Namespace = self._get(self.config_init, "checkpoint")
        callbacks: list[pl.Callback] = [
            KeepHandlers(),
            JoinCorpus(),
            RandomState(allow_world_change=settings.allow_world_change),
            Arithmetic(),
            FiniteLoss(self._get(self.config_init, "on_nonfinite_loss")),
            self.recorder,
            Export(self.run.backbone),
        ]
        watched = {"monitor": settings.monitor, "mode": settings.mode}
        if patience:
            # Also if the reopened run was killed before its first checkpoint.
            anew = self.plan.reopened or reopened(self.run.results()) == self.plan.step
            another = self._begins_elsewhere()
            callbacks.append(StopEarly(patience, **watched, anew=anew, another=another))
        if config["logger"]:
            callbacks.append(LearningRates())
        if config["enable_model_summary"] is not False:
            callbacks.append(Parts())
            config["enable_model_summary"] = False
        if config["enable_progress_bar"] is not False and not config["barebones"]:
            callbacks.append(progress())
            config["enable_progress_bar"] = isinstance(callbacks[-1], OneLine)
        if config["enable_checkpointing"] is not False:
            minutes = float(self._get(self.config_init, "checkpoint_every_n_minutes"))
            callbacks += [
                BestCheckpoint(self.run, **watched, another=self._begins_elsewhere()),
                LastCheckpoint(self.run, every_n_minutes=minutes),
            ]
            plugins = config["plugins"] or []
            plugins = list(plugins) if isinstance(plugins, Sequence) else [plugins]
            if not any(isinstance(plugin, CheckpointIO) for plugin in plugins):
                config["plugins"] = [*plugins, AtomicCheckpointIO()]
        return callbacks

    def _prepare_subcommand_kwargs(self, subcommand: str) -> dict[str, Any]:
        """Add the checkpoint, and the settings of attacks."""
        kwargs: dict[str, Any] = super()._prepare_subcommand_kwargs(subcommand)
        kwargs["ckpt_path"] = self.checkpoint
        if subcommand == "attack":
            kwargs["settings"] = AttackSettings(**self._get(self.config_init, "attack").as_dict())
        return kwargs

    def _prepare_subcommand_parser(
        self, klass: type, subcommand: str, **kwargs: Any
    ) -> LightningArgumentParser:
        """Add the settings of attacks to the command that takes them."""
        # Each parser takes half a second to build: if the command is known, the others stay empty.
        if self._first_command() not in (None, subcommand):
            self._subcommand_method_arguments[subcommand] = []
            return self.init_parser(**kwargs)
        parser = super()._prepare_subcommand_parser(klass, subcommand, **kwargs)
        if subcommand == "attack":
            # Not as an argument of the trainer's method: its group has the same name.
            title = "Which attacks, on what, at what cost"
            group = parser.add_argument_group(title, name="attacks")
            group.add_class_arguments(AttackSettings, "attack", as_group=False)
        return parser

    def _run_subcommand(self, subcommand: str) -> None:
        """Run the command, print its figures, and end all started processes."""
        try:
            super()._run_subcommand(subcommand)
        except BaseException as error:
            # After a common stop with a checkpoint, the other processes end without help.
            together = isinstance(error, Stopped) and interruption.saved is not None
            launcher: Any = self.trainer.strategy.launcher
            for process in [] if together else getattr(launcher, "procs", []):
                process.kill()
            raise
        if first_process() and not dry(self.trainer):
            files, own = self.recorder.files, getattr(self.trainer, "report", None)
            if (results := files.results()) is None:
                print(own or "")
            else:
                verdict = judge_run(files, results)
                print(own or harmless(table(results, void=verdict.collapsed)))
                if remarks := notes(results):
                    print(harmless(f"\n{remarks}"))
                if subcommand not in ("fit", "validate", "predict"):
                    print(harmless(f"\n{verdict.text}"))
            if subcommand == "train":
                _report(files)
            print(harmless(f"\n{files.path}"))


def _report(run: RunDirectory) -> None:
    """Write the page of a run; an error is a warning, as the training has succeeded."""
    try:
        from app.report.report_page import write_report

        report = write_report([run])
    except Exception as error:
        again = f"`python -m steadfast report --run {run.name}` tries it again"
        log.warning("the report could not be written (%s); %s", error, again)
        return
    for contradiction in report.contradictions:
        log.warning("contradiction: %s", contradiction)
    print(harmless(f"\nreport: {report.page}"))
