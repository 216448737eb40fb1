"""What qkv look draws: colours where they are wanted, lines as wide as the terminal, nothing that could control it."""

import re
import unicodedata

import pytest

TEXT = "The animal didn't cross the street because it was too tired."
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
COLOR_VARIABLES = {"COLORTERM": "truecolor", "TERM": "xterm-256color"}


def width(line):
    """Columns of a line without combining marks, joiners or emoji."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)


def has_color(result):
    assert result.code == 0, result
    return "\x1b[" in result.out


def test_the_answer_comes_first(qkv, toy):
    result = qkv("look", TEXT, "-m", toy.folder, "--from", "it", "--to", "animal", "--layer", 0, "--head", 0)
    lines = result.out.split("\n")
    num_tokens = len(toy.encode(TEXT).ids)
    assert lines[0] == f"{toy.folder.name} \u00b7 3 layers \u00d7 2 heads \u00b7 {num_tokens} tokens"
    assert lines[2].startswith('"it" looks ') and '"animal"' in lines[2] and "layer 0 head 0" in lines[2]


def test_a_pipe_gets_no_escape_sequence(qkv, toy):
    for view in ("text", "matrix"):
        assert not has_color(qkv("look", TEXT, "-m", toy.folder, "--view", view, env=COLOR_VARIABLES))


@pytest.mark.parametrize(
    ("variables", "flag", "expected"),
    [
        ({}, None, False),
        ({"CLICOLOR_FORCE": "1"}, None, True),
        ({"FORCE_COLOR": "1"}, None, True),
        ({"CLICOLOR_FORCE": "0"}, None, False),
        ({"FORCE_COLOR": ""}, None, False),
        ({"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, None, False),
        ({"NO_COLOR": "", "CLICOLOR_FORCE": "1"}, None, True),
        ({"NO_COLOR": "1"}, "always", True),
        ({"CLICOLOR_FORCE": "1"}, "never", False),
    ],
)
def test_colors_in_a_pipe(qkv, toy, variables, flag, expected):
    options = ("--color", flag) if flag else ()
    assert has_color(qkv("look", TEXT, "-m", toy.folder, *options, env=variables)) == expected


@pytest.mark.parametrize(
    ("variables", "flag", "expected"),
    [
        ({}, None, True),
        ({"NO_COLOR": "1"}, None, False),
        ({"NO_COLOR": ""}, None, True),
        ({"CLICOLOR": "0"}, None, False),
        ({"CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, None, True),
        ({"TERM": "dumb"}, None, False),
        ({"TERM": "dumb"}, "256", True),
        ({}, "never", False),
    ],
)
def test_colors_in_a_terminal(in_terminal, toy, variables, flag, expected):
    options = ("--color", flag) if flag else ()
    assert has_color(in_terminal(80, "look", TEXT, "-m", toy.folder, *options, env=variables)) == expected


@pytest.mark.parametrize(
    ("variables", "pattern"),
    [
        ({"COLORTERM": "truecolor"}, r"48;2;\d+;\d+;\d+m"),
        ({"COLORTERM": "24bit", "TERM": "xterm"}, r"48;2;\d+;\d+;\d+m"),
        ({"TERM": "xterm-256color"}, r"48;5;\d+m"),
        ({"TERM": "xterm"}, r"\x1b\[(30|97);4[0-7]m"),
    ],
)
def test_depth_of_colors_follows_the_terminal(in_terminal, toy, variables, pattern):
    screen = in_terminal(80, "look", TEXT, "-m", toy.folder, "--view", "matrix", env=variables)
    assert re.search(pattern, screen.out)


def test_every_line_ends_with_its_colors_reset(in_terminal, toy):
    for view in ("text", "matrix"):
        for line in in_terminal(80, "look", TEXT, "-m", toy.folder, "--view", view).out.split("\n"):
            sequences = ESCAPE.findall(line)
            assert not sequences or sequences[-1] == "\x1b[0m"


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("view", ["text", "matrix"])
def test_no_line_is_wider_than_the_terminal(in_terminal, toy, columns, view):
    screen = in_terminal(columns, "look", TEXT, "-m", toy.folder, "--view", view)
    assert max(width(line) for line in ESCAPE.sub("", screen.out).split("\n")) <= columns


def test_width_comes_from_the_flag_then_columns_then_the_terminal(in_terminal, toy):
    def widest(*options, env=None):
        screen = in_terminal(200, "look", TEXT, "-m", toy.folder, *options, env=env)
        return max(width(line) for line in ESCAPE.sub("", screen.out).split("\n"))

    assert 80 < widest() <= 200
    assert widest(env={"COLUMNS": "60"}) <= 60
    assert widest("--width", 40, env={"COLUMNS": "100"}) <= 40


def test_tokens_cannot_control_the_terminal(qkv, in_terminal, toy):
    # BERT drops control characters; the words of --from are shown in messages all the same.
    for text in ("a \x1b[31m red", "bell \x07", "\u202e backwards"):
        result = qkv("look", text, "-m", toy.folder)
        assert result.code == 0 and not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", result.out)
    result = qkv("look", "tired", "-m", toy.folder, "--from", "\x1b]0;title\x07")
    result.fails(2)


def test_no_text_in_a_terminal_shows_short_help(in_terminal):
    for command in ("look", "tokenize", "embed"):
        screen = in_terminal(80, command)
        assert screen.code == 2
        assert "Examples:" in screen.out and f"qkv {command}" in screen.out and "--help" in screen.out


def matrix_rows(out):
    """The rows of a matrix of wide cells drawn without colours: {label: cells}."""
    rows = re.findall(r"^[ \d]\d (\S+) *?((?: [^ ])+)$", out, re.MULTILINE)
    return {label: cells[1::2] for label, cells in rows}


def test_matrix_digits_are_tenths_and_rows_are_queries(qkv, toy):
    weights = toy.weights("animal cross street")[2, 1]
    out = qkv("look", "animal cross street", "-m", toy.folder, "--layer", 2, "--head", 1, "--view", "matrix").out
    rows = matrix_rows(out)
    assert list(rows) == ["[CLS]", "animal", "cross", "street", "[SEP]"]
    for cells, expected in zip(rows.values(), weights):
        assert cells == "".join("\u00b7" if w < 0.05 else str(min(9, round(10 * w))) for w in expected)


def test_ascii_draws_with_ascii_only(qkv, toy):
    for options, env in ((("--ascii",), {}), ((), {"LC_ALL": "C"})):
        for view in ("text", "matrix"):
            assert qkv("look", TEXT, "-m", toy.folder, "--view", view, *options, env=env).out.isascii()


def test_long_texts_keep_to_the_width(qkv, toy):
    text = "tired animal " * 15
    for columns in (20, 40, 80):
        out = qkv("look", text, "-m", toy.folder, "--view", "matrix", "--width", columns).out
        assert max(width(line) for line in out.split("\n")) <= columns
    pooled = qkv("look", text, "-m", toy.folder, "--view", "matrix", "--width", 20).out
    assert "1 cell = 3\u00d73 tokens, peak" in pooled.replace("\n", " ")
    assert "peak" not in qkv("look", text, "-m", toy.folder, "--view", "matrix", "--width", 80).out


def test_many_rows_are_drawn_two_in_a_line_where_there_are_colors(qkv, toy):
    out = qkv("look", "tired animal " * 15, "-m", toy.folder, "--view", "matrix", "--color", "true").out
    blocks = [line for line in out.split("\n") if "\u2580" in line]
    assert len(blocks) == 16 and all(line.count("\u2580") == 32 for line in blocks)


def test_wide_letters_do_not_push_numbers_out_of_line(qkv, toy):
    out = qkv("look", "\u65e5\u672c animal", "-m", toy.folder, "--from", "animal").out
    labels, numbers = next(pair for pair in zip(out.split("\n"), out.split("\n")[1:]) if "%" in pair[1])
    assert width(labels) == width(numbers)
