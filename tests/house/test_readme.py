"""Every Python block of the README and of the documents runs, and every command the README shows exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _blocks(page: Path) -> Iterator[tuple[str, int]]:
    """Each block that is to run, and how many lines of the page are above its code."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield match[1], text.count("\n", 0, match.start(1))


BLOCKS = [
    pytest.param(page, block, above, id=f"{page.name}:{above + 1}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for block, above in _blocks(page)
]


def test_the_readme_and_the_documents_have_python_blocks() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize(("page", "block", "above"), BLOCKS)
def test_a_python_block_runs_and_prints_what_it_says(
    page: Path,
    block: str,
    above: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    # Blank lines in front make a traceback point at the page's own line.
    exec(compile("\n" * above + block, page.name, "exec"), {"__name__": "__main__"})
    expected = re.findall(r"print\(.*\)\s*#\s*(.*)$", block, re.MULTILINE)
    assert capsys.readouterr().out.split() == " ".join(expected).split()


def test_the_commands_of_the_readme_are_commands_of_the_program() -> None:
    main = ROOT / "src/snell/cli/main.py"
    shown = set(re.findall(r"^(?:.*&& )?snell ([a-z]+)", README, re.MULTILINE))
    assert shown
    assert {name for name in shown if f'"{name}"' not in main.read_text(encoding="utf-8")} == set()
