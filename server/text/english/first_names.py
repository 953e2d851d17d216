"""First names, which capitals do not make acronyms: JOHN."""

from __future__ import annotations

FIRST_NAMES = frozenset(
    """
    Aaron Adam Al Alan Albert Alex Alexander Alice Amanda Amy Andrew Ann Anna Anne Anthony Arthur Austin Ben Benjamin
    Beth Betty Bill Billy Bob Bobby Bradley Brandon Brian Bruce Bryan Carl Carol Charles Chris Christian Christopher
    Cornelius Dan Daniel David Davis Dennis Dick Donald Donna Douglas Dylan Earl Edward Efrem Elizabeth Ella Emily Emma
    Eric Ethan Eugene Eva Frank Fred Gabriel Gary George Gerald Glen Grace Greg Gregory Gwen Hank Hannah Hans Harold
    Helen Henry Howard Hugh Hunter Ian Igor Ingrid Ivan Ivy Jack Jacob James Jane Jason Jeffrey Jeremy Jerry Jesse
    Jessica Jim Jo Joe John Johnny Jonathan Jordan Jose Joseph Joshua Juan Julia Justin Karen Karl Kate Keith Ken
    Kenneth Kevin Kim Kirk Kurt Kyle Larry Lars Laura Lawrence Lee Lena Leo Leon Lily Linda Liz Logan Louis Lucy Luke
    Lynn Marcus Margaret Mark Martha Martin Mary Matthew Max Meg Mia Michael Mike Nancy Nathan Ned Nicholas Nick Noah
    Nora Olga Oliver Pam Pat Patrick Paul Peg Peter Phil Philip Pip Rachel Ralph Randy Ray Raymond Rebecca Rex Richard
    Rick Rob Robert Roger Ron Ronald Rose Ross Roy Russell Ruth Ryan Sal Sam Samuel Sandra Sarah Scott Sean Seth
    Stephen Steven Sue Susan Sven Ted Terry Theodore Thomas Thurston Tim Timothy Tom Trey Tyler Val Vincent Walter
    Wayne Will William Willie Yuri Zachary Zoe
    """.split()
)
