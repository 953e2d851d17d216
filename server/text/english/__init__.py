"""English: numbers, dates, money, abbreviations, acronyms, addresses and code as words."""
