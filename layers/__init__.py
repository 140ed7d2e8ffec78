"""Plain `nn.Module`s: attention mechanisms, orthogonal maps, embeddings, encoders."""

from layers.attention.mechanisms import Attention
from layers.ball import project_to_ball
from layers.embeddings import NormalizedEmbedding, PlainEmbedding, WordEmbedding
from layers.encoders import LipschitzClassifier, LipschitzEncoder, OLSALayers, olsa_classifier
from layers.groupsort import GroupSort, maxmin
from layers.orthogonal import OrthogonalLinear
from layers.recurrent import LSTMClassifier
from layers.transformer import TransformerClassifier, TransformerLayers
from layers.unitary import project_, unitary_factor, unitary_residual
from layers.weight_names import unitary_weights
