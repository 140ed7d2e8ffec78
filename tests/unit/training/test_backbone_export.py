"""The folder of a pre-trained encoder: whole or not there."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl

from lit_modules import MaskedLM
from lit_modules.shared.encoder_source import EncoderSettings as Source
from training.backbone_export import Export


class Encoder(MaskedLM):
    """Writes a file in place of a model."""

    def __init__(self, content: str, *, fails: bool = False) -> None:
        super().__init__(backbone=Source(architecture={"model_type": "bert"}))
        self.content, self.fails = content, fails

    def export(self, folder: Path) -> None:
        (folder / "config.json").write_text(self.content)
        if self.fails:
            msg = "No space left on device"
            raise OSError(msg)
        (folder / "model.safetensors").write_text(self.content)


def end(folder: Path, module: pl.LightningModule, **about: Any) -> None:
    trainer: Any = SimpleNamespace(**{"is_global_zero": True, "fast_dev_run": False, **about})
    Export(folder).on_fit_end(trainer, module)


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "a" / "backbone"


def whole(text: str) -> dict[str, str]:
    return {"config.json": text, "model.safetensors": text}


def test_written_at_the_end_and_written_anew(folder: Path) -> None:
    end(folder, Encoder("first"))
    assert content(folder) == whole("first")
    (folder / "stray").write_text("of another version")
    end(folder, Encoder("second"))
    assert content(folder) == whole("second")
    assert [path.name for path in folder.parent.iterdir()] == ["backbone"]


def test_what_fails_leaves_the_one_before(folder: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        end(folder, Encoder("first", fails=True))
    assert not folder.exists()
    end(folder, Encoder("second"))
    with pytest.raises(OSError, match="No space"):
        end(folder, Encoder("third", fails=True))
    assert content(folder) == whole("second")
    end(folder, Encoder("fourth"))  # the remains of the third are no hindrance
    assert content(folder) == whole("fourth")
    assert [path.name for path in folder.parent.iterdir() if path.suffix != ".lock"] == ["backbone"]


def test_by_one_process_of_an_encoder_only(folder: Path) -> None:
    end(folder, Encoder("a"), is_global_zero=False)
    end(folder, Encoder("a"), fast_dev_run=True)
    end(folder, pl.LightningModule())
    assert not folder.parent.exists()
