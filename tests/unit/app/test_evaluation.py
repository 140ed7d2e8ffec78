import math

import pytest
import torch

from app.evaluation import certificate_records, summary
from certify import Certificates
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
    assert batch.labels is not None
    assert certificate_records(certificates, batch, batch.labels) == [
        {
            "sample_id": 7,
            "label": 1,
            "prediction": 1,
            "margin": 0.5,
            "lipschitz": 2.0,
            "radius": 0.25,
            "bound": "sound",
        },
        {
            "sample_id": 5,
            "label": 0,
            "prediction": 1,
            "margin": 0.25,
            "lipschitz": None,
            "radius": 0.0,
            "bound": "sound",
        },
    ]


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


def test_nothing_to_certify() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summary([], [0.0])
