"""The image itself, driven through the engine's interface as Compose would."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.docker.compose import ROOT
from tests.docker.conftest import SECRET, Start, build, wait_until

Ended = Callable[..., tuple[int, str]]

SMALL = """
    train --config configs/default.yaml --model.depth 1 --model.width 32 --data.limit_train 256
    --trainer.enable_progress_bar false --trainer.limit_test_batches 1 --pgd.steps 2
""".split()


def results(runs: Path, run: str) -> Any:
    return json.loads((runs / run / "results.json").read_text())


def test_image_is_not_root(image: Any, ended: Ended) -> None:
    assert image.attrs["Config"]["User"] == "1000:1000"
    assert ended("sh", "-c", "id -u; id -g", user=None) == (0, "1000\n1000\n")


def test_image_says_what_it_is(image: Any) -> None:
    labels = image.labels
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert "org.opencontainers.image.revision" in labels
    assert image.attrs["Config"]["Entrypoint"] == ["/app/docker/entrypoint.sh"]


def test_where_packages_came_from_is_not_in_the_image(image: Any, ended: Ended) -> None:
    assert "PIP_" not in " ".join(
        name for name in image.attrs["Config"]["Env"] if not name.startswith("PIP_CERT=")
    )
    assert SECRET not in json.dumps([image.attrs, image.history()])
    # As root, who can read everything.
    search = f"grep -rIl {SECRET} /app /etc /cache /root /tmp"
    assert ended("sh", "-c", search, user="0:0", cap_add=["DAC_OVERRIDE"]) == (1, "")


def test_program_cannot_be_changed_by_who_runs_it(ended: Ended) -> None:
    # /app/runs is the one exception.
    writable = "find /app -writable -not -type l -not -path '/app/runs*' | head"
    assert ended("sh", "-c", writable, read_only=False) == (0, "")


def test_training_runs_to_its_end_on_a_read_only_root(ended: Ended, runs: Path, user: str) -> None:
    status, printed = ended(*SMALL, "--trainer.max_epochs", "1", environment={"RUN": "whole"})
    assert status == 0, printed
    assert set(results(runs, "whole")["seconds"]) == {"fit", "test", "certify"}
    found = (runs / "whole" / "results.json").stat()
    assert f"{found.st_uid}:{found.st_gid}" == user
    # The same command again, and an evaluation by the name alone.
    status, printed = ended(*SMALL, "--trainer.max_epochs", "1", environment={"RUN": "whole"})
    assert (status, printed.count("error:")) == (1, 1)
    assert "is finished" in printed
    status, printed = ended("certify", environment={"RUN": "whole"})
    assert status == 0, printed


def test_commands_get_what_they_take(ended: Ended, runs: Path) -> None:
    status, printed = ended(*SMALL, "--trainer.max_epochs", "1", "--run", "told")
    assert status == 0, printed
    status, printed = ended("predict", "--run", "told", "--text", "A fine film.")
    assert status == 0, printed
    assert "prediction" in json.loads(printed.splitlines()[-1])
    status, printed = ended("report", "--run", "told")
    assert status == 0, printed
    assert ended("runs")[1].count("told") == 1


def test_nothing_is_shipped_that_nobody_uses(ended: Ended) -> None:
    packages = "/app/.venv/lib -name '*.dist-info' -prune -o -type d"
    unused = "-name include -o -name tests -o -path '*/torch/test'"
    assert ended("sh", "-c", f"find {packages} \\( {unused} \\) -print") == (0, "")


def test_image_knows_its_commit(ended: Ended) -> None:
    status, printed = ended("--version")
    assert status == 0
    in_checkout = (ROOT / ".git" / "HEAD").is_file()
    assert bool(re.search(r"\(git [0-9a-f]{12}-checkout\)", printed)) == in_checkout


def test_stopped_training_says_143_and_goes_on(start: Start, runs: Path) -> None:
    command = [*SMALL, "--trainer.max_epochs", "60", "--checkpoint.monitor", "null"]
    environment = {"RUN": "stopped", "OMP_NUM_THREADS": "1"}
    first = start(*command, environment=environment)
    last = runs / "stopped" / "checkpoints" / "last.ckpt"
    wait_until(last.is_file, "a first checkpoint")
    first.stop(timeout=120)
    assert first.wait()["StatusCode"] == 143, first.logs().decode()
    assert "certify" not in first.logs().decode()
    second = start(*command, environment=environment)
    status, printed = second.wait()["StatusCode"], second.logs().decode()
    assert status == 0, printed
    assert "resumes after step" in printed
    assert str(last.relative_to(runs)) in printed
    assert results(runs, "stopped")["seconds"]["certify"] >= 0


def test_killed_training_goes_on(start: Start, runs: Path) -> None:
    command = [*SMALL, "--trainer.max_epochs", "40", "--checkpoint.monitor", "null"]
    environment = {"RUN": "killed", "OMP_NUM_THREADS": "1"}
    first = start(*command, environment=environment)
    wait_until((runs / "killed" / "checkpoints" / "last.ckpt").is_file, "a first checkpoint")
    first.kill()
    assert first.wait()["StatusCode"] == 137
    second = start(*command, environment=environment)
    assert second.wait()["StatusCode"] == 0, second.logs().decode()
    assert "resumes after step" in second.logs().decode()


def test_doctor_comes_first(ended: Ended) -> None:
    status, printed = ended(*SMALL, "--trainer.max_epochs", "1", environment={"DOCTOR": "1"})
    alone, report = ended("doctor")
    # What the doctor thinks of this machine decides whether the training begins.
    assert report.splitlines()[0] in printed
    assert ("mean certified radius" in printed) == (alone == 0)
    assert status == alone


def test_folder_that_docker_made_is_given_to_the_user(
    engine: Any, ended: Ended, tmp_path: Path, user: str
) -> None:
    missing = tmp_path / "missing"
    volumes = {str(missing): {"bind": "/app/runs", "mode": "rw"}}
    as_root = {
        "user": "0:0",
        "cap_add": ["CHOWN"],
        "environment": {"OWNER": user},
        "entrypoint": ["/app/docker/prepare.sh"],
        "volumes": volumes,
    }
    assert ended(**as_root) == (0, "")
    owner = missing.stat()
    assert f"{owner.st_uid}:{owner.st_gid}" == user
    assert ended("sh", "-c", "touch runs/x && rm runs/x", volumes=volumes) == (0, "")


def test_folder_of_root_with_anything_but_runs_is_left_alone(ended: Ended, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    volumes = {str(missing): {"bind": "/app/runs", "mode": "rw"}}
    as_root = {"user": "0:0", "environment": {"OWNER": "1234:1234"}, "volumes": volumes}
    fill = "mkdir -p runs/a && touch runs/a/config.yaml runs/.hidden"
    assert ended("sh", "-c", fill, **as_root) == (0, "")
    as_root |= {"cap_add": ["CHOWN"], "entrypoint": ["/app/docker/prepare.sh"]}
    assert ended(**as_root) == (0, "")
    assert missing.stat().st_uid == 0
    status, printed = ended("train", volumes=volumes, user="1234:1234")
    assert status == 1
    (line,) = printed.splitlines()
    assert "got runs/, which belongs to 0:0 and cannot be written by 1234:1234" in line
    assert "UID=0 and GID=0 in .env" in line
    # A run of somebody else in a folder of one's own, too.
    assert ended("sh", "-c", "rm runs/.hidden", **as_root | {"entrypoint": None})[0] == 0
    assert ended(**as_root) == (0, "")
    assert missing.stat().st_uid == 1234
    settings = {"volumes": volumes, "user": "1234:1234", "environment": {"RUN": "a"}}
    status, printed = ended("certify", **settings)
    assert (status, "got runs/a/, which belongs to 0:0" in printed) == (1, True)
    as_root["cap_add"] = ["DAC_OVERRIDE"]
    ended("sh", "-c", "rm -r runs/a", **as_root | {"entrypoint": None})


def test_data_are_found_without_being_named(ended: Ended, runs: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "data" / "sst2"
    corpus.mkdir(parents=True)
    rows = [("fine", 1), ("dull", 0), ("very fine", 1), ("very dull", 0)]
    for split in ("train", "validation", "test"):
        lines = ["sentence\tlabel", *(f"{text}\t{label}" for text, label in rows)]
        (corpus / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    volumes = {
        str(runs): {"bind": "/app/runs", "mode": "rw"},
        str(tmp_path / "data"): {"bind": "/app/data", "mode": "ro"},
    }
    command = (
        "train --config configs/olsa/sst2.yaml --model.objective.target_radius 1 --model.width 16"
    )
    status, printed = ended(
        *f"{command} --pgd.steps 1 --trainer.max_epochs 1 --run smaller".split(), volumes=volumes
    )
    assert status == 0, printed
    assert results(runs, "smaller")["corpus"] == "sst2"
    assert "target_radius: 1.0" in (runs / "smaller" / "config.yaml").read_text()


def test_tensorboard_shows_the_curves(start: Start, ended: Ended, runs: Path) -> None:
    status, printed = ended(*SMALL, "--trainer.max_epochs", "2", "--run", "seen")
    assert status == 0, printed
    command = "tensorboard --logdir runs --host 0.0.0.0 --port 6006"
    board = start(
        *command.split(),
        ports={"6006/tcp": ("127.0.0.1", None)},
        volumes={str(runs): {"bind": "/app/runs", "mode": "ro"}},
        tmpfs={"/tmp": "", "/cache": ""},
    )

    def ask(path: str) -> Any:
        board.reload()
        (port,) = board.ports["6006/tcp"]
        assert port["HostIp"] == "127.0.0.1"
        try:
            with urlopen(f"http://127.0.0.1:{port['HostPort']}/{path}", timeout=10) as answer:
                return json.load(answer)
        except (URLError, ConnectionError):
            return {}

    tag = "val/radius_correct"
    scalars = "data/plugin/scalars"
    wait_until(lambda: tag in ask(f"{scalars}/tags").get("seen", {}), "the run's curves")
    points = ask(f"{scalars}/scalars?{urlencode({'run': 'seen', 'tag': tag})}")
    assert [step for _, step, _ in points] == sorted(step for _, step, _ in points)
    assert len(points) == 2


@pytest.mark.slow
def test_tests_run_in_their_own_target(engine: Any, image: Any) -> None:
    tag = f"steadfast-pytest-suite:{os.getpid()}"
    build(tag, "--target", "test", "--build-arg", f"PIP_TRUSTED_HOST={SECRET}")
    try:
        printed = engine.containers.run(
            tag,
            ["tests/unit/text", "tests/unit/packaging", "tests/docker", "-q"],
            init=True,
            remove=True,
            environment={"OMP_NUM_THREADS": "1"},
        )
        assert b" passed" in printed
        assert SECRET not in json.dumps([engine.images.get(tag).attrs, image.history()])
    finally:
        engine.images.remove(tag, force=True)
