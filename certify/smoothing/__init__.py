"""Certificates of smoothed classifiers: they hold with a confidence, not for certain."""

from certify.smoothing.random_texts import NOISES, Noise
from certify.smoothing.smoothed_certifier import SmoothedCertifier, Smoothing, least_share
