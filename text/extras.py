"""Optional parts of the program: the extra of `pip install` that brings a missing library."""

from collections.abc import Iterator
from contextlib import contextmanager

_TRAIN = (
    *("datasets", "jsonargparse", "lightning_utilities", "matplotlib", "pandas", "pyarrow"),
    *("pytorch_lightning", "tensorboard", "torchmetrics"),
)
EXTRAS = {
    **dict.fromkeys(_TRAIN, "train"),
    **dict.fromkeys(("fastapi", "pydantic", "starlette", "uvicorn"), "serve"),
    "rich": "study",
    "ray": "ray",
    "wandb": "wandb",
    "mlflow": "mlflow",
    **dict.fromkeys(("accelerate", "peft"), "lora"),
    **dict.fromkeys(("onnx", "onnxruntime", "onnxscript"), "onnx"),
}
"""The extra of each library that is not in the core."""


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'steadfast-nlp[{extra}]'"


def missing_extra(error: BaseException) -> str | None:
    """Return a sentence for an error about a library of an extra; None for any other error."""
    library = (getattr(error, "name", None) or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or library not in EXTRAS:
        return None
    return f"{library} is not installed: {install(EXTRAS[library])}"


@contextmanager
def extras_named() -> Iterator[None]:
    """Name the extra in the error about a missing library.

    Raises:
        ModuleNotFoundError: with that sentence.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (sentence := missing_extra(error)) is None:
            raise
        raise ModuleNotFoundError(sentence, name=error.name) from error
