"""Plain `nn.Module`s: attention mechanisms, orthogonal maps, embeddings, encoders."""

from layers.attention.mechanisms import Attention
from layers.ball import project_to_ball
from layers.embeddings import NormalizedEmbedding
from layers.encoders import (
    LipschitzClassifier,
    LipschitzEncoder,
    OLSALayers,
    olsa_classifier,
)
from layers.groupsort import GroupSort, maxmin
from layers.orthogonal import OrthogonalLinear
from layers.transformer import TransformerClassifier
from layers.unitary import project_, unitary_factor, unitary_residual
from layers.weight_names import unitary_weights

__all__ = [
    "Attention",
    "GroupSort",
    "LipschitzClassifier",
    "LipschitzEncoder",
    "NormalizedEmbedding",
    "OLSALayers",
    "OrthogonalLinear",
    "TransformerClassifier",
    "maxmin",
    "olsa_classifier",
    "project_",
    "project_to_ball",
    "unitary_factor",
    "unitary_residual",
    "unitary_weights",
]
