"""Cost of the spelling corrector: a word, the lists of all typos, and ratios to plain ways.

    python -m benchmarks.word_corrector [--words 50000] [--text FILE] [--repeats 5] [--out FILE]

The vocabulary holds the most frequent words of a text file, else made-up words of syllables, which
have more neighbours than those of a language. Seconds are of the processor; `inside` and `outside`
are for one word; `in a text`, each is read for the first time by the front end of a pretrained
encoder. Ratios: a correction to the look-up of a word of the vocabulary, and the lists by a join to
a call for every typo (`one by one`: of about 100 words, scaled up).
"""

import random
from collections import Counter
from functools import partial
from pathlib import Path

from benchmarks.command import check_paths, command, heading, save, settings, table
from benchmarks.timing import resident, time_work
from text import FrontEnd, FrontEndSettings, split_words
from text.corrector import Corrector

SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
SAMPLE = 100
"""Words whose typos are corrected one by one."""


def make_words(count: int, seed: int = 0) -> list[str]:
    """Return distinct words of two to five syllables and perhaps a last letter."""
    draw = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = draw.choices(SYLLABLES, k=draw.randint(2, 5))
        words["".join(syllables) + draw.choice(["", "n", "r", "s"])] = None
    return list(words)


def measure(words: list[str], repeats: int) -> dict[str, float]:
    """Return the seconds of each piece of work; of single words, the best round counts."""
    corrector = Corrector(["<unk>", *words], first=1, unknown=0)
    misspelt = [word[:2] + "q" + word[3:] for word in words]
    seconds = {"index": time_work(lambda: corrector("q")).compared}
    for name, asked in (("inside", words), ("outside", misspelt)):
        times = [time_work(partial(list, map(corrector, asked))) for _ in range(repeats)]
        seconds[name] = min(time.compared for time in times) / len(asked)
    front_end = FrontEnd.of_words(words, FrontEndSettings(front_end="spelling"), unknown="[UNK]")
    front_end("q")  # builds the index
    for name, asked in (("inside, in a text", words), ("outside, in a text", misspelt)):
        texts = [" ".join(asked[start : start + 100]) for start in range(0, len(asked), 100)]
        times = []
        for _ in range(repeats):
            front_end.forget()
            times.append(time_work(partial(list, map(front_end, texts))))
        seconds[name] = min(time.compared for time in times) / len(asked)
    some = words[:: max(len(words) // SAMPLE, 1)]
    one_by_one = time_work(lambda: corrector._list_few(some, None)).compared
    seconds["one by one"] = one_by_one / len(some) * len(words)
    seconds["lists"] = time_work(lambda: corrector.reach(words)).compared
    seconds["lists, splits"] = time_work(lambda: corrector.reach(words, splits=True)).compared
    return seconds


def main() -> None:
    """Measure and print."""
    parser = command(__doc__, "out", repeats=5)
    parser.add_argument("--words", type=int, default=50_000, help="words of the vocabulary")
    parser.add_argument("--text", type=Path, help="text file whose most frequent words are used")
    options = parser.parse_args()
    check_paths(options.text)
    if options.text is None:
        words = make_words(options.words)
    else:
        counts = Counter(split_words(options.text.read_text(encoding="utf-8", errors="replace")))
        words = [word for word, _ in counts.most_common(options.words)]
    seconds = measure(words, options.repeats)
    values = settings(options, "repeats") | {"words": len(words), "MiB": round(resident())}
    ratios = {
        "outside": seconds["outside"] / seconds["inside"],
        "lists": seconds["lists"] / seconds["one by one"],
        "lists, splits": seconds["lists, splits"] / seconds["one by one"],
    }
    rows = [
        (name, f"{1e6 * time:.2f} us" if "side" in name else f"{time:.2f} s", ratios.get(name, ""))
        for name, time in seconds.items()
    ]
    print(heading(values))
    print(table(["work", "seconds", "ratio"], rows))
    save(options.out, {**values, "seconds": seconds, "ratios": ratios})


if __name__ == "__main__":
    main()
