"""An encoding in front of a classifier: a word and its substitutes mostly share one form."""

from certify.encoding.encoded_certifier import EncodedCertifier
from certify.encoding.word_clusters import SynonymEncoding, cluster_words

__all__ = ["EncodedCertifier", "SynonymEncoding", "cluster_words"]
