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
            section Sec sec
            sections Secs secs
            article Art art
            exercise Ex ex
            episode Ep ep
            apartment Apt apt
            suite Ste ste
            room Rm rm
            extension Ext ext
            part Pt pt
            line Ln
            lines ll
            opus Op op
            table Tbl
            appendix App
            book Bk bk
            clause Cl
            flight Flt
            highway Hwy
            route Rte
            building Bldg
            floor Fl
            level Lvl lvl Lv lv
            scene Sc sc
            grade Gr
            paragraph Para para
            paragraphs Paras paras
            option Opt opt
            options Opts opts
        """.strip().splitlines()
    )
    for short in shorts
}
"""Abbreviations before a number."""

BARE_NUMBERED = "Fig Figs Vol Apt Ste Rm Ext Flt Hwy Rte Bldg Lvl Lv".split()
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

WORDS: dict[str, str] = {
    "gov't": "government",
    "govt": "government",
    "govt.": "government",
    "tel. no.": "telephone number",
    "phone no.": "phone number",
    "ref. no.": "reference number",
    "serial no.": "serial number",
    "e.g.": "for example",
    "e.g": "for example",
    "eg.": "for example",
    "i.e.": "that is",
    "i.e": "that is",
    "ie.": "that is",
    "etc.": "et cetera",
    "etc": "et cetera",
    "et al.": "and others",
    "cf.": "compare",
    "ca.": "circa",
    "viz.": "namely",
    "vs.": "versus",
    "vs": "versus",
    "approx.": "approximately",
    "approx": "approximately",
    "dept.": "department",
    "intl.": "international",
    "natl.": "national",
    "b/t": "between",
    "assoc. prof.": "associate professor",
    "asst. prof.": "assistant professor",
    "ed. by": "edited by",
    "et seq.": "et seq",
    "n.d.": "no date",
    "depts.": "departments",
    "univ.": "university",
    "est.": "established",
    "min.": "minimum",
    "max.": "maximum",
    "avg.": "average",
    "avg": "average",
    "temp.": "temperature",
    "misc.": "miscellaneous",
    "incl.": "including",
    "lg.": "large",
    "ea.": "each",
    "avail.": "available",
    "exc.": "excellent",
    "cond.": "condition",
    "disc.": "discount",
    "exec.": "executive",
    "treas.": "treasurer",
    "secy.": "secretary",
    "opt.": "optional",
    "arr.": "arrives",
    "dep.": "departs",
    "bal.": "balance",
    "mtgs.": "meetings",
    "rm.": "room",
    "rms.": "rooms",
    "opp.": "opposite",
    "mtg.": "meeting",
    "bdrm": "bedroom",
    "bdrm.": "bedroom",
    "bdrms": "bedrooms",
    "OBO": "or best offer",
    "obo": "or best offer",
    "sm.": "small",
    "excl.": "excluding",
    "orig.": "originally",
    "qty.": "quantity",
    "qty": "quantity",
    "amt.": "amount",
    "acct.": "account",
    "appt.": "appointment",
    "asst.": "assistant",
    "mgr.": "manager",
    "mgmt.": "management",
    "mktg.": "marketing",
    "mgmt": "management",
    "dir.": "director",
    "assoc. of": "association of",
    "assoc.": "associate",
    "tel.": "telephone",
    "Tel": "Telephone",
    "Ph.": "Phone",
    "addr.": "address",
    "attn.": "attention",
    "Attn": "Attention",
    "ref.": "reference",
    "rev.": "revision",
    "ed.": "edition",
    "eds.": "editors",
    "intro.": "introduction",
    "pkg.": "package",
    "pkgs.": "packages",
    "pkgs": "packages",
    "rcvd": "received",
    "sz": "size",
    "hrs.": "hours",
    "hr.": "hour",
    "mins.": "minutes",
    "secs.": "seconds",
    "yrs.": "years",
    "yr.": "year",
    "mos.": "months",
    "wk.": "week",
    "wks.": "weeks",
    "lbs.": "pounds",
    "oz.": "ounces",
    "sq.": "square",
    "tbsp.": "tablespoon",
    "tsp.": "teaspoon",
    "tbsp": "tablespoon",
    "tsp": "teaspoon",
    "doz.": "dozen",
    "cont.": "continued",
    "cont'd": "continued",
    "a.k.a.": "also known as",
    "aka": "also known as",
    "a/k/a": "also known as",
    "d/b/a": "doing business as",
    "w/e": "whatever",
    "c/o": "care of",
    "b/c": "because",
    "w/o": "without",
    "w/": "with",
    "W/": "With",
    "w/in": "within",
    "q/q": "quarter over quarter",
    "y/y": "year over year",
    "m/m": "month over month",
    "either/or": "either or",
    "agg.": "aggregate",
    "vit.": "vitamin",
    "p.a.": "per annum",
    "p/w": "per week",
    "p/h": "per hour",
    "equiv.": "equivalent",
    "prob.": "probably",
    "add'l": "additional",
    "nat'l": "national",
    "int'l": "international",
    "req'd": "required",
    "HbA1c": "H B A one C",
    "SpO2": "S P O two",
    "b/w": "between",
    "btwn.": "between",
    "btwn": "between",
    "svc.": "service",
    "svcs.": "services",
    "immed.": "immediately",
    "poss.": "possibly",
    "w/out": "without",
    "sec'y": "secretary",
    "dep't": "department",
    "ass'n": "association",
    "nat'l.": "national",
    "R.I.P.": "R I P",
    "Ph.D.": "P H D",
    "Ph.D": "P H D",
    "Ph.Ds": "P H D's",
    "PhD": "P H D",
    "PhDs": "P H D's",
    "B.Sc.": "B S C",
    "M.Sc.": "M S C",
    "BSc": "B S C",
    "MSc": "M S C",
    "MPhil": "M phil",
    "LL.B.": "L L B",
    "LL.M.": "L L M",
    "prev.": "previous",
    "esp.": "especially",
    "resp.": "respectively",
    "usu.": "usually",
    "tbd": "T B D",
    "abbr.": "abbreviation",
    "admin.": "administration",
    "corp.": "corporation",
    "inc.": "incorporated",
    "ltd.": "limited",
    "jr.": "junior",
    "sr.": "senior",
    "ave.": "avenue",
    "blvd.": "boulevard",
    "bldg.": "building",
    "hwy.": "highway",
    "rd.": "road",
    "apt.": "apartment",
    "diff.": "difference",
    "freq.": "frequency",
    "wt.": "weight",
    "ht.": "height",
    "vol.": "volume",
    "no. of": "number of",
    "P.O. Box": "P O box",
    "PO Box": "P O box",
    "sched.": "schedule",
    "sec. dep.": "security deposit",
    "util.": "utilities",
    "utils.": "utilities",
    "cert.": "certificate",
}
"""Abbreviations in any context, as whole words; the first letter may be a capital. A full stop is required."""
