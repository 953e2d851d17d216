"""Currencies by their symbols and codes, and the scales of amounts: 5bn, 2 lakh."""

from __future__ import annotations

Coin = tuple[str, str, str, str]
"""Singular and plural of the unit and of its hundredth; the last two are "" for a currency without one."""

_DOLLAR: Coin = ("dollar", "dollars", "cent", "cents")


def _dollar(country: str) -> Coin:
    return (f"{country} dollar", f"{country} dollars", "cent", "cents")


CURRENCIES: dict[str, Coin] = {
    "US$": _dollar("U S"),
    "C$": _dollar("Canadian"),
    "CA$": _dollar("Canadian"),
    "A$": _dollar("Australian"),
    "AU$": _dollar("Australian"),
    "NZ$": _dollar("New Zealand"),
    "HK$": _dollar("Hong Kong"),
    "S$": _dollar("Singapore"),
    "R$": ("real", "reais", "centavo", "centavos"),
    "$": _DOLLAR,
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "", ""),
    "₽": ("ruble", "rubles", "kopeck", "kopecks"),
    "₺": ("lira", "lira", "kurus", "kurus"),
    "₪": ("shekel", "shekels", "agora", "agorot"),
    "₫": ("dong", "dong", "", ""),
    "฿": ("baht", "baht", "satang", "satang"),
    "₱": ("peso", "pesos", "centavo", "centavos"),
    "₦": ("naira", "naira", "kobo", "kobo"),
    "₴": ("hryvnia", "hryvnias", "kopeck", "kopecks"),
    "₿": ("bitcoin", "bitcoin", "", ""),
}
CODES: dict[str, Coin] = {
    "USD": _dollar("U S"),
    "EUR": CURRENCIES["€"],
    "GBP": CURRENCIES["£"],
    "JPY": CURRENCIES["¥"],
    "CAD": _dollar("Canadian"),
    "AUD": _dollar("Australian"),
    "CHF": ("Swiss franc", "Swiss francs", "", ""),
    "CNY": ("yuan", "yuan", "", ""),
    "RMB": ("yuan", "yuan", "", ""),
    "INR": CURRENCIES["₹"],
    "SEK": ("Swedish krona", "Swedish kronor", "", ""),
    "NOK": ("Norwegian krone", "Norwegian kroner", "", ""),
    "DKK": ("Danish krone", "Danish kroner", "", ""),
    "PLN": ("zloty", "zlotys", "", ""),
    "MXN": ("Mexican peso", "Mexican pesos", "", ""),
    "BRL": CURRENCIES["R$"],
    "KRW": CURRENCIES["₩"],
    "NZD": _dollar("New Zealand"),
    "HKD": _dollar("Hong Kong"),
    "SGD": _dollar("Singapore"),
    "BTC": CURRENCIES["₿"],
    "ETH": ("ether", "ether", "", ""),
    "Rs.": CURRENCIES["₹"],
    "Rs": CURRENCIES["₹"],
}
SCALES = {
    "k": "thousand",
    "K": "thousand",
    "m": "million",
    "M": "million",
    "mm": "million",
    "MM": "million",
    "mn": "million",
    "mil": "million",
    "b": "billion",
    "B": "billion",
    "bn": "billion",
    "Bn": "billion",
    "t": "trillion",
    "T": "trillion",
    "tn": "trillion",
    "trn": "trillion",
    "bln": "billion",
    "mln": "million",
    "MN": "million",
    "BN": "billion",
    "TN": "trillion",
}
SCALE_WORDS = "hundred thousand million billion trillion lakh crore".split()
