"""Weights that rise during training."""

import itertools
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lit_modules import OLSA, RadiusObjective, WordRobustness, WordScores
from lit_modules.shared.settings import plain, rebuilt
from lit_modules.shared.unused import unused_settings
from lit_modules.shared.weight_schedule import Shape, WeightSchedule
from tests.unit.lit_modules.builders import SINGLE, Build, attached, loader, make, trainer
from text.former_settings import renewed

QUARTERS = (0, 0.25, 0.5, 0.75, 1)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (WeightSchedule(), [1, 1, 1, 1, 1]),
        (WeightSchedule(shape="linear"), [0, 0.25, 0.5, 0.75, 1]),
        (WeightSchedule(shape="linear", ramp=0.5), [0, 0.5, 1, 1, 1]),
        (WeightSchedule(shape="cosine"), [0, 0.1464466, 0.5, 0.8535534, 1]),
        (WeightSchedule(shape="step", jumps=2), [0, 0, 0.5, 0.5, 1]),
        (WeightSchedule(shape="step", jumps=1, ramp=0.75), [0, 0, 0, 1, 1]),
        (WeightSchedule(shape="linear", ramp=0), [1, 1, 1, 1, 1]),
    ],
)
def test_shapes(schedule: WeightSchedule, expected: list[float]) -> None:
    assert [schedule.factor(share) for share in QUARTERS] == pytest.approx(expected)


@given(st.sampled_from(get_args(Shape)), st.floats(0, 1), st.integers(1, 9))
def test_it_never_falls(shape: Shape, ramp: float, jumps: int) -> None:
    schedule = WeightSchedule(shape=shape, ramp=ramp, jumps=jumps)
    factors = [schedule.factor(step / 50) for step in range(60)]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(factors))
    assert all(0 <= factor <= 1 for factor in factors)
    assert factors[-1] == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shape": "rising"}, "got schedule.shape='rising', expected one of constant, linear"),
        ({"ramp": 1.5}, "got schedule.ramp=1.5, expected a finite number"),
        ({"jumps": 0}, "got schedule.jumps=0, expected"),
    ],
)
def test_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WeightSchedule(**settings)


def test_settings_without_effect() -> None:
    constant = WeightSchedule(ramp=0.5)
    hinge = OLSA(objective=RadiusObjective(loss="hinge", margin_cap=2.0, gamma=2.0))
    assert list(unused_settings(hinge)) == []
    changed = OLSA(objective=replace(hinge.objective, schedule=constant))
    assert list(unused_settings(changed)) == [
        "objective.schedule.ramp=0.5 has no effect with a constant schedule"
    ]
    linear = WeightSchedule(shape="linear")
    without = set(unused_settings(OLSA(objective=RadiusObjective(schedule=linear))))
    assert "objective.schedule.shape=linear has no effect with objective.gamma=0" in without


@pytest.mark.long
def test_training_logs_the_weight_and_uses_it() -> None:
    """Of the target radius and of kappa: the values that the loss had, step by step."""
    rising = WeightSchedule(shape="step", jumps=2)
    hinge = RadiusObjective(loss="hinge", target_radius=0.8, schedule=rising)
    robust = WordRobustness(against="characters", kappa=0.6, schedule=rising)
    cases: list[tuple[Build, str, float]] = [
        (lambda: make(OLSA, objective=hinge), "train/target_radius", 0.8),
        (lambda: make(WordScores, robustness=robust), "train/kappa", 0.6),
    ]
    for build, name, final in cases:
        module = attached(build)
        logged: list[float] = []
        values = module.training_values

        def spy(batch: Any, values: Any = values, logged: Any = logged, name: str = name) -> Any:
            logged.append(float(values(batch)[name]))
            return values(batch)

        module.training_values = spy  # type: ignore[method-assign] # only listened to
        data = loader(module, [*SINGLE, "fine"], 1)
        trainer(max_epochs=1, log_every_n_steps=1).fit(module.train(), data, data)
        assert len(logged) == len(data) > 1
        assert logged == pytest.approx(
            [final * rising.factor(step / len(data)) for step in range(len(data))]
        )


def test_settings_of_former_checkpoints() -> None:
    former = {"loss": "cross_entropy", "gamma": 2.0, "gamma_schedule": "linear"}
    objective = rebuilt(OLSA, renewed({"objective": former}))["objective"]
    assert objective == RadiusObjective(gamma=2.0, schedule=WeightSchedule(shape="linear"))
    hinge = rebuilt(OLSA, renewed({"objective": former | {"loss": "hinge"}}))["objective"]
    assert hinge == RadiusObjective(loss="hinge", gamma=2.0)
    stored = {"classifier": {"robustness": {"against": "characters", "kappa": 0.5, "ramp": 0.2}}}
    robustness = rebuilt(WordScores, renewed(stored)["classifier"])["robustness"]
    schedule = WeightSchedule(shape="linear", ramp=0.2)
    assert robustness == WordRobustness(against="characters", schedule=schedule)
    assert plain(schedule) == renewed(stored)["classifier"]["robustness"]["schedule"]
    assert renewed(plain(objective)) == plain(objective)
