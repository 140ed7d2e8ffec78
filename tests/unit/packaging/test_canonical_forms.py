import json
import string
from pathlib import Path

import pytest

from requirements import canonical_forms

CHARACTERS = """\
0021;EXCLAMATION MARK;Po;0;ON;;;;;N;;;;;
0049;LATIN CAPITAL LETTER I;Lu;0;L;;;;;N;;;;0069;
00E9;LATIN SMALL LETTER E WITH ACUTE;Ll;0;L;0065 0301;;;;N;;;00C9;;00C9
0301;COMBINING ACUTE ACCENT;Mn;230;NSM;;;;;N;;;;;
0406;CYRILLIC CAPITAL LETTER BYELORUSSIAN-UKRAINIAN I;Lu;0;L;;;;;N;;;;0456;
0412;CYRILLIC CAPITAL LETTER VE;Lu;0;L;;;;;N;;;;0432;
0432;CYRILLIC SMALL LETTER VE;Ll;0;L;;;;;N;;;0412;;0412
0456;CYRILLIC SMALL LETTER BYELORUSSIAN-UKRAINIAN I;Ll;0;L;;;;;N;;;0406;;0406
2D51;TIFINAGH LETTER TUAREG YANG;Lo;0;L;;;;;N;;;;;
4E00;<CJK Ideograph, First>;Lo;0;L;;;;;N;;;;;
9FFF;<CJK Ideograph, Last>;Lo;0;L;;;;;N;;;;;
"""
CONFUSABLES = """\
\ufeff# confusables.txt
# Version: 99.1.0
0406 ;\t006C ;\tMA\t# ( І → l )
0049 ;\t006C ;\tMA\t#
0412 ;\t0042 ;\tMA\t#
2D51 ;\t0021 ;\tMA\t#
"""


@pytest.mark.long
def test_file_of_a_small_unicode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "UnicodeData.txt").write_text(CHARACTERS)
    (tmp_path / "confusables.txt").write_text(CONFUSABLES)
    monkeypatch.setattr(canonical_forms, "OUTPUT", tmp_path / "out.json")
    monkeypatch.setattr(canonical_forms, "IGNORABLE", [(0x200B, 0x200F)])
    monkeypatch.setattr(canonical_forms, "OWN", {})
    monkeypatch.setattr(canonical_forms, "QUOTES", {})
    assert canonical_forms.main([str(tmp_path)]) == 0
    capitals = {letter: f"{ord(letter.upper()):x}" for letter in string.ascii_lowercase}
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "unicode": "99.1.0",
        "forms": {
            **capitals,
            "": "0-8 e-1b 7f 301 200b-200f",
            " ": "9-d 1c-1f",
            # The small letter of one that looks like a capital B.
            "b": "42 412 432",
            "e": "45 e9",
            # Not "l", as which "I" counts there.
            "i": "49 406 456",
        },
    }


def test_a_file_without_a_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "UnicodeData.txt").write_text(CHARACTERS)
    (tmp_path / "confusables.txt").write_text("0406 ; 006C ; MA #")
    with pytest.raises(ValueError, match=r"without a line '# Version"):
        canonical_forms.main([str(tmp_path)])
