"""Readings that depend on what is next to a number, a letter or a slash."""

import pytest

from server.text.frontend import spoken

from .readings import words


def check(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("I'm 25M and my gf is 24F.", "im twenty five m and my gf is twenty four f"),
        ("I (25M) love my wife (27F).", "i twenty five m love my wife twenty seven f"),
        ("My (27F) boyfriend (29M) left.", "my twenty seven f boyfriend twenty nine m left"),
        ("Revenue was flat (29M).", "revenue was flat twenty nine million"),
        ("The film made 25M.", "the film made twenty five million"),
        ("I'm 25M short.", "im twenty five million short"),
    ],
)
def test_the_age_and_gender_of_a_person_are_no_millions(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("np, see you there!", "no problem see you there"),
        ("Yeah np.", "yeah no problem"),
        ("import numpy as np", "import numpy as n p"),
        ("Call np.array here.", "call n p dot array here"),
    ],
)
def test_np_answers_thanks_at_the_start_of_a_clause(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Loop from 0 to n-1.", "loop from zero to n minus one"),
        ("Compare x-1 with i-1.", "compare x minus one with i minus one"),
        ("Take i-5 north.", "take i five north"),
        ("The k-9 unit came.", "the k nine unit came"),
        ("Wear n-95 masks.", "wear n ninety five masks"),
    ],
)
def test_a_variable_less_a_small_number_is_a_difference(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Roses are red / Violets are blue", "roses are red violets are blue"),
        ("The woods are lovely, / dark and deep", "the woods are lovely dark and deep"),
        ("Senior developer / team lead", "senior developer slash team lead"),
        ("We eat fish / chips.", "we eat fish slash chips"),
    ],
)
def test_a_slash_between_lines_of_a_poem_is_silent(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("i. Tea\nii. Milk\niii. Jam", "one tea two milk three jam"),
        ("See page ii. Then go.", "see page two then go"),
        ("h. Tea\ni. Milk\nj. Jam", "h tea i milk j jam"),
    ],
)
def test_roman_numerals_before_the_items_of_a_list_are_numbers(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Turnout rose 4 pct. pts.", "turnout rose four percentage points"),
        ("It rose 2.5 percentage pts", "it rose two point five percentage points"),
        ("It rose 3 ppt.", "it rose three percentage points"),
        ("It rose 10 pct.", "it rose ten percent"),
        ("He scored 28 Pts.", "he scored twenty eight points"),
    ],
)
def test_points_after_a_percentage_are_percentage_points(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Dilute it 1:10.", "dilute it one to ten"),
        ("Dilute the bleach with water, 1:10.", "dilute the bleach with water one to ten"),
        ("Mix 1:10 with water, and dilute it at 1:10 pm.", "mix one to ten with water and dilute it at one ten pm"),
        ("The dilution is 1:40.", "the dilution is one to forty"),
        ("Meet me at 1:10.", "meet me at one ten"),
        ("It came in the 90+3' minute.", "it came in the ninety plus three minute"),
        ("He scored at 45+2'.", "he scored at forty five plus two minutes"),
        ("I use Windows 11 22H2.", "i use windows eleven twenty two h two"),
        ("Take 1 tab. p.o. daily.", "take one tablet p o daily"),
        ("I have 1 tab open.", "i have one tab open"),
    ],
)
def test_a_number_depends_on_its_context(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Dial *67 first.", "dial star six seven first"),
        ("Press *72# now.", "press star seven two pound now"),
        ("The game is at 8/7c.", "the game is at eight seven c"),
        ("It airs 8:30/7:30c.", "it airs eight thirty seven thirty c"),
        ("Smith v. Jones, No. 22-451", "smith versus jones number twenty two four fifty one"),
        ("Numbers 10-12 are gone.", "numbers ten to twelve are gone"),
        ("COOKS WANTED, $18/HR", "cooks wanted eighteen dollars per hour"),
        ("The EPS was $0.75 Est.", "the e p s was seventy five cents estimated"),
        ("Est. 1987 in Ohio", "established nineteen eighty seven in ohio"),
    ],
)
def test_a_mark_beside_a_number_depends_on_its_context(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("thx sm!! ily", "thanks so much i love you"),
        ("Sizes: sm and lg", "sizes sm and lg"),
        ("if (a && !b) return", "if a and not b return"),
        ("Wow (!) really", "wow really"),
        ("a/b = c/d", "a over b equals c over d"),
        ("Find it in r/python.", "find it in r slash python"),
    ],
)
def test_letters_and_marks_of_chats_and_formulas(typed: str, said: str) -> None:
    check(typed, said)


def test_a_street_before_a_number_or_another_sentence_is_a_street() -> None:
    check("I live at 123 Main St. 555-0199", "i live at one twenty three main street five five five zero one nine nine")
    assert spoken("Visit 5 Main St. Call me.", "english").text == "Visit five Main Street. Call me."
    assert spoken("Meet St. Mark there.", "english").text == "Meet Saint Mark there."


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("The slope is -2/3.", "the slope is minus two thirds"),
        ("Take pages 2-2/3.", "take pages two and two thirds"),
        ("12/4=3", "twelve divided by four equals three"),
        ("3/4 = 0.75", "three quarters equals zero point seven five"),
        ("sin(30°) = 0.5", "sine of thirty degrees equals zero point five"),
        ("Sin City", "sin city"),
        ("It uses ES2022.", "it uses e s twenty twenty two"),
        ("T-10 minutes to launch", "t minus ten minutes to launch"),
        ("The T-34 tank", "the t thirty four tank"),
        ("The T-34 and the Tiger", "the t thirty four and the tiger"),
        ("Jan '22 vs. Sept. '23", "january twenty two versus september twenty three"),
        ("The $64,000 question", "the sixty four thousand dollar question"),
        ("It needs 7-8 hrs/night.", "it needs seven to eight hours per night"),
        ("Take Hwy. 101 N. there.", "take highway one oh one north there"),
    ],
)
def test_numbers_with_signs_letters_and_nouns(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("See docs/index.md#setup.", "see docs slash index dot m d hash setup"),
        ("My site is ana-design.co", "my site is ana dash design dot co"),
        ("Ask on r/AskReddit or r/python.", "ask on r slash ask reddit or r slash python"),
        ("#COVID-19 update", "hashtag covid nineteen update"),
        ("Invoice #INV-2024-0031", "invoice number i n v two zero two four zero zero three one"),
        ("What's your order #?", "whats your order number"),
        ("Press # to finish.", "press pound to finish"),
        ("wdym? tysm", "what do you mean thank you so much"),
        ("The Rt. Hon. Boris J.", "the right honorable boris j"),
    ],
)
def test_addresses_tags_and_abbreviations(typed: str, said: str) -> None:
    check(typed, said)


def test_a_fraction_after_a_colon_keeps_its_space() -> None:
    assert spoken("Mix: ½ cup oil", "english").text == "Mix: one half cup oil."
    assert spoken("Mix 2 ½ cups.", "english").text == "Mix two and a half cups."


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("It is 3 mi. N of town.", "it is three miles north of town"),
        ("He ran 3 mi. Then he slept.", "he ran three miles then he slept"),
        ("He lives just NE of Reno.", "he lives just northeast of reno"),
        ("It is 10 ft. x 12 ft.", "it is ten feet by twelve feet"),
        ("We flew at 35,000'.", "we flew at thirty five thousand feet"),
        ("It runs len(rows) - 1 times.", "it runs len rows minus one times"),
        ("Tickets (adults) - 5 dollars", "tickets adults five dollars"),
        ("Pick the item(s) - 5 at most.", "pick the items five at most"),
        ("Call foo() - it returns one.", "call foo it returns one"),
        ("Volume I of III", "volume one of three"),
        ("A bag of IV fluids", "a bag of i v fluids"),
        ("It runs from 12/24 to 1/2.", "it runs from december twenty fourth to january second"),
        ("Cut it from 3/4 to 1/2.", "cut it from three quarters to one half"),
        ("Kids u/12 eat free.", "kids under twelve eat free"),
    ],
)
def test_distances_and_sizes_and_dates_beside_each_other(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("c u tmw", "see you tomorrow"),
        ("ppl r asking abt the wknd", "people are asking about the weekend"),
        ("The r in red is silent.", "the r in red is silent"),
        ("will b there w my bro", "will be there with my bro"),
        ("To b or not to b", "to b or not to b"),
        ("ur so funny, ur dog too", "youre so funny your dog too"),
        ("any1 up 4ever?", "anyone up forever"),
        ("<3 you mom", "love you mom"),
        ("<3 miles away", "less than three miles away"),
    ],
)
def test_letters_and_digits_of_chats_are_words_beside_words(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Elizabeth I granted a charter in 1600.", "elizabeth the first granted a charter in sixteen hundred"),
        ("Queen Elizabeth I never married.", "queen elizabeth the first never married"),
        ("Mary I love you", "mary i love you"),
        ("The queen asked Mary I think.", "the queen asked mary i think"),
        ("SALT II and START II were treaties.", "salt two and start two were treaties"),
        ("She took the SAT II in math.", "she took the s a t two in math"),
        ("An ER IV bag", "an e r i v bag"),
    ],
)
def test_numerals_after_monarchs_and_acronyms(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Make $$$ fast.", "make money fast"),
        ("Price: $$", "price dollar sign dollar sign"),
        ("EU, US AGREE DEAL WORTH $1.2TN", "e u u s agree deal worth one point two trillion dollars"),
        ("GIVE US BACK OUR MONEY", "give us back our money"),
        ("Rent is £950 pcm.", "rent is nine hundred fifty pounds per calendar month"),
        ("It rose 5 pp.", "it rose five pp"),
        ("HTTP 404 and 503 errors", "h t t p four oh four and five oh three errors"),
        ("There were 500 errors.", "there were five hundred errors"),
        ("Adm. fee: $12", "admission fee twelve dollars"),
        ("Adm. Lee spoke.", "admiral lee spoke"),
        ("Smith Mfg. Co. closed.", "smith manufacturing company closed"),
        ("W/D in unit, util. incl.", "washer and dryer in unit utilities included"),
        ("Five days, not incl. weekends.", "five days not including weekends"),
        ("Breakfast incl. in the rate, drinks not incl.", "breakfast included in the rate drinks not included"),
        ("The Packers finished 13-4 last season.", "the packers finished thirteen and four last season"),
        ("A 0-4 start and a 2-1 record", "an oh and four start and a two and one record"),
        ("The match finished 2-1.", "the match finished two to one"),
        ("We beat them 3-1 last season.", "we beat them three to one last season"),
        ("Read 1 Cor. 13 before Sunday.", "read first corinthians thirteen before sunday"),
        ("CO 48 sts, BO all sts.", "cast on forty eight stitches bind off all stitches"),
        ("Crashes when opening files > 2 GB", "crashes when opening files greater than two gigabytes"),
        ("Stop when remaining seats > 5.", "stop when remaining seats are greater than five"),
        ("A$AP Rocky feat. Rihanna", "asap rocky featuring rihanna"),
        ("Closed Tues.' mornings", "closed tuesdays mornings"),
        ("Ask Fri or Ann.", "ask fri or ann"),
        ("Due Fri at noon", "due friday at noon"),
    ],
)
def test_prices_codes_and_short_forms(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("∑ of all weights", "sum of all weights"),
        ("n! grows fast", "n factorial grows fast"),
        ("V = πr²h, A = ½bh", "v equals pi r squared h a equals one half b h"),
        ("χ² = 5.99, α² + β²", "chi squared equals five point nine nine alpha squared plus beta squared"),
        ("f(x + h) − f(x)", "f of x plus h minus f of x"),
        ("e^x and ln x", "e to the power of x and natural log of x"),
        ("5! is 120", "five factorial is one hundred twenty"),
        ("I have 5! Is that all?", "i have five is that all"),
        ("git rebase -i HEAD~3", "git rebase dash i head tilde three"),
        ("git reset HEAD^", "git reset head caret"),
        ("450 BCE – 380 BCE", "four hundred fifty b c e to three hundred eighty b c e"),
        ("2024-05-01 12:00:03 done", "may first twenty twenty four twelve oclock and three seconds done"),
    ],
)
def test_signs_of_maths_commands_and_logs(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("y r u mad? idk y u left", "why are you mad i dont know why you left"),
        ("Let x be 3 and y be 4.", "let x be three and y be four"),
        ("its lit fr fr", "its lit for real for real"),
        ("gtg, cu l8r", "got to go see you later"),
        ("wyd? nm u?", "what are you doing not much you"),
        ("can u pm me ur addr?", "can you p m me your address"),
        ("SEE U @ 8 PM", "see you at eight pm"),
        ("THE U OF OREGON", "the u of oregon"),
        ("ASAP PLS & THX", "a s a p please and thanks"),
        ("DR. J. SMITH, 12 ELM ST., APT. 3", "doctor j smith twelve elm street apartment three"),
    ],
)
def test_short_forms_of_chats_and_lines_of_capitals(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("He bet $5 at 9/2.", "he bet five dollars at nine to two"),
        ("I bet it sells at 3/4 of the price.", "i bet it sells at three quarters of the price"),
        ("It needs Windows 10/11.", "it needs windows ten slash eleven"),
        ("3 : 4 = 6 : 8", "three to four equals six to eight"),
        ("If x > 0, then -x < 0.", "if x is greater than zero then minus x is less than zero"),
        ("x += 1; y--", "x plus equals one y minus minus"),
        ("Line 42: IndexError", "line forty two index error"),
        ("rm -rf build/", "r m dash r f build"),
        ("Call 911 or 311.", "call nine one one or three one one"),
        ("pp. xvi-xx", "pages sixteen to twenty"),
        ("Sean O'Casey III", "sean ocasey the third"),
        ("4th of July BBQ", "fourth of july b b q"),
        ("Pay by the 4th of July.", "pay by the fourth of july"),
        ("Ex. A and Bldg. B", "exhibit a and building b"),
    ],
)
def test_numbers_beside_names_and_signs(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("That went well /s", "that went well"),
        ("Great job everyone. /s", "great job everyone"),
        ("List them with dir /s", "list them with dir slash s"),
    ],
)
def test_a_mark_of_irony_at_the_end_is_not_spoken(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("We expect rain Wed.", "we expect rain wednesday"),
        ("The shop is closed Mon", "the shop is closed monday"),
        ("Planets go around the Sun.", "planets go around the sun"),
        ("Celebrity Couple Wed", "celebrity couple wed"),
    ],
)
def test_a_short_day_at_the_end_is_a_day_after_a_word_in_lower_case(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Reveille 0600 hrs, taps at 2200.", "reveille oh six hundred hours taps at twenty two hundred"),
        ("The stock closed at 2200.", "the stock closed at two thousand two hundred"),
    ],
)
def test_four_digits_are_a_time_beside_a_military_time(typed: str, said: str) -> None:
    check(typed, said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("I. Soup, II. Fish, III. Cake", "one soup two fish three cake"),
        ("He fought in World War II. The peace was short.", "he fought in world war two the peace was short"),
        ("So did I. Then we left.", "so did i then we left"),
    ],
)
def test_roman_numerals_of_an_outline_are_numbers(typed: str, said: str) -> None:
    check(typed, said)
