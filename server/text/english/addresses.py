"""Postal addresses: 123 Main St., 42 W. 5th St., Apt. 4B, Springfield, IL 62704."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

STREETS = "St Ave Rd Blvd Dr Ln Ct Pl Way Street Avenue Road Boulevard Drive Lane Court Place".split()
NTH = r"\d{1,3}(?:st|nd|rd|th|ST|ND|RD|TH)"
_NUMBER = rf"""
    (?<![\w.,$€£/\-]) \d{{3,4}}
    (?= (?:[ ](?:[NSEW]|[NS][EW])\.?)? (?:[ ](?:St\.[ ])?[A-Z][a-z]+|[ ]{NTH}){{1,3}} [ ](?:{"|".join(STREETS)})\b )
"""
_HALF_NUMBER = r"(?<![\w.,$€£/\-])(?P<number>\d{1,5})(?P<letter>[A-D])(?=[ ][A-Z][a-z])"
"""221B Baker Street."""
_DOORS = "apartment apt unit room suite gate seat flat row number".split()
_DOOR = rf"""
    (?P<word> \b(?i:{"|".join(_DOORS)})[ ]\#? ) (?P<number>\d{{1,4}}) -? (?P<letter>[A-Z]) (?!\w)
"""
_FLOOR_DOOR = (
    r"\b(?P<word>(?i:room|rm\.?|suite|ste\.?|apt\.?|unit)[ ]\#?)(?P<floor>\d{1,2})-(?P<number>0\d{1,2}|\d{3})(?![\w\-])"
)
"""Room 4-231."""
_ZIP = r"""
    (?P<before>,[ ]|[a-z][ ]) (?P<state>[A-Z]{2}) [ ] (?P<zip>\d{5}) (?:-(?P<more>\d{4}))? (?![\w\-]|[.,]\d)
"""
STATES: dict[str, str] = dict(
    entry.split(" ", 1)
    for entry in (
        "AL Alabama|AK Alaska|AZ Arizona|AR Arkansas|CA California|CO Colorado|CT Connecticut|DE Delaware|FL Florida|"
        "GA Georgia|HI Hawaii|ID Idaho|IL Illinois|IN Indiana|IA Iowa|KS Kansas|KY Kentucky|LA Louisiana|ME Maine|"
        "MD Maryland|MA Massachusetts|MI Michigan|MN Minnesota|MS Mississippi|MO Missouri|MT Montana|NE Nebraska|"
        "NV Nevada|NH New Hampshire|NJ New Jersey|NM New Mexico|NY New York|NC North Carolina|ND North Dakota|OH Ohio|"
        "OK Oklahoma|OR Oregon|PA Pennsylvania|RI Rhode Island|SC South Carolina|SD South Dakota|TN Tennessee|TX Texas|"
        "UT Utah|VT Vermont|VA Virginia|WA Washington|WV West Virginia|WI Wisconsin|WY Wyoming|DC D C"
    ).split("|")
)

_CITIES: dict[str, str] = {
    "AR": "Little Rock|Fayetteville|Bentonville|Hot Springs",
    "AL": "Birmingham|Montgomery|Mobile|Huntsville|Tuscaloosa|Auburn",
    "CA": "Los Angeles|San Francisco|San Diego|San Jose|Sacramento|Oakland|Fresno|Long Beach|Berkeley|Palo Alto|"
    "Pasadena|Santa Monica|Santa Barbara|Irvine|Anaheim|Mountain View|Burbank|Cupertino|Malibu|Hollywood|Riverside",
    "CO": "Denver|Boulder|Colorado Springs|Aurora|Fort Collins|Aspen|Vail|Golden|Lakewood|Pueblo|Durango|Telluride",
    "CT": "Hartford|New Haven|Stamford|Bridgeport|Norwalk|Danbury|Greenwich|Waterbury|Mystic",
    "DE": "Dover|Wilmington|Newark|Lewes",
    "HI": "Honolulu|Hilo|Kona|Lahaina|Maui|Kailua|Waikiki",
    "ID": "Boise|Nampa|Meridian|Coeur d'Alene",
    "IN": "Indianapolis|Bloomington|Gary|Fort Wayne|South Bend|Evansville|Carmel",
    "LA": "New Orleans|Baton Rouge|Shreveport|Lafayette|Monroe",
    "MA": "Boston|Cambridge|Worcester|Springfield|Lowell|Salem|Quincy|Somerville|Newton|Brookline|Amherst",
    "MD": "Baltimore|Annapolis|Bethesda|Rockville|Frederick|Silver Spring|Columbia|Gaithersburg|Towson",
    "ME": "Portland|Bangor|Augusta|Kennebunkport|Bar Harbor",
    "MI": "Detroit|Ann Arbor|Grand Rapids|Lansing|Flint|Kalamazoo|Dearborn",
    "MO": "St\\. Louis|Saint Louis|Kansas City|Springfield|Columbia|Branson",
    "MT": "Billings|Bozeman|Missoula|Helena|Butte|Great Falls|Kalispell|Whitefish",
    "MS": "Jackson|Biloxi|Gulfport|Tupelo|Oxford|Hattiesburg",
    "NC": "Charlotte|Raleigh|Durham|Greensboro|Asheville|Wilmington|Chapel Hill|Winston-Salem",
    "NE": "Omaha|Lincoln|Grand Island",
    "OH": "Columbus|Cleveland|Cincinnati|Toledo|Akron|Dayton|Canton|Youngstown",
    "OK": "Tulsa|Norman|Edmond|Oklahoma City|Stillwater|Lawton",
    "OR": "Portland|Eugene|Salem|Bend|Medford|Corvallis|Ashland|Beaverton",
    "PA": "Philadelphia|Pittsburgh|Harrisburg|Allentown|Erie|Scranton|Lancaster|Hershey|Gettysburg|Bethlehem",
    "RI": "Providence|Newport|Warwick|Cranston",
    "SC": "Charleston|Columbia|Greenville|Myrtle Beach|Hilton Head",
    "SD": "Sioux Falls|Rapid City|Pierre|Deadwood",
    "VA": "Richmond|Norfolk|Arlington|Alexandria|Roanoke|Virginia Beach|Charlottesville|Fairfax|Reston|Newport News",
    "VT": "Burlington|Montpelier|Stowe|Rutland|Brattleboro",
}
"""State -> cities, where its letters after a comma often mean something else."""
_CERTAIN = "|".join(state for state in STATES if state not in (*_CITIES, "DC"))
_IN_STATES = "|".join(rf"(?:{cities}), {state}".replace(" ", "[ ]") for state, cities in _CITIES.items())
_CITY = rf"""
    \b (?P<place> (?:{_IN_STATES}) | [A-Z][a-z]{{2,}},[ ](?:{_CERTAIN}) ) (?=\s*$|[.,;:!?)]|[ ]\(|[ ](?!or\b)[a-z])
"""
"""Austin, TX."""
_LIVES = (
    r"liv(?:e|es|ed|ing)|mov(?:e|es|ed|ing)(?:[ ]back)?|resid(?:e|es|ed|ing)|born|raised|grew[ ]up|based|located"
    r"|relocat\w+|stationed|drove|driving|flew|flying|farm|ranch|town|county|residents?|somewhere|family|college"
)
_STATE = "|".join(state for state in STATES if state not in ("LA", "DC"))
_AFTER_STATE = (
    "a|after|again|all|and|as|at|because|before|but|by|during|for|forever|from|he|her|his|i|in|is|it|just|last|man|my|native"
    "|near|next|not|now|on|or|our|she|since|so|that|then|there|they|this|to|too|until|was|we|were|when|where|which|while|who"
    "|with|woman|years"
)
"""Words after a state. "Moved to HI res" and "living in OK conditions" have none."""
_STATE_BY_CONTEXT = rf"""
    (?<!\w) (?P<before> (?:{_LIVES})[ ](?:(?:down|up|out|over|back|here)[ ])?(?:in|to|from)[ ]
        (?:(?:eastern|western|northern|southern|central|rural|upstate)[ ])?
      | [Ff]rom[ ](?=[A-Z]{{2}}[ ](?:to|or|and)[ ][A-Z]{{2}}\b) )
    (?P<state>{_STATE}) (?:(?P<link>[ ](?:to|or|and)[ ])(?P<second>{_STATE}))?
    (?![\w'\-]|[ ][A-Z]{{2}}|[ ](?:to|or|and)[ ][A-Z]{{2}})
    (?= \s*(?:$|[.,;:!?)]) | [ ](?:{_AFTER_STATE})\b | [ ](?!Office|Word|Teams|Excel)[A-Z\d] )
"""
"""She lives in OR; from OR to WA. "MS Office" is a product."""
_HOSPITAL = lazy(r"\b(?:[Pp]atients?|[Ss]urg\w+|[Nn]urses?|[Tt]rauma|[Hh]ospital)\b")


def _state_by_context(match: re.Match[str]) -> str:
    if match["state"] == "OR" and _HOSPITAL.search(match.string):
        return match[0]
    second = f"{match['link']}{STATES[match['second']]}" if match["second"] else ""
    return f"{match['before']}{STATES[match['state']]}{second}"


def _city(match: re.Match[str]) -> str:
    city, state = match["place"].split(", ")
    return f"{city}, {STATES[state]}"


def _zip(match: re.Match[str]) -> str:
    state = STATES.get(match["state"])
    if state is None:
        return match[0]
    more = f", {numbers.digits(match['more'])}" if match["more"] else ""
    return f"{match['before']}{state} {numbers.digits(match['zip'])}{more}"


def _door(match: re.Match[str]) -> str:
    return f"{match['word']}{numbers.grouped(match['number'])} {match['letter']}"


def _floor_door(match: re.Match[str]) -> str:
    return f"{match['word']}{numbers.cardinal(int(match['floor']))} {numbers.grouped(match['number'])}"


RULES: tuple[Rule, ...] = (
    rule(_FLOOR_DOOR, _floor_door, ("room", "rm", "suite", "ste", "apt", "unit")),
    rule(_ZIP, _zip, r" \d\d\d\d\d"),
    rule(_CITY, _city, "comma capitals"),
    rule(_STATE_BY_CONTEXT, _state_by_context, "capitals"),
    rule(_NUMBER, lambda match: numbers.grouped(match[0]), map(str.lower, STREETS)),
    rule(_DOOR, _door, (*_DOORS, "rm", "ste")),
    rule(_HALF_NUMBER, lambda match: f"{numbers.grouped(match['number'])} {match['letter']}", "digit A"),
)
"""Run before units: "Apt. 4B" is not four billion."""
