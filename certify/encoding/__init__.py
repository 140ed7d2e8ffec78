"""Any classifier, by a list of what it may read; an encoding of words in front makes it short."""

from certify.encoding.encoded_certifier import EncodedCertifier
from certify.encoding.listed_certifier import ListedCertifier, ListedModel
from certify.encoding.word_clusters import SynonymEncoding, cluster_words

__all__ = ["EncodedCertifier", "ListedCertifier", "ListedModel", "SynonymEncoding", "cluster_words"]
