"""Running text from a hub on the loopback interface, fetched and streamed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.datamodules.hub_server import hub, load

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


TEXTS = ["the hare ran", "a tortoise walked on and on", "she won"]
LINES = "".join(json.dumps({"text": text, "n": 1}) + "\n" for text in [*TEXTS, " "]).encode()


@pytest.mark.slow
def test_fetched_and_streamed_are_the_same(tmp_path: Path) -> None:
    with hub({"someone/texts": {"train.jsonl": LINES}}) as (endpoint, requests):
        common: dict[str, Any] = {"hub_id": "someone/texts"}
        jobs = [
            common,
            {**common, "streaming": True},
            {**common, "streaming": True, "text_column": "body"},
            {"hub_id": "nobody/nothing"},
            {"hub_id": "nobody/nothing", "streaming": True},
        ]
        results, _ = load(PROGRAM, endpoint, tmp_path, jobs)
        fetched, streamed, column, absent, streamed_absent = results
        assert fetched[0] == streamed[0] == TEXTS
        assert fetched[1] == streamed[1]
        assert "got columns ['text', 'n'], expected ['body'] among them" in column
        for error in (absent, streamed_absent):
            assert error.startswith("got no text from hub dataset nobody/nothing (")
            assert "pass files of your own with `--data.files`" in error
        assert requests
    # Packed blocks and the library's cache are enough without the hub; a stream needs it.
    (offline, stream), _ = load(PROGRAM, "http://127.0.0.1:9", tmp_path, jobs[:2])
    assert offline == fetched
    assert "the hub cannot be reached" in stream
