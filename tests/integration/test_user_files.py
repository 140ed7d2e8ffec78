"""A file as people have it, from the command line to a trained model."""

from pathlib import Path

from run_files.run_directory import RunDirectory
from tests.integration.conftest import OLSA, TINY, Steadfast

EPOCH = "--trainer.max_epochs=1"


def test_a_file_with_semicolons_in_latin_1_trains(here: Path, steadfast: Steadfast) -> None:
    rows = [
        f"das café war {('kühl', 'warm')[i % 2]} {i};{('nein', 'ja')[i % 2]}" for i in range(40)
    ]
    Path("mails.csv").write_bytes("\n".join(["Text;Urteil", *rows]).encode("latin-1"))
    data = ["--data=mails.csv", "--run=mails"]
    outcome = steadfast("fit", OLSA, TINY, EPOCH, data)
    assert outcome.status == 1
    assert "the file has Text, Urteil: did you mean `--data.text_column Text`" in outcome.err
    columns = ["--data.text_column=Text", "--data.label_column=Urteil"]
    outcome = steadfast("fit", OLSA, TINY, EPOCH, data, columns)
    assert outcome.status == 0, outcome.err
    said = "mails.csv: table, separator semicolon, encoding latin-1 (not UTF-8 in line 2"
    assert outcome.err.count(said) == 1
    assert "mails: train 29 (" in outcome.err
    settings = RunDirectory(Path("runs/mails")).config()["data"]["init_args"]
    assert (settings["separator"], settings["encoding"]) == (None, None)
