import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.study.cell_check import check
from app.study.cells import StudyContext, chains, command_line, lay_out, only
from app.study.study import Cell, Stage, Study, StudyError
from app.study.study_file import ATTACK_METRICS, attacks_of, examine, read_study
from attacks.summary import _METRICS
from tests.run_command import run_command

study_main = partial(run_command, "study")

SMALL: dict[str, Any] = {
    "title": "A study",
    "rows": {"plain": {}, "other": {"settings": {"model.dropout": 0.3}}},
    "columns": {"accuracy": {"metric": "test/accuracy"}},
}


def written(folder: Path, **changed: Any) -> Path:
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **changed}, sort_keys=False))
    return path


def problems(folder: Path, **changed: Any) -> list[str]:
    return examine(written(folder, **changed))[1]


def cells(study: Study, context: StudyContext) -> list[Cell]:
    runs, wrong = lay_out(study, context)
    assert wrong == []
    return runs


def place(**given: Any) -> StudyContext:
    return StudyContext(study="small", **given)


def test_a_study_of_two_rows(tmp_path: Path) -> None:
    study = read_study(written(tmp_path, against="plain", seeds=[0, 1]))
    assert [row.name for row in study.rows] == ["plain", "other"]
    assert study.against == (("other", "plain"),)
    assert study.compared == ("accuracy",)
    assert [stage.command for stage in study.rows[0].stages] == ["fit", "test"]
    runs = [cell.run for cell in cells(study, place())]
    # A study that is stopped has whole tables, of fewer seeds.
    assert runs == ["small-plain-s0", "small-other-s0", "small-plain-s1", "small-other-s1"]


@pytest.mark.parametrize(
    ("against", "wrong"),
    [
        ([["other", "plain"], ["plain", "plain"]], ["plain", "plain"]),
        ([["other", "plain"], ["plain", "other"]], ["plain", "other"]),
    ],
)
def test_a_comparison_counts_once(tmp_path: Path, against: Any, wrong: list[str]) -> None:
    """Holm's correction would count it again, and that of a row with itself as well."""
    lines = problems(tmp_path, against=against)
    assert f"against: got {wrong}, expected two rows, and each pair once" in lines
    rows = {"plain": {"shown": False}, "other": {}}
    assert "against: got plain, expected one of other" in problems(
        tmp_path, rows=rows, against="plain"
    )


def test_precedence_of_settings_and_files(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        base={"config": ["base.yaml"], "settings": dict.fromkeys("abcd", "base")},
        corpora={"x": {"config": ["x.yaml"], "settings": dict.fromkeys("bcd", "corpus")}, "y": {}},
        rows={
            "r": {
                "config": ["r.yaml"],
                "settings": dict.fromkeys("cd", "row"),
                "settings_on": {"x": {"d": "row on x"}},
            }
        },
    )
    on_x, on_y = cells(read_study(path), place())
    assert on_x.config == ("base.yaml", "x.yaml", "r.yaml")
    assert dict(on_x.settings) == {"a": "base", "b": "corpus", "c": "row", "d": "row on x"}
    assert dict(on_y.settings) == {"a": "base", "b": "base", "c": "row", "d": "row"}
    assert on_x.run == "small-r-x-s0"


@pytest.mark.parametrize("corpora", [{}, {"x": {}}])
def test_settings_on_a_corpus_that_is_not_there(tmp_path: Path, corpora: dict[str, Any]) -> None:
    row = {"settings_on": {"z": {"a": 1}}}
    [problem] = problems(tmp_path, corpora=corpora, rows={"r": row, "plain": {}})
    known = "x" if corpora else "none"
    assert problem == f"rows.r.settings_on.z: got an unknown key, expected one of {known}"


def test_a_row_off_the_corpora_has_base_unless_it_says_not(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        base={"settings": {"a": 1}},
        corpora={"x": {}},
        rows={"p": {"corpora": []}, "q": {"corpora": [], "base": False}, "r": {}},
    )
    found = {cell.row: dict(cell.settings) for cell in cells(read_study(path), place())}
    assert found == {"p": {"a": 1}, "q": {}, "r": {"a": 1}}
    assert "rows.r.base" in problems(tmp_path, corpora={"x": {}}, rows={"r": {"base": False}})[0]


def test_the_product_of_axes_adds_rows(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        base={"settings": {"a": 0, "lr": 0}},
        axes={
            "gamma": {"setting": "g", "values": [0.5, 1], "title": "γ = {value}"},
            "mask": {"values": {"none": {"title": "no mask"}, "soft": {"settings": {"lr": 2}}}},
        },
    )
    rows = read_study(path).rows[2:]
    assert [row.name for row in rows] == [
        *("gamma0.5-none", "gamma0.5-soft", "gamma1-none", "gamma1-soft")
    ]
    assert rows[0].title == "γ = 0.5, no mask"
    assert dict(rows[3].settings) == {"a": 0, "lr": 2, "g": 1}


def test_one_message_lists_all_that_is_wrong(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        titel="x",
        seeds=[0, 0],
        rows={
            "plain": {"after": "gone", "colour": "red"},
            "a": {"after": "b"},
            "b": {"after": "a"},
            "c": {"start": {"x": "y"}, "stages": ["fly"]},
        },
        columns={"accuracy": {"metric": "accuracy"}, "pwws": {"metric": "attack/pwws/accuracy"}},
        against="nobody",
        compared=["speed"],
        matched={"at": "height", "rows": ["nobody"], "columns": [], "width": 1},
        pictures={"p": {"kind": "cake", "columns": ["speed"]}},
        paper={"source": "Table 1", "figures": {"nobody": {"accuracy": 1}}},
        base={"settings": {"a": "${encoder}"}},
    )
    with pytest.raises(StudyError) as caught:
        read_study(path)
    for part in (
        "titel: got an unknown key",
        "seeds: got [0, 0], expected a list of whole numbers from 0 on, at least one and each once",
        "rows.plain.after: got 'gone'",
        "rows.plain.colour: got an unknown key",
        "circle of `after`: a -> b -> a",
        "rows.c.start: got it without `after`",
        "rows.c.stages: got 'fly'",
        "columns.accuracy.metric: got 'accuracy'",
        "columns.pwws.metric: got 'attack/pwws/accuracy', which no stage measures",
        "against: got nobody",
        "compared: got speed",
        "matched.width: got an unknown key",
        "matched.at: got height",
        "matched.rows: got nobody",
        "matched.rows: got fewer than two rows",
        "pictures.p.kind: got 'cake'",
        "paper.figures: got nobody",
        "got ${encoder}, expected it in needs",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize("text", ["- a list", "{", "a text", "rows: {}\nrows: {}"])
def test_a_file_that_is_no_study(tmp_path: Path, text: str) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(text)
    with pytest.raises(StudyError, match=r"got .*small\.yaml"):
        read_study(path)


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        ("attack/pwws-soft/accuracy", ""),
        ("attack/mean_accuracy", ""),
        ("test/f1", ""),
        ("test/acuracy", "got 'test/acuracy', expected perhaps test/accuracy"),
        ("test/answers_of_mine", ""),
        ("diagnose/pwws-soft/distances/mean", ""),
        ("diagnose/bae/distances/mean", "got diagnosis 'bae', expected one of pwws-soft"),
        ("attack/bae/accuracy", "got attack 'bae', expected one of pwws-soft"),
        ("attack/pwws-soft/speed", "got 'speed', expected one of absolute_error"),
        ("certify/radius", "expected certify or train among the stages"),
    ],
)
def test_metrics_that_the_stages_measure(tmp_path: Path, metric: str, problem: str) -> None:
    attack = {"attack": {"recipe": "pwws", "tag": "soft"}}
    stages = ["fit", "test", attack, {"diagnose": {"recipe": "pwws-soft"}}]
    found = problems(tmp_path, stages=stages, columns={"c": {"metric": metric}})
    assert len(found) == bool(problem)
    assert problem in "".join(found)


def test_a_misspelt_recipe_is_the_only_error_about_it(tmp_path: Path) -> None:
    attack = {"attack": {"recipe": "depwordbug"}}
    path = written(
        tmp_path,
        rows={"a": {"settings": {"model": "OLSA", "model.hads": 4, "data": "Reviews"}}},
        stages=["fit", attack, {"diagnose": {"recipe": "deepwordbug"}}],
        columns={"c": {"metric": "attack/deepwordbug/accuracy"}},
    )
    study = read_study(path)
    context = place()
    _, found = check(cells(study, context), context)
    assert [line.split(": ")[0] for line in found] == ["rows.a, fit", "rows.a, attack"]
    assert found[1].startswith("rows.a, attack: got attack 'depwordbug'")
    assert found[1].endswith(": perhaps deepwordbug")


def test_the_mean_of_attacks_is_compared_as_they_are(tmp_path: Path) -> None:
    columns = {
        "accuracy": {"metric": "test/accuracy"},
        "pwws": {"metric": "attack/pwws/accuracy"},
        "mean": {"metric": "attack/mean_accuracy"},
    }
    stages = ["fit", "test", {"attack": {"recipe": "pwws"}}]
    for compared, wanted in (
        (["accuracy", "pwws"], ("accuracy", "pwws", "mean")),
        (["accuracy"], ("accuracy",)),
        (["mean"], ("mean",)),
    ):
        path = written(tmp_path, columns=columns, stages=stages, against="plain", compared=compared)
        assert read_study(path).compared == wanted


@pytest.mark.long
def test_the_state_of_runs_needs_no_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path,
        needs={"answers": "of another model"},
        base={
            "config": [str(Path(__file__).parents[4] / "configs/word_scores/sst2.yaml")],
            "settings": {
                "model.robustness.lists": "${data_dir}/lists.json.gz",
                "model.unlabelled": "${answers}",
            },
        },
        rows={"plain": {}},
        stages=["fit", {"certify": {"threat": "synonyms", "lists": "${data_dir}/l.gz", "k": [1]}}],
        columns={"all": {"metric": "certify_synonyms/accuracy@1"}},
    )
    where = ["--runs_dir", str(tmp_path / "runs")]
    assert study_main(["status", str(path), *where]) == 0
    assert "small-plain-s0  0 of 2 stages  open" in capsys.readouterr().out
    assert study_main(["collect", str(path), *where]) == 0
    with pytest.raises(StudyError, match="expected --data_dir DIR"):
        study_main(["run", str(path), *where])


def test_a_study_that_is_not_there(tmp_path: Path) -> None:
    path = written(tmp_path)
    message = r"smal\.yaml, not found, expected the YAML file of a study: .*there is small\.yaml"
    with pytest.raises(StudyError, match=message):
        read_study(path.with_name("smal.yaml"))


def test_a_key_that_stands_twice(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text("rows:\n  a: {}\n  b: {}\n  a: {title: other}\n")
    with pytest.raises(StudyError, match="twice the key 'a' in lines 2 and 4"):
        read_study(path)


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        (["fit", {"test": {"pgd.epsilon": 0}}, "test"], "got test twice"),
        (["fit", {"attack": {"recipe": "pwws, a2t"}}, {"attack": {"recipe": "a2t"}}], "attack a2t"),
        (["fit", "certify", {"certify": {"bound": "paper"}}], ""),
        (["fit", "attack", {"attack": {"tag": "x"}}], ""),
        (["attack"], "got 'attack', expected fit or train as the first stage"),
        ([{"attack": {"ckpt_path": "x.ckpt"}}], ""),
    ],
)
def test_stages_that_go_together(tmp_path: Path, stages: list[Any], problem: str) -> None:
    found = problems(tmp_path, stages=stages, columns={})
    assert len(found) == bool(problem)
    assert problem in "".join(found)


def test_a_diagnosis_is_of_an_attack_before_it(tmp_path: Path) -> None:
    attack, diagnosis = {"attack": {"recipe": "pwws"}}, {"diagnose": {"recipe": "pwws"}}
    assert problems(tmp_path, stages=["fit", "test", attack, diagnosis]) == []
    [said] = problems(tmp_path, stages=["fit", "test", diagnosis, attack])
    assert said.startswith("stages: got diagnose of 'pwws', expected one of none")


def test_names_of_attacks_are_those_of_the_program(tmp_path: Path) -> None:
    assert {*_METRICS, "target"} == ATTACK_METRICS
    stage = Stage(command="attack", options={"recipe": "all", "tag": "x"})
    from attacks.recipes import SIX

    assert attacks_of([stage]) == [f"{name}-x" for name in SIX]
    own = Stage(command="attack", options={"recipe": "a2t, configs/attack/mine.yaml"})
    assert attacks_of([own]) == ["a2t", "mine"]
    (tmp_path / "mine.yaml").write_text("name: ours\n")
    named = Stage(command="attack", options={"recipe": f"{tmp_path}/mine.yaml", "tag": "x"})
    assert attacks_of([named]) == ["ours-x"]


# Cells


def test_values_of_the_command_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        needs={"encoder": "folder of an encoder"},
        base={"config": ["${data_dir}/a.yaml"], "settings": {"model.backbone": "${encoder}/x"}},
    )
    study = read_study(path)
    found, wrong = lay_out(study, place(values={"other": "1"}))
    assert "got no encoder, expected --set encoder=VALUE: folder of an encoder" in wrong
    assert "got --set other, which the study does not need, expected encoder" in wrong
    assert "rows.plain: got ${data_dir}, expected --data_dir DIR" in wrong
    found = cells(study, place(data_dir=Path("d"), values={"encoder": "e"}))
    assert found[0].config == ("d/a.yaml",)
    assert found[0].settings["model.backbone"] == "e/x"


def test_a_row_after_another_starts_from_its_files(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        seeds=[0, 1],
        corpora={"x": {}, "y": {}},
        rows={
            "once": {"corpora": [], "seeds": [7], "shown": False},
            "first": {"after": "once"},
            "then": {"after": "first", "start": {"model.init_from": "checkpoints/best.ckpt"}},
        },
    )
    found = {cell.run: cell for cell in cells(read_study(path), place(runs_dir=Path("R")))}
    assert len(found) == 9
    assert found["small-first-y-s1"].after == "small-once-s7"
    then = found["small-then-y-s1"]
    assert then.after == "small-first-y-s1"
    assert then.settings["model.init_from"] == "R/small-first-y-s1/checkpoints/best.ckpt"
    assert [len(chain) for chain in chains(list(found.values()))] == [9]
    chosen = only(list(found.values()), ["first"])
    assert {cell.row for cell in chosen} == {"once", "first"}
    of_y = only(list(found.values()), ["y"])
    assert {cell.corpus for cell in of_y} == {"", "y"}
    assert {cell.row for cell in of_y} == {"once", "first", "then"}
    both = only(list(found.values()), ["y", "first"])
    assert [cell.run for cell in both] == ["small-once-s7", "small-first-y-s0", "small-first-y-s1"]
    with pytest.raises(
        StudyError, match="got --only gone, expected some of first, once, then, x, y"
    ):
        only(chosen + list(found.values()), ["gone"])
    assert only(list(found.values())) == list(found.values())
    drawn = only(list(found.values()), ["then", "x"], [1])
    # The run with seed 7 is needed by the first one.
    runs = ["small-once-s7", "small-first-x-s1", "small-then-x-s1"]
    assert [cell.run for cell in drawn] == runs
    with pytest.raises(StudyError, match="got --seeds 3, 5, expected some of 0, 1, 7"):
        only(list(found.values()), seeds=[5, 3, 0])
    with pytest.raises(StudyError, match="got --only y and --seeds 7, which no run has both"):
        only(list(found.values()), ["y"], [7])


def test_chains_are_never_divided(tmp_path: Path) -> None:
    path = written(
        tmp_path, seeds=[0, 1], rows={"a": {}, "b": {"after": "a"}, "c": {}, "d": {"after": "b"}}
    )
    names = [
        [cell.run.removeprefix("small-") for cell in chain]
        for chain in chains(cells(read_study(path), place()))
    ]
    assert names == [["a-s0", "b-s0", "d-s0"], ["c-s0"], ["a-s1", "b-s1", "d-s1"], ["c-s1"]]


def test_runs_of_the_same_name_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, corpora={"b": {}, "a-b": {}}, rows={"r": {}, "r-a": {}})
    _, [wrong] = lay_out(read_study(path), place())
    assert wrong.startswith("got two runs 'small-r-a-b-s0'")


def test_command_lines(tmp_path: Path) -> None:
    stages = [
        "fit",
        {"test": {"pgd.epsilon": 0}},
        {"attack": {"recipe": "pwws", "columns": ["text"], "trainer.precision": 64}},
        {"diagnose": {"recipe": "pwws", "against": ["a", "b"], "same_texts": True}},
    ]
    settings = {"model": "OLSA", "trainer.accelerator": "cpu", "a": None, "b": True, "c": [1, "x"]}
    path = written(tmp_path, stages=stages, base={"config": ["c.yaml"], "settings": settings})
    where = place(data_dir=Path("d"), runs_dir=Path("R"))
    cell = cells(read_study(path), where)[0]
    run = ["--run=small-plain-s0", "--runs_dir=R"]
    quiet, data = "--trainer.enable_progress_bar=false", "--data.data_dir=d"
    assert [command_line(cell, stage, where) for stage in cell.stages] == [
        [
            *("fit", "--config=c.yaml", "--model=OLSA", "--trainer.accelerator=cpu", "--a=null"),
            *("--b=true", '--c=[1, "x"]', data, "--seed=0", quiet, *run),
        ],
        ["test", *run, "--trainer.accelerator=cpu", data, quiet, "--pgd.epsilon=0"],
        [
            *("attack", *run, "--trainer.accelerator=cpu", data, quiet, "--attack.resources=d"),
            *("--attack=pwws", '--attack.columns=["text"]', "--trainer.precision=64"),
        ],
        ["diagnose", *run, "--recipe=pwws", "--against", "a", "b", "--same_texts"],
    ]


def test_other_programs_of_the_process_are_not_silenced(tmp_path: Path) -> None:
    logger = logging.getLogger("datamodules")
    before = logger.level
    (tmp_path / "study.yaml").write_text("title: nothing\n")
    with pytest.raises(StudyError):
        study_main(["run", str(tmp_path / "study.yaml")])
    assert logger.level == before != logging.ERROR


def test_axes_are_counted_before_they_are_combined(tmp_path: Path) -> None:
    values = [number / 100 for number in range(60)]
    axes = {f"a{i}": {"setting": f"model.s{i}", "values": values} for i in range(5)}
    lines = problems(tmp_path, rows={}, axes=axes)
    assert "axes: got 777,600,000 combinations of their values, expected at most 1,000" in lines[0]


def test_the_names_of_attacks() -> None:
    def names(**options: Any) -> list[str]:
        return attacks_of([Stage(command="attack", options=options)])

    assert names(recipe="pwws,a2t", tag="x") == ["pwws-x", "a2t-x"]
    # With `attack.` before them, as on the command line.
    assert names(**{"attack.recipe": "pwws", "attack.tag": "x"}) == ["pwws-x"]
    # All names of an ensemble are its own.
    assert names(recipe="pwws,worst:bae,a2t") == ["pwws", "worst"]
    assert names(recipe="worst") == ["worst"]
