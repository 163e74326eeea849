"""Every Python block of the README runs, and every command it shows exists."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    pytest.param(
        match[1], README.count("\n", 0, match.start()) + 1, id=f"line{README.count(chr(10), 0, match.start()) + 2}"
    )
    for match in re.finditer(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
]


def test_the_readme_has_python_blocks() -> None:
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize(("block", "line"), BLOCKS)
def test_a_python_block_of_the_readme_runs(
    block: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # Blank lines in front make a traceback point at the README's own line.
    exec(compile("\n" * line + block, "README.md", "exec"), {"__name__": "__main__"})
    expected = re.findall(r"print\(.*\)\s*#\s*(.*)$", block, re.MULTILINE)
    assert capsys.readouterr().out.split() == " ".join(expected).split()


def test_the_commands_of_the_readme_are_commands_of_the_program() -> None:
    main = Path(__file__).resolve().parents[2] / "src/snell/cli/main.py"
    shown = set(re.findall(r"^(?:.*&& )?snell ([a-z]+)", README, re.MULTILINE))
    assert shown
    assert {name for name in shown if f'"{name}"' not in main.read_text(encoding="utf-8")} == set()
