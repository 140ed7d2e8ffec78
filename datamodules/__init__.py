"""One LightningDataModule per corpus, and those for a user's own files."""

from datamodules.ag_news import AGNews
from datamodules.anli import ANLI
from datamodules.batching.examples import Example
from datamodules.batching.sampler import BucketBatchSampler
from datamodules.corpus import Corpus
from datamodules.dream import DREAM
from datamodules.hellaswag import HellaSwag
from datamodules.imdb import IMDB
from datamodules.labelled import TextDataModule
from datamodules.mnli import MNLI
from datamodules.mrpc import MRPC
from datamodules.paws_qqp import PAWSQQP
from datamodules.ptb_characters import PTBCharacters
from datamodules.qnli import QNLI
from datamodules.qqp import QQP
from datamodules.reviews import Reviews
from datamodules.rte import RTE
from datamodules.running_text import RunningText
from datamodules.snli import SNLI
from datamodules.sources.readers import DataError
from datamodules.sst2 import SST2
from datamodules.stsb import STSB
from datamodules.tagged_files import TaggedFiles
from datamodules.text_files import TextFiles
from datamodules.wnut17 import WNUT17
from datamodules.yelp import YelpPolarity
from datamodules.yelp_stars import YelpStars

CORPORA: dict[str, type[Corpus]] = {
    cls.__name__: cls
    for cls in (
        SST2,
        Reviews,
        AGNews,
        SNLI,
        MNLI,
        QNLI,
        ANLI,
        RTE,
        QQP,
        PAWSQQP,
        MRPC,
        STSB,
        WNUT17,
        DREAM,
        HellaSwag,
        YelpPolarity,
        YelpStars,
        IMDB,
        TextFiles,
        TaggedFiles,
        RunningText,
        PTBCharacters,
    )
}
"""Every corpus, by the name that command lines give."""

__all__ = [
    "ANLI",
    "CORPORA",
    "DREAM",
    "IMDB",
    "MNLI",
    "MRPC",
    "PAWSQQP",
    "QNLI",
    "QQP",
    "RTE",
    "SNLI",
    "SST2",
    "STSB",
    "WNUT17",
    "AGNews",
    "BucketBatchSampler",
    "Corpus",
    "DataError",
    "Example",
    "HellaSwag",
    "PTBCharacters",
    "Reviews",
    "RunningText",
    "TaggedFiles",
    "TextDataModule",
    "TextFiles",
    "YelpPolarity",
    "YelpStars",
]
