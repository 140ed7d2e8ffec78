"""The witness of a certificate in words: a text of the threat with another prediction.

An attack on a run by its own certifier (`certify.threats.TextCertificate.witness`); no paper has
it. Where the certificate is exact, no attack inside the threat succeeds on more texts.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.strategies import OneRound
from attacks.transformations import Witnesses


@recipe(refused=NO_COUNTERPART)
def witness(parts: RecipeParts) -> Attack:
    """Compose the attack by the certificate of the victim."""
    return parts.attack(
        transformation=Witnesses(), search=OneRound(), pre_constraints=parts.columns()
    )
