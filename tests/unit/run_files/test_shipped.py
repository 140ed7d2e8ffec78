from pathlib import Path

import pytest

from app.cli.arguments import with_configs
from run_files.shipped import SHIPPED, names, settings_file


@pytest.mark.parametrize("given", ["olsa/sst2", "olsa/sst2.yaml", "configs/olsa/sst2.yaml"])
def test_a_shipped_file_by_its_name(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = SHIPPED / "olsa" / "sst2.yaml"
    assert settings_file(given) == shipped
    assert with_configs(["fit", "--config", given, "--run=a"]) == [
        *("fit", "--config", str(shipped), "--run=a")
    ]
    assert with_configs(["fit", f"--config={given}"]) == ["fit", f"--config={shipped}"]
    # A folder of that name is no file, a file is.
    (tmp_path / given).mkdir(parents=True)
    assert settings_file(given) == shipped
    (tmp_path / given).rmdir()
    (tmp_path / given).touch()
    assert settings_file(given) == Path(given)


def test_files_of_other_commands() -> None:
    assert settings_file("example", folder="studies") == SHIPPED / "studies" / "example.yaml"
    assert settings_file("configs/attack/custom.yaml", folder="attack").is_file()
    assert "studies/example" in names("studies")
    assert not any(name.startswith(("attack/", "studies/", "cluster/")) for name in names())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("olsa/sst", r"^got olsa/sst, not found, expected one, .*, perhaps olsa/sst2, "),
        ("nosuch/dream", r"perhaps .*asa/dream"),
        ("xyzzy", r"the name of a shipped file, as default$"),
        ("../configs/default", r"not found"),
        ("/default", r"not found"),
    ],
)
def test_what_is_no_file(
    given: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        settings_file(given)


def test_each_name_is_found() -> None:
    assert all(settings_file(name).is_file() for name in names())


def test_settings_themselves_are_left_alone() -> None:
    argv = ["fit", "--config", "model: OLSA\n", "--trainer.max_epochs=1"]
    assert with_configs(argv) == argv
