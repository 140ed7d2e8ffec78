"""Ribeiro et al., "Beyond Accuracy: Behavioral Testing of NLP Models with CheckList", 2020.

Changes that should not change the prediction: names, places, numbers, contractions. The paper tests
many texts with one change each; the reference and this look for a change that matters.
"""

from attacks.composition import Attack
from attacks.constraints.preconstraints import RepeatModification
from attacks.recipe_parts import RecipeParts
from attacks.recipes import recipe
from attacks.search import Beam
from attacks.transformations import Composite, Contract, Expand, OtherName, OtherNumber, OtherPlace


@recipe(refused="it knows names and places by a model of named entities")
def checklist(parts: RecipeParts) -> Attack:
    """Compose the invariance tests of CheckList."""
    return parts.attack(
        transformation=Composite([Expand(), Contract(), OtherName(), OtherNumber(), OtherPlace()]),
        search=Beam(width=1),
        # Stop words change, too: contractions are made of them.
        pre_constraints=[RepeatModification(), *parts.columns()],
    )
