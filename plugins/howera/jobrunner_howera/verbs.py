"""Verbs of instructions, as one finds them in manuals, recipes and lessons, and their forms.

An order is known by its verb: what begins with one of these is one, also without ``you should``.
"""

VERBS = frozenset(
    """
    add adjust align allow answer apply arrange ask assemble assign attach avoid bake balance
    beat begin bend bind blend block boil bolt book boot bring browse brush build bundle burn
    button buy calculate call cancel capture carry catch chain change charge check chill
    choose chop clamp clean clear click climb clip close coat collect combine compare compile
    complete compress configure confirm connect convert cook cool copy correct count cover
    crack create crimp crop cross crush cut dab deactivate decide decorate define delete
    deploy describe design detach dial dice dig dip disable discard disconnect dissolve divide
    double download drag drain draw dress drill drive drizzle drop dry duplicate dust edit
    eject empty enable end enlarge ensure enter erase exchange exit expand export extend
    extract fasten feed fetch file fill filter find finish fit fix flatten flip flush fold
    follow force format fry gather get give glue go grab grate grease grind grip group guide
    hammer hang heat hide highlight hit hold hook import increase inflate insert inspect
    install invite iron join jump keep key knead knit knock knot label lay layer lead leave
    let level lift light limit line link list load lock log look loosen lower make mark mash
    match measure melt merge mix mount move nail name navigate note nudge number observe oil
    open order organize outline overlap pack paint park paste pause peel pick pin place plan
    plane plant play plug point polish pop position pour power practice prepare press prime
    print probe pry pull pump punch push put raise reach read rearrange reboot rebuild
    recharge record reduce refresh register release reload remove rename renew repair repeat
    replace report repot request reset resize restart rest restore retry return reuse reverse
    review rewind rinse roll rotate round rub run sand save scan scoop scrape screw scroll
    scrub seal search season seat secure select send separate serve set sew shake shape share
    sharpen shift shorten shove shrink shut sift sign sink skip slice slide slip smooth snap
    soak sort spin splice split spray spread sprinkle squeeze stack stand staple start stay
    steam step stick stir stitch stop store straighten strap stretch strip stuff submit
    subscribe subtract swap sweep swipe switch tack take tap tape taste tear test thread throw
    tie tighten tilt toggle toss touch trace transfer trim tuck turn twist type undo unfold
    uninstall unlock unpack unplug unroll unscrew untie unwrap unzip update upgrade upload use
    vacuum verify wait warm wash watch water wear weigh weld whip whisk widen wind wipe wire
    work wrap write zip zoom
    """.split()
)
# Nothing is done by them, or nothing that an instruction tells to do.
IDLE = frozenset(
    """
    appear be become believe can care come could dare deserve do doubt enjoy exist expect fail
    feel forget guess happen hate have hear hope ignore imagine know learn like love may mean
    mind must need notice own prefer realize recognize remember see seem should sound suppose
    think understand want will wish wonder worry would always already usually often sometimes
    not never also only still
    """.split()
)
# A verb in front of one of these is a noun.
HELPING = frozenset(
    "is are was were be been may might can could will would shall should must has have had do does"
    " did comes goes and of".split()
)
# They say that something will be shown or told.
TELLING = frozenset(
    "show explain teach tell talk look discuss cover demonstrate present introduce describe learn"
    " walk start begin go".split()
)
IRREGULAR = {
    "bound": "bind", "bent": "bend", "built": "build", "chosen": "choose", "cut": "cut",
    "drawn": "draw", "driven": "drive", "found": "find", "given": "give", "ground": "grind",
    "held": "hold", "kept": "keep", "laid": "lay", "left": "leave", "made": "make", "put": "put",
    "read": "read", "run": "run", "sent": "send", "set": "set", "shaken": "shake", "shut": "shut",
    "split": "split", "spread": "spread", "stuck": "stick", "taken": "take", "torn": "tear",
    "thrown": "throw", "undone": "undo", "unwound": "unwind", "wound": "wind", "woven": "weave",
    "written": "write", "worn": "wear", "done": "do", "lying": "lie", "tying": "tie",
}  # fmt: skip


def base(form: str) -> str:
    """The verb of ``mixing`` or ``taped``; an empty string where it is the form of none that is
    known."""
    word = form.lower()
    if word in IRREGULAR:
        return IRREGULAR[word]
    return _base(word, VERBS)


def is_form(word: str) -> bool:
    """Say whether it is some form of a verb, also of one that orders nothing."""
    known = VERBS | IDLE
    return word.lower() in known or bool(base(word)) or bool(_base(word.lower(), known))


def is_verb(word: str) -> bool:
    return word.lower() in VERBS


def _base(word: str, known: frozenset[str]) -> str:
    for ending in ("ing", "ed", "d", "es", "s"):
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < 2:
            continue
        undoubled = stem[:-1] if stem[-1] == stem[-2] else stem
        plain = (stem, f"{stem}e") if ending == "s" else (f"{stem}e", stem)
        for verb in (*plain, undoubled, f"{stem[:-1]}y"):
            if verb in known:
                return verb
    return ""
