"""The benchmark that compares certificates of replaced words by radius and by relaxation."""

from itertools import product

import torch

from benchmarks.word_relaxation import by_radius
from certify import Certifier
from certify.bound_propagation import RelaxedCertifier
from certify.threats import Synonyms
from tests.unit.lit_modules.builders import attached, olsa

LISTS = {"good": ["fine", "bad"], "bad": ["good"], "film": ["one", "it"]}
SYNONYMS = Synonyms.of(LISTS)
TEXT = "not a good film, bad"


def test_all_texts_lie_inside_the_radius() -> None:
    module = attached(olsa(depth=0), classes=2)
    certifier, radii = module.text_certifier(SYNONYMS), Certifier(module)
    assert isinstance(certifier, RelaxedCertifier)
    radius = float(radii(TEXT).radius)
    own = module.embed(module.encode_texts(TEXT))
    ks = [0, 1, 2, None]
    far = []
    for k in ks:
        every = (" ".join(words) for words in product(*SYNONYMS.candidates(TEXT)))
        inside = [text for text in every if SYNONYMS.at(k).contains(TEXT, text)]
        moved = module.embed(module.encode_texts(inside)) - own
        far.append(float(moved.flatten(1).norm(dim=1).max().detach()))
    assert far[0] == 0 < far[1] < far[2] < far[3]
    assert by_radius(radii, certifier, TEXT, ks) == [one < radius for one in far]


def test_a_radius_between_one_and_two_words() -> None:
    module = attached(olsa(depth=0), classes=2)
    certifier = module.text_certifier(SYNONYMS)
    assert isinstance(certifier, RelaxedCertifier)
    embedded = certifier.table(TEXT)
    squares = (embedded - embedded[:, :1]).square().sum(dim=-1).amax(dim=1)
    two = squares.topk(2).values

    class Fixed:
        radius = torch.stack([two[0], two.sum()]).mean().sqrt()

    found = by_radius(lambda text: Fixed, certifier, TEXT, [0, 1, 2, None])  # type: ignore[arg-type] # its radius is all that is read
    assert found == [True, True, False, False]
