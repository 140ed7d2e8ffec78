"""One LightningDataModule per corpus, and one for a user's own files."""

from datamodules.ag_news import AGNews
from datamodules.base import TextDataModule
from datamodules.corpus import Corpus
from datamodules.examples import Example
from datamodules.qqp import QQP
from datamodules.readers import DataError
from datamodules.reviews import Reviews
from datamodules.running_text import RunningText
from datamodules.sampler import BucketBatchSampler
from datamodules.snli import SNLI
from datamodules.sst2 import SST2
from datamodules.text_files import TextFiles
from datamodules.yelp import YelpPolarity

CORPORA: dict[str, type[Corpus]] = {
    cls.__name__: cls
    for cls in (SST2, Reviews, AGNews, SNLI, QQP, YelpPolarity, TextFiles, RunningText)
}
"""Every corpus, by the name that command lines give."""

__all__ = [
    "CORPORA",
    "QQP",
    "SNLI",
    "SST2",
    "AGNews",
    "BucketBatchSampler",
    "Corpus",
    "DataError",
    "Example",
    "Reviews",
    "RunningText",
    "TextDataModule",
    "TextFiles",
    "YelpPolarity",
]
