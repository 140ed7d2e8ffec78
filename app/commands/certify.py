"""Certify that no change of words or characters changes the prediction of a text (--threat).

For each text: the prediction, the number of changes that is certified, whether that is exact, and
the worst text. Without --text the texts are a split of the run's corpus, and the outcome is filed
in the run; the same command resumes after a kill.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.cli.asked_texts import check_texts
from app.cli.run_options import RUN, add_option, command_parser, find_model
from attacks.digests import content_digest, file_digest
from attacks.resources.catalogue import Resources, resources_named
from attacks.set_names import ADDED, OWN_SETS, check_threat
from attacks.word_sets import find_threat, is_endless
from certify.edits import EDIT_BOUNDS
from certify.encoding import EncodedCertifier, ListedCertifier, SynonymEncoding
from certify.smoothing import NOISES, SmoothedCertifier, Smoothing
from certify.threats import THREATS, TextCertifier, Threat
from certify.threats.parsing import parse_k
from certify.threats.synonym_lists import lists_file
from certify.ties import classes
from datamodules.batching.examples import fingerprint
from lit_modules import LipsLev, TaskModule
from lit_modules.checkpoints.reading import load
from measure.archive import FolderArchive, run_identity
from measure.attack_report import colours, compare, mark
from measure.certificate_records import Record, format_changes, record
from measure.certified_answers import CHANGES, ThreatCertifiers
from measure.corpus_split import split_texts, words_read
from measure.listed_victim import ListedVictim
from measure.predictions import TextPredictor
from measure.runner import run as measure
from measure.table_samples import as_classes, read_table
from measure.verdict import judge_run
from measure.word_certificates import WordCertificates
from run_files.devices import torch_device
from run_files.run_directory import RunDirectory
from run_files.terminal import harmless
from run_files.weights import shelf, warn_unfinished, weights_of
from text import WordSettings, check_range
from training.model_checks import require_classification, require_classifier

log = logging.getLogger(__name__)

RESOURCES = "folder with the WordNet and the word vectors of perturbation sets (docs/attacks.md)"
_KINDS = [name for name in THREATS if name != "l2"]


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    check_range({"--num_samples": args.num_samples}, least=1)
    check_texts(args.text, (), pairs=False)
    if args.victim is not None:
        return _certify_victim(args)
    run, checkpoint = find_model("certify", args)
    model = load(checkpoint).to(torch_device(args.device))
    require_classifier(model, "certify --threat")
    require_classification(model.task.name, "certify --threat")
    endless = is_endless(args.threat) and args.list is None
    own = list(CHANGES) if args.text and args.k is None and endless else None
    own = [None] if args.k is None and args.threat in ADDED else own
    ks = own or numbers(args.k, endless=endless)
    # The threat is built once, for the largest number of changes.
    threat = read_threat(args, ks[-1], words_read(model))
    certifier = _certifier(args, model, threat)
    if args.text:
        _answer(args, certifier, threat, ks, model)
        return 0
    if run is None:
        msg = f"got {args.ckpt_path}, which lies in no run, expected --run NAME, or texts: --text"
        raise ValueError(msg)
    warn_unfinished(checkpoint)
    # A training would replace the weights during the certification.
    run.lock()
    try:
        _certify_split(args, run, checkpoint, model, certifier=certifier, threat=threat, ks=ks)
    finally:
        run.unlock()
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = command_parser(
        "certify", __doc__, *RUN, "--device", "--data_dir", "--lists", "--tag", "--json"
    )
    text = "number of samples, drawn as `attack` draws them (default: all)"
    add_option(parser, "--num_samples", help=text)
    add, defaults = parser.add_argument, Smoothing()
    # Without --threat the command certifies l2 radii.
    text = f"{', '.join(_KINDS)}; or, with commas between, recipes of attacks, "
    text += f"{', '.join(OWN_SETS)}, files of lists (docs/robust_words.md); in front of them, or "
    text += f"alone, {', '.join(ADDED)} (docs/certificates/append.md)"
    add("--threat", required=True, type=threat_type(_KINDS, ADDED), help=text)
    add_option(parser, "--resources", help=RESOURCES)
    text = "numbers of changes; all: any number (default: 1 2 all for synonyms and sets, with "
    text += "--text 1 2 3 all; else 1 2)"
    add("--k", nargs="+", metavar="K", help=text)
    add("--text", action="append", default=[], help="a text; may be given several times")
    add("--split", choices=("test", "validation"), default="test", help="split of the corpus")
    text = "certify the smoothed classifier around the model, with a confidence: RanMASK, CERT-ED "
    text += "(with --keep AdaptDel), SAFER (docs/certificates/baselines.md)"
    add("--smooth", choices=NOISES, help=text)
    text = "share of the words that are masked or deleted, with --keep the least one"
    add("--rate", type=float, default=defaults.rate, metavar="R", help=text)
    text = "words that a text keeps on average, at most, with --smooth delete: longer texts have a "
    text += "larger rate, as in AdaptDel (default: no limit)"
    add("--keep", type=float, metavar="N", help=text)
    # The subject of stored certificates names it `samples`.
    text = "random texts drawn for each text"
    add("--draws", dest="samples", type=int, default=defaults.samples, metavar="N", help=text)
    text = "probability that a certificate is wrong"
    add("--alpha", type=float, default=defaults.alpha, metavar="A", help=text)
    text = "word in the place of a masked one (default: one that no model knows; for BERT [MASK])"
    add("--mask", default=defaults.mask, metavar="WORD", help=text)
    text = "steps of a neighbourhood of substitutes in the lists"
    add("--hops", type=int, default=defaults.hops, metavar="N", help=text)
    text = "constant of an edit, for LipsLev: our theorem, or its paper's formula (too small for "
    add("--bound", choices=EDIT_BOUNDS, default="sound", help=f"{text}insertions)")
    text = "certify the model together with an encoding of words, JSON of `resources encode-words`"
    add("--encoding", metavar="FILE", help=text)
    text = "any classifier: list all inputs that the set allows for a text, N at most; if it may "
    text += "allow more, nothing is certified (docs/certificates/listing.md)"
    add("--list", type=int, metavar="N", help=text)
    text = "instead of a run, with --list: hf:FOLDER_OR_ID, a classifier of transformers"
    add("--victim", metavar="NAME", help=text)
    add("--dataset", metavar="FILE", help="with --victim: texts with labels, as of `attack`")
    add("--label_names", metavar="LABEL=CLASS,...", help="with --victim: classes of these labels")
    text = "with --victim: words of a spelling corrector in front of it, a run or a file of words"
    add("--vocabulary", metavar="NAME", help=text)
    add_option(parser, "--output", help="with --victim: folder of the outcome")
    return parser


@resources_named("--resources")
def read_threat(args: argparse.Namespace, k: int | None, words: WordSettings) -> Threat:
    """Return the threat that the options name, for `k` changes and a front end."""
    resources = Resources(args.resources)
    return find_threat(args.threat, lists=args.lists, k=k, words=words, resources=resources)


def threat_type(kinds: Sequence[str], others: Sequence[str] = ()) -> Callable[[str], str]:
    """Return a check of a threat on the command line; its error names `kinds` and `others`."""

    def check(value: str) -> str:
        if value not in kinds:
            try:
                check_threat(value)
            except ValueError as error:
                msg = f"{error}; or one of {', '.join((*kinds, *others))}"
                raise argparse.ArgumentTypeError(msg) from error
        return value

    return check


def _certifier(args: argparse.Namespace, model: TaskModule, threat: Threat) -> TextCertifier:
    """Return the certifier of the model, or of the smoothed or encoded classifier around it."""
    if sum(option is not None for option in (args.smooth, args.encoding, args.list)) > 1:
        msg = "got several of --smooth, --encoding and --list, expected one of them"
        raise ValueError(msg)
    if args.list is not None:
        listed = model.listed_certifier(threat, args.list)
        if not listed.model.complete:
            if not args.text and args.tag is None:
                msg = (
                    f"got --list without --tag for {model.method}, which also reads what is "
                    "between the words, expected one: the certificates are about its predictions "
                    "for the words alone, one space between"
                )
                raise ValueError(msg)
            log.warning("certified are the predictions for the words alone, one space between")
        return listed
    if around(vars(args)) is not None and not args.text and args.tag is None:
        msg = (
            "got --smooth, --encoding or --bound paper without --tag, expected one: its figures "
            "never stand in the column of the model's own certificates"
        )
        raise ValueError(msg)
    if args.bound == "paper":
        if not isinstance(model, LipsLev) or args.smooth or args.encoding:
            msg = f"got --bound paper for {model.method}, expected it for LipsLev alone"
            raise ValueError(msg)
        return model.text_certifier(threat, args.bound)
    if args.smooth is not None:
        names = ("rate", "keep", "samples", "alpha", "mask", "hops")
        settings = Smoothing(noise=args.smooth, **{name: getattr(args, name) for name in names})
        answer = model.exact_copy().predict_texts
        return SmoothedCertifier(lambda texts: classes(answer(texts)), threat, settings)
    if args.encoding is not None:
        encoding, logits = SynonymEncoding.read(args.encoding), model.exact_answer()
        return EncodedCertifier(
            lambda texts: logits([encoding.of_words(text.split(" ")) for text in texts]),
            encoding.of_word,
            threat,
        )
    return model.text_certifier(threat)


def numbers(words: Sequence[str] | None, *, endless: bool) -> list[int | None]:
    """Return the numbers of changes of `--k`, from few to many; `endless`: any number is one."""
    default = ("1", "2", "all") if endless else ("1", "2")
    counts = {parse_k(word) for word in (words or default)}
    if counts == {0}:
        msg = "got --k 0 alone, which changes nothing, expected a number of at least 1, or all"
        raise ValueError(msg)
    return sorted(counts, key=lambda k: float("inf") if k is None else k)


def subject(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the subject of a certification that its options decide."""
    # Added text alone has no number of changes.
    words = ["all"] if options["k"] is None and options["threat"] in ADDED else options["k"]
    ks = numbers(words, endless=is_endless(options["threat"]) and options.get("list") is None)
    lists = options["lists"]
    if lists is not None and (path := lists_file(lists)).is_file():
        lists = file_digest(path)
    return {
        "k": [format_changes(k) for k in ks],
        "lists": lists,
        **{name: options[name] for name in ("num_samples", "split")},
        "around": around(options),
    }


def around(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the options that wrap the model or change the bound; None for its own certificates."""
    if options["bound"] == "paper":
        return {"bound": "paper"}
    if options.get("list") is not None:
        return {"list": options["list"]}
    # Only the settings that change a certificate: the subject of the records has them.
    if options["smooth"] is not None:
        names = ("smooth", "rate", "samples", "alpha", "mask", "hops")
        keep = options.get("keep")
        return {name: options[name] for name in names} | ({} if keep is None else {"keep": keep})
    return None if options["encoding"] is None else {"encoding": file_digest(options["encoding"])}


def _certify_victim(args: argparse.Namespace) -> int:
    """Certify a classifier of `transformers` by lists, for texts or a table."""
    tables = args.dataset is not None and args.output is not None
    if args.list is None or args.run is not None or bool(args.text) == tables:
        msg = (
            f"got --victim {args.victim} without a list of texts, expected --list N without --run, "
            "and --text TEXT, or --dataset FILE and --output FOLDER"
        )
        raise ValueError(msg)
    runs_dir, device = Path(args.runs_dir), torch_device(args.device)
    victim = ListedVictim.load(
        args.victim, vocabulary=args.vocabulary, runs_dir=runs_dir, device=device
    )
    ks = numbers(args.k, endless=False)
    threat = read_threat(args, ks[-1], victim.words)
    certifier = ListedCertifier(victim.model, threat, limit=args.list)
    if args.text:
        for certificate in certifier(args.text, ks):
            line = record(certificate, ks, victim.classes, None)
            print(json.dumps({**line, "statement": threat.statement}))
        return 0
    names = None if args.label_names is None else args.label_names.split(",")
    samples = as_classes(read_table(args.dataset), victim.classes, names)[: args.num_samples]
    rows = [(sample.sample_id, sample.text, sample.label) for sample in samples]
    measurement = WordCertificates(
        certifier,
        threat,
        ks,
        weights=victim.weights,
        settings={**subject(vars(args)), "split": args.dataset, "vocabulary": args.vocabulary},
        rows=content_digest([[text, label] for _, text, label in rows]),
        samples=rows,
        class_names=victim.classes,
        lists=args.lists,
        sets=args.threat if threat.name == "substitutions" else None,
        resources=args.resources,
        tag=args.tag,
    )
    files = RunDirectory(Path(args.output))
    facts = {"run": files.name, "method": args.victim, "corpus": args.dataset, "seed": 0}
    outcome = measure(measurement, FolderArchive(files, facts))
    print(harmless(measurement.table(files, outcome.records)))
    print(harmless(f"\n{files.path / measurement.file}"))
    return 0


def _answer(
    args: argparse.Namespace,
    certifier: TextCertifier,
    threat: Threat,
    ks: Sequence[int | None],
    model: TaskModule,
) -> None:
    """Print the certificates of texts: of all sets together, then of each set."""
    subjects = []
    for text in args.text:
        subjects.append(threat.subject(text))
        if subjects[-1] is None:
            msg = f"got {text[:60]!r}, which the lists do not have, expected a text that they have"
            raise ValueError(msg)
    certifiers = ThreatCertifiers(model, [(threat, certifier)], ks=ks, worst="levels")
    for subject, answer in zip(subjects, TextPredictor(model, certifiers)(args.text), strict=True):
        (line, *sets) = answer["certificates"]
        line["text"] = subject
        if args.json or not sys.stdout.isatty():
            # Of the model, not of a classifier that --smooth or --encoding makes.
            own = {"model_class": answer["prediction"], "margin": answer["margin"]}
            extra = {"statement": threat.statement, **own, "sets": sets}
            reads = {"reads": answer["reads"]} if "reads" in answer else {}
            print(json.dumps({**line, **extra, **reads}))
            continue
        print(harmless(f"{answer['prediction']}, margin {answer['margin']:.3f}: {answer['text']}"))
        if "reads" in answer:
            print(harmless(f"the model reads: {answer['reads']}"))
        for part in (line, *sets):
            for row in _describe(part, line["text"]):
                print(row)
            if part["class"] != answer["prediction"]:
                # The prediction above is that of the model, not of a classifier around it.
                source = "of the classifier that --smooth or --encoding makes"
                print(harmless(f"  this is about another prediction, {part['class']}, {source}"))


def _describe(line: Record, text: str) -> Iterator[str]:
    """Yield a certificate in words, a row for each number of changes, and the worst text."""
    yield harmless(f"\n{line['threat']} ({line['kind']}): {line['sentence']}")
    if not line["worst"]:
        return
    yield f"  {'changes':>7}  {'certified':>9}  {'margin':>7}  worst replacements"
    for worst in line["worst"]:
        holds = "yes" if line["holds"][worst["k"]] else "no"
        words = ", ".join(f"{old} -> {new}" for old, new in worst["replaced"]) or "none"
        yield harmless(f"  {worst['k']:>7}  {holds:>9}  {worst['margin']:>7.3f}  {words}")
    worst = next((w for w in line["worst"] if not line["holds"][w["k"]]), line["worst"][-1])
    _, after = compare(text, worst["text"])
    yield f"  worst text, k = {worst['k']}: {mark(after, new=True, colour=colours(sys.stdout))}"
    if worst["reads"] is not None:
        yield harmless(f"  the model reads: {worst['reads']}")


def _certify_split(
    args: argparse.Namespace,
    run: RunDirectory,
    checkpoint: Path,
    model: TaskModule,
    *,
    certifier: TextCertifier,
    threat: Threat,
    ks: Sequence[int | None],
) -> None:
    """Certify the samples of a split and files the outcome."""
    source, samples = split_texts(run, args.split, data_dir=args.data_dir, count=args.num_samples)
    weights = weights_of(checkpoint)
    measurement = WordCertificates(
        certifier,
        threat,
        ks,
        weights=weights,
        settings=subject(vars(args)),
        rows=fingerprint(source.examples(args.split)),
        samples=samples,
        class_names=model.require_text()[1],
        lists=args.lists,
        sets=args.threat if threat.name in ("substitutions", "additions") else None,
        resources=args.resources,
        positive=model.evidence_class if threat.name == "additions" else None,
        tag=args.tag,
    )
    # Figures of other weights than the best ones get their own directory.
    files = run if checkpoint == run.chosen else shelf(run, weights)
    outcome = measure(measurement, FolderArchive(files, run_identity(run, model, source.corpus)))
    print(harmless(measurement.table(files, outcome.records)))
    if (results := files.results()) is not None:
        print(harmless(f"\n{judge_run(files, results).text}"))
    curve = files.path / f"certificates_{measurement.name}.png"
    print(harmless(f"\n{files.path / measurement.file}, {curve}"))
