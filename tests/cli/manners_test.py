"""Help, exit codes, and errors that are one line: what every command has in common."""

import os
import shutil

import pytest

COMMANDS = ("look", "lesson", "tokenize", "embed", "attend", "inspect", "info")


def test_help_leads_with_examples(qkv):
    for arguments in ((), *((command,) for command in COMMANDS)):
        for flag in ("-h", "--help"):
            result = qkv(*arguments, flag)
            assert result.code == 0 and result.err == ""
            assert result.out.index("Examples:") < result.out.index("Usage:") < result.out.index("Options:")
            assert f"  qkv {' '.join(arguments)}" in result.out or f"| qkv {' '.join(arguments)}" in result.out


def test_help_lists_every_command(qkv):
    out = qkv("--help").out
    assert all(f"\n  {command} " in out for command in COMMANDS)


def test_nothing_is_advertised_that_is_not_there(qkv):
    texts = "".join(qkv(*arguments, "--help").out for arguments in ((), *((command,) for command in COMMANDS)))
    for absent in ("--html", "--svg", "--png", "--csv", "--json-lines", "--open", "explain", "grid", "completion"):
        assert absent not in texts


def test_version(qkv):
    result = qkv("--version")
    assert (result.code, result.err) == (0, "") and result.out.startswith("qkv ") and result.out.count(".") == 2


def test_no_command_shows_short_help_as_a_usage_error(qkv):
    result = qkv()
    assert result.code == 2 and result.out == "" and "Examples:" in result.err


@pytest.mark.parametrize(
    ("arguments", "needles"),
    [
        (["lok"], ["lok", "did you mean 'look'"]),
        (["xyzzy"], ["unknown command 'xyzzy'"]),
        ([""], ["unknown command"]),
        (["--frobnicate"], ["unknown option '--frobnicate'"]),
        (["look", "a", "--lyer", "1"], ["--lyer", "did you mean '--layer'"]),
        (["look", "a", "b"], ["unexpected argument 'b'"]),
        (["look", "a", "--view", "grid"], ["--view", "grid", "matrix"]),
        (["look", "a", "--special", "x"], ["--special", "renormalise"]),
        (["look", "a", "--width", "5"], ["--width", "20"]),
        (["look", "a", "--layer", "1", "--layer", "2"], ["--layer"]),
        (["look", "a", "-f", "b"], ["--file", "TEXT"]),
        (["look", "a", "-q", "-v"], ["--quiet", "--verbose"]),
        (["look", "a", "--from"], ["--from"]),
        (["attend", "a"], ["K"]),
        (["info", "\x1b[31m\n"], ["\\x1b[31m\\n"]),
    ],
)
def test_wrong_arguments_are_usage_errors_in_one_line(qkv, arguments, needles):
    qkv(*arguments).fails(2, *needles)


@pytest.mark.parametrize("command", ["look", "tokenize", "embed"])
def test_without_a_model_a_line_says_how_to_get_one(qkv, command):
    qkv(command, *(() if command == "embed" else ("text",)), stdin=b"text\n").fails(3, "make model", "-m")
    no_home = {"QKV_CACHE": "", "XDG_CACHE_HOME": "", "HOME": ""}
    qkv(command, stdin=b"text\n", env=no_home).fails(3, "make model", "-m")
    qkv(command, "-m", "/no/such/folder", stdin=b"text\n").fails(3, "/no/such/folder", "make model")
    qkv(command, "-m", "/dev/null", stdin=b"text\n").fails(3, "/dev/null")


def test_model_is_looked_for_where_make_model_puts_it(qkv, toy, tmp_path):
    folder = tmp_path / "qkv" / "models" / "all-MiniLM-L6-v2"
    shutil.copytree(toy.folder, folder)
    for variables in ({"QKV_CACHE": str(tmp_path / "qkv")}, {"QKV_CACHE": "", "XDG_CACHE_HOME": str(tmp_path)}):
        assert qkv("look", "the animal", "--json", env=variables).json()["model"] == "all-MiniLM-L6-v2"


@pytest.fixture
def broken(toy, tmp_path):
    """A copy of the toy model with some files replaced: broken(**{"config.json": b"..."}); None removes one."""

    def make(**files):
        folder = tmp_path / "broken"
        shutil.copytree(toy.folder, folder, dirs_exist_ok=True)
        for name, content in files.items():
            (folder / name).unlink()
            if content is not None:
                (folder / name).write_bytes(content)
        return folder

    return make


def test_models_that_cannot_be_read_are_model_errors(qkv, toy, broken):
    weights = (toy.folder / "model.safetensors").read_bytes()
    config = (toy.folder / "config.json").read_text()
    cases = {
        "deberta": {"config.json": config.replace('"bert"', '"deberta"').encode()},
        "config.json": {"config.json": b"{"},
        "model.safetensors": {"model.safetensors": weights[:-1]},
        "safetensors": {"model.safetensors": None},
        "tokenizer.json": {"tokenizer.json": b"\xff\xfe"},
        "hidden_size": {"config.json": config.replace('"hidden_size": 16', '"hidden_size": "wide"').encode()},
    }
    for needle, files in cases.items():
        qkv("look", "text", "-m", broken(**files)).fails(3, needle)


def test_files_of_text_that_cannot_be_read_are_input_errors(qkv, toy, tmp_path):
    for command in ("look", "tokenize", "embed"):
        qkv(command, "-m", toy.folder, "-f", tmp_path).fails(4, str(tmp_path))
        qkv(command, "-m", toy.folder, "-f", tmp_path / "none\n").fails(4, "none\\n")
        qkv(command, "-m", toy.folder, "-f", "").fails(4, "cannot open")


def test_an_endless_text_is_refused(qkv, toy):
    qkv("tokenize", "-m", toy.folder, "-f", "/dev/zero").fails(4, "/dev/zero", "64 MiB")
    qkv("embed", "-m", toy.folder, "-f", "/dev/zero").fails(4, "/dev/zero", "64 MiB")


@pytest.mark.parametrize("command", [["info"], ["--version"], ["--help"], ["tokenize", "the animal"], ["look", "the animal"]])
def test_a_full_disk_is_an_output_error(qkv, toy, command):
    model = ["-m", toy.folder] if command[0] in ("tokenize", "look") else []
    with open("/dev/full", "wb") as full:
        qkv(*command, *model, stdout=full).fails(5, "standard output", "No space")


def test_a_closed_stdout_is_an_output_error_and_no_file_takes_its_place(qkv, toy):
    def close_stdout():
        os.close(1)

    qkv("look", "the animal", "-m", toy.folder, stdout=None, preexec_fn=close_stdout).fails(5, "standard output")


def test_a_closed_stdin_is_an_input_error(qkv, toy):
    def close_stdin():
        os.close(0)

    qkv("look", "-m", toy.folder, preexec_fn=close_stdin).fails(4, "standard input")
