"""qkv look: its numbers, what it picks, and what it says."""

import numpy as np
import pytest

TEXT = "The animal didn't cross the street because it was too tired."
TOLERANCE = 1e-6


def look(qkv, toy, text, *options, **run):
    return qkv("look", text, "-m", toy.folder, "--json", *options, **run).json()


def test_weights_of_every_head_are_those_of_float64(qkv, toy):
    expected = toy.weights(TEXT)
    for layer in range(expected.shape[0]):
        for head in range(expected.shape[1]):
            answer = look(qkv, toy, TEXT, "--layer", layer, "--head", head)
            assert (answer["layer"], answer["head"]) == (layer, head)
            assert answer["tokens"] == toy.encode(TEXT).tokens
            assert np.abs(np.array(answer["weights"]) - expected[layer, head]).max() < TOLERANCE
            assert "ranking" not in answer


def test_model_is_called_by_its_folder(qkv, toy):
    assert look(qkv, toy, "the animal")["model"] == toy.folder.name


def test_all_heads_are_ranked_by_the_link(qkv, toy):
    answer = look(qkv, toy, TEXT, "--from", "it", "--to", "animal")
    tokens = answer["tokens"]
    link = toy.weights(TEXT)[:, :, tokens.index("it"), tokens.index("animal")]
    ranked = [(line["layer"], line["head"]) for line in answer["ranking"]]
    assert sorted(ranked) == [(layer, head) for layer in range(3) for head in range(2)]
    values = [line["weight"] for line in answer["ranking"]]
    assert values == sorted(values, reverse=True)
    assert np.allclose(values, [link[place] for place in ranked], atol=TOLERANCE)
    assert (answer["layer"], answer["head"]) == ranked[0]
    assert (answer["from"], answer["to"]) == ([tokens.index("it")], [tokens.index("animal")])
    assert "reason" not in answer


def test_layer_alone_ranks_the_heads_of_that_layer(qkv, toy):
    answer = look(qkv, toy, TEXT, "--from", "it", "--to", "animal", "--layer", 1)
    assert {line["layer"] for line in answer["ranking"]} == {1}
    assert len(answer["ranking"]) == 2


def test_what_is_not_given_is_the_strongest_link_between_words_that_are_no_neighbours(qkv, toy):
    text = "animal cross street tired"
    weights = toy.weights(text)
    links = {
        (layer, head, i, j): weights[layer, head, i, j]
        for layer in range(3)
        for head in range(2)
        for i in range(1, 5)
        for j in range(1, 5)
        if abs(i - j) > 1
    }
    answer = look(qkv, toy, text)
    found = (answer["layer"], answer["head"], answer["from"][0], answer["to"][0])
    assert found == max(links, key=links.get)
    assert "not neighbours" in answer["reason"]
    to_street = {link: weight for link, weight in links.items() if link[3] == 3}
    answer = look(qkv, toy, text, "--to", "street")
    assert (answer["layer"], answer["head"], answer["from"][0], 3) == max(to_street, key=to_street.get)


@pytest.mark.parametrize("text", ["tired", "animal tired", ".", "[MASK]", "\u65e5"])
def test_a_text_without_distant_words_still_gets_an_answer(qkv, toy, text):
    answer = look(qkv, toy, text)
    assert answer["from"] and len(answer["ranking"]) == 6
    assert qkv("look", text, "-m", toy.folder, "--special", "show").code == 0


def test_words_are_merged_by_columns_that_add_and_rows_that_average(qkv, toy):
    # https://github.com/jalammar/ecco/issues/51
    text = "playing now"
    pieces = toy.weights(text)[1, 0]  # [CLS] play ##ing now [SEP]
    columns = np.stack([pieces[:, 0], pieces[:, 1] + pieces[:, 2], pieces[:, 3], pieces[:, 4]], axis=1)
    expected = np.stack([columns[0], (columns[1] + columns[2]) / 2, columns[3], columns[4]])
    answer = look(qkv, toy, text, "--words", "--layer", 1, "--head", 0)
    assert answer["tokens"] == ["[CLS]", "playing", "now", "[SEP]"]
    assert np.allclose(answer["weights"], expected, atol=TOLERANCE)
    assert np.allclose(np.sum(answer["weights"], axis=1), 1, atol=TOLERANCE)


def test_a_split_word_counts_as_one_without_merging_too(qkv, toy):
    text = "now playing unbelievable"
    answer = look(qkv, toy, text, "--from", "Unbelievable", "--to", "playing")
    assert answer["tokens"] == ["[CLS]", "now", "play", "##ing", "un", "##believ", "##able", "[SEP]"]
    assert (answer["from"], answer["to"]) == ([4, 5, 6], [2, 3])
    expected = toy.weights(text)[:, :, 4:7, 2:4].sum(axis=-1).mean(axis=-1)
    assert np.allclose(answer["ranking"][0]["weight"], expected.max(), atol=TOLERANCE)
    merged = look(qkv, toy, text, "--from", "unbelievable", "--to", "playing", "--words")
    assert np.allclose(merged["ranking"][0]["weight"], expected.max(), atol=TOLERANCE)


def test_hidden_tokens_leave_the_other_weights_alone(qkv, toy):
    full = toy.weights(TEXT)[0, 1]
    answer = look(qkv, toy, TEXT, "--layer", 0, "--head", 1, "--special", "hide")
    assert answer["tokens"] == toy.encode(TEXT).tokens[1:-1]
    assert np.allclose(answer["weights"], full[1:-1, 1:-1], atol=TOLERANCE)
    assert answer["hidden"]["tokens"] == ["[CLS]", "[SEP]"]
    assert np.allclose(answer["hidden"]["weights"], full[1:-1][:, [0, -1]], atol=TOLERANCE)


def test_renormalised_rows_sum_to_one_in_the_same_proportions(qkv, toy):
    full = toy.weights(TEXT)[0, 1][1:-1, 1:-1]
    answer = look(qkv, toy, TEXT, "--layer", 0, "--head", 1, "--special", "renormalise")
    assert np.allclose(answer["weights"], full / full.sum(axis=1, keepdims=True), atol=TOLERANCE)
    ranked = look(qkv, toy, TEXT, "--from", "it", "--to", "animal", "--special", "renormalise")
    shown = ranked["weights"][ranked["from"][0]][ranked["to"][0]]
    assert abs(ranked["ranking"][0]["weight"] - shown) < TOLERANCE


def test_index_chooses_a_token_or_with_words_a_word(qkv, toy):
    text = "playing now"
    assert look(qkv, toy, text, "--from", "#3", "--layer", 0, "--head", 0)["from"] == [3]
    assert look(qkv, toy, text, "--from", "#2", "--words", "--layer", 0, "--head", 0)["from"] == [2]
    qkv("look", text, "-m", toy.folder, "--from", "#5").fails(2, "--from", "#5", "#4")
    qkv("look", text, "-m", toy.folder, "--from", "#99999999999999999999").fails(2, "--from")


def test_special_tokens_and_pieces_can_be_named(qkv, toy):
    assert look(qkv, toy, "playing now", "--from", "[CLS]", "--to", "##ing")["from"] == [0]
    assert look(qkv, toy, "playing now", "--from", "now", "--to", "##ing")["to"] == [2]
    hidden = qkv("look", "playing now", "-m", toy.folder, "--from", "[CLS]", "--special", "hide")
    hidden.fails(2, "[CLS]", "hidden")


def test_first_of_several_words_is_taken_and_the_others_are_named(qkv, toy):
    result = qkv("look", TEXT, "-m", toy.folder, "--from", "the")
    assert result.code == 0
    the = [i for i, token in enumerate(toy.encode(TEXT).tokens) if token == "the"]
    assert f"#{the[0]};" in result.err and f"#{the[1]}" in result.err
    assert qkv("look", TEXT, "-m", toy.folder, "--from", "the", "-q").err == ""
    assert look(qkv, toy, TEXT, "--from", "the")["from"] == [the[0]]


def test_a_whole_word_goes_before_the_same_letters_inside_another(qkv, toy):
    assert look(qkv, toy, "playing play", "--from", "play")["from"] == [3]


def test_words_that_are_not_there_are_an_error_that_lists_what_is(qkv, toy):
    qkv("look", TEXT, "-m", toy.folder, "--from", "anmial").fails(2, "--from", "anmial", "did you mean 'animal'", "tired")
    qkv("look", TEXT, "-m", toy.folder, "--to", "").fails(2, "--to")
    qkv("look", TEXT, "-m", toy.folder, "--to", "a\nb\x1b[31m").fails(2, "--to")


def test_unknown_words_are_told_apart_by_their_letters(qkv, toy):
    answer = look(qkv, toy, "zebra animal horse", "--from", "horse")
    assert answer["tokens"][1] == answer["tokens"][3] == "[UNK]"
    assert answer["from"] == [3]


@pytest.mark.parametrize("how", ["argument", "stdin", "dash", "file"])
def test_text_comes_from_where_it_is_said_to(qkv, toy, tmp_path, how):
    file = tmp_path / "text.txt"
    file.write_text(TEXT + "\n", encoding="utf-8")
    arguments = {"argument": [TEXT], "stdin": [], "dash": ["-"], "file": ["-f", file]}[how]
    stdin = file.read_bytes() if how in ("stdin", "dash") else b""
    answer = qkv("look", *arguments, "-m", toy.folder, "--json", stdin=stdin).json()
    assert answer["tokens"] == toy.encode(TEXT).tokens


def test_too_many_tokens_are_an_error_that_says_how_many_are_allowed(qkv, toy):
    assert len(look(qkv, toy, "tired " * 30, "--layer", 0, "--head", 0)["tokens"]) == 32
    qkv("look", "tired " * 31, "-m", toy.folder).fails(4, "33 tokens", "32", "max_position_embeddings")


@pytest.mark.parametrize("text", [b"", b"  \n\t", b"\0\0", b"\xc2\xad"])
def test_an_empty_text_is_an_error(qkv, toy, text):
    qkv("look", "-m", toy.folder, stdin=text).fails(4, "empty")


@pytest.mark.parametrize("text", [b"\xff\xfe", b"abc\x80", b"\xed\xa0\x80", bytes(range(256)) * 10])
def test_text_that_is_not_utf8_is_an_error_with_its_place(qkv, toy, text):
    qkv("look", "-m", toy.folder, stdin=text).fails(4, "UTF-8")


def test_layers_and_heads_that_are_not_there_are_usage_errors(qkv, toy):
    qkv("look", TEXT, "-m", toy.folder, "--layer", 3).fails(2, "layer", "3", "0 to 2")
    qkv("look", TEXT, "-m", toy.folder, "--head", -1).fails(2, "head", "-1", "0 to 1")
    qkv("look", TEXT, "-m", toy.folder, "--layer", "one").fails(2, "--layer", "one")


def test_threads_do_not_change_a_bit(qkv, toy):
    outputs = {qkv("look", TEXT, "-m", toy.folder, "--json", "--threads", n).out for n in (1, 2, 4)}
    assert len(outputs) == 1


def test_verbose_adds_timings_on_stderr_only(qkv, toy):
    plain = qkv("look", TEXT, "-m", toy.folder)
    verbose = qkv("look", TEXT, "-m", toy.folder, "-v")
    assert verbose.out == plain.out
    assert plain.err == "" and " s" in verbose.err


def test_the_default_model_shows_both_heads_that_link_it_to_the_animal(qkv, real_model):
    def run(last):
        text = f"The animal didn't cross the street because it was too {last}."
        options = ("-m", real_model, "--from", "it", "--to", "animal")
        answer = qkv("look", text, *options, "--json").json()
        shown = qkv("look", text, *options).out
        assert "layer 3 head 1 " in shown and "layer 5 head 11 " in shown
        return {(line["layer"], line["head"]): line for line in answer["ranking"]}, answer["tokens"]

    tired, _ = run("tired")
    assert round(tired[3, 1]["weight"], 2) == 0.68
    assert round(tired[5, 11]["weight"], 2) == 0.67
    wide, tokens = run("wide")
    assert round(wide[3, 1]["weight"], 2) == 0.28
    assert round(wide[5, 11]["weight"], 2) == 0.56
    street = wide[3, 1]["next"][0]
    assert tokens[street["token"]] == "street" and round(street["weight"], 2) == 0.12
