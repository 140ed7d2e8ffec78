"""Small trainings in which everything matters that a resume could get wrong."""

from tests.faults.program import ROOT

QUIET = [
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
]
# Dropout, so that random numbers matter; momentum in the optimiser is AdamW's.
TRANSFORMER = [
    "--model=TextClassifier",
    "--model.width=16",
    "--model.heads=2",
    "--model.depth=1",
    "--model.dropout=0.3",
]
OLSA = ["--model=OLSA", "--model.width=8", "--model.heads=2", "--model.layers.dropout=0.3"]
RANDOM_TEXTS = [*TRANSFORMER, "--model.smoothing.noise=mask", "--model.smoothing.rate=0.5"]
METHODS = {"TextClassifier": TRANSFORMER, "OLSA": OLSA}
INSIDE = [
    "--model=AdversarialTraining",
    *("--model.classifier=TextClassifier", "--model.classifier.width=16"),
    *("--model.classifier.heads=2", "--model.classifier.depth=1", "--model.classifier.dropout=0.3"),
]
# Runs start in a directory of their own.
LISTS = ROOT / "configs" / "word_scores" / "reviews_synonyms.json"
SYNONYMS = f"--model.adversary.sets={LISTS}"
BERT = [
    '--model.backbone.architecture={"model_type": "bert", "hidden_size": 16, '
    '"num_hidden_layers": 2, "num_attention_heads": 2, '
    '"intermediate_size": 24, "max_position_embeddings": 128}',
    "--model.backbone.vocab_size=100",
    "--model.dropout=0.3",
]
LETTERS = ["--model.adversary.attack.recipe=deepwordbug"]
ADVERSARIAL = {
    "RandomTexts": RANDOM_TEXTS,
    "ASA": ["--model=ASA", *BERT, "--model.masking.reversal_schedule=rising"],
    "SMART": [*INSIDE, "--model.adversary=SMART", "--model.adversary.epsilon=0.1"],
    "FreeLB": [*INSIDE, "--model.adversary=FreeLB"],
    "TextAdversary": [
        *(*INSIDE, "--model.adversary=TextAdversary", *LETTERS),
        *("--model.adversary.clean_weight=0.5", "--model.adversary.share=0.5"),
    ],
    "EpochTextAdversary": [
        *(*INSIDE, "--model.adversary=EpochTextAdversary", *LETTERS),
        *("--model.adversary.clean_epochs=0", "--model.adversary.adversarial_share=0.3"),
    ],
    "InfoBERT": [*INSIDE, "--model.adversary=InfoBERT"],
    "AMDA": [
        *(*INSIDE, "--model.adversary=AMDA", *LETTERS, "--model.adversary.layers=[0,1]"),
        *("--model.adversary.clean_epochs=0", "--model.adversary.adversarial_share=0.3"),
    ],
    "MRAT": [
        *(*INSIDE, "--model.adversary=MRAT", *LETTERS, "--model.adversary.plus=true"),
        *("--model.adversary.clean_epochs=0", "--model.adversary.adversarial_share=0.3"),
    ],
    "ASCC": [*INSIDE, "--model.adversary=ASCC", SYNONYMS, "--model.adversary.steps=2"],
    "DNE": [*INSIDE, "--model.adversary=DNE", SYNONYMS],
    "TAVAT": [*INSIDE, "--model.adversary=TAVAT"],
    "EncodedScores": [
        *("--model=EncodedScores", *BERT, "--model.max_length=96", "--model.fidelity=0.2"),
        *("--model.robustness.against=synonyms", f"--model.robustness.lists={LISTS}"),
    ],
}
"""Noise, random and adversarial texts, averaged weights: what a resume could get wrong, too."""
# 13 batches an epoch: the last is smaller, and alone in its window when gradients are accumulated.
REVIEWS = ["--data=Reviews", "--data.limit_train=50"]
BATCHES = 13
SHORT = [
    *QUIET,
    "--trainer.limit_val_batches=2",
    "--trainer.limit_test_batches=1",
    "--trainer.log_every_n_steps=1",
]
TINY = [*TRANSFORMER, *REVIEWS, "--data.batch_size=4", *SHORT]
ATTACK = ["--pgd.steps=2"]
ALWAYS = "--checkpoint_every_n_minutes=0"
"""A checkpoint after each batch."""
