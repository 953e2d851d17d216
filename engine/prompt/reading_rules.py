"""The contexts that decide the reading of an English heteronym (``engine.prompt.readings``)."""

from __future__ import annotations

from typing import NamedTuple

_MODAL = r"(?:to|will|would|can|could|should|shall|must|may|might|cannot|let's|please|[a-z]+n['’]t|not)"
_PAST = r"[^.!?]*\b(?:yesterday|ago|last (?:night|week|month|year|summer|winter|spring|fall|time))\b"
_NOT_METAL = (
    r"(?!\s*(?:-|singer|vocal|guitar|actor|actress|role|time|engineer|developer|author|to\b|the\b|us\b|generation))"
)
_STREAMED = r"(?:air|on the air|stage|tv|television|radio|camera|youtube|twitch|facebook|instagram|cnn|the bbc)"
_NO_AUXILIARY = "".join(f"(?<!{word} )" for word in "did does will would can could should must may might let".split())
"""Not after one of these words."""
_START = "[.!?:]"
"""The beginning of a sentence."""
_END = r"[.,;:!?)]|$"


class Rule(NamedTuple):
    """before, after: patterns, compiled when they are first needed (``re`` keeps them)."""

    reading: str
    before: str
    after: str


def _rule(reading: str, before: str = "", after: str = "") -> Rule:
    """before, after: what ends before the word, and what begins after it, in lower case."""
    return Rule(reading, rf"(?:(?<![\w'’])|(?=[.!?:]))(?:{before})\s+$" if before else "", rf"\s*(?:{after})")


RULES = {
    "abuse": (
        _rule(
            "noun",
            "drug|child|alcohol|substance|sexual|physical|emotional|domestic|verbal|animal|of|an|the|human rights",
        ),
        _rule("noun", _START, r"of\b"),
    ),
    "bass": (
        _rule(
            "fish",
            "sea|striped|largemouth|smallmouth|grilled|fried|a (?:big|large|huge|small)|caught (?:a|some)|fishing for",
        ),
        _rule("fish", after=r"fish|fishing|fisherman|boats?\b|swam|swims|swim\b"),
        _rule(
            "music",
            "play(?:s|ed|ing)?(?: the| a)?|electric|double|upright|acoustic|slap|drums? and|"
            "treble and|guitar and|synth|booming|deep|heavy|(?:the|more|less) thumping",
        ),
        _rule(
            "music",
            after=r"guitar|player|line\b|lines\b|drum|clef|note|solo|boost|voice|singer|trombone|clarinet|"
            r"riff|amp\b|pedal|string|section|and (?:treble|drums)",
        ),
        _rule("music", "(?:turn(?:ed|ing)?|crank(?:ed|ing)?) (?:up|down) the|feel the|felt the"),
    ),
    "bow": (
        _rule(
            "bend",
            "(?:take|takes|took|taken|taking)(?: a| his| her| their| your| my| our| one|"
            " another)?(?: (?:final|last|deep|low|little|polite))?",
        ),
        _rule("bend", "a (?:deep|low|slight|polite|respectful|formal|stiff)"),
        _rule(
            "bend",
            f"{_MODAL}|they|we|you|i|and",
            r"down|before|out\b|low\b|politely|to (?:the|his|her|your|their|him|them|pressure|me|us|"
            r"no)\b|(?:your|his|her|their|my|our) heads?",
        ),
        _rule(
            "bend",
            after=r"of (?:the|a|his|her|their|our|my) (?:ship|boat|vessel|yacht|canoe|ferry)|(?:and|"
            r"to) stern",
        ),
        _rule("bend", _START, r"down|to\b|when\b|your head"),
        _rule("bend", "(?:over|across|off|from|on|in|at) the", r"of the"),
    ),
    "bows": (
        _rule("bend", "he|she|it|who|and|take|takes|took|their|deep|low", r"down|before|out\b|low\b|politely|to\b"),
    ),
    "close": (
        _rule("near", "very|so|too|quite|how|pretty|really|fairly|rather|extremely|dangerously|uncomfortably"),
        _rule(
            "near",
            "a|the|is|are|was|were|be|been|being|am|[a-z]+['’](?:re|s|m)|stay|stayed|come|comes|came|coming|get|"
            "gets|got|getting|sit|sat|stand|stood|live|lives|lived|keep|kept|hold|held|up|in|my|his|"
            "her|our|their|your|some|one|of|many|enough|as|that|this",
            r"to\b|by\b|enough|together|friend|call\b|calls\b|relative|as\b|attention|look\b|contact|"
            r"range|quarters|proximity|behind|at hand|race|game\b|finish|family|ties|relationship|"
            r"encounter|shave|second\b|and personal|up (?:photo|shot|of|view)",
        ),
        _rule(
            "near", after=r"(?:friends?|relatives?|proximity|enough|together|contact with|attention|quarters|ties)\b"
        ),
    ),
    "content": (
        _rule(
            "pleased",
            "am|is|are|was|were|be|been|being|feel|feels|felt|seem|seems|seemed|[a-z]+['’](?:m|re)|perfectly|quite|very|fully|not",
            r"with\b|to\b|and happy|just",
        ),
        _rule("pleased", "perfectly|quite|very|happy and|calm and"),
        _rule("pleased", "(?:am|are|is|was|were) (?:i|you|he|she|they|we|everyone)", r"with\b|to\b"),
        _rule("pleased", "always been|fat and", _END),
    ),
    "dove": (
        _rule(
            "dive",
            "he|she|it|i|we|they|who|you|then|and|divers?|boys?|girls?|cat|dog|keeper|plane|swimmers?|team",
            r"in\b|into|off|down|under|head|for\b|from|onto|deep|right|straight|back|deeper|behind|"
            r"beneath",
        ),
        _rule("bird", "a|the|this|that|white|turtle|mourning|gray|grey|rock|little|of|one|each"),
        _rule("dive", "then", "again"),
    ),
    "doves": (_rule("bird"),),
    "excuse": (
        _rule(
            "noun",
            "an|no|any|the|lame|poor|good|bad|that|this|his|her|your|their|what|every|some|perfect|"
            "sorry|feeble|another|convenient|pathetic",
        ),
        _rule("noun", "(?:a|an|another|any|no|that|this) [a-z]+"),
        _rule("noun", _START, r"or\b"),
    ),
    "lead": (
        _rule(
            "metal",
            r"(?:of|contains?|containing|molten|melted|pure|toxic|tin and|zinc and|copper and|"
            r"mercury and|made from|pencil)",
            _NOT_METAL,
        ),
        _rule(
            "metal",
            after=r"(?:pipe|paint|poison|acid|batter|shot\b|pellet|bullet|crystal|exposure|contamin|solder|"
            r"ore\b|oxide|mine\b|mines\b|mining|apron|glass|weight|is (?:a |heav|toxic|dense|soft|"
            r"poison)|and (?:mercury|zinc|copper|tin)|melts)",
        ),
        _rule("metal", after=r"-(?:free|acid|lined|based paint)"),
        _rule("metal", "like|(?:test|tests|tested|testing|positive|screened|checked) for|traces of|levels of", _END),
    ),
    "live": (
        _rule(
            "now",
            after=r"(?:music|shows?|performances?|concerts?|audiences?|broadcasts?|stream\w*|events?|chats?|"
            r"tv|television|coverage|updates?|wires?|ammunition|ammo|animals?|bait|bands?|recordings?|"
            r"albums?|versions?|sessions?|demos?|feeds?|videos?|data|blog|sports?|entertainment|acts?|"
            r"births?|translation|caption\w*|transcription|demonstration|radio|footage|yogh?urt|"
            r"cultures?|webinar|webcast|support|traffic)\b",
        ),
        _rule(
            "now",
            "broadcast|broadcasts|broadcasting|streamed|streaming|stream|streams|recorded|aired|airs|"
            "performed|performing|shown|reporting|sung|televised|appearing|coming to you|tune in",
        ),
        _rule(
            "now",
            "go|goes|going|went|gone",
            rf"(?:on (?:{_STREAMED}|monday|tuesday|wednesday|thursday|friday|saturday|sunday|"
            rf"the \w+th)|at|today|tomorrow|tonight|now|this|next|soon|later)\b",
        ),
        _rule(
            "now",
            "go|goes|going|went|gone|(?:watch|see|saw|seen|hear|heard|catch|play|"
            "perform)[a-z]* (?:it|them|him|her|us|the [a-z]+)",
            _END,
        ),
        _rule(
            "now", after=rf"(?:on {_STREAMED}|from (?:new york|london|the (?:studio|scene)|our studio|washington))\b"
        ),
        _rule("now", "go|goes|going|went|gone", r"in (?:about |just )?[a-z0-9]+ (?:seconds?|minutes?|hours?)"),
        _rule(
            "now",
            r"it['’]s|is now|is still|is already|are now|are already|we['’]re|saw [a-z]+|see [a-z]+|seen [a-z]+",
            _END,
        ),
    ),
    "minute": (
        _rule(
            "tiny",
            after=r"(?:detail|amount|quantit|particle|trace|difference|change|fraction|organism|creature|"
            r"crack|variation|inspection|quantity)",
        ),
        _rule(
            "tiny",
            "(?:is|are|was|were|seems?)(?: (?:so|very|quite|extremely|rather|too|almost|infinitely))?",
            r"[.,;!?]|$|and\b|that\b|compared",
        ),
    ),
    "number": (
        _rule(
            "numb",
            "(?:getting|gets|grew|grows|growing|becoming|became|felt|feels|feeling|went)(?: even| much| ever)?",
            r"(?!\s*(?:of|one|two|three|\w+teen|plates?)\b)",
        ),
        _rule("numb", after=r"and number\b"),
        _rule("numb", "number and"),
    ),
    "object": (
        _rule("verb", f"{_MODAL}|i|we|they|you|strongly|who", r"to\b|strongly|that\b"),
        _rule("verb", f"{_MODAL}|i|strongly", _END),
        _rule("verb", "(?:does|do|did|if|should|would) (?:anyone|anybody|you|they|we|the [a-z]+)", r"to\b|[.,;:!?)]|$"),
    ),
    "read": (
        _rule(
            "past",
            "(?:have|has|had) (?:i|you|he|she|it|we|they|anyone|everyone|anybody|everybody|nobody|"
            "who)(?: (?:all|ever|never|already))?",
        ),
        _rule(
            "past",
            "(?:have|has|had|having|[a-z]+['’](?:ve|d))(?: (?:already|never|ever|not|just|also|only|"
            "recently|once|often|always|all))?",
        ),
        _rule("past", "was|were|been|being|already|widely|well"),
        _rule(
            "past",
            rf"{_NO_AUXILIARY}(?:he|she)",
        ),
        _rule("past", r"(?<!did )(?<!do )(?:i|we|they|you)", _PAST),
        _rule("past", "(?:sign|label|headline|banner|plaque|shirt|caption|poster|sticker)", r"[\"“:,]|'"),
    ),
    "record": (
        _rule(
            "verb",
            f"{_MODAL}|i|we|they|you|who",
            r"(?:the|a|an|your|my|our|their|his|her|it|them|this|that|these|all|every|any|each|and|"
            r"what|how|video|audio|music)\b",
        ),
        _rule("verb", "to|please", _END),
        _rule("verb", _START, r"(?:the|your|a|an|all|each|any|every|how|what|this)\b"),
    ),
    "refuse": (
        _rule(
            "waste",
            "household|garden|kitchen|of|the|piles? of|collect(?:s|ing)?",
            r"(?:collect|bins?\b|truck|dispos|heap|sacks?\b|bags?\b|dump|containers?\b|was|is\b|pile)",
        ),
        _rule("waste", after=r"(?:collection|bins?|trucks?|disposal|heaps?|sacks?|bags?|containers?)\b"),
        _rule("waste", "household|kitchen|garden|rotting", _END),
        _rule("waste", "its|their|our", r"(?:at|in|to|into|from)\b"),
    ),
    "resume": (
        _rule(
            "document",
            "my|your|his|her|a|an|their|our|updated|attached|send (?:us )?(?:a|the)|submit (?:a|the)|the candidate's",
            r"(?!\s*(?:the|work|talks|their|his|her|our)\b)",
        ),
        _rule("document", after=r"(?:tips|reviews?|writers?|builder|templates?|formats?|gaps?)\b"),
    ),
    "row": (
        _rule(
            "quarrel",
            "(?:have|has|had|having)(?: a| another| such a)(?: (?:big|huge|terrible|blazing|massive|"
            "major|awful|public))?",
        ),
        _rule("quarrel", "blazing|bitter|furious|diplomatic|political|almighty|flaming|heated|ongoing"),
        _rule(
            "quarrel",
            "a|the|this|in a|into a|new|latest|growing|public|huge|terrible",
            r"(?:about|erupted|broke out|escalated|over (?:money|plans?|who|whether|how|his|her|their|"
            r"pay|taxes))\b",
        ),
    ),
    "sow": (
        _rule("seed", f"{_MODAL}|you|we|they|i|farmers|and"),
        _rule("seed", after=r"(?:the )?(?:seeds?|wheat|corn|grass|doubts?|discord|confusion|chaos|division|crops?)\b"),
        _rule("pig", "a|the|this|that|old|fat|big|pregnant|each|every|one|another"),
        _rule("pig", "an? [a-z]+"),
        _rule("seed", _START, r"(?:the|your|in|at|thinly)\b"),
        _rule("pig", after=r"(?:and (?:her )?piglets|nursed|farrowed)"),
    ),
    "tear": (
        _rule(
            "drop",
            "a|one|single|another|every|each|the",
            r"(?:gas|drop|duct|ran|rolled|fell|slid|trickled|streamed|came|dropped|in (?:his|her|my|"
            r"your|their|one) eyes?|from (?:his|her|my) eye)",
        ),
        _rule("drop", after=r"(?:gas|drops?|ducts?)\b"),
        _rule("rip", f"{_MODAL}|i|we|they|you"),
        _rule("rip", after=r"(?:down|up|apart|off|open|into|away|along|through|it\b|them\b)"),
        _rule("rip", "a|the|small|big|long|this|that|tiny|huge", r"in (?:my|the|his|her|your|a|this|its|their|one)\b"),
        _rule("rip", "wear and"),
        _rule(
            "drop",
            "(?:shed|sheds|shedding|wip(?:e|es|ed|ing)(?: away)?|dabb(?:ed|ing)(?: at| away)?|"
            "brushed away|blink(?:ed|ing)(?: back| away)?) (?:a|one|another|the)(?: single)?",
        ),
        _rule("rip", "partial|complete|meniscus|ligament|muscle|acl|cuff|hamstring", r"(?:of|in|to)\b|[.,;:!?)]|$"),
    ),
    "use": (
        _rule(
            "noun",
            "no|of|in|the|any|much|little|good|our|my|his|her|its|for|personal|daily|future|heavy|"
            "constant|proper|best|first|commercial|drug|alcohol|energy|water|land|everyday|regular|"
            "single|frequent|widespread|make|made|making|fair|medical|home|office|phone|screen|"
            "of any|of no|more|better",
            r"(?:of|for|in|as|to|it|by|on|at|is|was|are|and|than|only|case|cases|crying|trying|"
            r"with)\b|[.,;:!?)]|$",
        ),
        _rule("noun", _START, r"of\b"),
        _rule(
            "noun",
            "land|drug|alcohol|external|internal|topical|medicinal|recreational|occasional|excessive",
            r"(?:only|plans?|planning|policy|policies|disorder|permits?|zoning)\b|[.,;:!?)]|$",
        ),
    ),
    "wind": (
        _rule(
            "turn",
            f"{_MODAL}|i|we|they|you|and|then|roads?|rivers?|paths?",
            r"(?:the|your|it|up|down|back|this|that|his|her|my|our|a|around|through|its|clockwise|"
            r"them|along|toward)\b",
        ),
        _rule(
            "turn",
            r"[.!?:]|and|then|please",
            r"(?:the|your|up the|this) (?:clock|watch|toy|music box|string|yarn|cable|rope|thread|"
            r"wool|hose|tape|key|spring|film|wire)",
        ),
        _rule("turn", "better", r"(?:up|down)\b"),
    ),
    "winds": (
        _rule(
            "turn",
            "road|river|path|trail|he|she|it|stream|street|staircase|who|valley",
            r"(?:up|down|through|around|its|along|the|between|past|back|toward)\b",
        ),
    ),
    "wound": (
        _rule(
            "turned",
            "he|she|i|we|they|it|who|road|path|river|trail|tightly|line|queue|procession",
            r"(?:up|down|the|around|through|its|his|her|round|tight|back|it|a|along|into|between|"
            r"past)\b",
        ),
        _rule("turned", after=r"(?:up (?:in|at|with|being|on|as|\w+ing)|around|tightly|through|its way|down)\b"),
        _rule(
            "turned",
            after=r"(?:the|his|her|my|a|an old) (?:clock|watch|music box|rope|yarn|thread|"
            r"string|wire|scarf|bandage)\b|up (?:that|about|tight)",
        ),
        _rule("turned", "tightly|loosely|so tightly"),
    ),
}
"""Word -> rules, of which the first match decides."""
