"""LightningModules, one per method, and the checkpoints they write."""

from lit_modules.adversarial import AdversarialTraining
from lit_modules.adversaries import Adversary
from lit_modules.asa import ASA
from lit_modules.asa_pretraining import ASAPretraining
from lit_modules.char_lm import CharacterLM
from lit_modules.checkpoints.reading import (
    CheckpointError,
    check_fits,
    check_method,
    check_would_fit,
    load,
    load_module,
    read_checkpoint,
)
from lit_modules.encoded_scores import EncodedScores
from lit_modules.fine_tuning import FineTuning
from lit_modules.lips_lev import LipsLev
from lit_modules.masked_lm import MaskedLM
from lit_modules.monotone_scores import MonotoneScores
from lit_modules.olsa import OLSA
from lit_modules.shared.attention_masking import MaskingSettings
from lit_modules.shared.detection import Detection, Detector
from lit_modules.shared.encoder_source import EncoderSettings
from lit_modules.shared.generation import Generation
from lit_modules.shared.multi_margin import MarginObjective
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.radius_objective import RadiusObjective
from lit_modules.shared.task_module import TaskModule
from lit_modules.shared.text_module import METHODS, TextModule
from lit_modules.shared.token_masking import TokenMasking
from lit_modules.shared.unitary import Unitary
from lit_modules.shared.unused import unused_settings
from lit_modules.shared.weight_schedule import WeightSchedule
from lit_modules.shared.word_robustness import WordRobustness
from lit_modules.text_classifier import TextClassifier
from lit_modules.text_cnn import TextCNN
from lit_modules.unibert import UniBERT
from lit_modules.unitary_distillation import UnitaryDistillation
from lit_modules.window_max import WindowMax
from lit_modules.word_scores import WordScores
from text.plugins import load_classes

# Last: a plug-in imports the classes above. Its class registers itself.
_own = dict(METHODS)
for _name, _class in load_classes("steadfast.methods", _own, TextModule):
    METHODS.setdefault(_name, _class)
