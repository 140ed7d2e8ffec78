from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from run_files.event_files import evaluation_writer
from run_files.run_directory import RunDirectory


def write(run: RunDirectory, stage: str, value: float) -> None:
    writer = evaluation_writer(run, stage)
    writer.add_scalar(f"{stage}/accuracy", value, 3)
    writer.close()


def shown(folder: Path) -> dict[str, list[float]]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [one.value for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_a_stage_takes_the_place_of_its_former_figures_alone(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    stages = ["attack/a", "attack/a*", "attack/a.b", "attack/b"]
    for value, stage in enumerate(stages):
        write(run, stage, value)
    write(run, "attack/a", 9)
    assert shown(tmp_path) == {
        "attack/a/accuracy": [9],
        "attack/a*/accuracy": [1],
        "attack/a.b/accuracy": [2],
        "attack/b/accuracy": [3],
    }


def test_they_leave_with_the_other_figures_of_their_weights(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    (tmp_path / "events.out.tfevents.1.of-a-fit").touch()
    write(run, "test", 1)
    run.set_aside("step-3-abc")
    assert shown(tmp_path / "others" / "step-3-abc") == {"test/accuracy": [1]}
    assert [path.name for path in tmp_path.glob("*tfevents*")] == ["events.out.tfevents.1.of-a-fit"]
