"""Lessons as people tell them: what is said, step by step, and which orders are in it.

A title says what to do when it begins with one of the verbs of its step and has one of its objects.
Each step is said the way that people speak: some as an order, some as a wish, some as a report.
"""

from msgspec import Struct


class Told(Struct, frozen=True):
    """One step: the words, and the orders that are in them, verb and objects."""

    said: str
    orders: tuple[tuple[str, str], ...]


class Lesson(Struct, frozen=True):
    name: str
    opening: str
    subject: str
    steps: tuple[Told, ...]


def told(said: str, *orders: str) -> Told:
    """Orders are written ``verb: object object``."""
    split = (order.partition(": ") for order in orders)
    return Told(said, tuple((verb, objects) for verb, _, objects in split))


LESSONS = (
    Lesson(
        "coffee",
        "Hi everybody, today I want to show you how to replace the water filter of your coffee"
        " machine.",
        "filter",
        (
            told(
                "First of all, unplug the machine and let it cool down. The water inside may still"
                " be very hot.",
                "unplug: machine",
            ),
            told(
                "Okay, now you want to take out the water tank. It comes off if you pull it"
                " straight up.",
                "take: tank",
                "pull: tank",
            ),
            told(
                "Next we're going to twist the old filter to the left. You will hear a small"
                " click. Put it in the bin.",
                "twist: filter",
            ),
            told(
                "Before you put in the new one, it should be soaked in cold water. Five minutes"
                " are enough.",
                "soak: new one water",
            ),
            told(
                "Finally, push the new filter into the tank until it clicks, and put the tank back."
                " That's it.",
                "push: filter",
                "put: tank",
            ),
        ),
    ),
    Lesson(
        "photos",
        "In this short video we look at how to set up a backup of your photos.",
        "backup",
        (
            told(
                "To start, open the settings by clicking on the gear in the top right corner.",
                "open: settings",
            ),
            told(
                "Then we go to the tab called storage. There are a few options here that you can"
                " ignore.",
                "go: tab storage",
            ),
            told(
                "Now what you need to do is choose a folder for the backup. I use the external"
                " drive, because it has a lot of room.",
                "choose: folder",
                "use: drive",
            ),
            told(
                "Once that is done, you can set how often it runs. I think once a day is fine for"
                " most people.",
                "set: often",
            ),
            told(
                "And then just press save. You should see a green check mark next to the folder.",
                "press: save",
            ),
        ),
    ),
    Lesson(
        "tire",
        "So you have a flat tire. Don't worry, it is easier than it looks.",
        "tire",
        (
            told(
                "The first thing to do is to turn the bike upside down and open the brake.",
                "turn: bike",
                "open: brake",
            ),
            told(
                "After that, loosen the nut of the wheel with a wrench and lift the wheel out.",
                "loosen: nut",
                "lift: wheel",
            ),
            told(
                "Next, I use two plastic levers to get the tire off the rim. Be careful not to"
                " pinch the tube.",
                "use: levers",
                "get: tire",
            ),
            told(
                "Let's find the hole. Pump some air into the tube and listen for where it comes"
                " out.",
                "find: hole",
                "pump: air",
            ),
            told(
                "Now clean the spot with sandpaper, and put a little glue on it. Wait until it is"
                " dry.",
                "clean: spot",
                "put: glue",
            ),
        ),
    ),
    Lesson(
        "bread",
        "Today we bake a simple loaf of bread. It takes about ten minutes of work.",
        "bread",
        (
            told(
                "You begin by mixing the flour with the salt and the yeast in a large bowl.",
                "mix: flour",
            ),
            told(
                "Then pour in the warm water slowly, and stir it with a wooden spoon.",
                "pour: water",
                "stir: spoon",
            ),
            told(
                "When the dough comes together, it's time to knead it. This takes about eight"
                " minutes by hand.",
                "knead: it dough",
            ),
            told(
                "Cover the bowl with a towel, and let it rest for an hour in a warm place.",
                "cover: bowl",
                "let: rest",
            ),
        ),
    ),
    Lesson(
        "printer",
        "In this lesson I explain how to connect a printer to your network.",
        "printer",
        (
            told(
                "Make sure that the printer is switched on and the blue light is blinking.",
                "make: printer",
                "check: printer",
                "switch: printer",
            ),
            told(
                "On the screen of the printer you have to select wireless setup. Use the arrow"
                " keys for that.",
                "select: wireless setup",
                "use: arrow keys",
            ),
            told(
                "It will ask you for the password of your network. Type it in and press okay.",
                "type: it password",
                "press: okay ok",
            ),
            told(
                "Finally we print a test page, so that we know that everything works.",
                "print: page",
            ),
        ),
    ),
)
ASIDE = (
    Lesson(
        "wall",
        "Painting a wall is not hard if you prepare it well.",
        "wall",
        (
            told(
                "Begin with the furniture. Move it to the middle of the room and cover it with"
                " plastic.",
                "move: furniture it",
                "cover: furniture it plastic",
                "begin: furniture",
            ),
            told(
                "The next step is to tape the edges of the windows and the doors.",
                "tape: edges",
            ),
            told(
                "Now you take the roller and dip it into the paint. Roll off what is too much.",
                "take: roller",
                "dip: roller paint",
            ),
            told(
                "I always start at the top and work my way down. Let the first coat dry before you"
                " paint the second.",
                "start: top",
                "let: coat",
            ),
        ),
    ),
    Lesson(
        "chart",
        "This is how you make a chart from a table in a spreadsheet.",
        "chart",
        (
            told(
                "Start by selecting the cells with the numbers. Don't forget the row with the"
                " names.",
                "select: cells",
            ),
            told(
                "With the cells selected, click on insert, and then on chart.",
                "click: insert",
            ),
            told(
                "A window opens on the right. There you can pick the type of the chart. I'm going"
                " for columns.",
                "pick: type chart",
            ),
            told(
                "If you are happy with it, drag the chart to where it should be and save the file.",
                "drag: chart",
                "save: file",
            ),
        ),
    ),
    Lesson(
        "plant",
        "Let me show you how to repot a plant.",
        "plant",
        (
            told(
                "You need a pot that is a little bigger than the old one. Put some stones in it so"
                " that the water can run off.",
                "put: stones",
            ),
            told(
                "Alright, then hold the plant by its stem and pull it out of the old pot gently.",
                "hold: plant",
                "pull: plant it",
            ),
            told(
                "Shake off the loose soil, and cut the roots that are brown or soft.",
                "shake: soil",
                "cut: roots",
            ),
            told(
                "The last thing we do is fill the pot with fresh soil and water it.",
                "fill: pot",
                "water: it",
            ),
        ),
    ),
)
