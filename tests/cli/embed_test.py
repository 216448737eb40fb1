"""qkv embed against the toy model in float64."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest

LINES = ["the animal was tired", "", "it didn't cross the street", "\u65e5\u672c", "now"]
TOLERANCE = 2e-6


def stdin_of(lines, end="\n"):
    return "".join(line + end for line in lines).encode()


def test_each_line_becomes_a_line_of_numbers(qkv, toy):
    result = qkv("embed", "-m", toy.folder, stdin=stdin_of(LINES))
    assert result.code == 0 and result.err == ""
    rows = [[float(number) for number in line.split(" ")] for line in result.out.rstrip("\n").split("\n")]
    assert np.abs(np.array(rows) - [toy.embed(line) for line in LINES]).max() < TOLERANCE


def test_json_npy_and_text_hold_the_same_floats(qkv, toy, tmp_path):
    text = qkv("embed", "-m", toy.folder, stdin=stdin_of(LINES)).out
    answer = qkv("embed", "-m", toy.folder, "--json", stdin=stdin_of(LINES)).json()
    file = tmp_path / "vectors.npy"
    written = qkv("embed", "-m", toy.folder, "--npy", file, stdin=stdin_of(LINES))
    assert (written.code, written.out, written.err) == (0, "", "")
    vectors = np.load(file)
    assert vectors.dtype == np.float32 and vectors.shape == (len(LINES), 16)
    assert np.array_equal(np.array(answer["vectors"], np.float32), vectors)
    assert np.array_equal(np.array([row.split() for row in text.splitlines()], np.float32), vectors)
    assert answer["truncated"] == []


def test_an_empty_line_is_cls_and_sep(qkv, toy):
    answer = qkv("embed", "-m", toy.folder, "--json", stdin=b"\n").json()
    assert np.abs(np.array(answer["vectors"]) - [toy.embed("")]).max() < TOLERANCE


@pytest.mark.parametrize(("stdin", "count"), [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\nb", 2), (b"a\n\nb\n", 3)])
def test_lines_are_counted_as_editors_do(qkv, toy, tmp_path, stdin, count):
    answer = qkv("embed", "-m", toy.folder, "--json", stdin=stdin).json()
    assert len(answer["vectors"]) == count
    file = tmp_path / "vectors.npy"
    assert qkv("embed", "-m", toy.folder, "--npy", file, stdin=stdin).code == 0
    assert np.load(file).shape == (count, 16)


def test_line_ends_of_windows_are_no_text(qkv, toy):
    unix = qkv("embed", "-m", toy.folder, stdin=stdin_of(LINES))
    assert qkv("embed", "-m", toy.folder, stdin=stdin_of(LINES, "\r\n")).out == unix.out


def test_lines_may_come_from_a_file(qkv, toy, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_bytes(stdin_of(LINES))
    assert qkv("embed", "-m", toy.folder, "-f", file).out == qkv("embed", "-m", toy.folder, stdin=stdin_of(LINES)).out


def test_long_lines_are_cut_and_that_is_said(qkv, toy):
    lines = ["now", "tired " * 9, "tired " * 8]
    answer = qkv("embed", "-m", toy.folder, "--json", stdin=stdin_of(lines)).json()
    assert answer["truncated"] == [2]
    assert np.abs(np.array(answer["vectors"]) - [toy.embed(line) for line in lines]).max() < TOLERANCE
    result = qkv("embed", "-m", toy.folder, stdin=stdin_of(lines))
    assert result.code == 0 and result.err == "qkv: line 2 is cut to 10 tokens\n"
    assert qkv("embed", "-m", toy.folder, "-q", stdin=stdin_of(lines)).err == ""


def test_many_lines_come_out_in_order(qkv, toy):
    words = ["animal", "street", "tired", "wide", "the", "it was", "play now"]
    lines = [f"{words[i % 7]} {words[i % 5]} {words[i % 3]}" for i in range(500)]
    answer = qkv("embed", "-m", toy.folder, "--json", stdin=stdin_of(lines)).json()
    expected = {line: toy.embed(line) for line in set(lines)}
    assert np.abs(np.array(answer["vectors"]) - [expected[line] for line in lines]).max() < TOLERANCE


def test_a_line_that_is_not_utf8_is_named(qkv, toy, tmp_path):
    stdin = stdin_of(["now"] * 70) + b"abc\xff\n" + stdin_of(["now"])
    qkv("embed", "-m", toy.folder, "--json", stdin=stdin).fails(4, "line 71", "UTF-8")
    file = tmp_path / "vectors.npy"
    qkv("embed", "-m", toy.folder, "--npy", file, stdin=stdin).fails(4, "line 71")
    assert not file.exists()


def test_json_and_npy_exclude_each_other(qkv, toy, tmp_path):
    qkv("embed", "-m", toy.folder, "--json", "--npy", tmp_path / "x.npy", stdin=b"now\n").fails(2, "--json", "--npy")


def start(environment, binary, toy):
    return subprocess.Popen(
        [binary, "embed", "-m", str(toy.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        # A test run that a script started in the background has been told to ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_a_vector_comes_as_soon_as_its_line(environment, binary, toy):
    process = start(environment, binary, toy)
    for line in (b"now\n", b"tired\n"):
        process.stdin.write(line)
        process.stdin.flush()
        assert len(process.stdout.readline().split()) == 16
    process.stdin.close()
    assert process.wait(timeout=60) == 0


def test_an_interrupt_ends_it_with_130_and_without_a_word(environment, binary, toy):
    process = start(environment, binary, toy)
    process.stdin.write(b"now\n")
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert process.stderr.read() == b""


def test_a_reader_that_goes_away_is_no_error_to_talk_about(environment, binary, toy):
    process = start(environment, binary, toy)
    process.stdout.close()
    try:
        for _ in range(100):
            process.stdin.write(b"now\n" * 100)
            process.stdin.flush()
            time.sleep(0.01)
    except BrokenPipeError:
        pass
    assert process.wait(timeout=60) != 0
    assert process.stderr.read() == b""


def test_an_interrupt_leaves_no_file(environment, binary, toy, tmp_path):
    process = subprocess.Popen(
        [binary, "embed", "-m", str(toy.folder), "--npy", str(tmp_path / "x.npy")], stdin=subprocess.PIPE, env=environment
    )
    process.stdin.write(b"now\n" * 1000)
    process.stdin.flush()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) in (128 + signal.SIGTERM, -signal.SIGTERM)
    assert os.listdir(tmp_path) == []
