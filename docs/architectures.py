"""The page methods/architectures.md: `python -m docs.architectures` writes it from this table.

`tests/integration/test_architectures.py` runs each cell: what runs, and each refusal by its error.
"""

from dataclasses import dataclass
from pathlib import Path

from docs.papers import table

PAGE = Path(__file__).parent / "methods" / "architectures.md"


@dataclass(frozen=True)
class Architecture:
    """An encoder of `transformers`: usual name, `model_type`, form of attention, models."""

    name: str
    kind: str
    attention: str
    models: str


ARCHITECTURES = (
    Architecture("BERT", "bert", "torch's", "BERT, MiniLM, BGE, E5"),
    Architecture("RoBERTa", "roberta", "torch's", "RoBERTa, distilled ones"),
    Architecture("XLM-R", "xlm-roberta", "torch's", "XLM-RoBERTa, multilingual E5"),
    Architecture("ELECTRA", "electra", "torch's", "discriminators"),
    Architecture("ALBERT", "albert", "torch's, one layer for all depths", "ALBERT"),
    Architecture("DistilBERT", "distilbert", "torch's", "DistilBERT"),
    Architecture("DeBERTa v1", "deberta", "its own, relative", "DeBERTa"),
    Architecture("DeBERTa v2, v3", "deberta-v2", "its own, relative", "DeBERTa v3, mDeBERTa"),
    Architecture("MPNet", "mpnet", "its own, relative", "all-mpnet-base"),
    Architecture(
        "ModernBERT",
        "modernbert",
        "torch's, rotary, fused weights; local in two layers of three",
        "ModernBERT, mmBERT",
    ),
    Architecture("EuroBERT", "eurobert", "torch's, rotary, grouped queries", "EuroBERT"),
    Architecture("NomicBERT", "nomic_bert", "torch's, rotary", "nomic-embed"),
    Architecture("GTE", "gte", "torch's, rotary", "GTE, multilingual GTE"),
    Architecture("XLNet", "xlnet", "its own, relative", "XLNet"),
)


@dataclass(frozen=True)
class Use:
    """A use of an encoder: the head of its column, and how it is asked for."""

    title: str
    command: str


USES = {
    "fine-tuning": Use("fine-tuning", "train --model FineTuning"),
    "pretrained": Use(
        "a folder with a tokenizer of its kind", "train --model.backbone.pretrained FOLDER"
    ),
    "pairs": Use("pairs of texts", "train --model FineTuning --data MRPC"),
    "tagging": Use("tagging", "train --model FineTuning --data WNUT17"),
    "masked-lm": Use("pre-training", "train --model MaskedLM --data RunningText"),
    "asa": Use("ASA", "train --model ASA"),
    "asa-pretraining": Use("ASA in pre-training", "train --model ASAPretraining"),
    "unibert": Use("UniBERT", "train --model UniBERT"),
    "freelb": Use("FreeLB", "train --model AdversarialTraining --model.adversary FreeLB"),
    "smart": Use("SMART", "--model.adversary SMART"),
    "tavat": Use("TAVAT", "--model.adversary TAVAT"),
    "infobert": Use("InfoBERT", "--model.adversary InfoBERT"),
    "ascc": Use("ASCC", "--model.adversary ASCC --model.adversary.sets FILE"),
    "amda": Use("AMDA after a layer", "--model.adversary AMDA --model.adversary.layers '[1]'"),
    "pgd": Use("PGD", "test --run NAME --pgd.steps N"),
    "attack": Use("attacks on texts", "attack --run NAME --attack deepwordbug"),
    "encoding": Use("robust encodings", "train --model.encoding FILE; certify --threat synonyms"),
    "encoded-scores": Use("encoder plus word scores", "train --model EncodedScores"),
    "windows": Use("a detector by windows", "train --model WindowMax"),
    "frozen": Use(
        "OLSA on the frozen encoder", "train --model OLSA --model.backbone.pretrained DIR"
    ),
    "diagnose": Use("diagnosis", "diagnose --run NAME"),
    "attention": Use("attention maps", "attention --run NAME --text TEXT"),
    "export": Use("export for `transformers`", "export --run NAME --output DIR"),
    "onnx": Use("export as ONNX", "export --run NAME --output DIR --onnx true"),
    "serve": Use("service", "serve --run NAME"),
    "bf16": Use("bfloat16", "train --trainer.precision bf16-mixed"),
    "processes": Use("two processes as one", "train --trainer.devices 2 --trainer.strategy ddp"),
}

_NO_LAYERS = "whose layers are not those of a Transformer, BERT, DeBERTa or ModernBERT"
_NO_WORDS = "which guesses no masked words"
_NO_BIAS = "whose attention cannot be biased"
REFUSED: dict[tuple[str, str], str] = {
    ("masked-lm", "xlnet"): _NO_WORDS,
    ("asa", "xlnet"): _NO_BIAS,
    ("asa-pretraining", "xlnet"): _NO_WORDS,
    ("unibert", "xlnet"): "without attention weights of known names",
    ("amda", "albert"): _NO_LAYERS,
    ("amda", "xlnet"): _NO_LAYERS,
    ("attention", "xlnet"): _NO_BIAS,
    ("export", "xlnet"): "no classifier of transformers on xlnet has a dense layer as ours",
    ("onnx", "xlnet"): "torch cannot export this model",
    ("bf16", "deberta"): "got a deberta in mixed precision",
}
"""Part of the error, by use and `model_type`."""

INTRODUCTION = """\
# Encoders

    python -m docs.architectures                             # writes this page
    python -m pytest -m slow tests/integration/test_architectures.py -k "asa and modernbert"

The encoders of `transformers` whose every use is tested, with small random weights, from the real
command line: what runs, and the error of what does not. No code of a model is run
(`trust_remote_code` stays off), so a model that brings its own needs its form in `transformers`.
"""

RULES = """\
## Rules

- **Padding** changes nothing: each text alone has the logits that it has in a batch. Attention is
  torch's (`scaled_dot_product_attention`) wherever `transformers` has it; no texts are packed into
  one row.
- **Heads.** `--model.pooling architecture` (the default) is the head that `transformers` has for
  the encoder: for EuroBERT the mean of a dense layer with GELU on each token
  (`classifier_pooling: late`). XLNet's reads the last token: give `--model.pooling mean`.
- **ASA in local attention.** Two layers of three of ModernBERT see 64 tokens to each side. Units
  out of sight are neither masked nor counted: share and penalty are about what a layer sees, and in
  each row a unit in sight is kept.
- **Grouped queries** (EuroBERT): heads that share a key and a value have maps of their own.
- **UniBERT.** Of a weight with query, key and value in one matrix (ModernBERT's `Wqkv`, 3 d x d),
  each of the three is unitary. Keys and values that heads share (fewer rows than columns)
  get orthonormal rows: the map lengthens no vector. DeBERTa v1 mixes the rows of its one matrix by
  head: only its attention output is unitary. XLNet's weights have three dimensions: an error.
- **AMDA after a layer** needs a list of layers that map tokens to tokens: ALBERT has one layer for
  all depths, and XLNet has its dimensions in another order. `layers: [0]` mixes embedded words.
- **Masked words**: XLNet and decoders guess none.
- **Mixed precision**: `transformers` fills the scores of DeBERTa v1 with a number that 16 bits do
  not have. `bf16-true` works.
- **`pad_token_id`**: RoBERTa and XLM-R count positions from it, and NomicBERT's configuration has
  one; without it they are refused. The others need none: the mask hides the padding.
"""


def render() -> str:
    """Return the page."""
    lines = [INTRODUCTION, "## Architectures", ""]
    lines += table(
        ["architecture", "`model_type`", "attention", "such as"],
        [[entry.name, f"`{entry.kind}`", entry.attention, entry.models] for entry in ARCHITECTURES],
    )
    lines += ["## Uses", "", f"All {len(ARCHITECTURES)} but those of the last column.", ""]
    names = {entry.kind: entry.name for entry in ARCHITECTURES}
    rows = []
    for use, entry in USES.items():
        refused = [names[kind] for known, kind in REFUSED if known == use]
        rows.append([entry.title, f"`{entry.command}`", ", ".join(refused) or "–"])
    lines += table(["use", "command", "refused"], rows)
    lines += ["## Errors", ""]
    errors: dict[tuple[str, str], list[str]] = {}
    for (use, kind), reason in REFUSED.items():
        errors.setdefault((reason, names[kind]), []).append(USES[use].title)
    lines += table(
        ["error", "architecture", "use"],
        [[*error, ", ".join(uses)] for error, uses in errors.items()],
    )
    lines.append(RULES)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
