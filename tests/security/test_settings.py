"""A settings file is code: it names classes. What it cannot do is to be code in any other way."""

import socket
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.conftest import ATTACK, OLSA, REVIEWS, TINY, Steadfast
from tests.security.payloads import Marker

EPOCH = "--trainer.max_epochs=1"
TAGS = (
    "!!python/object/apply:os.system ['{}']",
    "!!python/object/new:os.system ['{}']",
    "!!python/object/apply:subprocess.check_output [['/bin/sh', '-c', '{}']]",
    "!!python/object/new:type {{args: ['a', [], {{}}], listitems: !!python/name:exec }}",
    "!!python/name:os.system ''",
    "!!python/module:antigravity ''",
    "!!python/object:subprocess.Popen {{args: ['/bin/sh', '-c', '{}']}}",
)


def test_the_payloads_are_real(marker: Marker) -> None:
    yaml.unsafe_load(f"a: {TAGS[0].format(marker.command)}\n")
    assert not marker.untouched()


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("place", ["file", "value"])
def test_python_in_yaml_is_not_executed(
    place: str, tag: str, here: Path, steadfast: Steadfast, marker: Marker
) -> None:
    payload = tag.format(marker.command)
    if place == "file":
        content = f"model: {{class_path: OLSA}}\ndata: Reviews\nseed_everything: {payload}\n"
        Path("c.yaml").write_text(content)
        outcome = steadfast("fit", "--config=c.yaml", TINY, EPOCH)
    else:
        outcome = steadfast("fit", OLSA, REVIEWS, TINY, EPOCH, f"--seed={payload}")
    assert outcome.status == 2
    assert marker.untouched()


@pytest.mark.parametrize(("command", "tag"), [("fit", TAGS[0]), *(("test", tag) for tag in TAGS)])
def test_python_in_the_settings_of_a_run_is_not_executed(
    command: str, tag: str, trained: Path, steadfast: Steadfast, marker: Marker
) -> None:
    path = trained / "config.yaml"
    path.write_text(f"{path.read_text()}\nmore: {tag.format(marker.command)}\n")
    outcome = steadfast(command, "--run=done", TINY)
    assert outcome.status == 1
    assert "cannot be read" in outcome.err
    assert marker.untouched()


@pytest.mark.parametrize("option", ["--config", "--model", "--data", "--trainer"])
@pytest.mark.parametrize("scheme", ["http", "https", "ftp", "memory", "file"])
def test_settings_are_not_fetched(
    scheme: str, option: str, here: Path, steadfast: Steadfast
) -> None:
    Path("c.yaml").write_text("seed_everything: 1\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"127.0.0.1:{server.getsockname()[1]}"
        address = here / "c.yaml" if scheme == "file" else f"{host}/c.yaml"
        outcome = steadfast("fit", f"{option}={scheme}://{address}")
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert outcome.status == 2


def evil_method(marker: Marker) -> None:
    Path("evil.py").write_text(
        f"import os\nfrom lit_modules import OLSA\nos.system({marker.command!r})\n"
        "class Evil(OLSA):\n    pass\n"
    )


def test_settings_are_code(
    here: Path, steadfast: Steadfast, marker: Marker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meant so: this is how a method of one's own is used. SECURITY.md warns of it."""
    monkeypatch.syspath_prepend(str(here))
    evil_method(marker)
    Path("c.yaml").write_text("model: {class_path: evil.Evil}\ndata: Reviews\n")
    steadfast("fit", "--config=c.yaml", TINY, EPOCH, "--print_config")
    sys.modules.pop("evil", None)
    assert not marker.untouched()


def test_a_whole_run_of_somebody_else_is_code_and_its_checkpoint_is_not(
    trained: Path, steadfast: Steadfast, marker: Marker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its settings are used with it: a checkpoint alone, moved out of it, is only data."""
    import lit_modules

    monkeypatch.syspath_prepend(str(Path.cwd()))
    evil_method(marker)
    config = trained / "config.yaml"
    config.write_text(config.read_text().replace("lit_modules.OLSA", "evil.Evil"))
    checkpoint = trained / "checkpoints" / "best.ckpt"
    lit_modules.load(checkpoint)
    alone = checkpoint.replace("alone.ckpt")
    arguments = [*OLSA, *REVIEWS, *TINY, *ATTACK, "--run=other"]
    assert steadfast("test", arguments, f"--ckpt_path={alone}").status == 0
    assert marker.untouched()
    steadfast("test", f"--ckpt_path={checkpoint}", TINY)
    sys.modules.pop("evil", None)
    assert not marker.untouched()


def test_what_a_checkpoint_may_name_is_what_torch_allows() -> None:
    """Its own allow-list, to which neither we nor what we load adds anything."""
    import torch

    import app.cli.robust_cli  # noqa: F401 (with all that it loads)

    allowed = torch.serialization.get_safe_globals()
    classes = [entry[0] if isinstance(entry, tuple) else entry for entry in allowed]
    assert {entry.__module__.split(".")[0] for entry in classes} <= {"torch"}
