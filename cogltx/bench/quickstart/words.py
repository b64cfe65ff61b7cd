"""Words of the quickstart's corpus: names, roles, answers, templates of facts and questions, and filler sentences.

Every name, role and answer is one word piece of the bert-base-uncased vocabulary, and none of them occurs in the
filler. Every fourth name and answer belongs to the test split, the others to the training split.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Split: TypeAlias = Literal["train", "test"]


def _by_split(text: str) -> dict[Split, tuple[str, ...]]:
    """Divide words: every fourth one is for the test split.

    >>> _by_split("Ada Bea Cleo Dora Eve")
    {'train': ('Ada', 'Bea', 'Cleo', 'Eve'), 'test': ('Dora',)}
    """
    words = text.split()
    return {"train": tuple(word for index, word in enumerate(words) if index % 4 != 3), "test": tuple(words[3::4])}


def _phrases(text: str) -> tuple[str, ...]:
    """Split a text at its commas.

    >>> _phrases("at noon, late at night")
    ('at noon', 'late at night')
    """
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a question asks of the second person.

    Attributes:
        name: short name.
        questions: templates with `{who}`, the first person described by role and name.
        facts: templates with `{bridge}`, the second person's name, and `{answer}`.
        answers: the answers of each split.
    """

    name: str
    questions: tuple[str, ...]
    facts: tuple[str, ...]
    answers: dict[Split, tuple[str, ...]]


NAMES = _by_split("""
Aaron Abigail Adam Adrian Agnes Alan Albert Alexander Alexandra Alfred Alice Alison Amanda Amelia Amy Andrea
Andrew Angela Anita Anna Anne Anthony Antonio Arnold Arthur Audrey Barbara Beatrice Becky Ben Benjamin
Bernard Bertha Beth Betty Beverly Bobby Boris Brandon Brenda Brian Bridget Bruce Bruno Caleb Calvin Carl
Carla Carlos Carmen Caroline Carrie Catherine Cecil Cecilia Charles Charlie Cheryl Chloe Chris Christina
Christopher Cindy Claire Clara Clarence Claudia Clifford Colin Connie Connor Conrad Curtis Cynthia Damien
Daniel Danny Daphne Darren David Deborah Debra Dennis Derek Diana Diego Dominic Donald Donna Doris Dorothy
Douglas Duncan Dylan Eddie Edgar Edith Edmund Edward Edwin Eileen Elaine Eleanor Elena Elias Elizabeth Ella
Ellen Ellie Elliot Elsa Emil Emily Emma Enrique Eric Erica Ernest Esther Ethan Eugene Eva Evan Evelyn Felix
Fernando Fiona Francesca Francisco Fred Freddie Frederick Gabriel Gareth Gary Gavin Geoffrey George Gerald
Gerard Gertrude Gilbert Gina Gloria Gordon Graham Gregory Greta Gustav Gwen Hannah Hans Harold Harriet Harry
Harvey Hector Heidi Helen Helena Henry Herbert Herman Horace Howard Hubert Hugh Hugo Ian Igor Irene Isaac
Isabel Isabella Ivan Jacob Jake James Jamie Jane Janet Janice Jared Jason Jasper Javier Jeff Jeffrey
Jennifer Jenny Jeremy Jerome Jerry Jesse Jessica Jill Jim Jimmy Joan Joanna Joel Johanna John Johnny
Jonathan Jorge Jose Joseph Joshua Joyce Juan Judith Judy Julia Julian Julie Juliet Justin Karen Karl Kate
Katherine Kathleen Katie Keith Kenneth Kevin Kurt Kyle Larry Laura Lauren Lawrence Leo Leonard Leroy Leslie
Liam Linda Lisa Lloyd Lois Lola Louis Louise Lucas Lucia Lucy Luke Lydia Lynn Mabel Maggie Malcolm Mandy
Manuel Marcel Marcus Margaret Maria Marian Marianne Marie Marilyn Mario Marion Marjorie Marta Martha Martin
Marvin Mary Matilda Matthew Maureen Maurice Max Maxwell Megan Melanie Melissa Michael Michelle Miguel Mike
Mildred Miranda Miriam Mitchell Molly Monica Muriel Myra Nancy Naomi Natalie Natasha Nathan Neil Nicholas
Nicola Nicole Nigel Nina Noah Noel Nora Norman Oliver Olivia Oscar Otto Owen Pablo Pamela Patricia Patrick
Paul Paula Pauline Pedro Peggy Penelope Peter Philip Phoebe Phyllis Polly Quentin Rachel Ralph Ramon Randy
Raphael Raymond Rebecca Ricardo Richard Rita Robert Roberta Roberto Rodney Roger Roland Ronald Rosa Rosie
Ross Roy Rudolf Russell Ruth Ryan Sally Sam Samantha Samuel Sandra Sara Sarah Scott Sean Sebastian Sergio
Sheila Shirley Silvia Simon Sonia Sophia Sophie Stanley Stella Stephanie Stephen Steve Steven Stuart Susan
Susanna Suzanne Sylvia Tanya Teresa Terry Theodore Theresa Thomas Tim Timothy Tina Todd Tom Tommy Tony Tracy
Trevor Ursula Valerie Vanessa Vera Vernon Veronica Vincent Vivian Vladimir Walter Wanda Warren Wayne Wendy
Wilfred William Yvonne Zoe
""")

ROLES = ("mentor", "neighbour", "cousin", "landlord", "rival", "partner", "tutor", "colleague")

WHO = ("the {role} of {subject}", "{subject}'s {role}")

FIRST_FACTS = ("The {role} of {subject} is {bridge}.", "{subject}'s {role} is called {bridge}.")

CITY = Kind(
    name="city",
    questions=(
        "Where does {who} live?",
        "In which city does {who} live?",
    ),
    facts=(
        "{bridge} lives in {answer}.",
        "The home of {bridge} is in {answer}.",
    ),
    answers=_by_split("""
Amsterdam Athens Atlanta Auckland Baghdad Baltimore Bangkok Barcelona Beijing Beirut Belfast Belgrade Berlin
Birmingham Bogota Bologna Bombay Boston Bremen Brisbane Bristol Brussels Bucharest Budapest Cairo Calcutta
Cambridge Caracas Cardiff Chennai Chicago Cincinnati Cleveland Cologne Copenhagen Damascus Delhi Denver
Detroit Dresden Dublin Edinburgh Frankfurt Geneva Genoa Glasgow Hamburg Hanoi Havana Helsinki Istanbul
Jakarta Jerusalem Karachi Kiev Krakow Kyoto Lagos Leeds Leipzig Lima Lisbon Liverpool London Lyon Madrid
Manchester Manila Marseille Melbourne Memphis Miami Milan Minsk Montreal Moscow Mumbai Munich Nairobi Naples
Nashville Norwich Nottingham Odessa Omaha Osaka Oslo Ottawa Oxford Palermo Paris Philadelphia Pittsburgh
Plymouth Portland Prague Riga Rome Rotterdam Salzburg Sarajevo Seattle Seoul Seville Shanghai Sheffield
Singapore Southampton Stockholm Stuttgart Tallinn Tampa Tehran Tokyo Toronto Toulouse Tunis Turin Vancouver
Venice Vienna Vilnius Warsaw Winnipeg Zagreb Zurich
"""),
)

PROFESSION = Kind(
    name="profession",
    questions=(
        "What is the profession of {who}?",
        "What does {who} work as?",
    ),
    facts=(
        "{bridge} works as a {answer}.",
        "{bridge} is a {answer} by profession.",
    ),
    answers=_by_split("""
baker banker barber biologist blacksmith botanist boxer broker butcher butler carpenter cartoonist chef
chemist clerk comedian composer cook dancer dentist designer detective diplomat doctor driver farmer
fisherman gardener geologist goldsmith guard historian journalist judge lawyer lecturer librarian magician
manager mathematician mechanic miner musician novelist nurse painter philosopher photographer physician
physicist pianist pilot poet policeman potter priest producer professor programmer psychologist publisher
reporter sailor salesman scientist sculptor secretary shepherd singer soldier surgeon surveyor tailor
teacher technician trainer translator violinist waiter waitress weaver wrestler writer
"""),
)

ANIMAL = Kind(
    name="animal",
    questions=(
        "What is the favourite animal of {who}?",
        "Which animal does {who} like best?",
    ),
    facts=(
        "The favourite animal of {bridge} is the {answer}.",
        "{bridge} likes the {answer} best of all animals.",
    ),
    answers=_by_split("""
alligator badger bat bear beaver bee beetle bison bull butterfly camel cat chicken cobra cow coyote crab
cricket crocodile crow deer dog dolphin donkey dove duck eagle elephant elk falcon fox frog goat goose
gorilla hare hawk heron horse jaguar kangaroo lamb leopard lion lizard lobster lynx monkey moose moth mouse
mule octopus otter owl ox oyster panda panther parrot peacock penguin pig pigeon pony rabbit rat raven rhino
rooster salmon scorpion shark sheep snail snake sparrow spider squid squirrel swan tiger toad trout turtle
vulture whale wolf worm zebra
"""),
)

LANGUAGE = Kind(
    name="language",
    questions=(
        "Which language does {who} speak?",
        "What is the mother tongue of {who}?",
    ),
    facts=(
        "{bridge} speaks {answer}.",
        "The mother tongue of {bridge} is {answer}.",
    ),
    answers=_by_split("""
Afrikaans Albanian Arabic Aramaic Armenian Basque Bengali Breton Bulgarian Burmese Cantonese Catalan Chinese
Cornish Croatian Czech Danish Dutch English Estonian Finnish Flemish French Gaelic Galician Georgian German
Greek Gujarati Hebrew Hindi Hungarian Icelandic Indonesian Irish Italian Japanese Kannada Korean Kurdish
Latin Latvian Lithuanian Macedonian Malay Malayalam Maltese Mandarin Maori Marathi Mongolian Nepali
Norwegian Persian Polish Portuguese Punjabi Romanian Russian Sanskrit Serbian Slovak Slovene Somali Spanish
Swedish Tamil Telugu Thai Tibetan Turkish Ukrainian Urdu Vietnamese Welsh Yiddish Zulu
"""),
)

KINDS = (CITY, PROFESSION, ANIMAL, LANGUAGE)

OTHER_QUESTIONS: dict[Split, tuple[str, ...]] = {
    "train": (
        "Who built the {thing} near {place}?",
        "How deep is the water below {place}?",
        "When was {who} born?",
        "Why did {people} leave {place}?",
        "What is the name of the owner of the {thing}?",
        "How old is {who}?",
        "Which book did {who} write?",
        "Who is the king of the country?",
        "What is the capital of the country?",
        "Which number did {who} choose?",
        "How tall is the {thing}?",
        "Who won the war?",
        "In which year was the {thing} opened?",
        "What did {who} buy?",
        "Whom did {who} marry?",
        "Who sold the {goods} to the council?",
        "What is the telephone number of the {thing}?",
        "Which team won the game?",
        "What is a good name for a ship?",
        "Who discovered the island?",
    ),
    "test": (
        "Who painted the picture in the {thing}?",
        "Which instrument does {who} play?",
        "When did the king die?",
        "Who invented the telephone?",
        "What is the largest ocean?",
        "How much money does {who} have?",
        "What colour is the car of {who}?",
        "Which film won the prize?",
    ),
}
"""Questions that no document answers; `{who}` is the person that a question with an answer would be about."""

FILLER = (
    # weather
    "{when}, {sky} hung over {place} and {people} stayed at home.",
    "{people} say that {sky} over {place} will bring {weather} by the evening.",
    "The forecast had promised {weather}, but {when} there was only {weather}.",
    "{when} the {wind} wind brought {weather} to {place}.",
    "After {span} of {weather}, the {way} near {place} was {state}.",
    "The snow on the {way} melted {when}, and the meadows turned {colour} again.",
    "Nothing could be seen of {place} {when} but {sky}.",
    "It was {feel} near {place}, and the {thing} gave shelter from the {weather}.",
    # rivers
    "The river rose by {number} feet {when} and then slowly fell again.",
    "Below {place} the river grows {width}, and its water turns {colour} after {weather}.",
    "{number} small boats were tied up near {place} because of the {weather}.",
    "The current is {width} and slow near {place}, where {people} swim {when}.",
    "A raft loaded with {goods} drifted past {place} {when}.",
    "{people} built a dam above {place}, which held for {span}.",
    # travel
    "The {way} from {place} to the {thing} was {state} for {span}.",
    "{when}, {people} passed {place} on foot and took the {way} home.",
    "The journey takes {span}, unless {weather} makes the {way} slow.",
    "A ticket to {place} costs {number} coins, and children travel free.",
    "{people} waited {span} for the ferry, which was late because of {weather}.",
    "The train stops near {place} for {number} minutes before it crosses the plain.",
    "A {width} path leads from {place} to the {old} {thing}.",
    "{number} carriages stood on the {way} {when}, all of them {colour}.",
    # markets and food
    "The market near {place} opens early and sells {goods}, {goods} and {goods}.",
    "{when} the price of {goods} rose, while that of {goods} fell.",
    "{people} bought {goods} at the market and carried everything past {place}.",
    "There was such a supply of {goods} {when} that half of it was given away.",
    "One stall sold only {goods}, another nothing but {goods} from beyond {place}.",
    "The soup was made of {food} and {food}, and it tasted {taste}.",
    "Without {food} the supper was too {taste}, so {people} brought some {when}.",
    "{number} sacks of {goods} were stored in the {thing} near {place}.",
    # buildings and customs
    "The {old} {thing} beside {place} was painted {number} years ago and still looks {colour}.",
    "{people} repaired the {thing} {when}, although the work took {span}.",
    "From {place} one can see the {old} {thing} and, in good weather, the mountains.",
    "{when} the lamps near {place} were lit earlier than usual because of {sky}.",
    "{people} planted {number} trees around {place}, and most of them grew well.",
    "The {thing} has {number} rooms, and each of them smells of {goods}.",
    "A festival is held near {place} every year, even in {weather}.",
    "{when}, {people} filled the street near the {thing} with music for {span}.",
    "The council decided {when} that the {thing} should stay {colour}.",
    "{old} maps show {number} wells near {place}, but only the {thing} is left.",
    "Nobody had opened the {thing} near {place} for {span}.",
    "The library keeps {number} books about {place} and one about {goods}.",
)

SLOTS = {
    "when": _phrases("""
        last autumn, in early spring, at noon, before sunrise, on the second day, towards evening, in the
        morning, during the holidays, late at night, at the end of winter, two weeks later, after the
        harvest, on a quiet afternoon
    """),
    "sky": _phrases("""
        grey clouds, a thin mist, a pale sky, heavy fog, a red sunset, bright stars, a low sun, dark
        clouds, a veil of smoke
    """),
    "place": _phrases("""
        the stone bridge, the harbour, the northern valley, the lake, the town square, the station, the
        paper mill, the eastern gate, the lower village, the forest, the long beach, the quarry, the
        canal, the hill, the castle ruins, the orchard
    """),
    "people": _phrases("""
        many visitors, the villagers, a few travellers, some families, most passengers, the islanders, the
        older residents, several students, a crowd of tourists, a group of walkers
    """),
    "weather": _phrases("""
        rain, light snow, strong gusts, hail, warm sunshine, thick fog, thunder, frost, drizzle, cold air,
        summer heat
    """),
    "wind": _phrases("north, west, warm, cold, steady, gentle, sharp, dry"),
    "span": _phrases("""
        three hours, several days, a week, almost a month, ten days, a whole season, two nights, many
        weeks
    """),
    "way": _phrases("road, footpath, track, mountain pass, main street, shore road, trail, lane"),
    "state": _phrases("""
        closed, muddy, nearly empty, in poor condition, covered with leaves, hard to reach, full of
        puddles
    """),
    "number": _phrases("three, five, seven, eight, nine, twelve, fifteen, twenty, thirty, forty, sixty"),
    "feel": _phrases("quiet, warm, dark, pleasant, chilly, calm, damp, bright"),
    "width": _phrases("narrow, wide, shallow, gentle, broad, quiet"),
    "colour": _phrases("green, brown, grey, yellow, white, pale, bright, dark"),
    "old": _phrases("old, ancient, large, small, famous, forgotten"),
    "thing": _phrases("""
        tower, guesthouse, boathouse, barn, windmill, chapel, warehouse, lighthouse, inn, greenhouse,
        storehouse, town hall
    """),
    "goods": _phrases("""
        bread, cheese, honey, wool, salt, apples, olive oil, dried fruit, firewood, tea, pepper, flour,
        onions, beans, plums, soap
    """),
    "food": _phrases("barley, cheese, onions, beans, carrots, cabbage, pepper, leeks, olive oil, garlic"),
    "taste": _phrases("bitter, sweet, mild, salty, rich, plain, sharp"),
}
