"""Acronyms that are read letter by letter, as words, or in another way; and short words in capitals for stress."""

from __future__ import annotations

LETTERS = frozenset(
    """
    AAAS AAPI AARP AICPA AITA ASPCA BYOB BYOD EEOC IAEA IANAL ICAO OBGYN OECD USGA USMLE
    AA AAA ABC ABS ABV AC ACLU ADHD ADSL AFC AFK AG AGI AI AKA ALS AM AMC AMD AML AOC AOL AP API APR AR ASL ATM
    ATP ATT AV AWD AWS AZ BA BBC BBQ BC BCE BCG BLT BMI BMW BMX BP BPM BRB BS BSD BTC BTS BTW CA CAD CBD CBS CBT
    CC CCTV CD CDC CDN CE CEO CET CFO CGI CI CIA CIO CLI CM CMO CMS CNN CO CPA CPI CPR CPU CRM CRT CS CSS CST
    CSV CT CTO CV CVS DA DB DC DEI DHL DHS DIY DJ DM DMV DNA DNC DNS DOA DOB DOE DOI DOJ DOS DPI DSL DST DUI DVD DVR
    EA ECB ECG EDM EDT EEG EFT EKG EMS EMT EP EPA EQ ER ERP ESA ESL ESP ESPN EST ESG ET ETA ETF ETL EU EV EXE
    FAA FAQ FBI FCC FDA FDR FHA FIFO FM FPS FTC FTP FX FYI GB GBP GCC GDP GDPR GE GED GHZ GI GM GMC GMO GMT GOP
    GP GPA GPS GPT GPU GRE GT GTA GUI GUID HBO HD HDD HDMI HDR HGTV HIV HMO HOA HOV HP HPV HQ HR HRT HS HSBC
    HTML HTTP HTTPS HVAC IBM IBS ICBM ICU ID IDE IE IED IMDB IMF IMHO IMO IOC IOS IP IPA IPO IQ IRA IRC IRL IRS
    ISBN ISO ISP ISS IT ITV IUD IV IVF JD JFK JK JPG KFC KGB KKK KPI KPMG KO LA LAN LAX LCD LED LGBT LGBTQ LLC
    LLM LLP LP LPG LSAT LSD LSU LTE LV MA MBA MC MD MDMA MFA MIT MLA MLB MLK MLM MLS MMA MMO MMR MOT MP MPG MPH MPV
    MRI MRNA MRSA MS MSG MSNBC MSRP MTV MVP NBA NBC NCAA NDA NFC NFL NFT NGO NHL NHS NIH NPC NPM NPR NRA NSA
    NSFW NTSC NVM NY NYC NYPD NYSE NYT NYU OCD OCR OD OEM OMG OOP OS OST OTC PA PBS PC PCB PCI PCR PDA PDF PDT PE PG
    PGA PH PHD PHP PI PJ PLC PM PMS PNG PO POC POS POV POW PPE PPI PPM PPT PR PS PSA PST PT PTA PTO PTSD PVC PWC
    QA QC QR RAF RBG RC RCA REM RFC RFP RGB RIP RNA RNC ROI ROTC RPG RPM RPN RSS RSVP RT RV SDK SEC SEO SFO SFX
    SJW SLA SLR SMS SMTP SNL SOP SOS SPF SQL SRO SS SSD SSH SSL SSN SSO STD STI SUV SVG SVP TA TB TBA TBD TBH
    TCP TCU TD TGIF TIL TLC TLS TMI TMZ TNT TSA TTS TTYL TV TVS UAE UAV UC UCLA UDP UFC UFO UI UK UN UNC UPC UPS
    URI URL US USA USAF USB USC USDA USMC USPS USS USSR UTC UTF UTI UV UX VA VAT VC VCR VFX VHS VIP VLC VM VOD
    VP VPN VPS VR VW WC WFH WHO WNBA WSJ WTF WTO WW WWE WWF WWW XL XML XMPP XXL XXX YA YMCA YOY ZDF
    """.split()
)
"""Acronyms that are read letter by letter."""

WORDS = frozenset(
    """
    AIDS AMOLED ANSI ASCII ASEAN AWOL BASIC BIOS BREXIT CAPTCHA CERN COBOL COVID CUDA DARPA DNF EBITDA EGOT ELISA EPROM
    ESOP FAFSA FEMA FIFA FOMO FORTRAN GAAP GATT GEICO HAZMAT HIPAA IKEA INTERPOL LASER LEGO LIDAR MENSA MERS MIDI MOMA
    MIG NABISCO NADA NAFTA NASA NASCAR NASDAQ NATO NAVY NERF NIMBY NOAA NORAD OLED OPEC OSHA PAC PEP PETA PIN POTUS
    QWERTY QANTAS RADAR RAM REIT RICO ROM SAAB SAG SARS SCUBA SCOTUS SIM SNAP SNAFU SONAR SPAM SUDOKU SWAT SWIFT
    TASER TEFL TOEFL TESLA TIVO UEFA UNESCO UNICEF UNIX VISA VIN WASP WIFI WIMAX YOLO YAML ZIP CAD CAPEX OPEX NVIDIA
    ASUS ACER JIRA LOL ROFL LMAO MAGA DREAMER FLOTUS GIF JAVA LIGO MIPS NAND NIST RAID RISC SATA SIP SOAP TED TARP UNHCR
    VESA WAV WAP
    """.split()
)
"""Acronyms that are read as words."""

CUSTOM: dict[str, str] = {
    "MON": "Monday",
    "TUE": "Tuesday",
    "TUES": "Tuesday",
    "WED": "Wednesday",
    "THU": "Thursday",
    "THURS": "Thursday",
    "FRI": "Friday",
    "AAA": "triple A",
    "AKA": "also known as",
    "ASAP": "A S A P",
    "ATT": "A T and T",
    "BSC": "B S C",
    "BTW": "by the way",
    "CRISPR": "crisper",
    "GMAT": "G mat",
    "KPOP": "K pop",
    "SIMD": "sim D",
    "TANF": "tan F",
    "USAID": "U S aid",
    "XBOX": "X box",
    "CDROM": "C D rom",
    "CPAP": "see pap",
    "DNF": "D N F",
    "DOCX": "doc X",
    "DOS": "doss",
    "DRAM": "dee ram",
    "EPUB": "E pub",
    "FYI": "F Y I",
    "IEEE": "I triple E",
    "JPEG": "jay peg",
    "LSAT": "L sat",
    "JSON": "Jason",
    "JSONL": "Jason L",
    "LGBTQIA": "L G B T Q I A",
    "LOL": "L O L",
    "LMAO": "L M A O",
    "MCAT": "M cat",
    "MPEG": "em peg",
    "MYSQL": "my S Q L",
    "NAACP": "N double A C P",
    "NCAA": "N C double A",
    "NOAA": "Noah",
    "NE": "northeast",
    "NPM": "N P M",
    "NW": "northwest",
    "SE": "southeast",
    "SW": "southwest",
    "OK": "okay",
    "PHD": "P H D",
    "PSAT": "P sat",
    "RSVP": "R S V P",
    "SAAS": "sass",
    "SDRAM": "S D ram",
    "SRAM": "S ram",
    "TOML": "tom L",
    "UNHCR": "U N H C R",
    "VRAM": "V ram",
    "WYSIWYG": "wizzy wig",
    "XLSX": "X L S X",
    "WW2": "World War two",
    "WWI": "World War one",
    "WWII": "World War two",
    "YMMV": "your mileage may vary",
}
"""Acronyms with another reading."""

NAMES = frozenset("abs als co da doe dos esp est ko la ma pa pi pos pow rem rip sop til vat".split())
"""Words that are acronyms in capitals, but names in lower case."""

SHORT_WORDS = frozenset(
    """
    a am an as at be by do go he hi if in is it me my no of oh on or so to up us we
    act add age ago aid aim air ale all and ant any ape arm art ash ask ate bad bag bar bat bay bed bee beg bet bid big
    bin bit bow box boy bug bun bus but buy bye cab can cap car cat cop cow cry cup cut dad day den did die dig dim dip
    dog dot dry due dug ear eat egg ego end era eve eye fan far fat fed fee few fig fit fix fly fog for fox fun fur
    gap gas get got gum gun gut guy had ham has hat hay hen her hey him hip his hit hog hot how hug hut ice ill ink inn
    its jam jar jaw jet job jog joy key kid kit lab lap law lay led leg let lid lie lip log lot low mad man map mat may
    men met mix mob mom mud mug nap net new nil nod nor not now nut oak odd off oil old one our out owe owl own pan pay
    pen pet pie pig pin pit pop pot pub put rag ran rat raw ray red rib rid rob rod rot row rub rug run sad sat saw say
    sea see set sew sex she shy sin sip sir sit six ski sky sly sob son sow spy sub sue sum sun tan tap tax tea ten the
    are bug dam den elf god gym ivy lad lid mat nun oat pal paw pea per pup shy tag tar thy tug wan yam yay
    tie tin tip toe ton too top toy try tub two use van vet via war was wax way web wet who why wig win wit won wow yes
    yet you zip zoo
    able also away back ball band bank base bath bear beat been beer bell belt best bike bill bird blue boat body bomb
    bone book boot born boss both bowl boys busy cake call calm came camp card care cars case cash cats chat city clap
    clean cold come cook cool copy cost crew dare dark data date days dead deaf deal dear debt deep desk died diet does
    dogs done dont door down draw drop drug dumb dust duty each earn east easy edge else even ever evil exam exit face
    fact fail fair fall fans farm fast fear feel feet fell felt file fill film find fine fire firm fish five flag flat
    flow food fool foot form four free from fuel full game gave gift girl give glad goal goes gold gone good grew grow
    hair half hall hand hang hard harm hate have head hear heat held hell help here hero hide high hill hire hold hole
    home hope host hour huge hurt idea idol inch into iron item jail jobs join joke jump june july just keep kept kick
    kids kill kind king kiss knew know lack lady lake land last late lazy lead leaf left legs less lies life lift like
    line link list live load loan lock logo long look lord lose loss lost lots loud love luck lung made mail main make
    male mall many mark math meal mean meat meet mess mild milk mind mine miss mode moon more most move much must myth
    name navy near neck need next nice nine none nope nose note noon okay once only onto open oven over pack page paid
    pain pair park part pass past path peak pick pink plan play plus poem poor port post pray pull pump push quit race
    rain read real rent rest rich ride ring rise risk road rock role roof room rose rule rush safe said sail sale salt
    same sand save seat seem seen self sell send sent shed ship shoe shop shot show shut sick side sigh sign sing site
    size skin skip slow smile snow sofa soft sold sole some song soon sort soul soup spot star stay step stop such suit
    sure swim take talk tall tank tape task team tear tell test text than that them then they thin this thus till time
    tiny told tone took tool tour town tree trip true tune turn twin type ugly unit upon used user vast very view visa
    vote wait wake walk wall want warm warn wash wave ways weak wear week well went were west what when whom wide wife
    wild will wind wine wing wipe wise wish with wood word wore work worn wrap yard yeah year yell your zero zone
    isn't don't can't won't didn't doesn't it's i'm you're i'll we're they're that's let's
    """.split()
)
"""Short English words that people write in capitals for stress. ``letters.pronounceable`` recognizes longer words."""
