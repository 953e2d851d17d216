"""Abbreviation -> its words, by the context in which it is an abbreviation."""

from __future__ import annotations

NUMBERED: dict[str, str] = {
    short: word
    for word, *shorts in (
        line.split()
        for line in """
            number No no Nr
            numbers Nos nos
            page p pg Pg
            pages pp pgs Pp
            figure Fig fig
            figures Figs figs
            equation Eq eq
            equations Eqs eqs
            volume Vol vol
            volumes Vols vols
            chapter Ch ch Chap chap
            chapters Chs chs
            section Sec sec Sect
            sections Secs secs Sects
            article Art art
            exercise Ex ex
            episode Ep ep
            game Gm
            problems Probs probs
            apartment Apt apt
            suite Ste ste
            room Rm rm
            extension Ext ext
            part Pt pt
            line Ln
            lines ll
            opus Op op
            table Tbl
            appendix App app
            issue Iss iss
            question Ques ques
            book Bk bk
            clause Cl cl
            flight Flt
            highway Hwy
            route Rte
            building Bldg bldg
            floor Fl
            level Lvl lvl Lv lv
            scene Sc sc
            grade Gr
            paragraph Para para
            paragraphs Paras paras
            option Opt opt
            schedule Sch
            regulation Reg reg
            regulations Regs regs
            options Opts opts
        """.strip().splitlines()
    )
    for short in shorts
}
"""Abbreviations before a number."""

BARE_NUMBERED = "Ep ep Gm Fig Figs Vol Apt Ste Rm Ext ext Flt Hwy Rte Bldg Lvl Lv lvl".split()
"""Those that can lack the full stop."""

STREETS: dict[str, str] = {
    "St": "Street",
    "Dr": "Drive",
    "Ave": "Avenue",
    "Av": "Avenue",
    "Blvd": "Boulevard",
    "Rd": "Road",
    "Ln": "Lane",
    "Ct": "Court",
    "Pl": "Place",
    "Sq": "Square",
    "Sts": "Streets",
    "Aves": "Avenues",
    "Hwy": "Highway",
    "Pkwy": "Parkway",
    "Cir": "Circle",
    "Tce": "Terrace",
    "Ter": "Terrace",
    "Expy": "Expressway",
    "Fwy": "Freeway",
    "Tpke": "Turnpike",
}
"""Abbreviations after the name of a street."""

COMPANIES: dict[str, str] = {
    "Inc": "Incorporated",
    "Ltd": "Limited",
    "Corp": "Corporation",
    "Co": "Company",
    "Bros": "Brothers",
    "Jr": "Junior",
    "Sr": "Senior",
    "Esq": "Esquire",
    "Univ": "University",
    "Dept": "Department",
    "Assn": "Association",
    "Intl": "International",
    "Natl": "National",
    "Mfg": "Manufacturing",
    "Hosp": "Hospital",
    "Inst": "Institute",
    "Acad": "Academy",
    "Sch": "School",
    "Mts": "Mountains",
    "Mtn": "Mountain",
    "Pk": "Park",
    "Cty": "County",
    "Twp": "Township",
    "Div": "Division",
    "Utd": "United",
    "Plc": "P L C",
}
"""Abbreviations after or within the name of a company or person."""
