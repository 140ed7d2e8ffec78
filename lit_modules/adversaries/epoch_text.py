"""Training on adversarial texts that are found once an epoch: the schedule of A2T."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from attacks.outcome import Sample
from attacks.recipe_settings import RecipeSettings
from layers.noise import sample_seeds
from lit_modules.adversaries.adversary import Found, Problem, TrainingLoop, undisturbed
from lit_modules.adversaries.attacking import AttackingAdversary
from lit_modules.adversaries.gathering import gathered, place
from lit_modules.adversaries.text_passes import logits_of, samples_of, succeeded
from text import Text, check_range

log = logging.getLogger(__name__)

_CHUNK = 1024
"""Largest number of samples attacked before the successes are counted."""


class Attacked(NamedTuple):
    """An adversarial text.

    Attributes:
        source: id of the training sample that it was made from; its label is its label.
        text: the adversarial text.
    """

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
    rows: Mapping[int, Attacked] = field(default_factory=dict)


class EpochTextAdversary(AttackingAdversary):
    """Attacks training samples at the start of an epoch, and adds the successes to that epoch.

    Source: Yoo and Qi, "Towards Improving Adversarial Training of NLP Models" (A2T), 2021,
    Algorithm 1, as TextAttack 0.3.11 does it: `clean_epochs` first, then samples in random order
    are attacked until enough attacks succeeded. In each epoch without generation, the texts of the
    epoch before are dropped, not used again.

    TextAttack puts clean and adversarial texts together and shuffles them, so that an epoch has
    more steps. Here each adversarial text is trained on beside a random clean one, in that one's
    batch: epochs have as many steps as without, each text counts as much as there, and neither
    batches nor learning rates depend on how many attacks succeed.
    """

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
        """Keeps the settings.

        Args:
            attack: the attack on the texts.
            clean_epochs: epochs before the first with adversarial texts.
            interval: epochs from one with adversarial texts to the next; those between are clean.
            adversarial_share: adversarial texts that are wanted, as a share of the training
                samples; fewer where not so many attacks succeed. 1 attacks all samples.
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

    # What a resumed run takes up

    def state(self) -> dict[str, Any]:
        """Returns the texts of the epoch, for a run that stops in the middle of it."""
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
        """Restores what `state` returned."""
        if not state:
            return
        texts = [one if isinstance(one, str) else (one[0], one[1]) for one in state["texts"]]
        rows = map(Attacked, state["sources"], texts)
        self._restored = Pool(
            epoch=state["epoch"],
            share=state["share"],
            rows=dict(zip(state["hosts"], rows, strict=True)),
        )

    def start(self, loop: TrainingLoop) -> None:
        """See `AttackingAdversary`."""
        super().start(loop)
        # Of a fit before this one nothing is left.
        self._pool, self._restored = self._restored, Pool()

    # Epochs

    def start_epoch(self, loop: TrainingLoop) -> None:
        """Attack training samples, in the epochs that have adversarial texts."""
        epoch = loop.current_epoch
        if self._pool.epoch == epoch:  # resumed in its middle
            return
        self._pool = Pool(epoch=epoch)
        since = epoch - self.clean_epochs
        if since >= 0 and since % self.interval == 0:
            self._pool = self._generate(loop)

    def _generate(self, loop: TrainingLoop) -> Pool:
        started = time.perf_counter()
        seed, epoch = loop.run_seed, loop.current_epoch
        ids = torch.tensor(sorted(loop.samples))
        keys = sample_seeds(ids, seed=seed, epoch=epoch)
        order = ids[keys.argsort()].tolist()
        # Hashed once more, the order of those beside which the adversarial texts come.
        hosts = ids[sample_seeds(keys, seed=seed, epoch=epoch).argsort()].tolist()
        wanted = max(1, round(self.adversarial_share * len(order)))
        found: list[Attacked] = []
        done = attacked = hits = 0
        while len(found) < wanted and done < len(order):
            # As many as should be enough; the outcome does not depend on it.
            rate = hits / done if hits else 0.5
            size = min(max(round((wanted - len(found)) / rate), 64), _CHUNK)
            chunk = order[done : done + size]
            texts, tried = self._successes(loop, chunk)
            found += [Attacked(one, texts[one]) for one in chunk if one in texts]
            done, attacked, hits = done + len(chunk), attacked + tried, hits + len(texts)
        found = found[:wanted]
        seconds = time.perf_counter() - started
        success = hits / max(attacked, 1)
        shown = {"texts": len(found), "success": success, "seconds": seconds}
        if loop.logger is not None:
            # At once: what waits for the end of the epoch is lost to a run that is cut off in it.
            named = {f"train/adversarial_{name}": float(value) for name, value in shown.items()}
            loop.logger.log_metrics(named, step=loop.global_step)
        if loop.global_rank == 0:
            log.info(
                "epoch %d: %d adversarial texts (%d wanted) from %d of %d training samples in "
                "%.1f s; %.1f %% of the attacks on samples that were classified right succeeded",
                *(epoch, len(found), wanted, done, len(order), seconds, 100 * success),
            )
        rows = dict(zip(hosts[: len(found)], found, strict=True))
        return Pool(epoch=epoch, share=len(found) / len(order), rows=rows)

    def _successes(self, loop: TrainingLoop, chunk: Sequence[int]) -> tuple[dict[int, Text], int]:
        """Returns adversarial texts by sample id, and the number of samples attacked.

        Processes share the work, and all get all of it.
        """
        rank, world = place()
        samples = [
            Sample(sample_id=one, text=loop.samples[one].text, label=loop.samples[one].label)
            for one in chunk[rank::world]
        ]
        classifier = loop.classifier
        with undisturbed(classifier, loop.device), classifier.frozen():
            records = self._attacked(classifier, samples, loop.run_seed, loop.current_epoch)
        tried = sum(record.attacked for record in records.values())
        texts = {
            one: record.adversarial
            for one, record in records.items()
            if succeeded(record) and record.adversarial is not None
        }
        parts = gathered((texts, tried))
        whole = {one: text for part, _ in parts for one, text in part.items()}
        return whole, sum(part for _, part in parts)

    # Steps

    def step(self, problem: Problem) -> Found:
        """Clean and adversarial texts of a batch; see the class."""
        pool = self._pool if self._pool.epoch == problem.epoch else Pool()
        logits = problem.classify(problem.embed())
        clean = problem.loss(logits)
        values = {}
        if problem.logs:
            right = (logits.detach().argmax(dim=1) == problem.labels).float()
            values = {"clean_loss": clean.detach(), "accuracy": right.mean()}
        if not pool.rows:
            return Found(clean, values, {})
        ids = problem.batch.sample_ids.tolist()
        rows = [pool.rows[one] for one in ids if one in pool.rows]
        part = torch.zeros_like(clean)
        if rows:
            samples, device = samples_of(problem), problem.labels.device
            labels = torch.tensor([samples[row.source].label for row in rows], device=device)
            sources = torch.tensor([row.source for row in rows], device=device)
            adversarial = logits_of(problem.classifier, [row.text for row in rows], sources, labels)
            # A loss is a mean over its rows; all rows count alike, whichever batch they are in.
            part = len(rows) / len(ids) * problem.classifier.loss(adversarial, labels)
        # Divided by rows per clean row of the whole epoch, not of this batch: that is the same in
        # all processes.
        loss = (clean + self.weight * part) / (1 + pool.share)
        if not problem.logs:
            return Found(loss, {}, {})
        count = clean.new_tensor(len(rows) / len(ids)).detach()
        return Found(loss, values, {"adversarial_loss": (part.detach(), count)})
