"""One LightningDataModule per corpus."""

from datamodules.base import TextDataModule
from datamodules.examples import Example
from datamodules.readers import DataError
from datamodules.reviews import Reviews
from datamodules.sampler import BucketBatchSampler
from datamodules.sst2 import SST2

__all__ = [
    "SST2",
    "BucketBatchSampler",
    "DataError",
    "Example",
    "Reviews",
    "TextDataModule",
]
