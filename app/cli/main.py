"""Runs a command, and turns errors into one line and an exit status."""

import difflib
import errno
import gc
import logging
import os
import select
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from app.cli.command_help import help_path
from app.cli.commands import COMMANDS, LIGHTNING, Call, check_options, find_command, help_of_all
from app.cli.data_files import check_user_data
from run_files.atomic import NO_ROOM
from run_files.terminal import harmless
from run_files.version import line
from text.error_reasons import describe_error
from text.extras import missing_extra
from text.module_names import PACKAGES, own_package, real_name
from text.multi_line_error import MultiLineError
from training.last_error import leave_error, printing, reported

NOISE = (
    # Lightning's advice; these are settings of ours, and documented.
    r".*does not have many workers.*",
    r".*is smaller than the logging interval.*",
    r"GPU available but not used.*",
    r".*You are using `LearningRateMonitor` callback with models that have no learning rate.*",
    # An evaluation needs none of the callbacks of a fit.
    r"Be aware that when using `ckpt_path`, callbacks used to create the checkpoint.*",
    # A frozen encoder is meant to be.
    r"Found \d+ module\(s\) in eval mode at the start of training.*",
    # They are means over all processes already.
    r"It is recommended to use .self\.log\(.*sync_dist=True.*",
    # A run resumes in its directory.
    r"Checkpoint directory .* exists and is not empty.*",
    # Lightning 2.6 asks torch for the kind of a tree node in the old way.
    r".isinstance\(treespec, LeafSpec\). is deprecated.*",
    # LightningCLI 2.6 calls what jsonargparse 4.49+ deprecates; pyproject.toml keeps it below 5.
    r"(?s).*JsonargparseDeprecationWarning",
    # Running text of which nothing is kept for validation.
    r"Total length of .list. across ranks is zero.*",
    # Our corpora continue an epoch where it was left, but keep that in the datamodule.
    r"You're resuming from a checkpoint that ended before the epoch ended.*",
)

_LIGHTNING_LOGS = (
    "lightning_fabric.utilities.seed",
    "pytorch_lightning.utilities.rank_zero",
    "lightning_fabric.utilities.rank_zero",
)
"""Which of the last two gets all messages of Lightning depends on the order of imports."""
_MESSAGES = (
    *("💡", "TPU available", "HPU available", "GPU available:", "Seed set to"),
    *("Loading `train_dataloader`", "Restoring states from"),
    *("Loaded model weights from", "`Trainer.fit` stopped: `max_epochs="),
    # Lightning repeats the list of a method's callbacks for each stage.
    "The following callbacks returned in",
)
"""Beginnings of messages of Lightning that nobody needs; --debug shows them."""
_UNION = "Does not validate against any of the Union subtypes"
"""jsonargparse puts this and all settings around the error of a constructor, once per nesting."""
_UNUSED = ("matplotlib", "scipy", "transformers")
"""Libraries that torchmetrics loads if they are installed, for none of our metrics."""
DISK_FULL = (*NO_ROOM, errno.EROFS)
"""Error numbers of a disk that is full or read-only."""


@contextmanager
def collection_paused() -> Iterator[None]:
    """Run the body without the search for cycles of objects: loading modules, reading rows."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def main(args: Sequence[str] | None = None) -> None:
    """Run one command of LightningCLI; errors and signals come out as exceptions."""
    # Imported here, so that `--version` is fast and works in a broken installation.
    with collection_paused():
        from app.cli.robust_cli import RobustCLI

    RobustCLI(args)


def entry(args: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0 done, 1 an error (one line on standard error; with `--debug` where it came from), 2 a wrong
    command line, 130 stopped by Ctrl-C, 141 standard output is a pipe that its reader has closed,
    143 stopped by SIGTERM. The command line is that of the process if None.
    """
    argv = list(sys.argv[1:] if args is None else args)
    if argv in ([], ["--help"], ["-h"], ["--version"]):
        print(line() if argv == ["--version"] else help_of_all())
        return 0 if argv else 2
    call = find_command(argv)
    if call is None:
        return _without_command(argv)
    if COMMANDS[call.name].file == LIGHTNING and {"--help", "-h"} & {*call.words}:
        return _help(call, argv)
    try:
        check_options(call)
    except ValueError as error:
        _say(f"error: {error} (`steadfast {call.name} --help` lists the options)")
        return 2
    # Another program that calls `entry` may train later.
    predicts = call.command.imports.startswith("torch") and args is None
    return _run(call, argv, predicts=predicts)


def _run(call: Call, argv: list[str], *, predicts: bool) -> int:
    """Run a command; the files that it trains on are checked before any library is loaded."""
    if call.name in ("train", "fit") and not {"--help", "-h"} & {*call.words}:
        try:
            check_user_data(call.words)
        except KeyboardInterrupt:
            return _stopped(SystemExit(128 + signal.SIGINT), None)
        except (ValueError, OSError) as error:
            return _failed(error, debug=_debug(argv))
    if call.command.file == LIGHTNING:
        return _lightning(argv)
    return _plain(call, debug=_debug(argv), predicts=predicts)


def _without_command(argv: list[str]) -> int:
    """Pass options before a command to LightningCLI; refuse other words."""
    if argv[0].startswith("-"):
        return _lightning(argv)
    near = difflib.get_close_matches(argv[0], COMMANDS, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    _say(f"error: got {argv[0]}, expected a command first: {', '.join(COMMANDS)}{meant}")
    return 2


def _help(call: Call, argv: list[str]) -> int:
    """Print the help of a command of LightningCLI, from the cache if it is there."""
    if call.command.file == LIGHTNING and len(call.words) > 1:
        return _lightning(argv)
    try:
        print(help_path(call.name).read_text(encoding="utf-8"), end="")
    except (OSError, UnicodeDecodeError):
        return _lightning([call.name, "--help"])
    return 0


def _lightning(argv: list[str]) -> int:
    """Run a command of LightningCLI."""
    debug = _debug(argv)
    if (status := _load(debug=debug)) != 0:
        return status
    from run_files import run_directory
    from training import interrupt

    name = os.environ.get(run_directory.NAME_VARIABLE)
    in_thread, threading.excepthook = threading.excepthook, _in_thread
    with warnings.catch_warnings(), interrupt.handle_signals() as interruption:
        _quieten(debug=debug)
        try:
            main(argv)
        except interrupt.Stopped as stopped:
            return _stopped(stopped, interruption.saved)
        except SystemExit as error:
            return _status(error)
        except Exception as error:
            return _failed(error, debug=debug)
        finally:
            threading.excepthook = in_thread
            if name is None:
                os.environ.pop(run_directory.NAME_VARIABLE, None)
    return 0


def _debug(argv: list[str]) -> bool:
    return "--debug" in argv or os.environ.get("STEADFAST_DEBUG", "0") not in ("", "0")


@collection_paused()  # a sixth of a start
def _load(*, debug: bool, predicts: bool = False) -> int:
    """Load the libraries, which takes seconds, and return the exit status if they cannot be."""
    # torchmetrics loads matplotlib for every command, which warns if its cache is not writable.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    variable = os.environ.get("STEADFAST_IMPORT", "")
    own = [name.strip() for name in variable.split(",") if name.strip()]
    try:
        from text import process_role  # loads torch

        if predicts:
            process_role.predicts_only = True
        else:
            _load_lightning(whole=bool(own))
        for name in own:
            import_module(name)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:  # of any kind, in a broken installation
        if debug:
            traceback.print_exc()
        broken = (
            f"the program cannot be loaded ({type(error).__name__}: {error}); "
            "`python -m steadfast doctor` says what is wrong with the installation"
        )
        _fail(missing_extra(error) or broken)
        return 1
    return 0


def _load_lightning(*, whole: bool) -> None:
    """Load Lightning; unless whole, without metrics of torchmetrics that none of ours is.

    Those for plots, audio and BERT load other libraries, which take a third of a start.
    """
    from lightning_utilities.core import imports

    available, check = imports.package_available, imports.RequirementCache._check_available

    def check_used(self: imports.RequirementCache) -> None:
        if str(self.requirement).partition(">")[0] in _UNUSED:
            self.available = False
            self.message = "not loaded: set STEADFAST_IMPORT (docs/cli.md)"
        check(self)

    # Lightning loads all of torchmetrics, which asks these two what is installed.
    imports.package_available = lambda name: name not in _UNUSED and available(name)  # type: ignore[assignment] # meant
    imports.RequirementCache._check_available = check_used  # type: ignore[method-assign] # meant
    try:
        if not whole:
            import torchmetrics  # noqa: F401 (while these packages seem absent)
    finally:
        imports.package_available = available
        imports.RequirementCache._check_available = check  # type: ignore[method-assign] # restored
    import pytorch_lightning  # noqa: F401 (loaded early: a broken one is one error)


def _plain(call: Call, *, debug: bool, predicts: bool) -> int:
    """Run a command outside LightningCLI."""
    imports = call.command.imports
    try:
        if imports.endswith("late"):
            # A wrong command line is an error before the libraries are loaded.
            call.parse()
        if imports != "none" and (status := _load(debug=debug, predicts=predicts)) != 0:
            return status
        with warnings.catch_warnings():
            if imports != "none":
                _quieten(debug=debug)
            if predicts:
                # Attacks make many objects, and hardly any in circles. Each full search for them
                # would also visit all objects of the libraries.
                gc.freeze()
                gc.set_threshold(20_000)
            return call.run()
    except SystemExit as error:
        return _status(error)
    except KeyboardInterrupt:
        again = "resumes" if call.name in ("resources", "study") else "starts again"
        _say(f"stopped by Ctrl-C; the same command {again}")
        return 128 + signal.SIGINT
    except Exception as error:
        return _failed(error, debug=debug)


def unwrap_constructor_error(error: Exception) -> Exception:
    """Return the error that a constructor has raised; others as they are."""
    while isinstance(error.__cause__, Exception) and str(error).startswith(_UNION):
        error = error.__cause__
    return error


def _failed(error: Exception, *, debug: bool) -> int:
    if isinstance(error, BrokenPipeError) and _nobody_reads():
        # `steadfast runs | head`: the reader has closed the pipe. At its end Python flushes stdout,
        # which would fail again, so the output goes to /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    if debug:
        traceback.print_exc()
    _fail(_message(error))
    return 1


def _nobody_reads() -> bool:
    """Return True if standard output is broken, and not a pipe to another process."""
    poll = select.poll()
    poll.register(1, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _fail(message: str) -> None:
    """Print the error; in a run of several processes, also pass it to the first one."""
    with printing:
        _say(f"error: {message}")
        reported.set()
    leave_error(message)


def _stopped(stopped: SystemExit, saved: str | None) -> int:
    from run_files.distributed import first_process
    from run_files.run_directory import RunDirectory

    signum = int(str(stopped.code)) - 128
    if not first_process():
        # For Lightning any other status of a started process is a crash: it kills the rest.
        return 0 if saved else 128 + signum
    signal_name = "Ctrl-C" if signum == signal.SIGINT else signal.Signals(signum).name
    outcome = "no checkpoint was written for it"
    if saved:
        # Checkpoints and records are at different depths; some records are in no run.
        run = next((path.name for path in Path(saved).parents if RunDirectory(path).begun), "")
        name = f" with --run {run}" if run else ""
        outcome = f"saved {saved}; the same command{name} resumes from there"
    _say(f"stopped by {signal_name}: {outcome}")
    return 128 + signum


def _status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if not isinstance(error.code, int):
        _say(str(error.code))
        return 1
    # 2 is a wrong command line, which the parser has explained; above 128 are signals.
    if error.code == 1 or 2 < error.code < 128:
        _fail(f"a library ended the program with exit status {error.code} and no reason")
    return error.code


def _message(error: Exception) -> str:
    """Return the message of an error; with its type if the user cannot correct it."""
    error = unwrap_constructor_error(error)
    if (sentence := missing_extra(error)) is not None:
        return sentence
    text = error.lines() if isinstance(error, MultiLineError) else " ".join(str(error).split())
    if (lost := _lost_worker(error)) is not None:
        return (
            f"a process that --data.num_workers has started is gone ({lost}): most often the "
            "system has ended it for lack of memory; the same command resumes from the last "
            "checkpoint, with fewer workers if it must"
        )
    if isinstance(error, OSError) and error.errno in DISK_FULL and (path := _path_of(error)):
        return (
            f"could not write {path}: {error.strerror}; make room or correct the permissions, "
            "then give the same command again"
        )
    if isinstance(error, FileNotFoundError | IsADirectoryError) and error.filename:
        return f"got {error.filename}, expected a path that can be opened: {error.strerror}"
    module = type(error).__module__
    expected = (
        isinstance(error, ValueError | OSError)
        or own_package(module) in ("lit_modules", "datamodules", "attacks")
        # Services that a run reports to.
        or module.partition(".")[0] in ("mlflow", "wandb")
        # Checks of the type of an argument say what was expected; a fault of the program does not.
        or (isinstance(error, TypeError) and ", expected " in text)
        # Lightning's for a wrong setting of the trainer. By its name: importing it takes seconds.
        or type(error).__name__ == "MisconfigurationException"
    )
    if expected and text:
        return text
    return f"{type(error).__name__}: {text} (--debug shows where)"


def _path_of(error: OSError) -> str:
    """Return the file that an error of the disk is about; an empty string if it is unknown."""
    # TensorBoard's error names no file; its function that writes has the name.
    frames = traceback.walk_tb(error.__traceback__)
    names = [error.filename, *(frame.f_locals.get("filename") for frame, _ in frames)]
    return next((os.fsdecode(name) for name in names if isinstance(name, str | bytes)), "")


def _lost_worker(error: BaseException | None) -> str | None:
    """Return the message about a dead data worker, if that is the cause of an error."""
    # Torch raises it from a signal handler, at any line of the program. Within the writing of a
    # checkpoint, an error about the unfinished file is chained on top of it.
    # TensorBoard raises the error of its thread again and again: the chain may be a circle.
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        # A queue whose worker is dead raises EOFError or ConnectionError in the loader.
        frames = traceback.extract_tb(error.__traceback__)
        waiting = isinstance(error, ConnectionError | EOFError) and any(
            Path(frame.filename).parts[-2:] == ("data", "dataloader.py") for frame in frames
        )
        if waiting or "DataLoader worker" in str(error):
            return describe_error(error)
        error = error.__cause__ or error.__context__
    return None


def _in_thread(met: threading.ExceptHookArgs) -> None:
    """Print in one line that TensorBoard's thread cannot write; its next event raises, too."""
    if isinstance(met.exc_value, OSError):
        _say(f"in the background: {met.exc_value}")
    else:
        threading.__excepthook__(met)


def _say(text: str) -> None:
    print(harmless(text), file=sys.stderr)


class _ToStderr(logging.Handler):
    """Writes to the present `sys.stderr`, which may have been redirected since."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(self.format(record))


def _is_useful(record: logging.LogRecord) -> bool:
    """Return False for Lightning's recommendations of products, and what it does anyway."""
    message = record.getMessage()
    tip = "litlogger" in message or "litmodels" in message
    return not tip and not message.startswith(_MESSAGES)


def _quieten(*, debug: bool) -> None:
    """Show our own messages, and only the useful ones of Lightning; with debug all of its own."""
    from run_files.distributed import first_process

    for pattern in NOISE:
        warnings.filterwarnings("ignore", pattern)
    for name in _LIGHTNING_LOGS:
        logger = logging.getLogger(name)
        logger.filters = [] if debug else [_is_useful]
    for package in PACKAGES:
        logger = logging.getLogger(real_name(package))
        logger.setLevel(logging.INFO if first_process() else logging.ERROR)
        if not logger.handlers:
            handler = _ToStderr()
            handler.setFormatter(logging.Formatter("%(message)s"))
            logger.addHandler(handler)
