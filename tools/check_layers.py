"""Checks house rules that no compiler sees: which folder may include which, who may use which library, and manners.

  tools/check_layers.py [ROOT]

Prints one `file:line: message` for each finding; the exit code is 1 if there is any. The rules are the tables below; a
new folder or library is added there.
"""

import os
import pathlib
import re
import sys

# What each folder may include besides itself. Includes point only down the levels.
CORE = {"qkv/core"}
ATTENTION = CORE | {"qkv/kernels"}
NN = ATTENTION | {"qkv/attention"}
MODELS = NN | {"qkv/nn", "qkv/io", "qkv/text"}
VIEWER = MODELS | {"qkv/models"}
MAY_INCLUDE = {
    "qkv/core": set(),
    "qkv/kernels": CORE,
    "qkv/io": CORE,
    "qkv/text": CORE | {"qkv/io"},
    "qkv/attention": ATTENTION,
    "qkv/nn": NN,
    "qkv/models": MODELS,
    "qkv": VIEWER,  # headers at the top, such as qkv/qkv.h, gather those below
    "viewer": VIEWER,
    "cli": VIEWER | {"qkv", "viewer"},
}
# Programs around the library: they may include anything, and only they may include each other.
OUTSIDE = ("tests", "bench", "fuzz", "examples")

# A library's headers and the places that may include them (folders end in a slash).
LIBRARIES = (
    ("Highway", re.compile(r"hwy/"), ("qkv/kernels/", "tests/kernels/", "bench/")),
    ("oneTBB", re.compile(r"(oneapi/)?tbb[/.]"), ("qkv/core/executor.cc", "tests/core/executor_test.cc")),
    ("nlohmann-json", re.compile(r"nlohmann/"), ("qkv/io/", "qkv/text/", "viewer/", "cli/", "tests/", "fuzz/")),
    ("utf8proc", re.compile(r"utf8proc"), ("qkv/text/", "viewer/", "tests/text/")),
    ("CLI11", re.compile(r"CLI/"), ("cli/",)),
    ("Eigen", re.compile(r"Eigen/"), ("qkv/eigen.h", "tests/", "bench/", "examples/")),
)

SILENT = ("qkv/", "viewer/")  # these neither print nor end the process
LOUD = re.compile(
    r"\b(?:std::)?(cout|cerr|clog|stdout|stderr)\b"
    r"|(?<![\w.>])(?:std::)?(v?printf|puts|putchar|perror|exit|_Exit|_exit|quick_exit|abort|terminate)\s*\("
)

SHORT = ("qkv/", "viewer/", "cli/")
MAX_LINES = 400

CPP_SUFFIXES = (".h", ".cc")
ASCII_SUFFIXES = CPP_SUFFIXES + (".py", ".sh", ".cmake")
ASCII_NAMES = ("CMakeLists.txt", "Makefile")
SKIPPED_FOLDERS = {"build", ".venv", ".git", "__pycache__"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
COMMENT_OR_STRING = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|(?P<string>R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*')",  # not the separator in 1'000
    re.DOTALL,
)


def blank_out(text, strings):
    """The text with comments, and with strings too if asked, made blank; lines keep their numbers."""

    def blank(match):
        if match["string"] and not strings:
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    return COMMENT_OR_STRING.sub(blank, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def folder_of(path):
    """The name under which a file or an include stands in MAY_INCLUDE: qkv/core/check.h is in qkv/core."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "qkv" and len(parts) > 2 else parts[0]


def is_below(path, places):
    return any(path.startswith(place) if place.endswith("/") else path == place for place in places)


def check_own_include(path, target):
    """What is wrong with a file at path including our own header target, or None."""
    folder, other = folder_of(path), folder_of(target)
    if folder in OUTSIDE:
        return None
    if folder not in MAY_INCLUDE:
        return f"{folder}/ has no level yet; give it one in tools/check_layers.py"
    if other == folder or other in MAY_INCLUDE[folder]:
        return None
    below = ", ".join(sorted(MAY_INCLUDE[folder])) or "nothing else"
    return f'{folder}/ includes "{target}"; it may include {below}'


def check_includes(path, text):
    code = blank_out(text, strings=False)
    for match in INCLUDE.finditer(code):
        bracket, target = match[1], match[2]
        line = line_of(code, match.start(2))
        if target.split("/")[0] in ("qkv", "viewer", "cli") + OUTSIDE:
            problem = check_own_include(path, target)
            if problem:
                yield line, problem
        elif bracket == '"' and ("/" not in target or target.startswith(".")):
            yield line, f'"{target}" is a relative include; write the path from the root of the repository'
        for name, pattern, places in LIBRARIES:
            if pattern.match(target) and not is_below(path, places):
                yield line, f"{name} may be included only in {', '.join(places)}"


def check_silence(text):
    code = blank_out(text, strings=True)
    for match in LOUD.finditer(code):
        word = match[1] or match[2]
        yield line_of(code, match.start()), f"'{word}': the library neither prints nor ends the process"


def check_ascii(text):
    for number, line in enumerate(text.split("\n"), 1):
        strange = re.search(r"[^\x00-\x7f]", line)
        if strange:
            yield number, f"U+{ord(strange[0]):04X} is not ASCII; write an escape or a word"


def check_length(text):
    lines = text.count("\n") + (not text.endswith("\n"))
    if lines > MAX_LINES:
        yield MAX_LINES + 1, f"{lines} lines; at most {MAX_LINES}"


def check_file(path, text):
    """Yields (line, message) for every finding in one file; path is relative to the root."""
    if path.endswith(CPP_SUFFIXES):
        yield from check_includes(path, text)
        if is_below(path, SILENT):
            yield from check_silence(text)
    if is_below(path, SHORT):
        yield from check_length(text)
    yield from check_ascii(text)


def source_files(root):
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(set(subfolders) - SKIPPED_FOLDERS)
        for name in sorted(names):
            if name.endswith(ASCII_SUFFIXES) or name in ASCII_NAMES:
                yield pathlib.Path(folder, name)


def main(arguments):
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    num_files = num_findings = 0
    for file in source_files(root):
        path = file.relative_to(root).as_posix()
        num_files += 1
        text = file.read_text(encoding="utf-8", errors="replace")
        for line, message in check_file(path, text):
            print(f"{path}:{line}: {message}")
            num_findings += 1
    print(f"check_layers: {num_files} files, findings: {num_findings}", file=sys.stderr)
    return 1 if num_findings or not num_files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
