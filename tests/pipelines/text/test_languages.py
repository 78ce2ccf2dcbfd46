"""One text by one grammar in twenty scripts: sentences, and words for repetitions, are the same."""

import random

import pytest

from pipelines.text.cleaning import sentences
from pipelines.text.ngrams import ngrams, words

LETTERS = 3  # of each word
# letters, what stands between words, what ends a sentence, and what stands between sentences (_: a
# space, -: nothing)
_SCRIPTS = """\
English abcdefghijklmnopqrstuvwxyz _ .!? _
Russian абвгдежзийклмнопрстуфхцчшщэюя _ .!?… _
Greek αβγδεζηθικλμνξοπρστυφχψω _ .! _
Polish ąćęłńóśźżbdgk _ .!? _
Turkish abcçdefgğhıijklmnoöprsştuüvyz _ .!? _
Vietnamese ăâđêôơưàáảãạ _ .!? _
Armenian աբգդեզէըթժիլխծկհձղճմյն _ ։ _
Georgian აბგდევზთიკლმნოპჟრსტუფქღ _ .? _
Hebrew אבגדהוזחטיכלמנסעפצקרשת _ .?! _
Arabic ابتثجحخدذرزسشصضطظعغفقكلمنهوي _ .؟! _
Urdu ابپتٹثجچحخدڈذرڑزژسشص _ ۔؟ _
Amharic ሀለሐመሠረሰሸቀበተቸኀነኘአከ _ ።፧ _
Hindi कखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह _ ।? _
Bengali কখগঘচছজঝটঠডঢণতথদধনপফ _ ।? _
Tamil கஙசஞடணதநபமயரலவழளறன _ .? _
Korean 가나다라마바사아자차카타파하 _ .? _
Adlam 𞤢𞤣𞤤𞤥𞤦𞤧𞤨𞤩𞤪𞤫𞤬𞤭𞤮𞤯𞤰𞤱𞤲𞤳𞤴𞤵𞤶𞤷𞤸𞤹𞤺𞤻𞤼𞤽𞤾𞤿𞥀𞥁𞥂𞥃 _ .! _
Chakma 𑄇𑄈𑄉𑄊𑄋𑄌𑄍𑄎𑄏𑄐𑄑𑄒𑄓𑄔𑄕𑄖𑄗𑄘𑄙𑄚𑄛𑄜𑄝𑄞𑄟𑄠𑄡𑄢𑄣𑄤𑄥𑄦 _ 𑅁 -
Chinese 山水火木金土日月年人口手足目耳 - 。！？ -
Japanese あいうえおかきくけこさしすせそたちつて - 。！？ -
Thai กขคฆงจฉชซฌญฎฏฐฑฒณดตถทธน - _ -
Khmer កខគឃងចឆជឈញដឋឌឍណតថទធន - ។ -
Burmese ကခဂဃငစဆဇဈဉညဋဌဍဎဏတထဒဓန - ။ -
Tibetan ཀཁགངཅཆཇཉཏཐདནཔཕབམཙཚཛཝ ་ ། _"""
SCRIPTS = {
    name: [field.replace("_", " ").strip("-") for field in fields]
    for name, *fields in map(str.split, _SCRIPTS.split("\n"))
}


def document(script: str, seed: int) -> str:
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
def test_sentences_are_as_many_as_in_english(script: str) -> None:
    for seed in range(20):
        assert len(list(sentences(document(script, seed)))) == 60


@pytest.mark.parametrize("script", SCRIPTS)
def test_words_and_their_repetitions_are_counted_alike(script: str) -> None:
    english, _ = words(document("English", 1))
    found, lengths = words(document(script, 1))
    letter_by_letter = lengths.max() == 1
    each = LETTERS if letter_by_letter else 1
    assert len(found) == each * len(english)
    if script != "Greek":  # its final sigma is no matter of words
        n = 2 * each
        repeated = len(ngrams(found, n)[::each]) - len(set(ngrams(found, n)[::each].tolist()))
        assert repeated == len(english) - 1 - len(set(ngrams(english, 2).tolist()))
