"""qkv lesson: its numbers, against numpy where the model is a toy, and what it says of the tutorials' claims."""

import re

import numpy as np
import pytest

TEXT = "The animal didn't cross the street because it was too tired."
TOLERANCE = 1e-5
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
PLACES = ("self", "previous", "next", "cls", "sep", "other")


@pytest.fixture(scope="module")
def scale(qkv):
    return qkv("lesson", "scale", "--json").json()


@pytest.fixture(scope="module")
def heads(qkv, toy):
    return qkv("lesson", "heads", TEXT, "-m", toy.folder, "--json").json()


def test_without_a_name_the_lessons_are_listed(qkv):
    result = qkv("lesson")
    assert (result.code, result.err) == (0, "")
    assert "qkv lesson scale" in result.out and "qkv lesson heads" in result.out


@pytest.mark.parametrize("arguments", [("lesson",), ("lesson", "scale"), ("lesson", "heads")])
def test_help_leads_with_examples(qkv, arguments):
    result = qkv(*arguments, "--help")
    assert result.code == 0 and result.err == ""
    assert result.out.index("Examples:") < result.out.index("Usage:") < result.out.index("Options:")
    assert f"  qkv {' '.join(arguments)}\n" in result.out


@pytest.mark.parametrize(
    ("arguments", "needles"),
    [
        (["head"], ["unknown lesson 'head'", "did you mean 'heads'", "qkv lesson --help"]),
        (["xyzzy"], ["unknown lesson 'xyzzy'"]),
        (["scale", "heads"], ["heads"]),
        (["scale", "text"], ["unexpected argument 'text'", "qkv lesson scale --help"]),
        (["scale", "--sead", "1"], ["unknown option '--sead'", "did you mean '--seed'"]),
        (["scale", "--seed", "-1"], ["--seed"]),
        (["scale", "--seed", "x"], ["--seed", "'x'"]),
        (["scale", "--seed", "18446744073709551616"], ["--seed", "18446744073709551615"]),
        (["scale", "--width", "5"], ["--width", "20"]),
        (["heads", "a", "b"], ["unexpected argument 'b'"]),
        (["heads", "a", "-f", "b"], ["--file", "TEXT"]),
        (["heads", "--threads", "0"], ["--threads"]),
    ],
)
def test_wrong_arguments_are_usage_errors_in_one_line(qkv, arguments, needles):
    qkv("lesson", *arguments).fails(2, *needles)


def test_without_a_model_a_line_says_how_to_get_one(qkv):
    qkv("lesson", "heads").fails(3, "make model", "-m")
    qkv("lesson", "heads", "-m", "/no/such/folder").fails(3, "/no/such/folder", "make model")


def test_texts_that_cannot_be_read_are_input_errors(qkv, toy, tmp_path):
    def fails(*arguments, needle, **run):
        qkv("lesson", "heads", "-m", toy.folder, *arguments, **run).fails(4, needle)

    fails("", needle="the text is empty")
    fails("  \n ", needle="the text is empty")
    fails("-f", tmp_path / "none", needle="cannot open")
    fails("-", needle="UTF-8", stdin=b"\xff")
    fails("animal " * 31, needle="33 tokens")


@pytest.mark.parametrize("lesson", ["scale", "heads"])
def test_a_full_disk_is_an_output_error(qkv, toy, lesson):
    model = ["-m", toy.folder] if lesson == "heads" else []
    with open("/dev/full", "wb") as full:
        qkv("lesson", lesson, *model, stdout=full).fails(5, "standard output")


def test_variances_are_those_of_theory(scale):
    rows = scale["variance"]["rows"]
    assert [row["head_dim"] for row in rows] == [4, 16, 64, 256, 1024]
    for row in rows:
        error = row["relative_error"]
        assert error == pytest.approx(np.sqrt((2 + 6 / row["head_dim"]) / scale["variance"]["num_pairs"]), rel=1e-5)
        assert abs(row["undivided"] / row["head_dim"] - 1) < 4 * error
        assert row["divided"] == pytest.approx(row["undivided"] / row["head_dim"], rel=1e-5)
        assert (row["undivided_expected"], row["divided_expected"]) == (row["head_dim"], 1)


def softmax_of_normal_scores(deviation, num_keys, num_rows=20000):
    """Largest weight, entropy and gradient of softmax over scores of that deviation, in float64."""
    scores = np.random.default_rng(1).standard_normal((num_rows, num_keys)) * deviation
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    entropy = -(weights * np.log(np.maximum(weights, 1e-300))).sum(axis=1)
    diagonal = weights * (1 - weights)
    others = weights * (1 - weights)  # the sum over j != i of |-w_i w_j|
    return weights.max(axis=1).mean(), entropy.mean(), (diagonal + others).sum(axis=1).mean()


def test_softmax_of_wide_heads_is_that_of_normal_scores(scale):
    # The dot products of wide random vectors are nearly normal; the two agree as far as chance lets them.
    for row in scale["softmax"]["rows"][2:]:
        for kind, deviation in (("divided", 1), ("undivided", np.sqrt(row["head_dim"]))):
            expected = softmax_of_normal_scores(deviation, scale["softmax"]["num_keys"])
            for name, value in zip(("largest_weight", "entropy", "gradient"), expected):
                assert row[kind][name] == pytest.approx(value, rel=0.1, abs=0.02), (row["head_dim"], kind, name)


def test_scale_is_the_same_for_a_seed_whatever_the_threads(qkv, scale):
    assert qkv("lesson", "scale", "--json", "--seed", 1, "--threads", 3).json() == scale
    other = qkv("lesson", "scale", "--json", "--seed", 2**64 - 1).json()
    assert other["seed"] == 2**64 - 1 and other["variance"] != scale["variance"]


def test_scale_claims_hold(scale):
    assert [claim["holds"] for claim in scale["claims"]] == [True] * 3
    assert all(claim["evidence"] for claim in scale["claims"])


def shares_of(weights):
    """The shares of PLACES, averaged over all but the first and the last token, which are special."""
    last = len(weights) - 1
    shares = dict.fromkeys(PLACES, 0.0)
    for i in range(1, last):
        for j, weight in enumerate(weights[i]):
            place = {0: "cls", last: "sep", i: "self", i - 1: "previous", i + 1: "next"}
            if j in (0, last):
                shares["cls" if j == 0 else "sep"] += weight
            else:
                shares[place.get(j, "other")] += weight
    return {name: share / (last - 1) for name, share in shares.items()}


def num_keys_of(weights):
    rows = weights[1:-1]
    return np.exp(-(rows * np.log(np.maximum(rows, 1e-300))).sum(axis=1)).mean()


def agrees(look, weights):
    for name, share in shares_of(weights).items():
        assert look[name] == pytest.approx(share, abs=TOLERANCE), name
    assert look["num_keys"] == pytest.approx(num_keys_of(weights), rel=1e-4)


def test_every_head_agrees_with_float64(heads, toy):
    weights = toy.weights(TEXT)
    assert len(heads["layers"]) == len(weights)
    for layer, expected in zip(heads["layers"], weights):
        assert len(layer["heads"]) == len(expected)
        for look, matrix in zip(layer["heads"], expected):
            agrees(look, matrix)
            most = max((name for name in PLACES if name != "other"), key=look.get)
            assert look["main_place"] == (most if look[most] >= 0.5 else None)
        agrees(layer["together"], expected.mean(axis=0))
        strongest = [len(set(expected[:, i].argmax(axis=1))) for i in range(1, expected.shape[1] - 1)]
        assert layer["num_strongest"] == pytest.approx(np.mean(strongest))


def test_plain_and_one_head_of_the_first_layer_agree_with_float64(heads, toy):
    ids = toy.encode(TEXT).ids
    tables = {name: toy.tensors[f"embeddings.{name}_embeddings.weight"].astype(np.float64) for name in
              ("word", "position", "token_type")}
    x = toy._norm("embeddings.LayerNorm", tables["word"][ids] + tables["position"][: len(ids)] + tables["token_type"][0])
    q, k = (toy._linear(f"encoder.layer.0.attention.self.{name}", x) for name in ("query", "key"))
    for name, scores in (("plain", x @ x.T), ("one_head", q @ k.T)):
        powers = np.exp(scores / np.sqrt(x.shape[1]))
        agrees(heads["layers"][0][name], powers / powers.sum(axis=1, keepdims=True))


def test_heads_says_what_it_measured(heads, toy):
    tokens = toy.encode(TEXT).tokens
    assert (heads["model"], heads["text"], heads["tokens"]) == (toy.folder.name, TEXT, tokens)
    assert heads["num_queries"] == len(tokens) - 2
    assert heads["even_weight"] == pytest.approx(1 / len(tokens))


def test_heads_claims_follow_from_the_numbers(heads):
    plain, one_head, not_dominated, spread = (claim["holds"] for claim in heads["claims"])
    layers = heads["layers"]
    most = len(layers) / 2
    assert plain == (sum(layer["plain"]["self"] >= 0.5 for layer in layers) > most)
    assert one_head == (sum(layer["one_head"]["self"] >= 0.5 for layer in layers) > most)
    selves = [head["self"] for layer in layers for head in layer["heads"]]
    assert not_dominated == (sum(share >= 0.5 for share in selves) < len(selves) / 2)
    spreads = [layer["num_strongest"] >= 2 and layer["together"]["num_keys"] > layer["one_head"]["num_keys"] for layer in layers]
    assert spread == (sum(spreads) > most)


def test_heads_takes_a_sentence_of_its_own_a_file_or_standard_input(qkv, toy, tmp_path):
    (tmp_path / "note.txt").write_text("animal street", encoding="utf-8")

    def text_of(*arguments, **run):
        return qkv("lesson", "heads", "-m", toy.folder, "--json", *arguments, **run).json()["text"]

    assert text_of() == TEXT
    assert text_of(stdin=b"not asked for") == TEXT
    assert text_of("the animal") == "the animal"
    assert text_of("-f", tmp_path / "note.txt") == "animal street"
    assert text_of("-", stdin=b"tired") == "tired"


@pytest.mark.parametrize("text", ["tired", "[SEP]", "\u65e5\u672c", "tired animal " * 15])
def test_heads_takes_texts_of_any_kind(qkv, toy, text):
    answer = qkv("lesson", "heads", text, "-m", toy.folder, "--json").json()
    for layer in answer["layers"]:
        for look in (layer["plain"], layer["one_head"], layer["together"], *layer["heads"]):
            assert sum(look[name] for name in PLACES) == pytest.approx(1, abs=1e-5)
    assert qkv("lesson", "heads", text, "-m", toy.folder).code == 0


def arguments_of(lesson, toy):
    return ("lesson", lesson, *(("-m", toy.folder) if lesson == "heads" else ()))


@pytest.mark.parametrize("lesson", ["scale", "heads"])
def test_a_pipe_gets_no_escape_sequence_and_a_terminal_does(qkv, in_terminal, toy, lesson):
    piped = qkv(*arguments_of(lesson, toy))
    assert piped.code == 0 and piped.err == "" and "\x1b" not in piped.out
    screen = in_terminal(80, *arguments_of(lesson, toy))
    assert "\x1b[" in screen.out and ESCAPE.sub("", screen.out) == piped.out
    assert "\x1b" not in in_terminal(80, *arguments_of(lesson, toy), env={"NO_COLOR": "1"}).out


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
@pytest.mark.parametrize("lesson", ["scale", "heads"])
def test_no_line_is_wider_than_the_terminal(in_terminal, toy, lesson, columns):
    screen = in_terminal(columns, *arguments_of(lesson, toy))
    lines = ESCAPE.sub("", screen.out).split("\n")
    assert screen.code == 0 and max(map(len, lines)) <= columns
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.parametrize("lesson", ["scale", "heads"])
def test_ascii_draws_with_ascii_only(qkv, toy, lesson):
    assert qkv(*arguments_of(lesson, toy), "--ascii").out.isascii()


def test_verdicts_in_the_terminal_are_those_of_json(qkv, toy, heads):
    out = qkv(*arguments_of("heads", toy)).out
    verdicts = re.findall(r"^   (holds|does not hold here): ", out, re.MULTILINE)
    assert verdicts == ["holds" if claim["holds"] else "does not hold here" for claim in heads["claims"]]


def test_the_real_model_does_what_the_documentation_says(qkv, real_model):
    answer = qkv("lesson", "heads", "-m", real_model, "--json").json()
    assert [claim["holds"] for claim in answer["claims"]] == [True, False, True, True]
    assert min(layer["plain"]["self"] for layer in answer["layers"]) > 0.5
    assert max(layer["one_head"]["self"] for layer in answer["layers"]) < 0.1
    assert max(head["self"] for layer in answer["layers"] for head in layer["heads"]) == pytest.approx(0.15, abs=0.01)
    previous = [(i, h) for i, layer in enumerate(answer["layers"]) for h, head in enumerate(layer["heads"])
                if head["main_place"] == "previous"]
    assert previous == [(0, 2)]
