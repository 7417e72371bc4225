"""What is to be done, found in the ways that people say it."""

import pytest
from jobrunner_howera import orders, verbs


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Unplug the machine and let it cool down.", "Unplug the machine and let it cool down"),
        ("Okay, so now you want to take out the water tank.", "Take out the water tank"),
        ("What you need to do next is choose a folder.", "Choose a folder"),
        ("The last thing we do is fill the pot with soil.", "Fill the pot with soil"),
        ("We're going to twist the filter to the left.", "Twist the filter to the left"),
        ("Let's find the hole.", "Find the hole"),
        ("You start by selecting the cells with the numbers.", "Select the cells with the numbers"),
        ("I used two plastic levers for that.", "Use two plastic levers"),
        ("The edges should be taped first.", "Tape the edges first"),
        ("When the dough comes together, it's time to knead it.", "Knead the dough"),
        ("If you are happy with it, drag the chart to its place.", "Drag the chart to its place"),
        ("There you can pick the type of the chart.", "Pick the type of the chart"),
        ("Press the filter in until it clicks.", "Press the filter in"),
    ],
)
def test_an_order_is_found_however_it_is_said(said: str, title: str) -> None:
    assert orders.title_of(said) == title


@pytest.mark.parametrize(
    "said",
    [
        "", "…", "42.", "Water may still be hot inside.", "You will hear a small click.",
        "I think once a day is fine.", "There are a few options that you can ignore.",
        "Today I want to show you how to bake bread.", "It takes about ten minutes of work.",
        "It was the best of times, it was the worst of times.", "Heute backen wir ein Brot.",
        "今天我们更换过滤器。",
    ],
)  # fmt: skip
def test_what_orders_nothing_is_no_order(said: str) -> None:
    assert orders.orders(said) == []


def test_the_surest_order_makes_the_title() -> None:
    text = "You can go for a walk meanwhile. Now you have to stir the soup. Do not burn it."
    assert orders.title_of(text) == "Stir the soup"


def test_a_title_is_short_and_ends_well() -> None:
    text = "Mix the flour with the salt and the yeast in a very large bowl with a wooden spoon."
    assert orders.title_of(text) == "Mix the flour with the salt and the yeast"


@pytest.mark.parametrize(
    ("said", "subject"),
    [
        ("Hi, in this video I show you how to repot a plant.", "How to repot a plant"),
        ("Today we're going to bake a loaf of bread.", "How to bake a loaf of bread"),
        ("This is how you make a chart from a table.", "How to make a chart from a table"),
        ("So you have a flat tire.", ""),
        ("Today we talk about the weather.", ""),
    ],
)
def test_what_it_is_about_is_what_the_speaker_says(said: str, subject: str) -> None:
    assert orders.subject_of(said) == subject


@pytest.mark.parametrize(
    ("form", "verb"),
    [("mixing", "mix"), ("taped", "tape"), ("cutting", "cut"), ("applies", "apply"),
     ("taken", "take"), ("pressed", "press"), ("yesterday", ""), ("red", "")],
)  # fmt: skip
def test_a_verb_is_known_by_its_forms(form: str, verb: str) -> None:
    assert verbs.base(form) == verb
