from training.arithmetic import Facts, _changes

ONE: Facts = {"threads": 2, "precision": "32-true", "kernels": "avx2", "device": "A", "torch": "2"}


def test_the_same_is_no_change() -> None:
    assert _changes([ONE, ONE], [dict(ONE), dict(ONE)]) == []


def test_each_change_is_named_once_with_its_remedy() -> None:
    other: Facts = {**ONE, "threads": 1, "device": "B", "kernels": "avx512"}
    assert _changes([ONE, ONE], [other, other]) == [
        "device: B, before A",
        "kernels: avx512, before avx2, ATEN_CPU_CAPABILITY=avx2 to repeat it",
        "threads: 1, before 2, OMP_NUM_THREADS=2 to repeat it",
    ]


def test_one_rank_is_enough() -> None:
    assert _changes([ONE, ONE], [ONE, {**ONE, "threads": 1}]) == [
        "threads: 1, before 2, OMP_NUM_THREADS=2 to repeat it"
    ]


def test_another_number_of_processes() -> None:
    assert _changes([ONE, ONE], [ONE]) == [
        "processes: 1, before 2, --trainer.devices 2 to repeat it"
    ]


def test_a_checkpoint_of_a_version_that_knew_fewer_facts() -> None:
    assert _changes([{"threads": 2}], [ONE]) == []
