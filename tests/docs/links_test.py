"""What the docs point to is there: links, the files that docs/architecture.md names, the pages of the index."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md"))
DECISIONS = re.findall(
    r"^\| [^|]+ \| `([^`|]+)` \| `([^`|]+)` \|$", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE
)


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = page.read_text()
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text()), link


def test_the_index_lists_every_page():
    listed = re.findall(r"\]\(([\w.]+\.md)\)", (ROOT / "docs" / "README.md").read_text())
    assert sorted(listed) == sorted(page.name for page in ROOT.glob("docs/*.md") if page.name != "README.md")


@pytest.mark.parametrize("file, name", DECISIONS)
def test_a_decision_is_in_the_file_that_the_docs_name(file, name):
    assert name in (ROOT / file).read_text()


def test_the_questions_that_a_newcomer_asks_are_answered():
    assert len(DECISIONS) >= 30
    files = {file for file, _ in DECISIONS}
    assert {"qkv/nn/mha_compat.cc", "qkv/attention/resolve.cc", "qkv/nn/mha_names.cc", "cli/exit_code.h"} <= files
    assert {"qkv/attention/plan.cc", "qkv/nn/multi_head_attention.cc", "tests/support/tolerance.h"} <= files
