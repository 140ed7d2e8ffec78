"""Running text from a hub on the loopback interface, fetched and streamed.

In a process of its own: the library reads its endpoint and its cache folder when it is imported.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.datamodules.hub_server import hub

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
from text import process_role

process_role.predicts_only = True  # without Lightning, whose import takes longer than the rest
import datamodules
from tests.unit.datamodules.running_text import TOKENIZER, content

results = []
for settings in json.loads(sys.argv[1]):
    module = datamodules.RunningText(length=8, validation_share=0, **settings)
    try:
        module.prepare_data()
        module.setup("fit")
        module.tokenizer = TOKENIZER
        texts = list(module.train_texts())
        results.append([texts, sorted(content(module.train_dataloader()).items())])
    except datamodules.DataError as error:
        results.append(str(error))
print(json.dumps(results))
"""


def load(endpoint: str, home: Path, jobs: list[dict[str, Any]]) -> list[Any]:
    """What each of the jobs gives: texts and blocks, or the text of an error."""
    kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_DATASETS_CACHE", "HF_HUB_CACHE"):
        kept.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(jobs)],
        env={**kept, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "PYTHONPATH": str(ROOT)},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


TEXTS = ["the hare ran", "a tortoise walked on and on", "she won"]
LINES = "".join(json.dumps({"text": text, "n": 1}) + "\n" for text in [*TEXTS, " "]).encode()


@pytest.mark.slow
def test_fetched_and_streamed_are_the_same(tmp_path: Path) -> None:
    with hub({"someone/texts": {"train.jsonl": LINES}}) as (endpoint, requests):
        common: dict[str, Any] = {"hub_id": "someone/texts"}
        fetched, streamed, column, absent, streamed_absent = load(
            endpoint,
            tmp_path,
            [
                common,
                {**common, "streaming": True},
                {**common, "streaming": True, "text_column": "body"},
                {"hub_id": "nobody/nothing"},
                {"hub_id": "nobody/nothing", "streaming": True},
            ],
        )
        assert fetched[0] == streamed[0] == TEXTS
        assert fetched[1] == streamed[1]
        assert "got columns ['text', 'n'], expected ['body'] among them" in column
        for error in (absent, streamed_absent):
            assert error.startswith("got no text from hub dataset nobody/nothing (")
            assert "pass files of your own with `--data.files`" in error
        assert requests
    # Packed blocks and the library's cache are enough without the hub; a stream needs it.
    offline, stream = load("http://127.0.0.1:9", tmp_path, [common, {**common, "streaming": True}])
    assert offline == fetched
    assert "the hub cannot be reached" in stream
