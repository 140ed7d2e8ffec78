import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.docker.compose import BASE, JOBS, OVERRIDE, ROOT, load, services, variables

COMPOSE = {"1.29": ["docker-compose"], "v2": ["docker", "compose"]}


@pytest.fixture
def no_env(tmp_path: Path) -> Path:
    """Instead of the checkout's .env."""
    path = tmp_path / "env"
    path.touch()
    return path


def compose(
    version: str, no_env: Path, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """`compose config`, which needs no engine, with few variables."""
    command = COMPOSE[version]
    asked = shutil.which(command[0]) and subprocess.run(
        [*command, "version"], capture_output=True, text=True, check=False
    )
    if not asked or asked.returncode != 0:
        pytest.skip(f"{' '.join(command)} is not installed")
    kept = {name: os.environ[name] for name in ("PATH", "DOCKER_CONFIG") if name in os.environ}
    return subprocess.run(
        [*command, "--env-file", str(no_env), *arguments],
        cwd=ROOT,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_env_example_names_every_variable_and_no_other() -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    named = [match[1] for line in lines if (match := re.match(r"#?([A-Z_]+)=", line))]
    assert len(named) == len(set(named))
    # COMPOSE_FILE is Compose's own.
    assert set(named) - {"COMPOSE_FILE"} == variables(BASE) | variables(OVERRIDE)


def test_env_example_changes_nothing_until_it_is_edited() -> None:
    # CUDA_VISIBLE_DEVICES= for example would take all GPUs away.
    lines = (ROOT / ".env.example").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == []


def test_env_example_shows_the_defaults() -> None:
    shown = dict(
        re.findall(r"^#([A-Z_]+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE)
    )
    default = re.compile(r"\$\{([A-Z_]+):-([^}]+)\}")
    for name, value in default.findall(BASE.read_text()):
        if name != "SHM_SIZE":  # two defaults, both in the comment beside it
            assert shown[name] == value


def test_services_are_those_that_are_promised() -> None:
    assert set(services(BASE)) == {*JOBS, "guard", "tensorboard", "prepare"}
    assert set(services(OVERRIDE)) == set(services(BASE))


def test_no_key_that_one_of_the_two_composes_does_not_know() -> None:
    for path in (BASE, OVERRIDE):
        assert not {"name", "version"} & set(load(path))
        for service in services(path).values():
            assert not {"gpus", "container_name"} & set(service)


def test_one_image() -> None:
    for path, variant in ((BASE, "cpu"), (OVERRIDE, "cuda")):
        for service in services(path).values():
            assert service["image"] == f"${{IMAGE:-steadfast}}:{variant}"
            assert service["build"]["args"]["VARIANT"] == variant


@pytest.mark.parametrize("name", [*JOBS, "guard", "tensorboard", "prepare"])
def test_a_service_has_as_little_freedom_as_it_can_work_with(name: str) -> None:
    service = services(BASE)[name]
    assert service["read_only"] is True
    assert service["init"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "pid", "ipc", "devices"} & set(service)
    assert all("docker.sock" not in str(volume) for volume in service["volumes"])
    if name == "prepare":
        # Root, for one system call on one folder.
        assert service["user"] == "0:0"
        assert service["cap_add"] == ["CHOWN"]
        assert service["network_mode"] == "none"
        assert service["volumes"] == ["${RUNS_DIR:-./runs}:/app/runs"]
    else:
        assert service["user"] == "${UID:-1000}:${GID:-1000}"
        assert "cap_add" not in service


@pytest.mark.parametrize("name", JOBS)
def test_arguments_of_a_job_can_be_replaced_without_its_command(name: str) -> None:
    service = services(BASE)[name]
    command = [] if name == "cli" else [name]
    assert service["entrypoint"] == ["/app/docker/entrypoint.sh", *command]
    # A wrong setting of a job would fail for ever.
    assert service["restart"] == ("unless-stopped" if name == "serve" else "no")
    assert service["shm_size"]
    assert service["stop_grace_period"]


@pytest.mark.parametrize("name", [*JOBS, "guard", "tensorboard", "prepare"])
def test_no_service_can_take_the_whole_machine(name: str) -> None:
    service = services(BASE)[name]
    assert re.fullmatch(r"\$\{MEMORY_LIMIT:-\d+g\}", service["mem_limit"])
    # docker-compose 1.29 hands a variable to the engine as a string, which refuses it.
    assert isinstance(service["pids_limit"], int)


def test_the_token_is_not_where_strangers_talk_to_the_program() -> None:
    reachable = {name for name, service in services(BASE).items() if "ports" in service}
    holders = {n for n, s in services(BASE).items() if "HF_TOKEN" in s.get("environment", {})}
    assert holders == {*JOBS} - reachable


def test_data_and_recipes_are_read_only() -> None:
    volumes = services(BASE)["train"]["volumes"]
    assert "./configs:/app/configs:ro" in volumes
    (data,) = [volume for volume in volumes if isinstance(volume, dict)]
    # The long form: Docker stops where the folder is missing, instead of making it as root.
    assert data["type"] == "bind"
    assert data["read_only"] is True


def test_up_alone_starts_no_evaluation() -> None:
    started = {name for name, service in services(BASE).items() if "profiles" not in service}
    assert started == {"train", "tensorboard", "prepare"}


def test_tensorboard_is_for_this_machine_only() -> None:
    service = services(BASE)["tensorboard"]
    assert service["ports"] == ["127.0.0.1:${TENSORBOARD_PORT:-6006}:6006"]
    assert service["volumes"] == ["${RUNS_DIR:-./runs}:/app/runs:ro"]
    assert "urlopen" in service["healthcheck"]["test"][-1]


@pytest.mark.parametrize(
    ("name", "port"), [("serve", "SERVE_PORT:-8000"), ("guard", "GUARD_PORT:-8080")]
)
def test_the_live_page_is_for_this_machine_only(name: str, port: str) -> None:
    service = services(BASE)[name]
    assert service["ports"] == [f"127.0.0.1:${{{port}}}:8000"]
    assert service["profiles"] == ["evaluate"]
    assert "${RUNS_DIR:-./runs}:/app/runs:ro" in service["volumes"]
    assert [one["read_only"] for one in service["volumes"] if isinstance(one, dict)] == [True]
    assert "urlopen" in service["healthcheck"]["test"][-1]


def test_the_guard_serves_a_detector_alone() -> None:
    service = services(BASE)["guard"]
    assert service["entrypoint"][1:] == ["serve", "--detector", "--recipes="]
    assert service["command"] == []
    assert "HF_TOKEN" not in service["environment"]


def test_no_other_service_can_be_reached() -> None:
    ports = {name for name, service in services(BASE).items() if "ports" in service}
    assert ports == {"tensorboard", "serve", "guard"}


def test_base_file_asks_for_no_gpu_and_the_override_for_all() -> None:
    assert "nvidia" not in BASE.read_text()
    for name, service in services(OVERRIDE).items():
        if name in (*JOBS, "guard"):
            (device,) = service["deploy"]["resources"]["reservations"]["devices"]
            assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
        else:
            assert "deploy" not in service


@pytest.mark.parametrize("version", COMPOSE)
@pytest.mark.parametrize("files", [[BASE], [BASE, OVERRIDE]], ids=["cpu", "gpu"])
def test_compose_reads_the_files(version: str, files: list[Path], no_env: Path) -> None:
    named = [argument for path in files for argument in ("-f", path.name)]
    done = compose(
        version,
        no_env,
        *named,
        "config",
        ARGS="--model.objective.target_radius 1",
        UID="1234",
        GID="5",
    )
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(done.stdout)["services"]
    train = found["train"]
    assert train["user"] == "1234:5"
    assert "target_radius" in str(train["command"])
    gpu = OVERRIDE in files
    assert ("nvidia" in str(train.get("deploy"))) == gpu
    variant = "cuda" if gpu else "cpu"
    assert {service["image"] for service in found.values()} == {f"steadfast:{variant}"}
    assert {service["build"]["args"]["VARIANT"] for service in found.values()} == {variant}


@pytest.mark.parametrize("version", COMPOSE)
def test_compose_adds_the_override_by_itself(version: str, no_env: Path) -> None:
    assert "driver: nvidia" in compose(version, no_env, "config").stdout
    alone = compose(version, no_env, "config", COMPOSE_FILE="docker-compose.yml")
    assert alone.returncode == 0
    assert "driver: nvidia" not in alone.stdout
