"""The lists of stop words that recipes name; their licences are in NOTICE."""

from typing import Literal

StopWordList = Literal["english", "textfooler", "german", "french", "spanish", "chinese"]

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

_GERMAN = """
    aber alle allem allen aller alles als also am an ander andere anderen anderer auch auf aus
    bei beide beiden bin bis bist da damit dann das dass dein deine dem den denn der des dessen
    dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen
    einer eines einige er es etwas euch euer eure für gegen habe haben hat hatte hatten hier hin
    hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder
    jedes jedoch jene jenem jenen jener kann kein keine keinem keinen keiner können könnte man
    manche mehr mein meine meinem meinen meiner mich mir mit muss müssen nach nicht nichts noch
    nun nur ob oder ohne schon sehr sein seine seinem seinen seiner selbst sich sie sind so
    solche soll sollte sondern sonst um und uns unser unsere unter viel vom von vor während war
    waren warum was weder weil welche welcher wenn wer werde werden wie wieder will wir wird
    wirst wo wollen wurde wurden zu zum zur zwar zwischen über
"""
_FRENCH = """
    à ai ainsi alors après as au aucun aucune aujourd aussi autre autres aux avaient avais avait
    avant avec avez avoir avons bien c ce ceci cela celle celles celui ces cet cette ceux chaque
    chez comme comment d dans de depuis des donc dont du elle elles en encore entre es est et
    étaient étais était êtes été être eu eux fait fois font furent fut il ils j je jusque l la
    le les leur leurs lors lui m ma mais me même mêmes mes moi moins mon n ne ni non nos notre
    nous on ont ou où par parce pas pendant peu peut plus plutôt pour pourquoi qu quand que quel
    quelle quelles quels qui quoi s sa sans se sera seront ses si sinon soi soit sommes son sont
    sous suis sur t ta te tes toi ton tous tout toute toutes très trop tu un une vers voici
    voilà vos votre vous y
"""
_SPANISH = """
    a al algo alguna algunas alguno algunos ante antes aquel aquella aquellas aquello aquellos
    así aun aún aunque cada casi como cómo con contra cual cuales cuando cuándo de del desde
    donde dónde dos durante e el él ella ellas ello ellos en entre era eran eres es esa esas ese
    eso esos está están estar estas este esto estos estoy fue fueron fui ha había habían han has
    hasta hay he la las le les lo los más me mi mí mis mía mío muy nada ni no nos nosotros
    nuestra nuestras nuestro nuestros o os otra otras otro otros para pero poco por porque pues
    que qué quien quién quienes se sea ser si sí sido sin sobre somos son soy su sus suya suyo
    tal también tampoco tan tanto te ti tiene tienen todo todos tu tú tus tuya tuyo un una unas
    uno unos vosotros y ya yo
"""
_CHINESE = """
    的 了 和 是 就 都 而 及 与 着 或 一个 没有 我们 你们 他们 她们 自己
    我 你 他 她 它 这 那 这个 那个 这些 那些 之 也 在 对 从 把 被 让
    给 向 由 为 以 于 不 很 还 又 再 只 但 但是 因为 所以 如果 虽然 并
    且 吧 吗 呢 啊 呀 个 会 要 能 可以 什么 怎么 谁 哪 地 得 过 来 去
    上 下 里 等
"""

LISTS: dict[StopWordList, frozenset[str]] = {
    "english": ENGLISH,
    "textfooler": TEXTFOOLER,
    "german": frozenset(_GERMAN.split()),
    "french": frozenset(_FRENCH.split()),
    "spanish": frozenset(_SPANISH.split()),
    "chinese": frozenset(_CHINESE.split()),
}
"""By name; the last four were written for this project."""
