"""The contexts that decide the readings of English heteronyms (``engine.prompt.readings``)."""

from __future__ import annotations

from engine.prompt.reading_rules import (
    CAUSING,
    CLAUSE,
    COUNT,
    END,
    HOURS,
    MODAL,
    NEGATED,
    NOT_METAL,
    PAST,
    START,
    STREAMED,
    rule,
)

RULES = {
    "abuse": (
        rule(
            "noun",
            "drug|child|alcohol|substance|sexual|physical|emotional|domestic|verbal|animal|of|an|the|human rights",
        ),
        rule("noun", START, r"of\b"),
    ),
    "bass": (
        rule(
            "fish",
            "sea|striped|largemouth|smallmouth|grilled|fried|a (?:big|large|huge|small)|caught (?:a|some)|fishing for",
        ),
        rule("fish", after=r"fish|fishing|fisherman|boats?\b|swam|swims|swim\b"),
        rule(
            "music",
            "play(?:s|ed|ing)?(?: the| a)?|electric|double|upright|acoustic|slap|drums? and|"
            "treble and|guitar and|synth|booming|deep|heavy|(?:the|more|less) thumping",
        ),
        rule(
            "music",
            after=r"guitar|player|line\b|lines\b|drum|clef|note|solo|boost|voice|singer|trombone|clarinet|"
            r"riff|amp\b|pedal|string|section|and (?:treble|drums)",
        ),
        rule("music", "(?:turn(?:ed|ing)?|crank(?:ed|ing)?) (?:up|down) the|feel the|felt the"),
    ),
    "bow": (
        rule("bend", "(?:take|takes|took|taken|taking) (?:a|one|another)(?: (?:final|last|deep|low|little|polite))?"),
        rule(
            "bend",
            "(?:take|takes|took|taken|taking) (?:his|her|their|your|my|our)(?: final| last)?",
            rf"{END}|at\b|before\b",
        ),
        rule("bend", "a (?:deep|low|slight|polite|respectful|formal|stiff)"),
        rule(
            "bend",
            f"{NEGATED}|they|we|you|i|and",
            r"down|before|out\b|low\b|politely|to (?:the|his|her|your|their|him|them|pressure|me|us|"
            r"no)\b|(?:your|his|her|their|my|our) heads?",
        ),
        rule(
            "bend", after=r"of (?:the|a|his|her|their|our|my) (?:ship|boat|vessel|yacht|canoe|ferry)|(?:and|to) stern"
        ),
        rule("bend", START, r"down|to\b|when\b|your head"),
    ),
    "bows": (rule("bend", "he|she|it|who|take|takes|took|deep|low", r"down|before|out\b|low\b|politely|to\b"),),
    "close": (
        rule(
            "near",
            "very|so|too|quite|how|pretty|really|fairly|rather|extremely|dangerously|uncomfortably",
            rf"to\b|together|that\b|enough|by\b|behind|as\b|{END}",
        ),
        rule(
            "near",
            "is|are|was|were|be|been|being|am|[a-z]+['’](?:re|s|m)|stay|stayed|come|comes|came|coming|get|gets|got|"
            "getting|sit|sat|stand|stood|live|lives|lived|keep|kept|hold|held|up|as",
            r"to\b|by\b|enough|together|behind|at hand|as\b",
        ),
        rule(
            "near",
            "a|the|in|my|his|her|our|their|your|some|one|of|many|this|that|is|was",
            r"friend|calls?\b|relative|attention|look\b|contact|range|quarters|proximity|race|"
            r"game\b|finish|family|ties|"
            r"relationship|encounter|shave|second\b|up (?:photo|shot|of|view)",
        ),
        rule("near", after=r"(?:friends?|relatives?|proximity|quarters|ties)\b"),
    ),
    "content": (
        rule(
            "pleased",
            "am|feel|feels|felt|seem|seems|seemed|i['’]m|perfectly|quite|fully|not",
            r"with\b|to\b|and happy|just",
        ),
        rule(
            "pleased",
            "is|are|was|were|be|been|being|[a-z]+['’]re",
            r"to\b|and happy|just\b|with (?:her|his|their|my|our|your|it|this|that|what|how|just|life|themselves)\b",
        ),
        rule("pleased", "perfectly|quite|happy and|calm and"),
        rule("pleased", "(?:am|are|is|was|were) (?:i|you|he|she|they|we|everyone)", r"with\b|to\b"),
        rule("pleased", "always been|fat and", END),
    ),
    "dove": (
        rule(
            "dive",
            "he|she|it|i|we|they|who|you|then|and|divers?|boys?|girls?|cat|dog|keeper|plane|swimmers?|team",
            r"in\b|into|off|down|under|head|for\b|from|onto|deep|right|straight|back|deeper|behind|beneath",
        ),
        rule(
            "bird",
            "a|the|this|white|turtle|mourning|gray|grey|rock|little|of",
            r"(?!\s*(?:in|into|off|down|under|from|onto|deep|right|straight)\b)",
        ),
        rule("dive", "then", "again"),
    ),
    "doves": (rule("bird"),),
    "excuse": (
        rule(None, CAUSING),
        rule(None, after=r"(?:me|him|her|them|us|you|my|his|the|your|himself|herself|yourself)\b"),
        rule(
            "noun",
            "an|no|any|the|lame|poor|good|bad|that|this|his|her|your|their|what|every|some|"
            "perfect|sorry|feeble|another|"
            "convenient|pathetic",
        ),
        rule("noun", "(?:a|an|another|no) [a-z]+"),
        rule("noun", START, r"or\b"),
    ),
    "lead": (
        rule(
            "metal",
            "(?:made|out|bits?|pieces?|lumps?|traces|levels|pounds?|tons?|kilos?|grams?|"
            "sheets?|layers?|amounts?|blocks?|"
            "bed|full|instead) of|contains?|containing|molten|melted|pure|toxic|tin and|"
            "zinc and|copper and|mercury and|"
            "made from|pencil",
            NOT_METAL,
        ),
        rule(
            "metal",
            after=r"(?:pipe|piping|paint|poison|acid|batter(?:y|ies)|shot\b|pellet|bullet|crystal|"
            r"exposure|contamin|solder|"
            r"ore\b|oxide|mines?\b|mining|apron|glass|weights?\b|foil|is (?:a )?(?:heav|toxic|dense|soft|poison|metal)|"
            r"and (?:mercury|zinc|copper|tin)\b|melts)",
        ),
        rule("metal", after=r"-(?:free|acid|lined|based paint)"),
        rule("metal", "like|(?:test|tests|tested|testing|positive|screened|checked) for", END),
    ),
    "live": (
        rule(
            "now",
            after=r"(?:music|shows?|performances?|concerts?|audiences?|broadcasts?|stream\w*|events?|chats?|"
            r"tv|television|coverage|updates?|wires?|ammunition|ammo|animals?|bait|bands?|recordings?|"
            r"albums?|versions?|sessions?|demos?|feeds?|videos?|data|blog|sports?|entertainment|acts?|"
            r"births?|translation|caption\w*|transcription|demonstration|radio|footage|yogh?urt|"
            r"cultures?|webinar|webcast|support|traffic)\b",
        ),
        rule(
            "now",
            "broadcast|broadcasts|broadcasting|streamed|streaming|recorded|aired|airs|"
            "performed|performing|shown|reporting|sung|televised|appearing|coming to you|tune in",
        ),
        rule(
            "now",
            "go|goes|going|went|gone",
            rf"(?:on (?:{STREAMED}|monday|tuesday|wednesday|thursday|friday|saturday|sunday|"
            rf"the \w+th)|at (?:{HOURS})|today|tomorrow|tonight|now|this|next|soon|later)\b",
        ),
        rule(
            "now",
            "go|goes|going|went|gone|(?:watch|see|saw|seen|hear|heard|catch|play|"
            "perform)[a-z]* (?:it|them|him|her|us|the [a-z]+)",
            END,
        ),
        rule("now", after=rf"(?:on {STREAMED}|from (?:new york|london|the (?:studio|scene)|our studio|washington))\b"),
        rule("now", "go|goes|going|went|gone", r"in (?:about |just )?[a-z0-9]+ (?:seconds?|minutes?|hours?)"),
        rule(
            "now",
            r"it['’]s|is now|is still|is already|are now|are already|we['’]re|saw [a-z]+|see [a-z]+|seen [a-z]+",
            END,
        ),
    ),
    "minute": (
        rule(None, COUNT),
        rule(
            "tiny",
            after=r"(?:detail|amount|quantit|particle|trace|difference|change|fraction|organism|"
            r"creature|crack|variation|"
            r"inspection|quantity)",
        ),
        rule(
            "tiny",
            "(?:is|are|was|were|seems?)(?: (?:so|very|quite|extremely|rather|too|almost|infinitely))?",
            r"[.,;!?]|$|and\b|that\b|compared",
        ),
    ),
    "number": (
        rule(
            "numb",
            "(?:getting|gets|grew|grows|growing|becoming|became|felt|feels|feeling)(?: even| much| ever)?",
            r"by the (?:minute|second|hour)|and number\b|every|in the (?:cold|snow|wind|water|"
            r"icy)|from the cold|with cold|"
            r"to the touch|[.,!?]|$",
        ),
    ),
    "object": (
        rule(None, "object to|objects to"),
        rule("verb", f"{NEGATED}|i|we|they|you|strongly|who", r"to\b|strongly|that\b"),
        rule("verb", f"{NEGATED}|i|strongly", END),
        rule("verb", "(?:does|do|did|if|should|would) (?:anyone|anybody|you|they|we|the [a-z]+)", rf"to\b|{END}"),
    ),
    "read": (
        rule(
            None,
            after=r"(?:-|\s)*(?:only|access|permissions?|rights|write|replicas?|receipts?|"
            r"operations?|locks?|speeds?|errors?)\b",
        ),
        rule(
            "past",
            "(?:have|has|had) (?:i|you|he|she|it|we|they|anyone|everyone|anybody|everybody|nobody|"
            "who)(?: (?:all|ever|never|already))?",
        ),
        rule(
            "past",
            "(?:have|has|had|having|[a-z]+['’]ve)(?: (?:already|never|ever|not|just|also|"
            "only|recently|once|often|always|"
            "all))?",
        ),
        rule("past", "was|were|been|being|widely"),
        rule("past", rf"{CLAUSE}\s+(?:he|she)"),
        rule("past", rf"{CLAUSE}\s+(?:i|we|they|you|he|she) already"),
        rule("past", rf"{CLAUSE}\s+(?:i|we|they|you)", PAST),
        rule("past", "the (?:sign|headline|banner|plaque|caption|poster|sticker|label)"),
    ),
    "record": (
        rule(
            "verb",
            f"{NEGATED}|i|we|they|you|who",
            r"(?:the|a|an|your|my|our|their|his|her|it|them|this|that|these|all|every|any|each|and|"
            r"what|how|video|audio|music)\b",
        ),
        rule("verb", "to|please", END),
        rule("verb", START, r"(?:the|your|a|an|all|each|any|every|how|what|this)\b"),
    ),
    "refuse": (
        rule(
            "waste",
            "household|garden|kitchen|of|the|piles? of|collect(?:s|ing)?",
            r"(?:collect|bins?\b|truck|dispos|heap|sacks?\b|bags?\b|dump|containers?\b|was|is\b|pile)",
        ),
        rule(
            "waste",
            f"{START}|the|of|household|garden|kitchen|our|their|your|city|a|this|for",
            r"(?:collection|bins?|trucks?|disposal|heaps?|sacks?|bags?|containers?)\b",
        ),
        rule("waste", "household|kitchen|garden|rotting", END),
        rule("waste", "its|their|our", r"(?:at|in|to|into|from)\b"),
    ),
    "resume": (
        rule(None, CAUSING),
        rule(None, f"{NEGATED}|i|we|they|you"),
        rule(
            "document",
            "my|your|his|her|a|an|their|our|updated|attached|send (?:us )?(?:a|the)|submit (?:a|the)|the candidate's",
            r"(?!\s*(?:the|work|talks|their|his|her|our)\b)",
        ),
        rule("document", after=r"(?:tips|reviews?|writers?|builder|templates?|formats?|gaps?)\b"),
    ),
    "row": (
        rule(
            "quarrel",
            "(?:have|has|had|having) (?:a|another|such a)(?: (?:big|huge|terrible|blazing|"
            "massive|major|awful|public))?",
            r"(?!\s*(?:of|number|house|header|in|per|\d)\b)",
        ),
        rule("quarrel", "blazing|bitter|furious|diplomatic|political|almighty|flaming|heated|ongoing"),
        rule(
            "quarrel",
            "a|the|this|in a|into a|new|latest|growing|public|huge|terrible",
            r"(?:about|erupted|broke out|escalated|over (?:money|plans?|who|whether|how|his|her|their|pay|taxes))\b",
        ),
    ),
    "sow": (
        rule("seed", f"{NEGATED}|you|we|they|i|farmers"),
        rule("seed", after=r"(?:the )?(?:seeds?|wheat|corn|grass|doubts?|discord|confusion|chaos|division|crops?)\b"),
        rule("pig", "a|the|this|that|old|fat|big|pregnant|each|every|one|another"),
        rule("pig", "an? [a-z]+"),
        rule("seed", START, r"(?:the|your|in|at|thinly)\b"),
        rule("pig", after=r"(?:and (?:her )?piglets|nursed|farrowed)"),
    ),
    "tear": (
        rule(
            "drop",
            "a|one|single|another|every|each|the",
            r"(?:gas|drop|duct|ran|rolled|fell|slid|trickled|streamed|came|dropped|in (?:his|her|my|"
            r"your|their|one) eyes?|from (?:his|her|my) eye)",
        ),
        rule("drop", after=r"(?:gas|drops?|ducts?)\b"),
        rule(None, "a|the|one|single", r"(?:down|into|through|along)\b"),
        rule("rip", f"{NEGATED}|i|we|they|you", r"(?!\s*up\s*(?:[.,!?]|$|at\b|when|every|again|a little|a bit|just))"),
        rule(
            "rip",
            after=r"(?:down|apart|off|open|into|away|along|through|it\b|them\b|up (?:the|it|this|"
            r"that|my|his|her|your)\b)",
        ),
        rule("rip", "a|the|small|big|long|this|that|tiny|huge", r"in (?:my|the|his|her|your|a|this|its|their|one)\b"),
        rule("rip", "wear and"),
        rule(
            "drop",
            "(?:shed|sheds|shedding|wip(?:e|es|ed|ing)(?: away)?|dabb(?:ed|ing)(?: at| away)?|brushed away|"
            "blink(?:ed|ing)(?: back| away)?) (?:a|one|another|the)(?: single)?",
        ),
        rule("rip", "partial|complete|meniscus|ligament|muscle|acl|cuff|hamstring", rf"(?:of|in|to)\b|{END}"),
    ),
    "use": (
        rule(
            "noun",
            "no|the|any|much|little|our|my|his|her|its|personal|daily|heavy|constant|proper|"
            "best|commercial|drug|alcohol|"
            "energy|water|land|everyday|regular|single|frequent|widespread|fair|medical|better",
            rf"(?:of|for|in|as|to|by|on|at|is|was|are|and|than|cases?|crying|trying|with)\b|{END}",
        ),
        rule("noun", "in|of|for|make|made|making|good", rf"(?:of|by|as|is|at|to)\b|{END}"),
        rule("noun", START, r"of\b"),
        rule(
            "noun",
            "land|drug|alcohol|external|internal|topical|medicinal|recreational|occasional|excessive",
            rf"(?:only|plans?|planning|policy|policies|disorder|permits?|zoning)\b|{END}",
        ),
    ),
    "wind": (
        rule(
            "turn",
            f"{MODAL}|i|we|they|you|roads?|rivers?|paths?",
            r"(?:the|your|it|up(?! to\b)|down|back|this|that|his|her|my|our|a|around|through|its|clockwise|"
            r"them|along|toward)\b",
        ),
        rule(
            "turn",
            r"[.!?:]|and|then|please",
            r"(?:the|your|up the|this) (?:clock|watch|toy|music box|string|yarn|cable|rope|thread|"
            r"wool|hose|tape|key|spring|film|wire)",
        ),
        rule("turn", "better", r"(?:up|down)\b"),
    ),
    "winds": (
        rule(
            "turn",
            "road|river|path|trail|he|she|it|street|staircase|who|valley",
            r"(?:up|down|through|around|its|along|the|between|past|back|toward)\b",
        ),
    ),
    "wound": (
        rule(
            "turned",
            "he|she|i|we|they|it|who|[a-z]+pa|road|path|river|trail|tightly|line|queue|procession",
            r"(?:up|down|the|around|through|its|his|her|round|tight|back|it|a|along|into|between|"
            r"past)\b",
        ),
        rule("turned", after=r"(?:up (?:in|at|with|being|on|as|\w+ing)|tightly|its way)\b"),
        rule(
            "turned",
            after=r"(?:the|his|her|my|a|an old) (?:clock|watch|music box|rope|yarn|thread|"
            r"string|wire|scarf|bandage)\b|up (?:that|about|tight)",
        ),
        rule("turned", "tightly|loosely|so tightly"),
    ),
}
"""Word -> rules, of which the first match decides."""
