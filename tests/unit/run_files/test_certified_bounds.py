"""Names that results and files of runs have had since they were first written."""

from typing import get_args

from certify.certificate import CertifiedBound
from measure.evidence import PROVEN
from measure.radii import Certified
from run_files.certified_bounds import BOUNDS, FILE_OF, STAGE_OF, CertifyStage

NAMES = {
    "sound": ("certify", "certificates.jsonl"),
    "paper": ("certify_paper", "printed_paper.jsonl"),
    "kim": ("certify_kim", "certificates_kim.jsonl"),
    "local": ("certify_local", "certificates_local.jsonl"),
    "propagation": ("certify_propagation", "certificates_propagation.jsonl"),
}


def test_names_stay() -> None:
    assert {one.bound: (one.stage, one.file) for one in BOUNDS} == NAMES


def test_every_bound_has_a_row() -> None:
    assert set(STAGE_OF) == set(get_args(Certified))
    assert set(FILE_OF) == set(get_args(CertifyStage))
    assert {one.bound for one in BOUNDS if one.lipschitz} == set(get_args(CertifiedBound))


def test_what_is_proven() -> None:
    assert list(PROVEN) == ["certify", "certify_local", "certify_kim"]
    assert [one.certified for one in BOUNDS if not one.proven] == [""]
