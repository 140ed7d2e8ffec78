"""Trains OLSA on the built-in reviews in Python, tests it under attack and certifies it.

python -m examples.train_in_python
"""

from functools import partial
from typing import Any

from torch.optim import AdamW

from attacks import PGDSettings
from datamodules import Reviews
from lit_modules import OLSA, Optimisation
from measure.trainer import MeasuringTrainer
from training.join import JoinCorpus


def main(epochs: int = 10, texts: int | None = None, **settings: Any) -> dict[str, float]:
    """Return the metrics of the test and of the certificates.

    Args:
        epochs: passes over the training texts.
        texts: number of training texts; all 4,000 if None.
        settings: of Lightning's trainer.
    """
    corpus = Reviews(batch_size=64, limit_train=texts)
    model = OLSA(width=64, optimisation=Optimisation(optimizer=partial(AdamW, lr=3e-3)))
    # JoinCorpus gives the model vocabulary and classes; PGD differentiates during the test.
    settings |= {"callbacks": [JoinCorpus()], "inference_mode": False, "logger": False}
    trainer = MeasuringTrainer(max_epochs=epochs, enable_checkpointing=False, **settings)
    trainer.fit(model, datamodule=corpus)
    (tested,) = trainer.test(model, datamodule=corpus, pgd=PGDSettings(epsilon=0.5))
    (certified,) = trainer.certify(model, corpus)
    return {**tested, **certified}


if __name__ == "__main__":
    print(main())
