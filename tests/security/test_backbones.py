"""Pretrained encoders and tokenizers from anywhere: nothing of theirs is executed."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch

import lit_modules
import steadfast as sf
from attacks.resources.paraphrases import SequenceParaphraser
from attacks.validity.fluency import ModelFluency
from layers.frozen_backbone import FrozenBackbone, FrozenEncoder
from lit_modules import CheckpointError, MaskedLM, TextModule
from measure.named_victims import task_victim
from tests.security.checkpoints import seal
from tests.security.payloads import Evaluate, Hidden, Marker, Shell
from tests.unit.datamodules.hub_server import hub
from tests.unit.lit_modules.builders import (
    SINGLE,
    attached,
    loader,
    make,
    olsa,
    save_backbone,
    trainer,
)
from tests.unit.lit_modules.shared.unitary_models import ARCHITECTURE, unibert
from text import train_word_piece
from text.pretrained_tokenizer import PretrainedTokenizer

ROOT = Path(__file__).parents[2]
CODE = """
import os
os.system({command!r})
from transformers import BertConfig as EvilConfig, BertModel as EvilModel
from transformers import BertTokenizerFast as EvilTokenizer
"""
REMOTE = {
    "AutoConfig": "evil.EvilConfig",
    "AutoModel": "evil.EvilModel",
    "AutoTokenizer": ["evil.EvilTokenizer", "evil.EvilTokenizer"],
}


def change(folder: Path, name: str, **settings: Any) -> None:
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_backbone(tmp_path / "backbone", "bert")
    return tmp_path / "backbone"


@pytest.mark.parametrize("model_type", ["bert", "evil"])
def test_code_in_a_folder_is_not_executed(model_type: str, folder: Path, marker: Marker) -> None:
    """As a stand-in for an architecture that is known, and as one that is not."""
    (folder / "evil.py").write_text(CODE.format(command=marker.command))
    change(folder, "config.json", auto_map=REMOTE, model_type=model_type)
    change(folder, "tokenizer_config.json", auto_map=REMOTE, tokenizer_class="EvilTokenizer")
    for build in (
        lambda: FrozenBackbone(FrozenEncoder(pretrained=str(folder))),
        lambda: PretrainedTokenizer.from_pretrained(str(folder), max_length=20),
    ):
        if model_type == "evil":
            with pytest.raises(ValueError, match="could be loaded"):
                build()
        else:
            build()
    assert marker.untouched()


@pytest.mark.parametrize(
    "load",
    [
        lambda name: sf.load(f"hf:{name}"),
        lambda name: task_victim(name, "cpu"),
        ModelFluency.load,
        lambda name: SequenceParaphraser(name, count=1),
    ],
    ids=["load", "victim", "fluency", "paraphrases"],
)
def test_code_of_other_models_is_not_executed(
    load: Callable[[str], object], folder: Path, marker: Marker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not if somebody, or a file on standard input, answers the question of the library."""
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    heads = ("SequenceClassification", "CausalLM", "MaskedLM", "Seq2SeqLM")
    remote = {**REMOTE, **{f"AutoModelFor{head}": "evil.EvilModel" for head in heads}}
    (folder / "evil.py").write_text(CODE.format(command=marker.command))
    change(folder, "config.json", auto_map=remote, model_type="evil")
    change(folder, "tokenizer_config.json", auto_map=remote, tokenizer_class="EvilTokenizer")
    with pytest.raises((ValueError, FileNotFoundError), match=r"could be loaded|cannot be loaded"):
        load(str(folder))
    assert marker.untouched()


@pytest.mark.parametrize("legacy", [False, True])
def test_pickled_weights_with_code_are_refused(legacy: bool, folder: Path, marker: Marker) -> None:
    (folder / "model.safetensors").unlink()
    harm = {"a": torch.ones(1), "b": Shell(marker.command), "c": Evaluate(marker)}
    path = folder / "pytorch_model.bin"
    torch.save(harm, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(ValueError, match="no encoder could be loaded"):
        FrozenBackbone(FrozenEncoder(pretrained=str(folder)))
    assert marker.untouched()
    torch.load(path, weights_only=False)
    assert not marker.untouched()


def test_a_configuration_cannot_name_code_of_the_hub(folder: Path, tmp_path: Path) -> None:
    """CVE-2026-4372: attention from a hub repository, whatever `trust_remote_code` says."""
    names = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")
    for name in names:
        shutil.copytree(folder, tmp_path / name)
        change(tmp_path / name, "config.json", **{name: "evil/attention"})
    program = f"""
from layers.frozen_backbone import FrozenBackbone, FrozenEncoder
for name in {names}:
    try:
        FrozenBackbone(FrozenEncoder(pretrained=name))
    except Exception as error:
        print(error)
"""
    with serving({}) as (endpoint, requests):
        done = python(program, tmp_path, endpoint)
    assert done.returncode == 0, done.stderr
    assert requests == []


# The hub


@contextmanager
def serving(repositories: Mapping[str, Path]) -> Iterator[tuple[str, list[str]]]:
    """A hub with models by name, each with the files of a folder."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def do_GET(self) -> None:
            requests.append(self.path)
            path = self.path.split("?")[0]
            name = next((name for name in repositories if f"/{name}/" in f"{path}/"), None)
            body = None
            if name is not None and path.startswith("/api/"):
                body = b"[]" if "/tree/" in path else json.dumps({"id": name}).encode()
            elif name is not None and "/resolve/" in path:
                file = repositories[name] / path.rsplit("/", 1)[1]
                body = file.read_bytes() if file.is_file() else None
            self.send_response(200 if body is not None else 404)
            if body is None:
                self.send_header("X-Error-Code", "EntryNotFound" if name else "RepoNotFound")
            self.send_header("X-Repo-Commit", "1" * 40)
            self.send_header("ETag", f'"{hash(body):x}"')
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body or b"")

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def python(program: str, home: Path, endpoint: str) -> subprocess.CompletedProcess[str]:
    """Run Python where that hub is the only one, answering `y` to whatever is asked."""
    kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    kept = {k: v for k, v in kept.items() if "OFFLINE" not in k and not k.startswith("HF_")}
    settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(home / "hub"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, **settings},
        cwd=home,
        input="y\n" * 20,
        capture_output=True,
        text=True,
        check=False,
    )


def test_code_on_the_hub_is_not_executed(folder: Path, tmp_path: Path, marker: Marker) -> None:
    """As a stand-in for an architecture that is known, and as one that is not."""
    (folder / "evil.py").write_text(CODE.format(command=marker.command))
    change(folder, "tokenizer_config.json", auto_map=REMOTE, tokenizer_class="EvilTokenizer")
    models = {f"evil/{model_type}": tmp_path / model_type for model_type in ("bert", "evil")}
    for path in models.values():
        shutil.copytree(folder, path)
        change(path, "config.json", auto_map=REMOTE, model_type=path.name)
    program = f"""
from layers.frozen_backbone import FrozenBackbone, FrozenEncoder
from text.pretrained_tokenizer import PretrainedTokenizer
for model in {[*models]}:
    for build in (
        lambda name: FrozenBackbone(FrozenEncoder(pretrained=name)),
        lambda name: PretrainedTokenizer.from_pretrained(name, max_length=9),
    ):
        try:
            print(model, "loaded", build(model))
        except ValueError as error:
            print(model, "refused", error)
"""
    with serving(models) as (at, requests):
        done = python(program, tmp_path, at)
    assert done.returncode == 0, done.stderr
    assert all(f"{model}/resolve" in "".join(requests) for model in models)
    assert not [request for request in requests if request.endswith(".py")]
    assert "[y/N]" not in done.stdout
    assert marker.untouched()
    assert "evil/bert loaded" in done.stdout
    assert "evil/evil refused" in done.stdout


def test_scripts_of_hub_datasets_are_not_executed(tmp_path: Path, marker: Marker) -> None:
    script = CODE.format(command=marker.command).encode()
    rows = b'{"sentence": "a good film", "label": 1}\n'
    files = {f"data/{split}.jsonl": rows for split in ("train", "validation")}
    program = (
        "from text import process_role; process_role.predicts_only = True; "  # without Lightning
        "from datamodules import SST2; SST2().prepare_data()"
    )
    with hub({"stanfordnlp/sst2": {"sst2.py": script, **files}}) as (endpoint, requests):
        done = python(program, tmp_path, endpoint)
    assert requests
    assert "DataError: sst2: got no train split" in done.stderr
    assert "scripts are no longer supported" in done.stderr
    assert marker.untouched()


# What a checkpoint says of its backbone


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that loads."""
    where = tmp_path_factory.mktemp("good")
    save_backbone(where / "backbone", "bert")
    module = attached(olsa(backbone=str(where / "backbone"), max_length=30)).train()
    run = trainer(max_steps=1, max_epochs=-1)
    run.fit(module, loader(module, SINGLE, 2), loader(module, SINGLE, 4))
    run.save_checkpoint(where / "good.ckpt")
    return where / "good.ckpt"


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"auto_map": REMOTE},
        {"attn_implementation": "evil/attention"},
        {"_attn_implementation_internal": "evil/attention"},
        {"trust_remote_code": True},
        {"_name_or_path": "evil/model"},
        {"quantization_config": {"quant_method": "evil"}},
        {"text_config": {"model_type": "bert"}},
        {"model_type": "evil"},
        {"model_type": None},
        {"model_type": "lightglue", "keypoint_detector_config": {"trust_remote_code": True}},
        {"hidden_size": 2**40},
        {"num_hidden_layers": 10**6},
        {"hidden_size": "wide"},
        None,
    ],
    ids=str,
)
def test_a_checkpoint_cannot_lead_to_code_or_to_the_hub(
    settings: dict[str, Any] | None,
    sealed: bool,
    good: Path,
    tmp_path: Path,
    marker: Marker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "a.ckpt"
    content = torch.load(good, weights_only=True)
    if settings is None:
        del content["steadfast"]["backbone"]
        content["hyper_parameters"]["backbone"] = "evil/model"
    else:
        content["steadfast"]["backbone"].update(settings)
    torch.save(content, path)
    if sealed:
        seal(path)
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("went to the network"))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked at the terminal"))
    with pytest.raises(CheckpointError):
        lit_modules.load(path)
    assert marker.untouched()


def test_a_payload_beside_the_architecture(good: Path, tmp_path: Path, marker: Marker) -> None:
    path = tmp_path / "a.ckpt"
    content = torch.load(good, weights_only=True)
    content["steadfast"]["backbone"]["hidden_size"] = Hidden(marker)
    torch.save(content, path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        lit_modules.load(path)
    assert marker.untouched()


def definition(good: Path) -> dict[str, Any]:
    content = torch.load(good, weights_only=True)
    found: dict[str, Any] = json.loads(content["steadfast"]["tokenizer"]["definition"])
    return found


@pytest.mark.parametrize(
    "harm",
    ["", "{", "[" * 100_000, '{"version": "1.0"}', "1", "\x00", "{}" * 10],
    ids=["empty", "open", "deep", "alone", "number", "nul", "repeated"],
)
def test_texts_that_are_no_tokenizer(harm: str) -> None:
    with pytest.raises(ValueError, match=r"definition that cannot be read"):
        PretrainedTokenizer(harm, 20, pad_id=0, unk_id=0)


def test_tokenizers_that_contradict_themselves(good: Path) -> None:
    """A panic of the library, which no `except Exception` holds, comes out as an error."""
    wrong = definition(good)
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    wrong["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[NOT THERE]", "type_id": 0}}, first],
        "pair": [first, second],
        "special_tokens": {"[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}},
    }
    with pytest.raises(ValueError, match="got a tokenizer that contradicts itself"):
        PretrainedTokenizer(json.dumps(wrong), 20, pad_id=0, unk_id=0)


def test_a_tokenizer_cannot_ask_for_padding_of_gigabytes(good: Path) -> None:
    wrong = definition(good)
    wrong["padding"] = {
        "strategy": {"Fixed": 2**32},
        "direction": "Right",
        "pad_to_multiple_of": 2**32,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    tokenizer = PretrainedTokenizer(json.dumps(wrong), 20, pad_id=0, unk_id=0)
    assert len(tokenizer.encode(["a b"])[0].input_ids) < 20


# The same of encoders that are trained here


@pytest.fixture(scope="module", params=["UniBERT", "MaskedLM"])
def trained_encoder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("trained") / "encoder.ckpt"
    if request.param == "UniBERT":
        module: TextModule = attached(unibert())
    else:
        module = make(MaskedLM, architecture=ARCHITECTURE, max_length=30)
        texts = [text for text in SINGLE if isinstance(text, str)]
        module.attach_tokenizer(train_word_piece(texts, 80, max_length=30))
        module.configure_model()
    run = trainer()
    run.strategy.connect(module)
    module.trainer = run
    run.save_checkpoint(path, weights_only=True)
    assert type(lit_modules.load_module(path)).__name__ == request.param
    return path


@pytest.mark.parametrize(
    "settings",
    [
        {"auto_map": REMOTE},
        {"_attn_implementation_internal": "evil/attention"},
        {"_name_or_path": "evil/model"},
        {"quantization_config": {"quant_method": "evil"}},
        {"model_type": "evil"},
        {"model_type": "t5"},
        {"hidden_size": 10**6},
        {"vocab_size": 2**40},
        {"num_hidden_layers": 10**6},
        {"hidden_size": "wide"},
        None,
    ],
    ids=str,
)
def test_a_checkpoint_of_an_encoder_cannot_either(
    settings: dict[str, Any] | None,
    trained_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "a.ckpt"
    content = torch.load(trained_encoder, weights_only=True)
    if settings is None:
        del content["steadfast"]["backbone"]
        content["hyper_parameters"] |= {"backbone": "evil/model", "architecture": None}
    else:
        content["steadfast"]["backbone"].update(settings)
    torch.save(content, path)
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("went to the network"))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked at the terminal"))
    with pytest.raises(CheckpointError) as caught:
        lit_modules.load_module(path)
    assert "\n" not in str(caught.value)
