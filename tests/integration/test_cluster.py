"""The files of configs/cluster, with commands that note how they are called in SLURM's place."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Steadfast
from tests.integration.several import CLUSTER

JOB = {"SLURM_JOB_ID": "4242", "SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "4"}
ARRAY = {
    "SLURM_ARRAY_TASK_ID": "3",
    "SLURM_ARRAY_TASK_MAX": "7",
    "SLURM_ARRAY_TASK_COUNT": "7",
    "SLURM_CPUS_PER_TASK": "4",
}
STUDY = ["study", "run", "a b.yaml", "--data_dir=data"]
MANIFESTS = sorted(CLUSTER.glob("study*.kubernetes.yaml"))
ARGS = ["train", "--model", "OLSA", "--data", "Reviews", "--run", "a b"]


def batch(
    where: Path, status: int, *args: str, first: str = "", script: str = "slurm.sbatch", **job: str
) -> subprocess.CompletedProcess[str]:
    """Run a script; `srun` does something and ends with this status."""
    note = f'printf "%s\\n" "$@" > {where}/$(basename "$0").called'
    for name, end in (("srun", f"{first}\nexit {status}"), ("scontrol", "exit 0")):
        command = where / name
        command.write_text(f"#!/bin/sh\n{note}\n{end}\n")
        command.chmod(0o755)
    return subprocess.run(
        [str(CLUSTER / script), *(args or ARGS)],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            **JOB,
            **job,
            "PATH": f"{where}:{os.environ['PATH']}",
            "PYTHON": "python3",
        },
    )


@pytest.mark.parametrize("script", ["slurm.sbatch", "study.sbatch"])
@pytest.mark.parametrize("status", [0, 1, 137, 143])
def test_only_what_was_stopped_is_queued_again(tmp_path: Path, status: int, script: str) -> None:
    outcome = batch(tmp_path, status, script=script, **ARRAY)
    assert outcome.returncode == status, outcome.stderr
    again = tmp_path / "scontrol.called"
    assert again.exists() == (status == 143)
    if status == 143:
        assert again.read_text().split() == ["requeue", "4242"]


@pytest.mark.parametrize("script", ["slurm.sbatch", "study.sbatch"])
def test_a_cancelled_job_is_not(tmp_path: Path, script: str) -> None:
    outcome = batch(tmp_path, 143, first="kill -TERM $PPID", script=script, **ARRAY)
    assert outcome.returncode == 143, outcome.stderr
    assert not (tmp_path / "scontrol.called").exists()


def test_the_tasks_get_the_command(tmp_path: Path, steadfast: Steadfast) -> None:
    batch(tmp_path, 0)
    called = (tmp_path / "srun.called").read_text().splitlines()
    assert called[:4] == ["--kill-on-bad-exit=1", "python3", "-m", "steadfast"]
    assert called[4:11] == ARGS
    parsed = steadfast(*[*called[4:9], *called[11:], "--print_config"])
    assert parsed.status == 0
    assert "num_nodes: 2" in parsed.out
    assert "devices: '4'" in parsed.out


@pytest.mark.parametrize("missing", ["MASTER_ADDR", "NODE_RANK"])
def test_torchrun_says_what_it_needs(missing: str) -> None:
    given = {"MASTER_ADDR": "127.0.0.1", "NODE_RANK": "0", "PYTHON": sys.executable}
    del given[missing]
    environment = {key: value for key, value in os.environ.items() if key != missing}
    outcome = subprocess.run(
        [str(CLUSTER / "torchrun.sh"), *ARGS],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, **given},
    )
    assert outcome.returncode != 0
    assert f"{missing}: expected" in outcome.stderr


def test_a_task_of_an_array_is_a_shard(tmp_path: Path) -> None:
    cores = f'echo "$SRUN_CPUS_PER_TASK" > {tmp_path}/cores'
    assert batch(tmp_path, 0, *STUDY, first=cores, script="study.sbatch", **ARRAY).returncode == 0
    called = (tmp_path / "srun.called").read_text().splitlines()
    assert called == ["--ntasks=1", "python3", "-m", "steadfast", *STUDY, "--shard=3/7"]
    assert (tmp_path / "cores").read_text() == "4\n"


def test_an_attack_has_its_own_option(tmp_path: Path, steadfast: Steadfast) -> None:
    words = ["attack", "--model=OLSA", "--data=Reviews", "--attack=pwws"]
    batch(tmp_path, 0, *words, script="study.sbatch", **ARRAY)
    called = (tmp_path / "srun.called").read_text().splitlines()
    parsed = steadfast(*called[4:], "--print_config")
    assert parsed.status == 0, parsed.err
    assert "shard: 3/7" in parsed.out


def test_a_part_of_an_array_has_to_say_of_how_many(tmp_path: Path) -> None:
    part = {**ARRAY, "SLURM_ARRAY_TASK_MAX": "5", "SLURM_ARRAY_TASK_COUNT": "2"}
    outcome = batch(tmp_path, 0, *STUDY, script="study.sbatch", **part)
    assert outcome.returncode == 2
    assert "expected all of 1-N; give the number of shards" in outcome.stderr
    assert not (tmp_path / "srun.called").exists()
    assert batch(tmp_path, 0, *STUDY, script="study.sbatch", SHARDS="7", **part).returncode == 0
    assert (tmp_path / "srun.called").read_text().splitlines()[-1] == "--shard=3/7"


def manifest(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The specification of a Job, and of its container."""
    job = yaml.safe_load(path.read_text())
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    [container] = job["spec"]["template"]["spec"]["containers"]
    return job["spec"], container


def words_of(container: dict[str, Any], where: Path, **variables: str) -> list[str]:
    """The words that the program gets."""
    stub = where / "python"
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stub.chmod(0o755)
    given = {one["name"]: one["value"] for one in container.get("env", [])}
    called = subprocess.run(
        [*container["command"], *container["args"]],
        capture_output=True,
        text=True,
        check=True,
        cwd=where,
        env={"PATH": f"{where}:{os.environ['PATH']}", **given, **variables},
    )
    return called.stdout.splitlines()


@pytest.mark.parametrize("index", [0, 6])
def test_a_pod_of_an_indexed_job_is_a_shard(tmp_path: Path, index: int) -> None:
    job, container = manifest(CLUSTER / "study.kubernetes.yaml")
    assert job["completionMode"] == "Indexed"
    assert [one["value"] for one in container["env"]] == [str(job["completions"])]
    [exits] = [rule["onExitCodes"] for rule in job["podFailurePolicy"]["rules"][1:]]
    assert exits["containerName"] == container["name"]
    called = words_of(container, tmp_path, JOB_COMPLETION_INDEX=str(index))
    assert called[:4] == ["-m", "app", "study", "run"]
    assert called[-2:] == ["--shard", f"{index + 1}/{job['completions']}"]


def test_the_last_job_merges_that_study(tmp_path: Path) -> None:
    _, shards = manifest(CLUSTER / "study.kubernetes.yaml")
    _, container = manifest(CLUSTER / "study_merge.kubernetes.yaml")
    called = words_of(container, tmp_path)
    [file] = [word for word in shards["args"] if word.endswith(".yaml")]
    assert called == ["-m", "app", "study", "merge", file, "--runs_dir=runs"]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_the_parser_takes_what_a_pod_is_given(
    tmp_path: Path, steadfast: Steadfast, path: Path
) -> None:
    _, container = manifest(path)
    _, _, *called = words_of(container, tmp_path, JOB_COMPLETION_INDEX="0")
    outcome = steadfast(called)
    # Only the study is to be filled in.
    assert outcome.status == 1
    assert "configs/studies/NAME.yaml" in outcome.err


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_pods_may_do_little(path: Path) -> None:
    job, container = manifest(path)
    pod = job["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    # What the program writes to is mounted.
    assert {"/app/runs", "/cache", "/tmp"} <= {m["mountPath"] for m in container["volumeMounts"]}


def test_a_pod_of_the_guard_serves_a_detector(steadfast: Steadfast) -> None:
    deployment, service = yaml.safe_load_all((CLUSTER / "guard.kubernetes.yaml").read_text())
    assert (deployment["apiVersion"], deployment["kind"]) == ("apps/v1", "Deployment")
    pod = deployment["spec"]["template"]
    [container] = pod["spec"]["containers"]
    assert container["command"] == ["python", "-m", "app"]
    # Only the run is to be filled in.
    outcome = steadfast(container["args"], "--port=0")
    assert outcome.status == 1
    assert "NAME" in outcome.err
    paths = {"readinessProbe": "/ready", "livenessProbe": "/health", "startupProbe": "/health"}
    for probe, path in paths.items():
        asked = container[probe]["httpGet"]
        assert (asked["path"], asked["port"]) == (path, container["ports"][0]["name"])
        # The server refuses host names that it does not know: 421.
        assert {"name": "Host", "value": "127.0.0.1"} in asked["httpHeaders"]
    assert container["ports"][0]["containerPort"] == 8000
    # The name of the Service is a host name of the server.
    assert f"--allow_host={service['metadata']['name']}" in container["args"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert {volume["name"] for volume in pod["spec"]["volumes"]} == set(mounts)
    assert mounts["runs"]["readOnly"] is True
