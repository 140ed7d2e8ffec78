"""Score the outputs of an evaluation of inspect_ai with a trained detector or classifier.

    inspect eval examples/adapters/inspect_scorer.py --model mockllm/model \
        -T run=guard -T positive=spam -T runs_dir="$PWD/runs"

This task has recorded outputs, so no model is asked. `detector` works in any other task. It judges
what the evaluated model wrote, not its input.
"""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

import steadfast as sf

OUTPUTS = {
    "Write a message about dinner.": "Are you home for dinner? I am making soup tonight.",
    "Write a message about a prize.": "WINNER! Claim your free prize now, call 09061701461.",
}
"""Recorded outputs to inputs."""


@scorer(metrics={"probability": [mean()], "detected": [mean(), stderr()]})
def detector(run: str, positive: str, runs_dir: str = "runs") -> Scorer:
    """Score the output of a model: the probability of a class, and 1 if it is predicted.

    Args:
        run: whatever `steadfast.load` takes: a run, a checkpoint, an export, `hf:FOLDER_OR_ID`.
        positive: class that is looked for.
        runs_dir: folder of the runs. `inspect eval` loads a task in the folder of its file, so the
            command line needs an absolute path.

    Returns:
        scorer whose values are `probability` (before the threshold of a detector was chosen) and
        `detected` (1 if the class is predicted, at the threshold of a detector, else 0); both are 0
        for a blank output.

    Raises:
        OSError: no such run.
        ValueError: no such class.
    """
    model = sf.load(run, runs_dir=runs_dir)
    if positive not in model.classes:
        expected = ", ".join(model.classes) or "a classifier instead of a regression"
        msg = f"got positive={positive!r}, expected a class of {run}: {expected}"
        raise ValueError(msg)

    async def score(state: TaskState, target: Target) -> Score:
        text = state.output.completion
        if not text.strip():
            return Score(value={"probability": 0.0, "detected": 0}, explanation="no words")
        (record,) = model.predict([text])
        detected = record["prediction"] == positive
        values = {"probability": record["probabilities"][positive], "detected": int(detected)}
        return Score(value=values, answer=record["prediction"], explanation=text)

    return score


@solver
def recorded() -> Solver:
    """Take the outputs from `OUTPUTS`; `inspect_ai.solver.generate` asks the model."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.output = ModelOutput.from_content("recorded", OUTPUTS[state.input_text])
        return state

    return solve


@task
def recorded_outputs(run: str, positive: str, runs_dir: str = "runs") -> Task:
    """Score `OUTPUTS` with `detector`, which explains the arguments."""
    samples = [Sample(input=prompt) for prompt in OUTPUTS]
    return Task(dataset=samples, solver=recorded(), scorer=detector(run, positive, runs_dir))
