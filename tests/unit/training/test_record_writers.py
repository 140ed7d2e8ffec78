import math
from dataclasses import replace

import pytest
import torch

from certify import Certificates
from measure.radii import certificate_records, check_radii, summary
from text import Batch


def test_records() -> None:
    batch = Batch(
        input_ids=torch.zeros(2, 1, dtype=torch.int64),
        mask=torch.ones(2, 1, dtype=torch.bool),
        sample_ids=torch.tensor([7, 5]),
        labels=torch.tensor([1, 0]),
    )
    certificates = Certificates(
        prediction=torch.tensor([1, 1]),
        margin=torch.tensor([0.5, 0.25], dtype=torch.float64),
        lipschitz=torch.tensor([2.0, math.inf], dtype=torch.float64),
        radius=torch.tensor([0.25, 0.0], dtype=torch.float64),
        bound="sound",
    )
    labelled: list[dict[str, object]] = [
        {
            "sample_id": 7,
            "label": 1,
            "prediction": 1,
            "margin": 0.5,
            "lipschitz": 2.0,
            "radius": 0.25,
            "bound": "sound",
            "tokens": 1,
        },
        {
            "sample_id": 5,
            "label": 0,
            "prediction": 1,
            "margin": 0.25,
            "lipschitz": None,
            "radius": 0.0,
            "bound": "sound",
            "tokens": 1,
        },
    ]
    assert certificate_records(certificates, batch) == labelled
    without = [record | {"label": None} for record in labelled]
    assert certificate_records(certificates, replace(batch, labels=None)) == without


def test_summary() -> None:
    records = [
        {"label": 0, "prediction": 0, "radius": 0.0},
        {"label": 0, "prediction": 0, "radius": 1.0},
        {"label": 0, "prediction": 1, "radius": 3.0},
        {"label": 1, "prediction": 1, "radius": 2.0},
    ]
    assert summary(records, [0.0, 0.5, 1.0, 2.0]) == {
        "radius": 1.5,
        "radius_correct": 0.75,
        "accuracy@0": 0.75,
        "accuracy@0.5": 0.5,
        "accuracy@1": 0.25,
        "accuracy@2": 0.0,
    }


def test_the_name_of_a_figure_tells_its_radius_from_all_others() -> None:
    found = summary([{"label": 0, "prediction": 0, "radius": 0.1234567}], [0.1234567, 0.1234568])
    assert found["accuracy@0.1234568"] == found["accuracy@0.1234567"] == 0
    found = summary([{"label": 0, "prediction": 0, "radius": 0.12345675}], [0.1234567, 0.1234568])
    assert found["accuracy@0.1234567"] == 1
    assert found["accuracy@0.1234568"] == 0


def test_without_labels_there_is_no_accuracy() -> None:
    records = [{"label": None, "prediction": 0, "radius": radius} for radius in (1.0, 3.0)]
    assert summary(records, [0.0, 0.5]) == {"radius": 2.0}


@pytest.mark.parametrize("radii", [[], [-1.0], [0.5, math.nan], [math.inf]])
def test_a_radius_that_is_none_is_refused(radii: list[float]) -> None:
    with pytest.raises(ValueError, match="expected one or more finite numbers of at least 0"):
        check_radii(radii)


def test_nothing_to_certify() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summary([], [0.0])
