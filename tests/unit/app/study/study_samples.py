"""Small studies and their figures, without any run."""

from collections.abc import Mapping, Sequence

from app.study.outcomes import samples_digest
from app.study.study import CellFigures, Column, PaperFigures, Study, StudyCorpus, StudyRow

ACCURACY = Column(name="accuracy", title="accuracy, %", metric="test/accuracy", scale=100, digits=1)
ATTACKED = Column(
    name="fooled", title="TextFooler, %", metric="attack/textfooler/accuracy", scale=100, digits=1
)
TIME = Column(name="loss", title="loss", metric="test/loss", digits=2, better="lower")
SST2, NEWS = StudyCorpus(name="sst2", title="SST-2"), StudyCorpus(name="news", title="AG News")


def row(
    name: str, *, seeds: Sequence[int] = (0, 1, 2), corpora: Sequence[str] = ("sst2",)
) -> StudyRow:
    return StudyRow(
        name=name, title=name.upper(), seeds=tuple(seeds), corpora=tuple(corpora), stages=()
    )


def study(
    *rows: StudyRow,
    columns: Sequence[Column] = (ACCURACY,),
    corpora: Sequence[StudyCorpus] = (SST2,),
    against: Sequence[tuple[str, str]] = (("b", "a"),),
    compared: Sequence[str] = ("accuracy",),
    published: PaperFigures | None = None,
    notes: Sequence[str] = (),
) -> Study:
    return Study(
        name="tiny",
        title="A tiny study",
        about="It shows nothing.",
        notes=tuple(notes),
        corpora=tuple(corpora),
        rows=rows or (row("a"), row("b")),
        columns=tuple(columns),
        against=tuple(against),
        compared=tuple(compared),
        published=published,
        digest="0" * 64,
    )


def cell(
    name: str,
    seed: int,
    outcomes: str = "",
    *,
    corpus: str = "sst2",
    values: Mapping[str, float | None] | None = None,
    unreliable: Sequence[str] = (),
    samples: str | None = None,
    data: str = "rows",
    collapsed: bool | None = None,
    revisions: Sequence[str] = ("0123456789ab",),
) -> CellFigures:
    """A run whose outcomes are written as in `1101`."""
    known = tuple(float(one) for one in outcomes)
    ids, labels = tuple(range(len(known))), tuple(i % 2.0 for i in range(len(known)))
    mean = {"accuracy": sum(known) / len(known)} if known else {}
    return CellFigures(
        row=name,
        corpus=corpus,
        seed=seed,
        run=f"tiny-{name}-{corpus}-s{seed}",
        values={**mean, **(values or {})},
        unreliable=tuple(unreliable),
        outcomes={"accuracy": known} if known else {},
        samples={"accuracy": samples or samples_digest(ids, labels)} if known else {},
        ids={"accuracy": ids} if known else {},
        labels={"accuracy": labels} if known else {},
        collapsed=collapsed,
        revisions=tuple(revisions),
        weights=f"weights of {name} {seed}",
        data={"test": data},
        seconds={"fit": 1.5 + seed},
    )
