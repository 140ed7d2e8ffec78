"""Trained models in Python: predict, attack and certify texts."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attacks.interface import attack
from attacks.resources.catalogue import Resources
from attacks.samples import SampleLike
from attacks.victims.kinds import HuggingFaceVictim, Victim, as_victim
from attacks.word_sets import find_threat, is_endless
from certify.threats.parsing import parse_k
from lit_modules import TaskModule
from lit_modules.checkpoints.exported import is_exported
from lit_modules.checkpoints.reading import load as load_checkpoint
from measure.certified_answers import CHANGES, SETS, ThreatCertifiers
from measure.corpus_split import words_read
from measure.named_victims import pretrained_victim
from measure.predictions import TextPredictor
from run_files.checkpoint_lookup import evaluated_checkpoint
from run_files.devices import torch_device
from run_files.run_directory import RunDirectory, existing
from steadfast.record_tables import AttackTable, CertificateTable, PredictionTable, Record
from text import ClassLabels, Text, given_texts

HUB = "hf:"


class Model:
    """A trained classifier or regression of texts; `load` makes it.

    Attributes:
        name: name that it was loaded by.
        classes: names of its classes; none of a regression.
        module: the module; None for a classifier of `transformers`. It is a LightningModule only
            if the program has imported `lit_modules` before (docs/decisions/0011).
    """

    def __init__(
        self, name: str, victim: Victim, classes: Sequence[str], module: TaskModule | None
    ) -> None:
        self.name, self.classes, self.module = name, list(classes), module
        self._victim = victim

    def __repr__(self) -> str:
        method = "transformers" if self.module is None else self.module.method
        return f"<Model {self.name}: {method}, {', '.join(self.classes) or 'numbers'}>"

    def predict(self, texts: Iterable[Text]) -> PredictionTable:
        """Predict texts, or pairs of texts, in their order.

        Raises:
            ValueError: texts that the model cannot read.
        """
        read = _as_texts(texts)
        if self.module is not None:
            return PredictionTable(list(TextPredictor(self.module)(read)))
        assert isinstance(self._victim, HuggingFaceVictim)  # `load` makes no other without module
        read = given_texts(read, pairs=bool(read) and isinstance(read[0], tuple))
        if not read:
            return PredictionTable([])
        logits = torch.as_tensor(self._victim.logits(read), dtype=torch.float64)
        rows = zip(read, logits.softmax(dim=1), self._victim.find_cut(read), strict=True)
        return PredictionTable([{**self._record(text, row), "cut": cut} for text, row, cut in rows])

    def attack(
        self,
        samples: Iterable[SampleLike | tuple[Text, str]],
        recipe: str = "deepwordbug",
        **settings: Any,
    ) -> AttackTable:
        """Attack texts with their gold classes.

        Args:
            samples: pairs of a text and its class, by name or number; rows of a data set; or
                `attacks.Sample`.
            recipe: see docs/attacks.md.
            settings: of `attacks.attack`, such as `query_budget=500` or `resources="DIR"`.

        Raises:
            ValueError: invalid samples, classes, recipe or settings.
        """
        labels = ClassLabels(self.classes)
        numbered = [_with_class(sample, labels) for sample in samples]
        settings.setdefault("class_names", self.classes)
        return AttackTable(attack(self._victim, numbered, recipe=recipe, **settings))

    def certify(
        self,
        texts: Iterable[str],
        against: str | None = None,
        *,
        k: Sequence[int | str] | None = None,
        resources: str | Path | None = None,
        limit: int | None = None,
    ) -> CertificateTable:
        """Certify that no change of some words changes the prediction of a text.

        Args:
            texts: the texts.
            against: threats or perturbation sets, as `pwws,typos` (docs/robust_words.md); those
                that the model is trained against if None.
            k: numbers of changed words, "all" for any; 1, 2, 3 and any, where that exists, if None.
            resources: folder of WordNet and word vectors; that of the training if None.
            limit: for any model: certify by a list of at most so many inputs of a text
                (docs/certificates/listing.md).

        Raises:
            ValueError: the model has no certificate against this.
        """
        read = _as_texts(texts)
        module = self.module
        if module is None:
            msg = (
                f"got {self.name}, a classifier of transformers, to certify, expected a run of "
                "ours; `certify --victim` lists the inputs of such a model"
            )
            raise ValueError(msg)
        if against is None:
            folder = None if resources is None else str(resources)
            certifiers = ThreatCertifiers.of_model(module, None, SETS, folder)
            if not certifiers.threats:
                reasons = "; ".join(certifiers.missing) or "it was trained against none"
                msg = (
                    f"got {self.name} without perturbation sets ({reasons}), expected "
                    'against="pwws,typos", "characters" or another threat'
                )
                raise ValueError(msg)
        else:
            numbers = CHANGES if k is None else [parse_k(str(number)) for number in k]
            ks = sorted(numbers, key=lambda number: math.inf if number is None else number)
            endless = is_endless(against) and limit is None
            largest = max((number for number in ks if number is not None), default=1)
            threat = find_threat(
                against,
                lists=None,
                k=None if endless else largest,
                words=words_read(module),
                resources=Resources(resources or module.resources),
            )
            if limit is None:
                certifier = module.text_certifier(threat)
            else:
                certifier = module.listed_certifier(threat, limit)
            certifiers = ThreatCertifiers(module, [(threat, certifier)], ks=ks)
        records = zip(read, certifiers(read), strict=True)
        return CertificateTable(
            [{"text": text, **record} for text, own in records for record in own]
        )

    def _record(self, text: Text, probabilities: Tensor) -> Record:
        """Return the prediction of a classifier of `transformers`."""
        first, second = (text, None) if isinstance(text, str) else text
        best = int(probabilities.argmax())
        return {
            "text": first,
            **({} if second is None else {"text_pair": second}),
            "prediction": self.classes[best],
            "probability": float(probabilities[best]),
            "probabilities": dict(zip(self.classes, probabilities.tolist(), strict=True)),
        }


def load(name: str | Path, *, runs_dir: str | Path = "runs", device: str = "auto") -> Model:
    """Load a trained model.

    Args:
        name: a run; a checkpoint, a folder of `export`, or the folder of a run; or `hf:` with a
            folder or an id on the hub, for a classifier of `transformers`.
        runs_dir: folder of the runs.
        device: `auto`, `cpu`, `cuda`, ...

    Raises:
        OSError: no such run or file.
        ValueError: not a model.
    """
    place, text = torch_device(device), str(name)
    if text.startswith(HUB):
        pretrained = pretrained_victim(text.removeprefix(HUB), place)
        return Model(text, pretrained, pretrained.class_names, None)
    path = Path(name)
    if path.suffix == ".ckpt" or is_exported(path):
        checkpoint = path
    elif (path / "config.yaml").is_file():
        checkpoint = evaluated_checkpoint(RunDirectory(path))
    else:
        checkpoint = evaluated_checkpoint(existing(Path(runs_dir), text))
    module = load_checkpoint(checkpoint).to(place)
    _, names = module.require_text()
    return Model(text, as_victim(module), names, module)


def _as_texts(texts: Iterable[Any]) -> list[Any]:
    if isinstance(texts, str):
        msg = f"got one string ({texts[:40]!r}) as texts, expected a list of texts"
        raise ValueError(msg)
    return list(texts)


def _with_class(sample: Any, labels: ClassLabels) -> Any:
    """Return a sample with the number of its class, if that is named."""
    if isinstance(sample, tuple) and len(sample) == 2 and isinstance(sample[1], str):
        return sample[0], labels(sample[1])
    if isinstance(sample, dict) and isinstance(sample.get("label"), str):
        return {**sample, "label": labels(sample["label"])}
    return sample
