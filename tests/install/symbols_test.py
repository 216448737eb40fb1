"""What is in the libraries: code for one processor stays with that processor, and only public names are exported.

The kernels are compiled several times, for the baseline and for wider instruction sets, in one namespace each. A
function outside those namespaces must be baseline code: the linker keeps one of the copies that the objects hold, and
if a wide one won, a narrow processor would die of it (https://github.com/numpy/numpy/issues/25274).
"""

import platform
import re

import pytest

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="knows the instructions of x86-64 only")

# Instructions by the processor that has them. VEX: AVX and all that came with AVX2; most begin with v.
VEX = r"v(?!erw?\b)\w+|andn|bextr|blsi|blsmsk|blsr|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|movbe|lzcnt"
SSE4 = (
    r"addsub\w+|h(add|sub)p\w|lddqu|movddup|movs[hl]dup|pabs\w|palignr|ph(add|sub)\w+|pmaddubsw|pmulhrsw|pshufb|psign\w"
    r"|p?blend\w+|dpp\w|extractps|insertps|movntdqa|mpsadbw|packusdw|pcmpeqq|pcmpgtq|pcmp[ei]str\w|pextr[bdq]|phminposuw"
    r"|pinsr[bdq]|pm(ax|in)(sb|sd|ud|uw)|pmov[sz]x\w+|pmuldq|pmulld|ptest|round[ps]\w|crc32\w?|popcnt|aes\w+|pclmul\w+"
)
FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")


def instructions(disassembly):
    """Yields (function, mnemonic) of an objdump."""
    function = None
    for line in disassembly.splitlines():
        if match := FUNCTION.match(line):
            function = match[1]
        elif function and (match := re.match(r"\s+[0-9a-f]+:\t(?:(?:rep|repz|lock|data16|notrack|bnd|cs) )*(\w+)", line)):
            yield function, match[1]


def functions_by_level(disassembly):
    """The functions that hold instructions of SSE3 to SSE4.2, and those that hold some of AVX and up."""
    sse4, vex = set(), set()
    for function, mnemonic in instructions(disassembly):
        if re.fullmatch(VEX, mnemonic):
            vex.add(function)
        elif re.fullmatch(SSE4, mnemonic):
            sse4.add(function)
    return sse4, vex


def misplaced(disassembly):
    """Functions with instructions that their namespace does not promise."""
    sse4, vex = functions_by_level(disassembly)
    return {name for name in vex if "::N_AVX" not in name} | {name for name in sse4 if not re.search("::N_(AVX|SSE4)", name)}


def disassemble(run, file):
    return run("objdump", "--disassemble", "--demangle", "--no-show-raw-insn", file)


@pytest.mark.parametrize("component", ["attention", "nn", "io", "models"])
def test_code_for_wider_processors_stays_in_its_namespace(component, run, static_prefix):
    found = misplaced(disassemble(run, static_prefix / "lib" / f"libqkv_{component}.a"))
    assert not found, "\n".join(sorted(found))


def test_the_kernels_are_there_for_every_processor(run, static_prefix):
    """The test above sees nothing if this one finds nothing."""
    sse4, vex = functions_by_level(disassemble(run, static_prefix / "lib" / "libqkv_attention.a"))
    for namespace, functions in (("N_SSE4", sse4), ("N_AVX2", vex), ("N_AVX3", vex)):
        assert any(f"qkv::kernels::{namespace}::" in name for name in functions), namespace


@pytest.mark.parametrize("target, expression", [("avx2", "x * 3.0f + 1.0f"), ("sse4.1", "__builtin_floorf(x)")])
def test_an_inline_function_of_a_wide_region_would_be_noticed(target, expression, run, tmp_path):
    source = tmp_path / "leak.cc"
    source.write_text(
        f'#pragma GCC push_options\n#pragma GCC target("{target}")\n'
        f"inline __attribute__((noinline)) float leaks(float x) {{ return {expression}; }}\n"
        f"#pragma GCC pop_options\nfloat caller(float x) {{ return leaks(x); }}\n"
    )
    run("g++", "-O2", "-c", source, "-o", tmp_path / "leak.o")
    assert misplaced(disassemble(run, tmp_path / "leak.o")) == {"leaks(float)"}


def exported_names(run, library):
    """Demangled names of the functions and variables that programs can link with."""
    lines = run("nm", "--dynamic", "--defined-only", "--demangle", library).splitlines()
    return [line.split(" ", 2)[2] for line in lines]


def unqualified(name):
    """append of qkv::Vocab::append(std::string), FormatError of typeinfo for qkv::FormatError."""
    name = re.sub(r"^(typeinfo name|typeinfo|vtable) for ", "", name).replace("[abi:cxx11]", "")
    name = name.split("(")[0]
    while "<" in name:
        name = re.sub(r"<[^<>]*>", "", name)
    return name.split("::")[-1].lstrip("~")


@pytest.mark.parametrize("component", ["attention", "nn", "io", "models"])
def test_shared_libraries_export_what_the_headers_declare_and_no_more(component, run, shared_prefix):
    headers = "\n".join(path.read_text() for path in (shared_prefix / "include").rglob("*.h"))
    names = exported_names(run, shared_prefix / "lib" / f"libqkv_{component}.so")
    assert names
    for name in names:
        assert "qkv::" in name.split("(")[0], name
        assert re.search(rf"\b{unqualified(name)}\b", headers), f"{name} is in no installed header"


def test_shared_libraries_need_no_more_than_they_use(run, shared_prefix):
    def needed(component):
        text = run("readelf", "--dynamic", shared_prefix / "lib" / f"libqkv_{component}.so")
        return set(re.findall(r"NEEDED.*\[(lib\w+)", text)) - {"libstdc", "libm", "libgcc_s", "libc"}

    assert needed("attention") == {"libhwy", "libtbb"}
    assert needed("nn") == {"libqkv_attention"}
    assert needed("io") == {"libqkv_attention"}
    assert needed("models") == {"libqkv_attention", "libqkv_nn", "libqkv_io", "libutf8proc"}


def test_shared_libraries_are_named_by_minor_version(run, shared_prefix):
    library = shared_prefix / "lib" / "libqkv_attention.so"
    assert library.is_symlink()
    assert "SONAME" in (text := run("readelf", "--dynamic", library)) and "[libqkv_attention.so.0.1]" in text
