"""qkv's tokeniser against Hugging Face's `tokenizers`: ids, and offsets as bytes, equal for any text.

Texts go through the command by standard input, many in one call, set apart by line ends.
"""

import itertools
import json
import os
import pathlib
import random
import subprocess

import pytest
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
QKV = os.environ["QKV_BINARY"]
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# Without most ideographs, Hangul syllables, private use and unassigned planes; the first test has them all.
BIG_BLOCKS = [
    (0x3500, 0xA000),
    (0xAC40, 0xD700),
    (0xE040, 0xF8C0),
    (0x17040, 0x18C00),
    (0x20040, 0x2F800),
    (0x2FA40, 0xE0000),
    (0xE0200, 0x110000),
]
VARIED_CODE_POINTS = [c for c in CODE_POINTS if not any(begin <= c < end for begin, end in BIG_BLOCKS)]
SPECIAL = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]"]

# Characters that meet one rule or another: blanks, removed ones, punctuation, letters with accents, ideographs, marks
# of several combining classes (Mn and Mc, and two that decompose), capitals whose small letter is longer, emoji.
BLANKS = " \t\n\r\v\f\x85\xa0\u1680\u2003\u2028\u3000"
REMOVED = "\0\x07\x7f\xad\u200b\u200d\ufeff\ufffd\ue000\U000e0001"
SIGNS = ".,'-$^`~+_[]\u2014\u2026\u3002\uff0c\xab\xbf\u20ac\u2192"
LETTERS = "abzABZ019\xe9\xc9\xdf\xef\u0130\u0131\u03a3\u03c2\u1e69\u212b\u1e9e\ufb01\u01c5"
WIDE = "\u4e2d\u6587\u3400\U00020000\U0002b820\U0002b920\uf900\u3042\u30ab\u30ac\uac01\uff21\U0001f600\U0001f469"
MARKS = "\u0301\u0323\u0334\u0345\u0344\u0f73\u0f75\u302e\U0001d165\U0001d16d\u05b0\u08d3\u08d4\U00011c3f"
WORDS = ["the", "unaffable", "didn't", "street", "Stra\xdfe", "na\xefve", "[mask]", "x" * 100, "y" * 101, *SPECIAL]


@pytest.fixture(scope="module")
def model_file():
    """tokenizer.json of the default model; `make model` has fetched it."""
    fetch = subprocess.run([ROOT / "tools" / "fetch_model.sh"], check=True, capture_output=True, text=True)
    return pathlib.Path(fetch.stdout.strip()) / "tokenizer.json"


def reference(file):
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def expected_tokens(tokenizer, text):
    """(token, id, first byte, byte behind the last) of each token."""
    encoding = tokenizer.encode(text)
    byte_at = [0, *itertools.accumulate(len(character.encode()) for character in text)]
    bytes_of = [(byte_at[begin], byte_at[end]) for begin, end in encoding.offsets]
    return [(token, id, *range_) for token, id, range_ in zip(encoding.tokens, encoding.ids, bytes_of, strict=True)]


def actual_tokens(file, text):
    command = [QKV, "tokenize", "--json", "-m", file.parent, "-f", "-"]
    result = json.loads(subprocess.run(command, input=text.encode(), check=True, stdout=subprocess.PIPE).stdout)
    return [
        (token, id, *range_)
        for token, id, range_ in zip(result["tokens"], result["ids"], result["offsets"], strict=True)
    ]


def assert_equal_tokens(file, text, tokenizer=None):
    expected = expected_tokens(tokenizer or reference(file), text)
    actual = actual_tokens(file, text)
    for got, want in itertools.zip_longest(actual, expected):
        if got != want:
            begin = (want or got)[2]
            around = text.encode()[max(0, begin - 20) : begin + 20].decode(errors="replace")
            pytest.fail(f"got {got}, expected {want} in ...{ascii(around)}...")


def chunks(items, size):
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


def random_text(generator):
    """Up to 20 characters or words, from three of the kinds above and from all code points."""
    kinds = [*generator.sample([BLANKS, REMOVED, SIGNS, LETTERS, WIDE, MARKS], 3), WORDS]
    parts = [generator.choice(generator.choice(kinds)) for _ in range(generator.randrange(20))]
    if generator.random() < 0.3:
        parts.append(chr(generator.choice(CODE_POINTS)))
    generator.shuffle(parts)
    return "".join(parts)


def test_every_code_point_between_letters(model_file):
    tokenizer = reference(model_file)
    for part in chunks(CODE_POINTS, 50_000):
        assert_equal_tokens(model_file, "\n".join(f"a{chr(c)}b" for c in part), tokenizer)


def test_random_texts(model_file):
    generator = random.Random(20)
    assert_equal_tokens(model_file, "\n".join(random_text(generator) for _ in range(20_000)))


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n", "\0", "\u0301", "\xad", " a ", "\u0301a", "\u4e2d", "\U0001f469\u200d\U0001f52c"]
    + ["[CLS]", " [MASK] ", "[MASK][MASK]", "[mask]"],
    ids=ascii,
)
def test_texts_on_their_own(model_file, text):
    assert_equal_tokens(model_file, text)


def bert_tokenizer(pieces, normalizer, added_tokens=(), prefix="##", longest_word=100):
    """A tokenizer.json as text. Ids: SPECIAL, then `pieces`, then what `added_tokens` brings."""
    vocab = {token: id for id, token in enumerate(dict.fromkeys([*SPECIAL, *pieces]))}
    flags = {"special": False, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{**flags, "id": vocab[token], "content": token, "special": True} for token in SPECIAL]
    for token in added_tokens:
        new_id = len(vocab) + sum(entry["content"] not in vocab for entry in added)
        added.append({**flags, **token, "id": vocab.get(token["content"], new_id)})
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": added,
            "normalizer": normalizer and {"type": "BertNormalizer", **normalizer},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]},
            "decoder": None,
            "model": {
                "type": "WordPiece",
                "unk_token": "[UNK]",
                "continuing_subword_prefix": prefix,
                "max_input_chars_per_word": longest_word,
                "vocab": vocab,
            },
        }
    )


NORMALIZERS = {
    "uncased": dict(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True),
    "lowercase": dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=True),
    "accents": dict(clean_text=False, handle_chinese_chars=True, strip_accents=True, lowercase=False),
    "cased": dict(clean_text=True, handle_chinese_chars=False, strip_accents=None, lowercase=False),
    "none": None,
}


@pytest.mark.parametrize("normalizer", NORMALIZERS.values(), ids=NORMALIZERS.keys())
def test_normalised_characters(tmp_path, normalizer):
    """With each character a piece, the tokens are the normalised text: nothing hides behind [UNK]."""
    generator = random.Random(30)
    bert = normalizer and tokenizers.normalizers.BertNormalizer(**normalizer)
    texts = [f"a{chr(c)}\u0301{chr(c)}" for c in VARIED_CODE_POINTS]
    texts += [random_text(generator) for _ in range(10_000)]
    for part in chunks(texts, 50_000):
        text = "\n".join(part)
        characters = sorted(set(bert.normalize_str(text) if bert else text))
        file = tmp_path / "tokenizer.json"
        file.write_text(bert_tokenizer([*characters, *("##" + c for c in characters)], normalizer))
        assert_equal_tokens(file, text)


@pytest.mark.parametrize("seed", range(40))
def test_added_tokens_of_every_kind(tmp_path, seed):
    generator = random.Random(seed)

    def chance():
        return generator.random() < 0.4

    contents = ["now", "NOW", "a b", " a", "a ", "abA", "\u4e2d", "\xc9", "..", "[mask]", "_", "w_", "B"]
    added = [
        {"content": c, "special": chance(), "single_word": chance(), "lstrip": chance(), "normalized": chance()}
        for c in generator.sample(contents, 4)
    ]
    if {"now", "NOW"} <= {token["content"] for token in added}:
        added = [token for token in added if token["content"] != "NOW"]  # alike once normalised: undefined
    letters = "abnow\xe9\u4e2d[]mask._"
    prefix = generator.choice(["##", "@", ""])
    pieces = [p + c for c in letters for p in ("", prefix)] + [prefix + "ab", "ba", "no"]
    normalizer = generator.choice(list(NORMALIZERS.values()))
    file = tmp_path / "tokenizer.json"
    file.write_text(bert_tokenizer(pieces, normalizer, added, prefix, generator.choice([3, 100])))
    parts = [*letters, *contents, *SPECIAL, " ", "  ", "\t", "\u3000", "\u0301", "\u200d", "\u24b6", "-", "x", "1"]
    lines = ["".join(generator.choice(parts) for _ in range(generator.randrange(10))) for _ in range(500)]
    assert_equal_tokens(file, "\n".join(lines))
