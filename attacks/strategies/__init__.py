"""Searches other than greedy and beam (`attacks/search.py`), one family per file."""

from attacks.strategies.appended import RandomAppends, RankedAppends
from attacks.strategies.flips import FlipBeam
from attacks.strategies.genetic import Genetic
from attacks.strategies.hard_label import HardLabel
from attacks.strategies.lime_beam import LimeBeam
from attacks.strategies.one_round import OneRound
from attacks.strategies.ranked_actions import RankedActions
from attacks.strategies.ranked_positions import RankedPositions
from attacks.strategies.reduction import RankedReduction, Reduction
from attacks.strategies.staged import StagedGreedy
from attacks.strategies.swarm import Leap, Swarm
from attacks.strategies.token_distribution import TokenDistribution
from attacks.strategies.whole_texts import WholeTexts
