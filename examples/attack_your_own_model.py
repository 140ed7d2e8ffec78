"""Attacks a model of your own: any function from texts to scores.

python -m examples.attack_your_own_model
"""

import attacks

GOOD = {"lovely", "friendly", "fresh", "warm"}
BAD = {"bland", "rude", "stale", "cold"}

SAMPLES = [
    ("the bread was fresh and the staff were friendly", 1),
    ("a bland soup and a rude waiter", 0),
    ("lovely rooms, warm soup", 1),
    ("the coffee was cold, the cake was stale", 0),
]
"""Texts with their classes; the class is the position of its score in a row."""


def classify(texts: list[str]) -> list[list[float]]:
    """Return a row of scores for each text, one score per class. Put your own model here."""
    rows = []
    for text in texts:
        words = text.replace(",", "").split()
        rows.append([2.0 * sum(word in opinions for word in words) for opinions in (BAD, GOOD)])
    return rows


def main() -> None:
    """Misspell words until the model gives a wrong class, and print the results."""
    # DeepWordBug needs no download; docs/attacks.md has the other recipes and what they need.
    outcome = attacks.attack(classify, SAMPLES, recipe="deepwordbug", query_budget=200)
    print(outcome)
    for record in outcome.records:
        print(f"{record.outcome}: {record.text} -> {record.adversarial}")


if __name__ == "__main__":
    main()
