import logging
from typing import Any

import pytest
import torch

from tests.unit.lit_modules.builders import SINGLE, attached, loader, plain, trainer
from training.arithmetic import Arithmetic, Facts, _changes

ONE: Facts = {"threads": 2, "precision": "32-true", "kernels": "avx2", "device": "A", "torch": "2"}


def test_the_same_is_no_change() -> None:
    assert _changes([ONE, ONE], [dict(ONE), dict(ONE)]) == []


def test_each_change_is_named_once_with_its_remedy() -> None:
    other: Facts = {**ONE, "threads": 1, "device": "B", "kernels": "avx512"}
    assert _changes([ONE, ONE], [other, other]) == [
        "device: B, before A",
        "kernels: avx512, before avx2, ATEN_CPU_CAPABILITY=avx2 to repeat it",
        "threads: 1, before 2, OMP_NUM_THREADS=2 to repeat it",
    ]


def test_one_rank_is_enough() -> None:
    assert _changes([ONE, ONE], [ONE, {**ONE, "threads": 1}]) == [
        "threads: 1, before 2, OMP_NUM_THREADS=2 to repeat it"
    ]


def test_another_number_of_processes() -> None:
    assert _changes([ONE, ONE], [ONE]) == [
        "processes: 1, before 2, --trainer.devices 2 to repeat it"
    ]


def test_a_checkpoint_of_a_version_that_knew_fewer_facts() -> None:
    assert _changes([{"threads": 2}], [ONE]) == []


@pytest.mark.parametrize(
    ("precision", "capabilities", "warned"),
    [
        ("bf16-mixed", {"avx2": True, "avx512_bf16": False, "architecture": "x86_64"}, True),
        ("bf16-mixed", {"avx2": True, "avx512_bf16": True}, False),
        ("bf16-mixed", {"neon": True, "bf16": True}, False),
        ("32-true", {"avx2": True}, False),
    ],
)
def test_bf16_without_instructions_for_it(
    precision: Any,
    capabilities: dict[str, Any],
    warned: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    module = attached(plain())
    data = loader(module, SINGLE, 3)
    run = trainer(max_steps=1, precision=precision, callbacks=[Arithmetic()])
    with caplog.at_level(logging.WARNING):
        run.fit(module.train(), data, data)
    slower = "many times slower than --trainer.precision 32-true"
    assert (slower in caplog.text) == warned
