"""The recipes of ASA beside the paper's Table 5."""

from pathlib import Path

import pytest
import yaml

from lit_modules import ASA
from tests.unit.lit_modules.builders import make

ROOT = Path(__file__).parents[3]
TABLE_5 = {
    "sst2": (2e-5, 32, 3, 0.06, 128, 0.3),
    "mnli": (3e-5, 32, 3, 0.06, 128, 0.3),
    "qnli": (2e-5, 32, 3, 0.06, 128, 0.3),
    "qqp": (5e-5, 32, 3, 0.06, 128, 0.3),
    "stsb": (5e-5, 16, 3, 0.06, 128, 0.3),
    "wnut17": (5e-5, 16, 5, 0.1, 64, 0.5),
    "dream": (3e-5, 16, 8, 0.1, 128, 0.5),
    "anli": (3e-5, 32, 3, 0.06, 128, 0.3),
    "paws_qqp": (5e-5, 16, 3, 0.06, 128, 0.3),
    "hellaswag": (2e-5, 32, 3, 0.1, 128, 0.3),
    "mrpc": (5e-5, 16, 3, 0.06, 128, 0.3),  # not in the table: that of PAWS-QQP
}
"""Learning rate, batch size, epochs, warm-up, tokens, tau."""


@pytest.mark.parametrize("task", TABLE_5)
def test_a_recipe_has_the_tau_of_the_paper_in_the_form_it_is_for(task: str) -> None:
    recipe = yaml.safe_load((ROOT / f"configs/asa/{task}.yaml").read_text())
    model = recipe["model"]["init_args"]
    settings = (
        model["optimisation"]["optimizer"]["init_args"]["lr"],
        recipe["data"]["init_args"]["batch_size"],
        recipe["trainer"]["max_epochs"],
        model["optimisation"]["warmup"],
        model["max_length"],
        model["masking"]["tau"],
    )
    assert settings == TABLE_5[task]
    assert model["masking"]["penalty"] == "released"
    assert make(ASA, architecture={"model_type": "bert"}).masking.settings.penalty == "released"
