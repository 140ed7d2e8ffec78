"""The recipes of CONTRIBUTING.md work: each block is put into the file that it names, and run."""

import importlib.util
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import attacks
import certify
from attacks import recipes
from attacks.resources.catalogue import Resources
from attacks.word_sets import find_sets
from tests.faults.program import Piped
from tests.integration.conftest import ATTACK, OLSA, QUIET, REVIEWS, ROOT, TINY, results
from tests.unit.certify.models import classifier, tokens, train
from text import WordSettings

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS: dict[str, str] = {}
for indented in re.findall(r"^ *```python\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL):
    block = textwrap.dedent(indented)
    found = re.match(r"# ([\w/]+\.py)\n", block)
    assert found is not None, "a block of code names its file in its first line"
    BLOCKS[found[1]] = block

Import = Callable[[str], ModuleType]


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Import:
    """Imports a block as the module that its file would be; one of a file that exists is added."""

    def make(name: str) -> ModuleType:
        path, module = tmp_path / name, name.removesuffix(".py").replace("/", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        before = (ROOT / name).read_text() if (ROOT / name).exists() else ""
        path.write_text(before + BLOCKS[name])
        spec = importlib.util.spec_from_file_location(module, path)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, module, made)
        spec.loader.exec_module(made)
        return made

    return make


def driven(names: list[str], before: str, arguments: list[str], after: str = "") -> None:
    """Runs the command line in a process of its own (a fork), which alone knows the new classes.

    Args:
        names: of the blocks, files beside those of the rooms.
        before: statements that enter the new class.
        arguments: of the command.
        after: statements once the command has ended well.
    """
    rooms = sorted({name.split("/")[0] for name in names})
    for name in names:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(BLOCKS[name])
    Path("drive.py").write_text(
        f"import {', '.join(rooms)}\n"
        + "".join(f"{room}.__path__.append({room!r})\n" for room in rooms)
        + f"{before}\nfrom app.cli import main\n"
        + f"def entry() -> int:\n    assert main.entry({arguments!r}) == 0\n"
        + textwrap.indent(f"{after}return 0\n", "    ")
    )
    program = Piped(module="drive")
    _, err = program.communicate()
    assert program.returncode == 0, err


def test_each_block_is_driven_by_a_test() -> None:
    here = Path(__file__).read_text()
    assert BLOCKS
    assert [name for name in BLOCKS if f'"{name}"' not in here] == []


@pytest.mark.usefixtures("here")
def test_a_corpus() -> None:
    folder = Path("data/weather")
    folder.mkdir(parents=True)
    for split, count in (("train", 40), ("test", 12)):
        rows = [
            f"a {('grey', 'blue')[i % 2]} sky {i}\t{('bad', 'good')[i % 2]}" for i in range(count)
        ]
        (folder / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]))
    enter = "from datamodules.weather import Weather\ndatamodules.CORPORA['Weather'] = Weather\n"
    data = ["--data=Weather", "--data.data_dir=data", "--trainer.max_epochs=1", "--run=a"]
    driven(["datamodules/weather.py"], enter, ["train", *OLSA, *data, *QUIET, *ATTACK])
    assert results("a")["corpus"] == "weather"
    assert set(results("a")["seconds"]) == {"fit", "test", "certify"}


@pytest.mark.usefixtures("here")
def test_a_method() -> None:
    given = ["--model=Averaging", "--model.width=8", "--trainer.max_epochs=1", "--run=a"]
    driven(
        ["layers/deep_average.py", "lit_modules/averaging.py"],
        "from lit_modules.averaging import Averaging",
        ["train", *given, *REVIEWS, *TINY, *ATTACK],
        # Padding changes nothing, and a checkpoint is enough.
        "model = lit_modules.load('runs/a/checkpoints/best.ckpt')\n"
        "assert isinstance(model, Averaging)\n"
        "both = model.predict_texts(['not a bad evening', 'bland food'])\n"
        "assert both[1:].allclose(model.predict_texts('bland food'))\n",
    )
    assert results("a")["method"] == "Averaging"
    assert 0 <= results("a")["metrics"]["test/accuracy"] <= 1


def test_an_attack(imported: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    imported("attacks/transformations/keyboard.py")
    module = imported("attacks/recipes/misspelling.py")
    folder = str(Path(str(module.__file__)).parent)
    monkeypatch.setattr(recipes, "__path__", [*recipes.__path__, folder])

    def classify(texts: list[str]) -> list[list[float]]:
        return [[2.0 * ("bland" in text), 2.0 * ("fresh" in text)] for text in texts]

    samples: list[Any] = [("fresh bread", 1), ("bland soup", 0), ("the soup was bland", 0)]
    outcome = attacks.attack(classify, samples, recipe="misspelling")
    assert outcome.name == "misspelling"
    assert [record.outcome for record in outcome.records] == ["succeeded", "failed", "failed"]
    assert outcome.records[0].words_changed == 1

    words = WordSettings(split="joined", front_end="spelling")
    threat = find_sets("misspelling", words, Resources(None))
    assert threat.contains("fresh bread", str(outcome.records[0].adversarial))


def test_a_certificate(imported: Import) -> None:
    substitutable = imported("certify/substitutable_tokens.py").substitutable
    by_hand = substitutable(
        torch.tensor([5.0, 5.1, 0.0, 9.0]),
        torch.tensor([[3.0, 4.0, 7.0], [3.0, 4.0, 0.5], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]),
        torch.arange(3) < torch.tensor([[2], [3], [3], [3]]),
    )
    assert by_hand.tolist() == [1, 3, 0, 3]

    toy, batch = classifier(2), tokens([2, 3, 4, 5, 5, 4])
    labels = torch.arange(6) % 3
    train(toy, batch, labels, steps=10)
    toy.network.eval()
    certifier = certify.Certifier(toy)
    found = certifier(batch)
    distances = found.radius[:, None] * torch.linspace(0.3, 0.9, batch.mask.shape[1]).double()
    counts = substitutable(found.radius, distances, batch.mask)
    assert (counts > 0).all()
    assert (counts < batch.mask.sum(dim=1)).any()
    # The tokens that may move farthest, all at once, each where the margin falls fastest.
    x = batch.x.detach().double().requires_grad_()
    logits = certifier.classify(x, batch.mask)
    chosen = logits.gather(1, found.prediction[:, None]).squeeze(1)
    others = logits.scatter(1, found.prediction[:, None], -torch.inf).amax(dim=1)
    (gradient,) = torch.autograd.grad((chosen - others).sum(), x)
    places = distances.masked_fill(~batch.mask, 0).argsort(dim=1, descending=True).argsort(dim=1)
    moved = (places < counts[:, None])[:, :, None] * distances[:, :, None]
    step = moved * torch.nn.functional.normalize(gradient, dim=2)
    with torch.no_grad():
        after = certifier.classify(x - step, batch.mask).argmax(dim=1)
    assert after.tolist() == found.prediction.tolist()
