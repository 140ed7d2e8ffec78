"""The longest text of an encoder fits, and a longer one does not."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from layers.positions import longest_text, shortest_limit

SMALL: dict[str, Any] = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 20,
}
NARROW = {**SMALL, "embedding_size": 16}
BEHIND_PADDING = {**SMALL, "pad_token_id": 1}
GPT = {"vocab_size": 30, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 20}
KINDS: dict[str, tuple[dict[str, Any], int]] = {
    "bert": (SMALL, 20),
    "electra": (NARROW, 20),
    "albert": (NARROW, 20),
    "deberta-v2": (SMALL, 20),
    "gpt2": ({**GPT, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}, 20),
    # Its table has two rows that are never looked at.
    "nystromformer": ({**SMALL, "num_landmarks": 4, "segment_means_seq_len": 4}, 20),
    "roberta": (BEHIND_PADDING, 18),
    "xlm-roberta": (BEHIND_PADDING, 18),
    "mpnet": (BEHIND_PADDING, 18),
}


def classifier(kind: str, settings: dict[str, Any]) -> Any:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **settings)
    model = AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call] # of transformers
    return model.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_tokens_as_fit(kind: str) -> None:
    settings, expected = KINDS[kind]
    model = classifier(kind, settings)
    assert longest_text(model) == longest_text(model.base_model) == expected
    ids = torch.full((1, expected + 1), 5)
    mask = torch.ones_like(ids)
    with torch.no_grad():
        assert model(input_ids=ids[:, 1:], attention_mask=mask[:, 1:]).logits.isfinite().all()
        with pytest.raises((RuntimeError, IndexError)):
            model(input_ids=ids, attention_mask=mask)


def test_relative_positions_have_no_end() -> None:
    relative = {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["c2p"]}
    assert longest_text(classifier("deberta-v2", {**SMALL, **relative})) is None
    xlnet = {"vocab_size": 30, "d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16}
    assert longest_text(classifier("xlnet", xlnet)) is None


def test_the_shortest_limit_ignores_missing_ones() -> None:
    model = SimpleNamespace(config=SimpleNamespace(), named_modules=list)
    tokenizer = SimpleNamespace(model_max_length=int(1e30))
    assert shortest_limit(model, tokenizer, 512, None) == 512
    assert shortest_limit(model, tokenizer, None, 0) == int(1e30)
