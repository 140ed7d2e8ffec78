"""The lists of stop words that recipes name; their licences are in NOTICE."""

from typing import Literal

StopWordList = Literal["english", "textfooler"]

_TEXTFOOLER = """
    a about above across after afterwards again against ain all almost alone along already also
    although am among amongst an and another any anyhow anyone anything anyway anywhere are aren
    aren't around as at back been before beforehand behind being below beside besides between
    beyond both but by can cannot could couldn couldn't d didn didn't doesn doesn't don don't
    down due during either else elsewhere empty enough even ever everyone everything everywhere
    except first for former formerly from hadn hadn't hasn hasn't haven haven't he hence her
    here hereafter hereby herein hereupon hers herself him himself his how however hundred i if
    in indeed into is isn isn't it it's its itself just latter latterly least ll may me
    meanwhile mightn mightn't mine more moreover most mostly must mustn mustn't my myself namely
    needn needn't neither never nevertheless next no nobody none noone nor not nothing now
    nowhere o of off on once one only onto or other others otherwise our ours ourselves out over
    per please s same shan shan't she she's should've shouldn shouldn't somehow something
    sometime somewhere such t than that that'll the their theirs them themselves then thence
    there thereafter thereby therefore therein thereupon these they this those through
    throughout thru thus to too toward towards under unless until up upon used ve was wasn
    wasn't we were weren weren't what whatever when whence whenever where whereafter whereas
    whereby wherein whereupon wherever whether which while whither who whoever whole whom whose
    why with within without won won't would wouldn wouldn't y yet you you'd you'll you're you've
    your yours yourself yourselves
"""
TEXTFOOLER = frozenset(_TEXTFOOLER.split())
"""The 266 words of its released code (Jin et al., 2020)."""

_SNOWBALL = """
    a about above after again against all am an and any are as at be because been before being
    below between both but by can did do does doing don down during each few for from further had
    has have having he her here hers herself him himself his how i if in into is it its itself just
    me more most my myself no nor not now of off on once only or other our ours ourselves out over
    own s same she should so some such t than that the their theirs them themselves then there these
    they this those through to too under until up very was we were what when where which while who
    whom why will with you your yours yourself yourselves
"""
_CONTRACTIONS = """
    ain aren aren't couldn couldn't d didn didn't doesn doesn't don't hadn hadn't hasn hasn't haven
    haven't isn isn't it's ll m ma mightn mightn't mustn mustn't needn needn't o re shan shan't
    she's should've shouldn shouldn't that'll ve wasn wasn't weren weren't won won't wouldn wouldn't
    y you'd you'll you're you've
"""
ENGLISH = frozenset((_SNOWBALL + _CONTRACTIONS).split())
"""The 179 words of nltk's English list with which attacks have been reported (newer data of nltk
have more): the list of the Snowball project, and the parts of contractions."""

LISTS: dict[StopWordList, frozenset[str]] = {"english": ENGLISH, "textfooler": TEXTFOOLER}
"""By name."""
