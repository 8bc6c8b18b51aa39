"""The documents' Python runs, their links lead somewhere, and the reference leaves no module out."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
EXECUTED = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "contract.md", ROOT / "docs" / "index.md"]
SHELL = {
    "dp_experts_env.cli",
    "dp_experts_env.cli.attack",
    "dp_experts_env.cli.games",
    "dp_experts_env.cli.look",
    "dp_experts_env.cli.options",
    "dp_experts_env.cli.judge",
    "dp_experts_env.__main__",
}

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!`)\[[^\]]+\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", EXECUTED, ids=lambda page: page.name)
def test_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    # Classes of the page must be found by name, as those of a reader's module are.
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), module.__dict__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    lost = [target for target in targets if not (page.parent / target).exists()]
    assert not lost


def test_reference_lists_every_module() -> None:
    # Those of the two other packages are listed by the page itself.
    folder = ROOT / "dp_experts_env"
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in folder.rglob("*.py")}
    listed = set(
        re.findall(r"^\.\. automodule:: ([\w.]+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.M)
    )
    assert len(listed) > 10
    # A folder hands its names on: where it is listed, its modules need not be.
    unlisted = {name for name in modules - listed - SHELL if name.rpartition(".")[0] not in listed}
    assert not {name for name in unlisted if not name.endswith(".__init__")}
    assert not listed - modules - {name.removesuffix(".__init__") for name in modules}
