"""qkv tokenize against the package `tokenizers`."""

import pytest
import tokenizers

SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "",
    "   ",
    "Tokenization is unbelievably easy, isn't it?",
    "\u6211\u7231\u5317\u4eac\u5929\u5b89\u95e8",
    "na\u00efve caf\u00e9 \u00c5ngstr\u00f6m e\u0301",
    "\U0001f44d emoji \U0001f468\u200d\U0001f469\u200d\U0001f467 family",
    "a [MASK] b[SEP]c [mask]",
    "x" * 101 + " 3.14 $5,000",
    "tab\tand\nline \u00a0end \x00 nul",
]


def expected(folder, text):
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer.encode(text)


def check(qkv, folder, text):
    answer = qkv("tokenize", "-m", folder, "--json", stdin=text.encode()).json()
    want = expected(folder, text)
    assert answer["ids"] == want.ids
    assert answer["tokens"] == want.tokens
    assert len(answer["offsets"]) == len(want.ids)
    return answer, want


@pytest.mark.parametrize("text", SENTENCES)
def test_ids_and_tokens_of_a_toy_vocabulary(qkv, toy, text):
    check(qkv, toy.folder, text)


@pytest.mark.parametrize("text", SENTENCES)
def test_ids_and_tokens_of_the_default_model(qkv, real_model, text):
    check(qkv, real_model, text)


def test_offsets_are_bytes_of_the_input(qkv, toy):
    text = "  The \u65e5\u672cAnimal\r\n playing"
    answer, _ = check(qkv, toy.folder, text)
    pieces = [text.encode()[begin:end].decode() for begin, end in answer["offsets"]]
    assert pieces == ["", "The", "\u65e5", "\u672c", "Animal", "play", "ing", ""]


def test_special_tokens_are_marked(qkv, toy):
    answer, want = check(qkv, toy.folder, "the [MASK] animal")
    assert answer["special"] == [True, False, True, False, True]


def test_empty_argument_is_a_text(qkv, toy):
    assert qkv("tokenize", "", "-m", toy.folder, "--json").json()["tokens"] == ["[CLS]", "[SEP]"]


def test_brackets_and_dashes_are_text(qkv, toy):
    for text in ("[CLS]", "[the,animal]", "--", "a,b", "{}", "%%"):
        answer = qkv("tokenize", "-m", toy.folder, "--json", "--", text).json()
        assert answer["ids"] == expected(toy.folder, text).ids, text


def test_table_has_a_line_for_each_token(qkv, toy):
    result = qkv("tokenize", "playing \u65e5 now", "-m", toy.folder)
    lines = result.out.rstrip("\n").split("\n")
    assert [line.split()[1] for line in lines[1:]] == ["[CLS]", "play", "##ing", "\u65e5", "now", "[SEP]"]
    assert lines[2].split()[3] == "0..4"


def test_text_that_is_not_utf8_is_an_error_with_its_place(qkv, toy):
    qkv("tokenize", "-m", toy.folder, stdin=b"abc\xff").fails(4, "UTF-8", "0xFF", "offset 3")
    qkv("tokenize", b"abc\xff".decode(errors="surrogateescape"), "-m", toy.folder).fails(4, "UTF-8")
