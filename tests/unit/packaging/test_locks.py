import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from requirements.lock import CUDA_ONLY, Pin, cpu_from_cuda, parse, render, split, wheel_hashes
from tests.unit.packaging.metadata import ROOT, group, runtime

LOCKS = ("cpu.txt", "cuda.txt", "dev.txt", "docs.txt", "torch-cpu.txt")


def text(name: str) -> str:
    return (ROOT / "requirements" / name).read_text(encoding="utf-8")


def lock(name: str) -> dict[str, Pin]:
    return parse(text(name))


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_has_hashes(name: str) -> None:
    pins = lock(name)
    assert pins
    assert all(pin.hashes for pin in pins.values())


@pytest.mark.parametrize("name", LOCKS)
def test_no_address_of_an_index_is_written_down(name: str) -> None:
    assert not re.search(r"://|^-|--(extra-)?index|--find-links| @ ", text(name), re.MULTILINE)


@pytest.mark.parametrize("name", LOCKS)
def test_lock_is_what_the_script_writes(name: str) -> None:
    assert render(name, lock(name).values()) == text(name)


def test_cpu_lock_pulls_nothing_of_cuda() -> None:
    assert not [name for name in lock("cpu.txt") if CUDA_ONLY.fullmatch(name)]
    assert [name for name in lock("cuda.txt") if CUDA_ONLY.fullmatch(name)]


def test_variants_differ_by_cuda_and_the_build_of_torch_only() -> None:
    cpu, cuda, build = lock("cpu.txt"), lock("cuda.txt"), lock("torch-cpu.txt")["torch"]
    assert cpu == cpu_from_cuda(cuda, build.hashes)
    assert build.version == f"{cuda['torch'].version}+cpu"
    assert not build.hashes & cuda["torch"].hashes


@pytest.mark.parametrize("name", ["cpu.txt", "cuda.txt"])
def test_lock_satisfies_the_project(name: str) -> None:
    pins = lock(name)
    for requirement in map(Requirement, runtime()):
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)].version)


def test_dev_lock_satisfies_its_group_and_repeats_nothing() -> None:
    dev, runtime = lock("dev.txt"), lock("cuda.txt")
    for requirement in map(Requirement, group("dev")):
        pin = (runtime | dev)[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin.version)
    assert not dev.keys() & runtime.keys()


def test_docs_lock_satisfies_its_group_and_needs_no_torch() -> None:
    docs = lock("docs.txt")
    for requirement in map(Requirement, group("docs")):
        assert requirement.specifier.contains(docs[canonicalize_name(requirement.name)].version)
    assert "torch" not in docs


def test_nothing_of_lightning_but_the_package_we_chose() -> None:
    names = lock("cuda.txt").keys() | lock("dev.txt").keys()
    assert {name for name in names if "lightning" in name} == {
        "pytorch-lightning",
        "lightning-utilities",
    }
    assert "torchtext" not in names


def test_parse_reads_what_a_pin_renders() -> None:
    pin = Pin("a", "1.0", "sys_platform == 'linux'", frozenset({"0" * 64, "f" * 64}), ("b", "c"))
    parsed = parse("# head\n" + pin.render() + "\n")["a"]
    assert parsed == pin
    assert parsed.via == pin.via


@pytest.mark.parametrize("line", ["a>=1", "a", "a==1\na==2", "-r other.txt"])
def test_parse_refuses_what_is_not_exact(line: str) -> None:
    with pytest.raises(ValueError, match="expected one line name==version"):
        parse(line)


def test_split_refuses_two_versions_of_a_package() -> None:
    with pytest.raises(ValueError, match="two resolutions of a"):
        split({"a": Pin("a", "1")}, {"a": Pin("a", "2")})


def test_only_cpu_wheels_of_the_locked_version_are_added(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-1.0+cpu-cp311-cp311-any.whl"
    wheel.write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert wheel_hashes([wheel], "1.0") == {empty}
    with pytest.raises(ValueError, match=r"expected a wheel torch-1\.1"):
        wheel_hashes([wheel], "1.1")
