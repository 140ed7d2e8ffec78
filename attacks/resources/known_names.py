"""Short lists of names, places and contractions, written for this project."""

_FIRST_NAMES = """
    Aaron Adam Alice Amanda Amy Andrew Anna Anthony Ben Brian Carlos Caroline Charles Chris
    Daniel David Emily Emma Eric Frank George Grace Hannah Helen Henry Isabel Jack James Jane
    Jason Jennifer Jessica John Jose Joseph Julia Karen Kate Kevin Laura Linda Lisa Lucy Maria
    Mark Martin Mary Matthew Michael Michelle Nicholas Olivia Oscar Patricia Paul Peter Rachel
    Rebecca Richard Robert Samuel Sandra Sarah Simon Sophia Stephen Steven Susan Thomas Victor
    Walter William
"""
FIRST_NAMES = frozenset(_FIRST_NAMES.split())
"""First names that are common in English texts, and seldom anything else."""

_LAST_NAMES = """
    Adams Allen Anderson Campbell Carter Clark Collins Cooper Davis Edwards Evans Garcia
    Gonzalez Hernandez Hughes Jackson Johnson Jones Kelly Lopez Martinez Miller Mitchell Morgan
    Morris Murphy Nelson Nguyen Parker Patel Peterson Phillips Robinson Rodriguez Sanchez Smith
    Stewart Taylor Thompson Torres Turner Watson Williams Wilson Wright
"""
LAST_NAMES = frozenset(_LAST_NAMES.split())
"""Last names."""

_CITIES = """
    Amsterdam Athens Atlanta Baghdad Bangkok Barcelona Beijing Berlin Boston Brussels Budapest
    Cairo Chicago Copenhagen Dallas Delhi Denver Detroit Dublin Edinburgh Geneva Glasgow Hamburg
    Helsinki Houston Istanbul Jakarta Johannesburg Kiev Lagos Lima Lisbon London Madrid
    Manchester Manila Melbourne Miami Milan Montreal Moscow Mumbai Munich Nairobi Oslo Paris
    Philadelphia Prague Rome Seattle Seoul Shanghai Singapore Stockholm Sydney Tehran Tokyo
    Toronto Vancouver Vienna Warsaw Washington Zurich
"""
CITIES = frozenset(_CITIES.split())
"""Cities of one word."""

_COUNTRIES = """
    Afghanistan Argentina Australia Austria Belgium Brazil Bulgaria Canada Chile China Colombia
    Cuba Denmark Egypt England Finland France Germany Ghana Greece Hungary India Indonesia Iran
    Iraq Ireland Israel Italy Japan Kenya Malaysia Mexico Morocco Netherlands Nigeria Norway
    Pakistan Peru Poland Portugal Romania Russia Scotland Serbia Spain Sudan Sweden Switzerland
    Syria Thailand Turkey Ukraine Venezuela Vietnam
"""
COUNTRIES = frozenset(_COUNTRIES.split())
"""Countries of one word."""

_PEOPLES = """
    Afghan American Argentine Australian Austrian Belgian Brazilian British Bulgarian Canadian
    Chilean Chinese Colombian Cuban Danish Dutch Egyptian Finnish French German Greek Hungarian
    Indian Iranian Iraqi Irish Israeli Italian Japanese Kenyan Korean Mexican Moroccan Nigerian
    Norwegian Pakistani Peruvian Polish Portuguese Romanian Russian Serbian Spanish Swedish
    Swiss Syrian Thai Turkish Ukrainian Vietnamese
"""
PEOPLES = frozenset(_PEOPLES.split())
"""Adjectives of countries."""

_NOT = """
    is are was were do does did has have had could would should must need might ought
"""
_AUXILIARIES = {
    "am": ("I",),
    "are": ("you", "we", "they"),
    "is": ("he", "she", "it", "that", "what", "where", "who", "there", "how"),
    "will": ("I", "you", "he", "she", "it", "we", "they", "that"),
    "have": ("I", "you", "we", "they"),
    "would": ("I", "you", "he", "she", "we", "they"),
}
_SHORT = {"am": "'m", "are": "'re", "is": "'s", "will": "'ll", "have": "'ve", "would": "'d"}

CONTRACTIONS = {
    **{(verb, "not"): f"{verb}n't" for verb in _NOT.split()},
    ("can", "not"): "can't",
    ("will", "not"): "won't",
    **{
        (person, verb): f"{person}{_SHORT[verb]}"
        for verb, persons in _AUXILIARIES.items()
        for person in persons
    },
}
"""The short form of two words; of "I" in capitals, else in lower case."""

EXPANSIONS = {
    short: " ".join(pair)
    for pair, short in reversed(CONTRACTIONS.items())
    if not short.endswith(("'d", "'s")) or short in ("it's", "that's", "what's")
} | {"cannot": "can not", "let's": "let us"}
"""The long form of a contraction: "'d" may also be "had" and "'s" a genitive, and these stay."""

_NUMBERS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen twenty
"""
NUMBER_WORDS = _NUMBERS.split()
"""Of 0, 1, ..., 20."""
