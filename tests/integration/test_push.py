"""`export --push` against a hub on the loopback interface.

In processes of their own: the client reads its endpoint when it is imported.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT, Steadfast
from tests.integration.model_hub import TOKEN, model_hub
from tests.integration.test_export import fit

PROGRAM = """
import json, sys
import steadfast as sf
from app.cli.main import entry
for words in json.loads(sys.argv[1]):
    status = entry(words)
    if status:
        sys.exit(status)
for name in ("hf:owner/name", "out"):
    print(*(f"{record['probability']:.6f}" for record in sf.load(name).predict(["a rude waiter"])))
"""


def run(endpoint: str, *words: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    kept.pop("HF_HUB_OFFLINE", None)
    # Large files then take the older protocol, which the stand-in has.
    own = {"HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": token}
    own |= {"HF_HOME": str(Path.cwd() / "hub"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *words], env={**kept, **own}, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_folder_is_uploaded_and_loaded_again(here: Path, steadfast: Steadfast) -> None:
    assert steadfast(fit("bert")).status == 0
    export = ["export", "--run=bert", "--output=out", "--push=owner/name"]
    with model_hub() as (endpoint, hub):
        commands = [export, [*export, "--revision=trial", "--private=false"]]
        done = run(endpoint, "-c", PROGRAM, json.dumps(commands))
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert f"{endpoint}/owner/name" in lines
        assert f"{endpoint}/owner/name/tree/trial" in lines
        there, here_ = lines[-2:]
        assert there == here_
        assert [made["visibility"] for made in hub.created] == ["private", "public"]
        files = {path.name: path.read_bytes() for path in Path("out").iterdir()}
        assert hub.branches["trial"] == files
        assert hub.branches["main"].keys() == files.keys()
        refused = run(endpoint, "-m", "app", *export, token="wrong")
        assert refused.returncode == 1
        assert "401" in refused.stderr
        assert refused.stderr.count("\n") == 1, refused.stderr
    gone = run(endpoint, "-m", "app", *export)
    assert gone.returncode == 1
    assert gone.stderr.startswith("error: got --push owner/name")
    assert gone.stderr.count("\n") == 1, gone.stderr


@pytest.mark.parametrize("words", [["--revision=trial"], ["--push=a b"]])
def test_wrong_options(here: Path, steadfast: Steadfast, words: list[str]) -> None:
    Path("runs").mkdir()
    outcome = steadfast("export", "--run=none", "--output=out", words)
    assert outcome.status == 1
    assert json.dumps(outcome.err).count("\\n") == 1
    assert words[0].partition("=")[0] in outcome.err
    assert not Path("out").exists()
