"""Training on adversarial texts that are generated once an epoch: the schedule of A2T."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from attacks.outcome import Sample
from attacks.recipe_settings import RecipeSettings
from layers.noise import sample_seeds
from lit_modules.adversaries.adversary import (
    AdversarialLoss,
    InnerProblem,
    TrainingLoop,
    undisturbed,
)
from lit_modules.adversaries.attacking import AttackingAdversary
from lit_modules.adversaries.gathering import gather, rank_and_world
from lit_modules.adversaries.text_passes import encoded, samples_of, succeeded
from lit_modules.shared.task_module import labels_of
from text import Batch, Text, check_range

log = logging.getLogger(__name__)

# Largest number of samples attacked before the successes are counted.
_CHUNK = 1024


class AdversarialText(NamedTuple):
    """An adversarial text, and the id of its source, a training sample with the same label."""

    source: int
    text: Text


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The adversarial texts of an epoch.

    Attributes:
        epoch: the epoch.
        share: adversarial texts per training sample.
        rows: adversarial rows, by the id of the training sample whose batch each one joins.
    """

    epoch: int = -1
    share: float = 0.0
    rows: Mapping[int, AdversarialText] = field(default_factory=dict)


class EpochTextAdversary(AttackingAdversary):
    """Attacks training samples at the start of an epoch, and adds the successes to that epoch.

    Source: Yoo and Qi, "Towards Improving Adversarial Training of NLP Models" (A2T), 2021,
    Algorithm 1, as TextAttack 0.3.11 does it: `clean_epochs` first, then samples in random order
    are attacked until enough attacks succeeded. In each epoch without generation, the texts of the
    epoch before are dropped, not used again.

    TextAttack shuffles clean and adversarial texts together, so that an epoch has more steps. Here
    each adversarial text joins the batch of a random clean text: each text has the same weight as
    in TextAttack, but neither steps nor learning rates depend on the number of successes.
    """

    own_batch = False
    """True if an adversarial text joins the batch of the text that it is made of."""
    keep = False
    """True if the texts of earlier epochs are added to those of the present one."""

    def __init__(
        self,
        *,
        attack: RecipeSettings = RecipeSettings(recipe="a2t", query_budget=200),
        clean_epochs: int = 1,
        interval: int = 1,
        adversarial_share: float = 0.2,
        weight: float = 1.0,
        **base: Any,
    ) -> None:
        """Keep the settings.

        Args:
            attack: the attack on the texts.
            clean_epochs: epochs before the first with adversarial texts.
            interval: epochs from one with adversarial texts to the next; those between are clean.
            adversarial_share: number of adversarial texts to generate, as a share of the training
                samples; fewer if not enough attacks succeed. 1 attacks all samples.
            weight: weight of an adversarial text in the loss; a clean one has 1.
            base: settings of `AttackingAdversary`.

        Raises:
            ValueError: a setting that is out of its range.
        """
        super().__init__(attack=attack, **base)
        check_range({"clean_epochs": clean_epochs}, least=0)
        check_range({"interval": interval}, least=1)
        check_range({"adversarial_share": adversarial_share}, above=0, most=1)
        check_range({"weight": weight}, above=0)
        self.clean_epochs, self.interval = clean_epochs, interval
        self.adversarial_share, self.weight = adversarial_share, weight
        self._pool = self._restored = Pool()

    # State of a resumed run

    def state(self) -> dict[str, Any]:
        """Return the texts of the epoch, for a run that is interrupted in it."""
        pool = self._pool
        return {
            "epoch": pool.epoch,
            "share": pool.share,
            "hosts": list(pool.rows),
            "sources": [row.source for row in pool.rows.values()],
            "texts": [
                row.text if isinstance(row.text, str) else list(row.text)
                for row in pool.rows.values()
            ],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state`."""
        if not state:
            return
        texts = [text if isinstance(text, str) else (text[0], text[1]) for text in state["texts"]]
        rows = map(AdversarialText, state["sources"], texts)
        self._restored = Pool(
            epoch=state["epoch"],
            share=state["share"],
            rows=dict(zip(state["hosts"], rows, strict=True)),
        )

    def start(self, loop: TrainingLoop) -> None:
        """See `AttackingAdversary`."""
        super().start(loop)
        # The pool of an earlier fit is discarded.
        self._pool, self._restored = self._restored, Pool()

    # Epochs

    def start_epoch(self, loop: TrainingLoop) -> None:
        """Attack training samples, in the epochs that have adversarial texts."""
        epoch = loop.current_epoch
        if self._pool.epoch == epoch:  # resumed in its middle
            return
        self._pool = replace(self._pool, epoch=epoch) if self.keep else Pool(epoch=epoch)
        since = epoch - self.clean_epochs
        if since >= 0 and since % self.interval == 0:
            self._pool = self._generate(loop)

    def _generate(self, loop: TrainingLoop) -> Pool:
        started = time.perf_counter()
        seed, epoch = loop.run_seed, loop.current_epoch
        ids = torch.tensor(sorted(loop.samples))
        keys = sample_seeds(ids, seed=seed, epoch=epoch)
        order = ids[keys.argsort()].tolist()
        # An independent random order, hashed twice, for the samples whose batches get the texts.
        hosts = ids[sample_seeds(keys, seed=seed, epoch=epoch).argsort()].tolist()
        goal = max(1, round(self.adversarial_share * len(order)))
        successes: list[AdversarialText] = []
        done = attacked = hits = 0
        while len(successes) < goal and done < len(order):
            # The estimated number of attacks that suffice; it does not change the result.
            rate = hits / done if hits else 0.5
            size = min(max(round((goal - len(successes)) / rate), 64), _CHUNK)
            chunk = order[done : done + size]
            texts, tried = self._successes(loop, chunk)
            successes += [AdversarialText(i, texts[i]) for i in chunk if i in texts]
            done, attacked, hits = done + len(chunk), attacked + tried, hits + len(texts)
        successes = successes[:goal]
        seconds = time.perf_counter() - started
        success = hits / max(attacked, 1)
        values = {"texts": len(successes), "success": success, "seconds": seconds}
        if loop.logger is not None:
            # Logged at once: a run that is interrupted in this epoch would lose them.
            metrics = {f"train/adversarial_{name}": float(v) for name, v in values.items()}
            loop.logger.log_metrics(metrics, step=loop.global_step)
        if loop.global_rank == 0:
            log.info(
                "epoch %d: %d adversarial texts (%d wanted) from %d of %d training samples in "
                "%.1f s; %.1f %% of the attacks on samples that were classified right succeeded",
                *(epoch, len(successes), goal, done, len(order), seconds, 100 * success),
            )
        # The latest ones first: there is room for as many texts as there are samples.
        latest = [*successes, *self._pool.rows.values()][: len(order)]
        if self.own_batch:
            rows = {text.source: text for text in reversed(latest)}
        else:
            rows = dict(zip(hosts, latest, strict=False))
        return Pool(epoch=epoch, share=len(rows) / len(order), rows=rows)

    def _successes(self, loop: TrainingLoop, chunk: Sequence[int]) -> tuple[dict[int, Text], int]:
        """Return adversarial texts by sample id, and the number of samples attacked."""
        # Processes share the work, and each gets the results of all.
        rank, world = rank_and_world()
        samples = [
            Sample(sample_id=i, text=loop.samples[i].text, label=loop.samples[i].label)
            for i in chunk[rank::world]
        ]
        classifier = loop.classifier
        with undisturbed(classifier, loop.device), classifier.frozen():
            records = self._attack(classifier, samples, loop.run_seed, loop.current_epoch)
        tried = sum(record.attacked for record in records.values())
        texts = {
            i: record.adversarial
            for i, record in records.items()
            if succeeded(record) and record.adversarial is not None
        }
        parts = gather((texts, tried))
        union = {i: text for part, _ in parts for i, text in part.items()}
        return union, sum(part for _, part in parts)

    # Steps

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """Return the loss of the clean and adversarial texts of a batch; see the class."""
        pool = self._present(problem)
        logits = problem.classify(problem.embed())
        clean = problem.loss(logits)
        values = {}
        if problem.logs:
            right = (logits.detach().argmax(dim=1) == problem.labels).float()
            values = {"clean_loss": clean.detach(), "accuracy": right.mean()}
        if not pool.rows:
            return AdversarialLoss(clean, values, {})
        part, share = torch.zeros_like(clean), 0.0
        batch = self._adversarial(problem)
        if batch is not None:
            adversarial = problem.classifier.classify(problem.classifier.embed(batch), batch.mask)
            # A loss is a mean over its rows; this factor gives all rows of the epoch equal weight.
            share = len(batch) / len(problem.batch)
            part = share * problem.classifier.loss(adversarial, labels_of(batch))
        # Divided by rows per clean row of the epoch, not of this batch: equal in all processes.
        loss = (clean + self.weight * part) / (1 + pool.share)
        if not problem.logs:
            return AdversarialLoss(loss, {}, {})
        count = clean.new_tensor(share).detach()
        return AdversarialLoss(loss, values, {"adversarial_loss": (part.detach(), count)})

    def _present(self, problem: InnerProblem) -> Pool:
        """Return the texts of the epoch; none in an epoch without."""
        return self._pool if self._pool.epoch == problem.epoch else Pool()

    def _adversarial(self, problem: InnerProblem) -> Batch | None:
        """Return the adversarial texts that join a batch, with the ids of their sources."""
        pool = self._present(problem)
        ids = problem.batch.sample_ids.tolist()
        rows = [pool.rows[i] for i in ids if i in pool.rows]
        if not rows:
            return None
        samples, device = samples_of(problem), problem.labels.device
        labels = torch.tensor([samples[row.source].label for row in rows], device=device)
        sources = torch.tensor([row.source for row in rows], device=device)
        return encoded(problem.classifier, [row.text for row in rows], sources, labels)
