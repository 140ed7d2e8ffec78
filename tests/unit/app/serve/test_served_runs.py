"""The facts of runs that `serve` shows."""

from pathlib import Path

from app.commands.serve import _load_models, parser
from app.hub_folder import _content
from app.serve.model_worker import ModelWorker
from app.serve.serve_limits import ServeLimits
from lit_modules.checkpoints.exported import checkpoint_digest, write_exported
from run_files.run_directory import RunDirectory
from tests.unit.lit_modules.builders import attached, plain


def test_a_run_of_an_exported_folder_has_its_facts(tmp_path: Path) -> None:
    # As `test --ckpt_path FOLDER --run theirs --data Reviews` begins it: without weights.
    folder = tmp_path / "folder"
    folder.mkdir()
    write_exported(_content(attached(plain())), folder)
    run = RunDirectory(tmp_path / "runs" / "theirs")
    run.write_config({"data": {"class_path": "datamodules.Reviews", "init_args": {}}})
    run.write_source(checkpoint_digest(folder), folder)
    words = ["--run", "theirs", "--runs_dir", str(run.path.parent), "--device", "cpu"]
    workers: dict[str, ModelWorker] = {}
    try:
        facts = _load_models(parser().parse_args(words), ServeLimits(), workers)
        assert list(workers) == ["theirs"]
        assert len(facts["theirs"].texts) == 100
    finally:
        for worker in workers.values():
            worker.close()
