"""Abbreviations of chats and messages."""

from __future__ import annotations

CHAT: dict[str, str] = {
    "pls": "please",
    "Pls": "Please",
    "plz": "please",
    "thx": "thanks",
    "Thx": "Thanks",
    "tho": "though",
    "rn": "right now",
    "srsly": "seriously",
    "ppl": "people",
    "bc": "because",
    "btw": "by the way",
    "Btw": "By the way",
    "idk": "I don't know",
    "Idk": "I don't know",
    "IDK": "I don't know",
    "imo": "in my opinion",
    "Imo": "In my opinion",
    "IMO": "In my opinion",
    "imho": "in my humble opinion",
    "IMHO": "In my humble opinion",
    "tbh": "to be honest",
    "Tbh": "To be honest",
    "TBH": "To be honest",
    "omg": "oh my god",
    "Omg": "Oh my god",
    "OMG": "Oh my god",
    "brb": "be right back",
    "BRB": "be right back",
    "afaik": "as far as I know",
    "AFAIK": "As far as I know",
    "ttyl": "talk to you later",
    "ikr": "I know, right",
    "smh": "shaking my head",
    "omw": "on my way",
    "gtg": "got to go",
    "hbu": "how about you",
    "wyd": "what are you doing",
    "lmk": "let me know",
    "dw": "don't worry",
    "nvm": "never mind",
    "Nvm": "Never mind",
    "ty": "thank you",
    "yw": "you're welcome",
    "jk": "just kidding",
    "fyi": "F Y I",
    "faq": "F A Q",
    "asap": "A S A P",
    "eta": "E T A",
    "diy": "D I Y",
    "wtf": "W T F",
    "dm": "D M",
    "tl;dr": "T L D R",
    "TL;DR": "T L D R",
    "tldr": "T L D R",
    "TLDR": "T L D R",
    "ur": "your",
    "msg": "message",
    "bday": "birthday",
    "tmrw": "tomorrow",
    "tmr": "tomorrow",
    "ok": "okay",
    "Ok": "Okay",
    "n/a": "N A",
    "N/A": "N A",
}
"""Abbreviation -> words. Matched as whole words and in this case."""

SOUNDS: dict[str, str] = {
    "2day": "today",
    "2moro": "tomorrow",
    "2morrow": "tomorrow",
    "VO2max": "V O two max",
    "VO2": "V O two",
    "2nite": "tonight",
    "b4": "before",
    "gr8": "great",
    "l8r": "later",
    "m8": "mate",
    "str8": "straight",
    "w8": "wait",
}
"""Words in which a digit stands for its sound: "gr8"."""

LOWER_ACRONYMS = """
    tv tvs cd cds dvd dvds pc pcs usb cc html css url urls api apis gpu gpus cpu cpus pdf pdfs sql http https
    ssh npm gps atm dj djs mri dna faq faqs sms mp3 hdmi leds lcd rgb vpn isp ceo cfo cto nba nfl fbi cia
    usa uk ussr eu gdp vip js np pd df db ui ux vm qa
""".split()
"""Acronyms that people also write in lower case, and that are not words."""
