"""One LightningDataModule per corpus, and those for a user's own files.

A name is imported when it is first used: reading files needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datamodules.ag_news import AGNews
    from datamodules.anli import ANLI
    from datamodules.batching.examples import Example
    from datamodules.batching.sampler import BucketBatchSampler
    from datamodules.corpus import Corpus
    from datamodules.dream import DREAM
    from datamodules.hate_check import HateCheck
    from datamodules.hate_offensive import HateOffensive
    from datamodules.hellaswag import HellaSwag
    from datamodules.imdb import IMDB
    from datamodules.labelled import TextDataModule
    from datamodules.mnli import MNLI
    from datamodules.mrpc import MRPC
    from datamodules.paws_qqp import PAWSQQP
    from datamodules.prompt_injections import PromptInjections
    from datamodules.ptb_characters import PTBCharacters
    from datamodules.qnli import QNLI
    from datamodules.qqp import QQP
    from datamodules.reviews import Reviews
    from datamodules.rte import RTE
    from datamodules.running_text import RunningText
    from datamodules.sms_spam import SmsSpam
    from datamodules.snli import SNLI
    from datamodules.sources.readers import DataError
    from datamodules.sst2 import SST2
    from datamodules.stsb import STSB
    from datamodules.tagged_files import TaggedFiles
    from datamodules.text_files import TextFiles
    from datamodules.wnut17 import WNUT17
    from datamodules.yelp import YelpPolarity
    from datamodules.yelp_stars import YelpStars

    CORPORA: dict[str, type[Corpus]]
    """Every corpus, by the name that command lines give."""

_CORPORA = {
    "SST2": "sst2",
    "Reviews": "reviews",
    "AGNews": "ag_news",
    "SNLI": "snli",
    "MNLI": "mnli",
    "QNLI": "qnli",
    "ANLI": "anli",
    "RTE": "rte",
    "QQP": "qqp",
    "PAWSQQP": "paws_qqp",
    "MRPC": "mrpc",
    "STSB": "stsb",
    "WNUT17": "wnut17",
    "DREAM": "dream",
    "HellaSwag": "hellaswag",
    "YelpPolarity": "yelp",
    "YelpStars": "yelp_stars",
    "IMDB": "imdb",
    "SmsSpam": "sms_spam",
    "PromptInjections": "prompt_injections",
    "HateOffensive": "hate_offensive",
    "HateCheck": "hate_check",
    "TextFiles": "text_files",
    "TaggedFiles": "tagged_files",
    "RunningText": "running_text",
    "PTBCharacters": "ptb_characters",
}
"""The module of each corpus, in the order of `CORPORA`, which also has those of plug-ins."""
CORPUS_NAMES = {**_CORPORA, "YelpPolarity": "yelp_polarity", "HateCheck": "hatecheck"}
"""The name in results of each corpus, `Corpus.corpus`, without loading it."""
_EXPORTS = {
    **_CORPORA,
    "Example": "batching.examples",
    "BucketBatchSampler": "batching.sampler",
    "Corpus": "corpus",
    "TextDataModule": "labelled",
    "DataError": "sources.readers",
}


def __getattr__(name: str) -> Any:
    if name == "CORPORA":
        from text.plugins import load_classes

        own = {corpus: __getattr__(corpus) for corpus in _CORPORA}
        value: Any = own | dict(load_classes("steadfast.corpora", own, __getattr__("Corpus")))
    elif name in _EXPORTS:
        value = getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    else:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = value
    return value
