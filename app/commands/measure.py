"""Measure a classifier by a measurement of an installed plug-in.

NAME is that of the plug-in. The texts are those of --dataset, or a split of a run's corpus. The
same command resumes; a plug-in may have settings of its own: `steadfast measure NAME --help`.
"""

import argparse
from typing import Any

from jsonargparse import ArgumentParser

from app.cli.run_options import add_option
from app.cli.victim_options import (
    MeasuredModel,
    RunOrVictimParser,
    add_columns,
    add_victim,
    measured_model,
    split_names,
)
from attacks.outcome import Sample
from measure.corpus_split import split_texts
from measure.table_samples import as_classes, read_table
from measure.text_measurement import find_measurement, measurement_names
from run_files.terminal import harmless
from text import check_range


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    check_range({"--num_samples": args.num_samples}, least=1)
    kind = find_measurement(args.name)
    model = measured_model(args)
    data, samples = _samples(args, model)
    cls = kind.settings_class
    settings = None if cls is None else cls(**args.settings.as_dict())
    measurement = kind(
        model.named.victim,
        samples,
        classes=model.named.classes,
        about={**model.about, "dataset": data},
        known_weights=model.module is not None,
        settings=settings,
        tag=args.tag,
    )
    outcome = model.measure(measurement, data)
    print(harmless(f"{model.named.facts['victim']} on {data}\n"))
    print(harmless(measurement.table(outcome.records)))
    print(harmless(f"\n{model.files.path / measurement.file}"))
    return 0


def _samples(args: argparse.Namespace, model: MeasuredModel) -> tuple[str, list[Sample]]:
    """Return name and samples of the table, or of the split of the run's corpus."""
    if args.dataset is not None:
        columns = split_names(args.columns)
        table = read_table(args.dataset, columns=columns, label=args.label)
        samples = as_classes(table, model.named.classes, split_names(args.label_names))
        return table.name, samples[: args.num_samples]
    if model.module is None:
        msg = f"got --victim {args.victim} without texts, expected --dataset FILE"
        raise ValueError(msg)
    about = {"data_dir": args.data_dir, "count": args.num_samples}
    source, rows = split_texts(model.files, args.split, **about)
    samples = [Sample(sample_id=number, text=text, label=label) for number, text, label in rows]
    return f"{source.corpus} {args.split}", samples


class _MeasureParser(RunOrVictimParser):
    """Adds the settings of the plug-in that the first word names."""

    def parse_args(self, args: Any = None, *other: Any, **named: Any) -> Any:
        """Parse arguments; see jsonargparse."""
        name = args[0] if args else "--help"
        if not name.startswith("-"):
            try:
                settings = find_measurement(name).settings_class
            except ValueError as error:
                self.error(str(error))
            if settings is not None:
                self.add_class_arguments(settings, "settings")
        return super().parse_args(args, *other, **named)


def parser() -> ArgumentParser:
    """Return the parser of the command."""
    installed = f"Installed: {', '.join(measurement_names()) or 'none'} (docs/python.md)."
    parser = _MeasureParser(prog="steadfast measure", description=__doc__, epilog=installed)
    add = parser.add_argument
    add("name", type=str, metavar="NAME", help="the measurement")
    text = "texts with labels: a table, or hf:ID:SPLIT (default: the split of the run's corpus)"
    add("--dataset", type=str, metavar="FILE", help=text)
    add_columns(parser)
    text = "without --dataset: split of the corpus, test or validation"
    add("--split", choices=("test", "validation"), default="test", help=text)
    add_option(parser, "--data_dir", help="without --dataset: data directory of the corpus")
    text = "number of samples: of a corpus drawn as `attack` draws them, else the first ones"
    add_option(parser, "--num_samples", help=f"{text} (default: all)")
    add_option(parser, "--tag", help="file it as NAME-TAG, next to other outcomes")
    add_option(parser, "--batch_size", default=256)
    add_victim(parser, or_run=True)
    return parser
