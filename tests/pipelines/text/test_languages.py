"""One text by one grammar in twenty scripts: sentences, and words for repetitions, are the same."""

import random

import pytest

from electra.data.tokenizer import train_wordpiece
from pipelines.text.ngrams import ngrams, words

LETTERS = 3  # of each word
# letters, and what ends a sentence
SPACED = {
    "English": ("abcdefghijklmnopqrstuvwxyz", ".!?"),
    "Russian": ("абвгдежзийклмнопрстуфхцчшщэюя", ".!?…"),
    "Greek": ("αβγδεζηθικλμνξοπρστυφχψω", ".;"),
    "Polish": ("ąćęłńóśźżbdgk", ".!?"),
    "Turkish": ("abcçdefgğhıijklmnoöprsştuüvyz", ".!?"),
    "Vietnamese": ("ăâđêôơưàáảãạ", ".!?"),
    "Armenian": ("աբգդեզէըթժիլխծկհձղճմյն", "։"),
    "Georgian": ("აბგდევზთიკლმნოპჟრსტუფქღ", ".?"),
    "Hebrew": ("אבגדהוזחטיכלמנסעפצקרשת", ".?!"),
    "Arabic": ("ابتثجحخدذرزسشصضطظعغفقكلمنهوي", ".؟!"),
    "Urdu": ("ابپتٹثجچحخدڈذرڑزژسشص", "۔؟"),
    "Amharic": ("ሀለሐመሠረሰሸቀበተቸኀነኘአከ", "።፧"),
    "Hindi": ("कखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह", "।?"),
    "Bengali": ("কখগঘচছজঝটঠডঢণতথদধনপফ", "।?"),
    "Sinhala": ("කඛගඝඞඟචඡජඣඤඥඦටඨඩඪණඬතථ", ".෴"),
    "Tamil": ("கஙசஞடணதநபமயரலவழளறன", ".?"),
    "Korean": ("가나다라마바사아자차카타파하", ".?"),
    "Adlam": ("".join(map(chr, range(0x1E922, 0x1E944))), ".!"),
}
# letters, what stands between words, what ends a sentence, and what stands between sentences
SCRIPTS = {
    **{script: (letters, " ", ends, " ") for script, (letters, ends) in SPACED.items()},
    "Chakma": ("".join(map(chr, range(0x11107, 0x11127))), " ", "\U00011141", ""),
    "Chinese": ("山水火木金土日月年人口手足目耳", "", "。！？", ""),
    "Japanese": ("あいうえおかきくけこさしすせそたちつて", "", "。！？", ""),
    "Thai": ("กขคฆงจฉชซฌญฎฏฐฑฒณดตถทธน", "", " ", ""),
    "Khmer": ("កខគឃងចឆជឈញដឋឌឍណតថទធន", "", "។", ""),
    "Burmese": ("ကခဂဃငစဆဇဈဉညဋဌဍဎဏတထဒဓန", "", "။", ""),
    "Tibetan": ("ཀཁགངཅཆཇཉཏཐདནཔཕབམཙཚཛཝ", "་", "།", " "),
}


def document(script, seed):
    """Return 60 sentences of 3 to 20 words in one line; a seed gives the same ones in any script."""
    alphabet, between_words, ends, between_sentences = SCRIPTS[script]
    rng = random.Random(seed)
    result = []
    for _ in range(60):
        parts = []
        for _ in range(rng.randint(3, 20)):
            number = int(rng.random() ** 3 * 400)
            letters = [alphabet[number // 11**place % 11] for place in range(LETTERS)]
            parts.append("".join(letters))
        sentence = between_words.join(parts)
        end = ends[int(rng.random() * len(ends))]
        result.append(sentence[0].upper() + sentence[1:] + end)
        if ends == "." and rng.random() < 0.1:
            result[-1] += "”"
    return between_sentences.join(result).strip()


@pytest.mark.parametrize("script", SCRIPTS)
def test_words_and_their_repetitions_are_counted_alike(script):
    english, _ = words(document("English", 1))
    found, lengths = words(document(script, 1))
    letter_by_letter = lengths.max() == 1
    each = LETTERS if letter_by_letter else 1
    assert len(found) == each * len(english)
    if script != "Greek":  # its final sigma doesn't change words
        n = 2 * each
        repeated = len(ngrams(found, n)[::each]) - len(set(ngrams(found, n)[::each].tolist()))
        assert repeated == len(english) - 1 - len(set(ngrams(english, 2).tolist()))


@pytest.mark.parametrize(
    "script",
    [name for name, (_, space, *_) in SCRIPTS.items() if space == " " or name == "Chinese"],
)
def test_a_vocabulary_of_half_of_a_text_knows_the_other_half(script):
    texts = [document(script, seed) for seed in range(8)]
    case = {"lowercase": False, "strip_accents": False}
    tokenizer = train_wordpiece(texts[:4], 600, **case)
    ids = [piece for line in tokenizer.encode_lines(texts[4:]) for piece in line]
    assert ids.count(tokenizer.unk_id) < 0.01 * len(ids)
