"""Shorthand of notes, advertisements and directions."""

import pytest

from server.text.frontend import spoken

from .readings import words


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("The living rm is 15' x 20'", "the living room is fifteen by twenty feet"),
        ("A rug for a 10' x 13' rm", "a rug for a ten by thirteen foot room"),
        ("He scored 18 HRs this yr.", "he scored eighteen home runs this year"),
        ("Happy hr 4-6pm: 1/2 off apps", "happy hour four to six pm half off apps"),
        ("VBS reg. closes Friday", "v b s registration closes friday"),
        ("Pay elec. bill", "pay electric bill"),
        ("1st, last & sec. deposit", "first last and security deposit"),
        ("Sec 104, Row F, Seats 7-8", "section one hundred four row f seats seven to eight"),
        ("P/T dishwasher, wknds only", "part time dishwasher weekends only"),
        ("F/T cashier, P/T or F/T", "full time cashier part time or full time"),
        ("on the 35 yd line", "on the thirty five yard line"),
        (
            "700x28c tires on a 54cm road bike",
            "seven hundred by twenty eight c tires on a fifty four centimeter road bike",
        ),
        ("29er w/ 1x12 drivetrain", "twenty niner with one by twelve drivetrain"),
        ("Your flt UA1175 is late", "your flight u a one one seven five is late"),
        ("Next train 8:05, arr. Penn Sta. 9:42", "next train eight oh five arrives penn station nine forty two"),
        (
            'Couch is 84"L x 38"D, for a 30" door',
            "couch is eighty four inches long by thirty eight inches deep for a thirty inch door",
        ),
        ('Plant 24" apart, 1/4" deep', "plant twenty four inches apart one quarter inch deep"),
        ("The shelf is 2 ft 6 in wide.", "the shelf is two feet six inches wide"),
        ("Lost cat nr 3rd & Maple", "lost cat near third and maple"),
        ("AAPL beat EPS est. by 5%", "a a p l beat e p s estimates by five percent"),
        ("Take exit 12, then L on Rt. 9", "take exit twelve then left on route nine"),
        ("Turn rt onto Hwy 61, hang a L.", "turn right onto highway sixty one hang a left"),
        ("3 blks past the store", "three blocks past the store"),
        ("BOGO, limit 2/customer", "bogo limit two per customer"),
        ("Jordan 1s, worn once", "jordan ones worn once"),
        ("MacBook Air, 8/256", "macbook air eight two hundred fifty six"),
        ("Dl speed is 25 Mbps", "download speed is twenty five megabits per second"),
        ("32M, 6'1\", non-smoker", "thirty two m six foot one non smoker"),
        ("Master BR, hdwd floors, blt 1962", "master bedroom hardwood floors built nineteen sixty two"),
        ("Your pkg gets 28 mpg hwy", "your package gets twenty eight miles per gallon highway"),
        ("10-10-10 fert. every 2 wks", "ten ten ten fertilizer every two weeks"),
        ("2 yr old lab mix, UTD on shots", "two year old lab mix up to date on shots"),
        ("2 HR and 5 RBI on a 3-2 count", "two home runs and five r b i on a three and two count"),
        ("5-spd Miata, blk/wht, no smkg", "five speed miata black and white no smoking"),
        ("2 dz. donuts, 3 lbs gr. beef", "two dozen donuts three pounds ground beef"),
        ("3rd flr, late ckout", "third floor late checkout"),
        ("Corn at 200 bu. per acre", "corn at two hundred bushels per acre"),
        ("Used 842 kWh last mo., up 12%", "used eight hundred forty two kilowatt hours last month up twelve percent"),
        ("About 3.2 w/kg", "about three point two watts per kilogram"),
        ("12 2x4x8s", "twelve two by four by eights"),
        ("Your pymt posted; acct ending in 4417", "your payment posted account ending in four four one seven"),
    ],
)
def test_shorthand_is_read_in_full(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("The P/T ratio rose.", "the p t ratio rose"),
        ("Symphony No. 9 in D minor", "symphony number nine in d minor"),
        ("Learn Python, then R.", "learn python then r"),
        ("He got an L on the exam.", "he got an l on the exam"),
        ("29M users in 24 HRS", "twenty nine million users in twenty four hours"),
        ("He is 6 ft 2 in tall.", "he is six foot two tall"),
        ("Latency fell to 1s.", "latency fell to one second"),
        ("It takes 1 1/2 dozen.", "it takes one and a half dozen"),
        ("It was 8/12 full.", "it was eight twelfths full"),
        ("Hang an L.", "hang an l"),
        ("Install Python, then R on your laptop.", "install python then r on your laptop"),
        ("High P/T conditions", "high p t conditions"),
        ("He was criticized, incl. by allies.", "he was criticized including by allies"),
        ("The ruling was 6-3 last season.", "the ruling was six to three last season"),
        ("A 9-10 start time works.", "a nine to ten start time works"),
        ("A 6'3\" wide receiver", "a six foot three wide receiver"),
        ("Makes 2-1/2 dozen.", "makes two and a half dozen"),
        ("Stop when training loss < 0.1.", "stop when training loss is less than zero point one"),
        ("MRI: Rt 3 cm cyst", "m r i rt three centimeters cyst"),
        ("The laptop finished step 32/64.", "the laptop finished step thirty two of sixty four"),
        ("30M looking for work", "thirty million looking for work"),
        ("Canon 24-70mm L, great", "canon twenty four to seventy millimeters l great"),
        ("700 x 35 = 24,500", "seven hundred times thirty five equals twenty four thousand five hundred"),
        ("sudo pkg install vim", "sudo pkg install vim"),
        ("Game 1 Kings 5", "game one kings five"),
        ("We diluted the sample at 1:15.", "we diluted the sample at one fifteen"),
        ("To no avail, a 24 HR season pass", "to no avail a twenty four hour season pass"),
        ("Extended Mix, 7:29", "extended mix seven twenty nine"),
        ("It is 2 yr old and fine.", "it is two years old and fine"),
        ("When he was 5 yr old his family moved.", "when he was five years old his family moved"),
        ("24 HR battery life", "twenty four hour battery life"),
        ("Oilers 2 Kings 5 on Friday", "oilers two kings five on friday"),
        ("The integral of 2 dz", "the integral of two dz"),
        ("Mix the drink for 1:30.", "mix the drink for one thirty"),
        ("By a 3-0 count, they won.", "by a three to zero count they won"),
        ("Treat when fasting levels > 126.", "treat when fasting levels are greater than one hundred twenty six"),
        ("A 3'6\" wide, white door", "a three foot six wide white door"),
    ],
)
def test_what_only_looks_like_shorthand_is_not(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said
