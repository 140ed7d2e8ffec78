"""The shape that all experiments share: settings, points measured one by one, files, a table."""

import csv
import io
import json
from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch

from attacks.json_lines import append, cut_lines, open_lines, read_lines
from benchmarks.lipschitz import trained
from benchmarks.lipschitz.subjects import (
    BoundedLayer,
    Subject,
    build,
    check_kind,
    kinds_option,
    option,
)
from layers.norms import Norm
from measure.charts import save
from run_files import atomic
from text import check_range

Point = dict[str, Any]
Points = Sequence[Point]
Rows = Sequence[Mapping[str, Any]]
Pictures = Iterator[tuple[str, Any]]
"""Figures of matplotlib, each after the stem of its files."""
S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """The settings of a figure; its methods are the steps from points to files and a table.

    The name is that of the command and of the files; `points_name` the key of the points in the
    JSON file.
    """

    name: ClassVar[str]
    text: ClassVar[str]
    points_name: ClassVar[str] = "lines"
    runs_dir: str = "runs"
    device: torch.device = torch.device("cpu")

    @property
    @abstractmethod
    def all_kinds(self) -> Sequence[str]:
        """Names of the attentions that are measured."""

    @abstractmethod
    def prepare(self) -> None:
        """Raise a ValueError for wrong sizes or runs, before a point that may take minutes."""

    @abstractmethod
    def keys(self) -> Sequence[Any]:
        """Return what tells the points apart, in order."""

    @abstractmethod
    def measure(self, key: Any) -> Point:
        """Return one point, ready for JSON."""

    @abstractmethod
    def rows(self, points: Points) -> list[dict[str, Any]]:
        """Return the rows of the CSV file."""

    @abstractmethod
    def figures(self, points: Points, rows: Rows) -> Pictures:
        """Yield the pictures."""

    @abstractmethod
    def table(self, points: Points, rows: Rows) -> str:
        """Return the table to print."""

    def summary(self, rows: Rows) -> dict[str, Any]:
        """Return the further entries of the JSON file."""
        return {}

    def subject(self) -> dict[str, Any]:
        """Return all settings that points depend on, with digests of the weights of runs."""
        settings = {"experiment": self.name, **asdict(self)}
        # The weights of a run count, and not where it is.
        del settings["runs_dir"], settings["device"]
        weights = trained.digests(self.all_kinds, self.runs_dir)
        return settings | ({"weights": weights} if weights else {})

    def write(self, folder: Path) -> str:
        """Measure the points that are missing, write all files of a run, and return the table.

        Raises:
            ValueError: settings that do not go together, or other ones than those of the run.
        """
        self.prepare()
        subject = json.loads(json.dumps(self.subject()))  # lists, as the file returns them
        points = self._measure_missing(folder / "points.jsonl", subject)
        rows = self.rows(points)
        content = {"settings": subject, self.points_name: points, **self.summary(rows)}
        text = json.dumps(content, indent=2) + "\n"
        atomic.write_text(folder / f"{self.name}.json", text)
        stream = io.StringIO()
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        atomic.write_text(folder / f"{self.name}.csv", stream.getvalue())
        for stem, figure in self.figures(points, rows):
            for ending in ("png", "svg"):
                save(figure, folder / f"{stem}.{ending}", f"benchmarks.lipschitz {self.name}")
        return self.table(points, rows)

    def _measure_missing(self, path: Path, subject: dict[str, Any]) -> list[Point]:
        """Return all points; a stopped run resumes after its last whole line."""
        from tqdm import tqdm  # type: ignore[import-untyped] # ships no annotations

        keys = self.keys()
        with open_lines(path) as stream:
            former, points, length = read_lines(path, dict)
            if length and former != subject:
                names = {*subject, *former}
                changed = sorted(k for k in names if subject.get(k) != former.get(k))
                msg = (
                    f"got other settings ({', '.join(changed)}) than those of {path}, expected "
                    "the same; give another name by --run, or delete the file"
                )
                raise ValueError(msg)
            cut_lines(stream, subject, length)
            points = points[: len(keys)]
            missing = keys[len(points) :]
            bar = tqdm(missing, total=len(keys), initial=len(points), disable=None, unit="point")
            for key in bar:
                # Through JSON, so that a resumed figure has the same bytes.
                points.append(json.loads(json.dumps(self.measure(key))))
                append(stream, points[-1:])
        return points


@dataclass(frozen=True, kw_only=True)
class AttentionExperiment(Experiment):
    """Attentions of one size, with weights as a layer begins; `run:NAME` has those of a run."""

    kinds: Sequence[str] = kinds_option("scaled_dot_product", "l2_tied")
    width: int = option(64, "D, numbers of a token")
    heads: int = option(8, "H, heads of the attention")
    tokens: int = option(64, "N, tokens of a text")
    seed: int = option(0, "seed of weights and inputs")

    def __post_init__(self) -> None:
        for kind in self.kinds:
            check_kind(kind)
        check_range({"kinds": len(self.kinds)}, least=1)
        check_range({"tokens": self.tokens}, least=2)

    @property
    def all_kinds(self) -> Sequence[str]:
        return self.kinds

    @property
    def title(self) -> str:
        """Title of the picture."""
        return f"N = {self.tokens}, D = {self.width}, H = {self.heads}"

    def keys(self) -> Sequence[Any]:
        return self.kinds

    def prepare(self) -> None:
        for kind in self.kinds:
            self.build(kind, device=torch.device("cpu"))

    def build(
        self, kind: str, norm: Norm = "inf", device: torch.device | None = None
    ) -> BoundedLayer:
        """Return the attention of a name."""
        subject = Subject(
            kind=kind,
            width=self.width,
            heads=self.heads,
            weights="random",
            seed=self.seed,
            runs_dir=self.runs_dir,
        )
        return build(subject, self.tokens, norm, device or self.device)


@dataclass(frozen=True, kw_only=True)
class OnUniformInputs(AttentionExperiment):
    """Attentions on inputs from U[-R, R], of which the first token is 0."""

    texts: int = option(128, "inputs")
    input_range: float = option(10.0, "inputs are from U[-R, R], the first token is 0", "R")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range({"texts": self.texts}, least=1)
        check_range({"input_range": self.input_range}, above=0)

    def inputs(self) -> torch.Tensor:
        """Return `[texts, N, D]` float64 inputs."""
        generator = torch.Generator().manual_seed(self.seed)
        size = (self.texts, self.tokens, self.width)
        x = self.input_range * (2 * torch.rand(size, generator=generator, dtype=torch.float64) - 1)
        x[:, 0] = 0.0
        return x.to(self.device)


def add_options(parser: ArgumentParser, settings: Any) -> None:
    """Add an option for each `option` of some settings, and of settings inside them."""
    for setting in fields(settings):
        default = getattr(settings, setting.name)
        if is_dataclass(default):
            add_options(parser, default)
        elif "text" in setting.metadata:
            # A tuple takes several values, of the type of its first one.
            several = isinstance(default, tuple)
            example = (*default, "")[0] if several else default
            text = " ".join(map(str, default)) if several else default
            parser.add_argument(
                f"--{setting.name}",
                type=type(example),
                nargs="+" if several else None,
                default=default,
                metavar=setting.metadata["metavar"],
                help=setting.metadata["text"] + (f" (default: {text})" if text != "" else ""),
            )


def with_options(settings: S, options: Namespace) -> S:
    """Return settings with the values of the options of the same names."""
    changed: dict[str, Any] = {}
    for setting in fields(settings):  # type: ignore[arg-type] # S is a dataclass
        value = getattr(settings, setting.name)
        # Options of inner settings are on the same level.
        if is_dataclass(value):
            changed[setting.name] = with_options(value, options)
        elif hasattr(options, setting.name):
            changed[setting.name] = getattr(options, setting.name)
    return replace(settings, **changed)  # type: ignore[type-var] # S is a dataclass
