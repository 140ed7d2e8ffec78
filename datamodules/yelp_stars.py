"""Yelp reviews with their stars, split and labelled as in a thesis on self-attentions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from datamodules.batching.examples import Example, Label, checked
from datamodules.batching.sampler import permutation
from datamodules.labelled import Split, TextDataModule
from datamodules.sources.readers import DataError, find_file
from datamodules.yelp import YelpPolarity
from text import Sample, check_range, label_text
from text.bounded_files import brief

_REVIEWS = "reviews"
_STARS = ("1", "2", "3", "4", "5")
# Up to this number of stars, a review is negative.
_NEGATIVE = 3


class YelpStars(TextDataModule):
    """Yelp reviews, 1-3 stars negative and 4-5 stars positive, in splits drawn from one file.

    As in Hua, "Neural Network Architectures for Adversarially Robust NLP" (2023), section 4.2: 8 of
    10 reviews to train, 1 to validate, 1 to test. The thesis also trains on each negative review
    twice (`upsample`). Each review is in one split; the shares of the classes are random.

    Args:
        shares: shares of the reviews that train, validate and test.
        split_seed: seed of the split; runs with another `seed` still see the same splits.
        reviews: number of reviews drawn from the file before the split; all if not given.
        data_dir: folder DIR with `yelp_stars/reviews.<jsonl|tsv|csv|parquet>[.gz]`: columns `text`
            and `stars` (1 to 5), as in the reviews of the Yelp Open Dataset. Without it, `train`
            and `test` in DIR/yelp_polarity are read one after the other, if they have these
            columns. The reviews are not on the hub.
        base: settings of `TextDataModule`.
    """

    corpus = "yelp_stars"
    classes: ClassVar[tuple[str, ...]] = ("negative", "positive")
    label_column = "stars"
    origin = "the file of reviews of https://www.yelp.com/dataset has the columns text and stars"

    def __init__(
        self,
        *,
        shares: tuple[float, float, float] = (0.8, 0.1, 0.1),
        split_seed: int = 0,
        reviews: int | None = None,
        data_dir: str | None = None,
        **base: Any,
    ) -> None:
        super().__init__(data_dir=data_dir, **base)
        check_range({"split_seed": split_seed}, least=0)
        check_range({"reviews": reviews}, least=3)
        if not min(shares) > 0 or not abs(sum(shares) - 1) < 1e-6:
            msg = (
                f"got shares {list(shares)}, expected three positive numbers that sum to 1: of "
                "training, validation and test, such as [0.8, 0.1, 0.1]"
            )
            raise ValueError(msg)
        self.shares, self.split_seed, self.reviews = tuple(shares), split_seed, reviews
        self._all: list[Example] | None = None

    def _parts(self, split: Split) -> tuple[str, ...]:
        united = ("train", "test")
        if self._file(_REVIEWS) is None and all(map(self._file, united)):
            return united
        return (_REVIEWS,)

    def _file(self, part: str) -> Path | None:
        if part == _REVIEWS or self.data_dir is None:
            return super()._file(part)
        return find_file(Path(self.data_dir) / YelpPolarity.corpus, part, self.endings)

    def _optional(self) -> tuple[str, ...]:
        return ()

    def _parse(self, values: Mapping[str, Any]) -> tuple[Sample, Label | None]:
        text, stars = checked(values["text"], "text"), label_text(values["stars"])
        if stars not in (*_STARS, None):
            msg = f"got stars {brief(values['stars'])}, expected a whole number from 1 to 5"
            raise ValueError(msg)
        return text, None if stars is None else int(_STARS.index(stars) >= _NEGATIVE)

    def _read(self, split: Split) -> list[Example]:
        # The same rows at every stage, without those that have no stars: else splits would differ.
        if self._all is None:
            self._all = []
            for part in self._parts(split):
                path = self._file(part)
                if path is None:
                    self._from_hub(part, cached=True)  # raises an error that names the file
                    continue
                self._all += self._to_examples(self._rows(path), str(path), "bad")
        drawn = permutation(len(self._all), 5, self.split_seed)[: self.reviews]
        first, second = (round(sum(self.shares[:n]) * len(drawn)) for n in (1, 2))
        bounds = {"train": (0, first), "validation": (first, second), "test": (second, len(drawn))}
        start, end = bounds[split]
        if start == end:
            msg = (
                f"{self.corpus}: got {len(drawn)} review(s) and shares {list(self.shares)}, which "
                f"leave none for {split}, expected more reviews or a larger share"
            )
            raise DataError(msg)
        # In the order of the file.
        rows = sorted(drawn[start:end].tolist())
        return [self._all[row]._replace(sample_id=i) for i, row in enumerate(rows)]
