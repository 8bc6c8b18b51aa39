"""Which way imports run, where randomness comes from, and what no file may say: read from the source text."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "dp_experts_env": ROOT / "dp_experts_env",
    "dp_experts_agents": ROOT / "agents" / "dp_experts_agents",
    "dp_experts_adversaries": ROOT / "adversaries" / "dp_experts_adversaries",
}

# From the ground up: a module of the game imports only from those before it. An entry may become a folder.
ORDER = (
    "spec",
    "learner",
    "vector",
    "adversary",
    "play",
    "registry",
    "data",
    "hypotheses",
    "privacy.mechanisms",
    "privacy.accounting",
    "privacy.evidence",
    "privacy.game",
    "privacy.likelihood",
    "privacy.audit",
    "privacy.exact",
    "chairs",
    "rl",
    "testing",
    "study.tournament",
    "study.survey",
    "study.report",
    "cli",
    "__main__",
)

# Import names that differ from the name of their distribution by more than "_" for "-".
DISTRIBUTIONS = {"sklearn": "scikit-learn"}

# What may be taken from numpy.random: nothing that touches its global state.
SEEDED = frozenset(
    {"BitGenerator", "Generator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence", "default_rng"}
)
# Where global random state may be looked at and put back, because others change it; never drawn from.
WATCHERS = ("dp_experts_env.testing", "dp_experts_env.rl")
WATCHED = frozenset({"get_state", "set_state"})

MACHINE_PATH = re.compile(
    r"(?<![\w.~*)}\]])/(?:home|mnt|opt|root|tmp|Users|usr|var|work)/(?!bin/env )|\b[A-Z]:\\+Users"
)
REGISTRY_HOST = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|pypi\.python\.org|download\.pytorch\.org|anaconda\.(?:org|com)"
    r"|registry\.npmjs\.org|crates\.io)\b"
)


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the three packages, by dotted name; a package ends in ``.__init__``."""
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            yield ".".join((package, *path.relative_to(folder).with_suffix("").parts)), path


def imports(module: str, tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Every import of a module: line, absolute dotted target, and whether it runs when the module is imported."""
    lazy = {id(inner) for outer in ast.walk(tree) if _is_deferred(outer) for inner in ast.walk(outer)}
    for node in ast.walk(tree):
        eager = id(node) not in lazy
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, eager
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: -node.level] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{source}.{alias.name}", eager
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value, eager


def _is_deferred(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def rank(target: str) -> tuple[int, str]:
    """Place of a name of the game in ORDER with the entry's name; the package's own names stand above all."""
    inner = target.split(".")[1:]
    for length in (2, 1):
        entry = ".".join(inner[:length])
        if entry in ORDER:
            return ORDER.index(entry), entry
    below = [place for place, entry in enumerate(ORDER) if inner[:1] == entry.split(".")[:1]]
    return (max(below), inner[0]) if below else (len(ORDER), "the package itself")


def layer_faults(module: str, tree: ast.AST) -> Iterator[str]:
    """Imports that run the wrong way."""
    package, *inner = module.split(".")
    for line, target, _ in imports(module, tree):
        root = target.split(".")[0]
        if root not in PACKAGES or root == package != "dp_experts_env":
            continue
        if root != package:
            if root != "dp_experts_env":
                yield f"{module}:{line}: {package} must not import {root}"
            continue
        if inner in (["__init__"], ["__main__"]) or inner[0] == "cli":
            continue
        if inner[-1] == "__init__" and target.split(".")[1:2] == inner[:1]:
            continue
        mine, my_name = rank(module)
        theirs, their_name = rank(target)
        if my_name != their_name and theirs >= mine:
            yield f"{module}:{line}: {my_name} must not import {their_name}, which stands above it"


def dependency_faults(module: str, tree: ast.AST, core: frozenset[str], extras: frozenset[str]) -> Iterator[str]:
    """Third-party imports that are not declared, and extras that are needed as soon as the module is imported."""
    for line, target, eager in imports(module, tree):
        root = target.split(".")[0]
        if root in PACKAGES or root in sys.stdlib_module_names:
            continue
        distribution = DISTRIBUTIONS.get(root, root).replace("_", "-").lower()
        if distribution in core:
            continue
        if distribution not in extras:
            yield f"{module}:{line}: {distribution} is not declared in pyproject.toml"
        elif eager and module != "dp_experts_env.rl":
            yield f"{module}:{line}: {distribution} is an extra: import it where it is used"


def randomness_faults(module: str, tree: ast.AST) -> Iterator[str]:
    """Uses of global random state, and generators that nobody seeded."""
    watches = module.startswith(WATCHERS)
    names: dict[str, str] = {}  # local name -> dotted name it stands for
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
                if alias.name == "random" and not watches:
                    yield f"{module}:{node.lineno}: the standard library's random is global state"
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                if node.module == "random":
                    yield f"{module}:{node.lineno}: the standard library's random is global state"

    def dotted(node: ast.AST) -> str:
        if isinstance(node, ast.Attribute):
            return f"{dotted(node.value)}.{node.attr}"
        return names.get(node.id, "") if isinstance(node, ast.Name) else ""

    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)):
            head, _, last = dotted(node).rpartition(".")
            if head == "numpy.random" and last not in SEEDED and not (watches and last in WATCHED):
                yield f"{module}:{node.lineno}: numpy.random.{last} uses numpy's global state"
        if isinstance(node, ast.Call):
            head, _, last = dotted(node.func).rpartition(".")
            seeds = [*node.args, *(keyword.value for keyword in node.keywords)]
            unseeded = all(isinstance(seed, ast.Constant) and seed.value is None for seed in seeds)
            if head == "numpy.random" and last in SEEDED and unseeded:
                yield f"{module}:{node.lineno}: {last} is called without a seed"


def text_faults(name: str, text: str) -> Iterator[str]:
    """Paths of one machine, and hosts of package registries."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, what in ((MACHINE_PATH, "a path of one machine"), (REGISTRY_HOST, "a package registry's host")):
            for found in pattern.finditer(line):
                yield f"{name}:{number}: {what}: {found.group()!r}"


def declared() -> tuple[frozenset[str], frozenset[str]]:
    """Distributions of the core, and of all extras, as pyproject.toml declares them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def names(requirements: list[str]) -> frozenset[str]:
        return frozenset(
            re.split(r"[\s\[<>=!~;]", requirement)[0].replace("_", "-").lower() for requirement in requirements
        )

    extras = [requirement for group in project["optional-dependencies"].values() for requirement in group]
    return names(project["dependencies"]), names(extras)


def texts() -> Iterator[tuple[str, str]]:
    """Every text file of the repository that is not made by a tool, by relative path."""
    made = {"__pycache__", "build", "dist", "results", "site"}
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = parts[0].startswith(".") and parts[0] not in (".ci", ".gitignore")
        if hidden or made & set(parts) or not path.is_file():
            continue
        try:
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_all_modules_are_found_and_placed() -> None:
    found = [module for module, _ in modules()]
    assert {module.split(".")[0] for module in found} == set(PACKAGES)
    assert {"dp_experts_env.spec", "dp_experts_env.learner", "dp_experts_env.play"} <= set(found)
    homeless = [
        module
        for module in found
        if module.startswith("dp_experts_env.") and not module.endswith("__init__") and rank(module)[1] not in ORDER
    ]
    assert not homeless, f"no place in ORDER: {homeless}"


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=[module for module, _ in modules()])
def test_module(module: str, path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    faults = [
        *layer_faults(module, tree),
        *dependency_faults(module, tree, *declared()),
        *randomness_faults(module, tree),
    ]
    assert not faults, "\n".join(faults)


def test_no_file_of_odds_and_ends() -> None:
    odd = re.compile(r"_*(utils?|common|helpers?|misc)$")
    assert not [module for module, _ in modules() if any(odd.match(part) for part in module.split("."))]


def test_texts_name_no_machine_and_no_registry() -> None:
    read = dict(texts())
    assert {"README.md", "pyproject.toml", "Makefile", ".ci/run", "dp_experts_env/spec.py"} <= set(read)
    faults = [fault for name, text in read.items() for fault in text_faults(name, text)]
    assert not faults, "\n".join(faults)


GOOD = [
    ("dp_experts_env.play", "from dp_experts_env.learner import Learner\nimport dp_experts_env.spec"),
    ("dp_experts_env.privacy.audit", "from .game import Pair\nfrom dp_experts_env.privacy import evidence"),
    ("dp_experts_env.privacy.accounting.filters", "from dp_experts_env.privacy.accounting.bounds import compose"),
    ("dp_experts_env.privacy.__init__", "from dp_experts_env.privacy.exact import exact_privacy"),
    ("dp_experts_env.__init__", "from dp_experts_env.cli import main"),
    ("dp_experts_env.cli.__init__", "import dp_experts_env as dpe"),
    ("dp_experts_agents.hedge", "import dp_experts_env as dpe\nfrom dp_experts_agents.baselines import Uniform"),
    ("dp_experts_agents.hedge", "import numpy as np\nrng: np.random.Generator = np.random.default_rng(7)"),
    ("dp_experts_agents.hedge", "import numpy as np\ndef f(seed):\n    return np.random.default_rng(seed=seed)"),
    ("dp_experts_env.rl", "import torch"),
    ("dp_experts_env.testing.suite", "import numpy as np, random\nnp.random.get_state()\nrandom.getstate()"),
    ("dp_experts_env.data", "if TYPE_CHECKING:\n    import torch"),
    ("dp_experts_env.privacy.evidence", "def fit():\n    from sklearn.linear_model import LogisticRegression"),
]
BAD = [
    ("dp_experts_env.learner", "from dp_experts_env.play import play", "learner must not import play"),
    ("dp_experts_env.learner", "import dp_experts_env.adversary", "learner must not import adversary"),
    ("dp_experts_env.learner", "from . import registry", "learner must not import registry"),
    ("dp_experts_env.learner", "from dp_experts_env import Adversary", "must not import the package itself"),
    ("dp_experts_env.learner", "import dp_experts_env", "must not import the package itself"),
    ("dp_experts_env.learner", "def f():\n    from dp_experts_env import cli", "learner must not import cli"),
    ("dp_experts_env.learner", "if TYPE_CHECKING:\n    from dp_experts_env.play import Match", "must not import play"),
    ("dp_experts_env.data", "from dp_experts_env.privacy import mechanisms", "must not import privacy.mechanisms"),
    ("dp_experts_env.data", "from dp_experts_env.privacy import compose", "data must not import privacy"),
    ("dp_experts_env.privacy.evidence", "from .game import Pair", "must not import privacy.game"),
    ("dp_experts_env.privacy.accounting.filters", "from .. import game", "must not import privacy.game"),
    ("dp_experts_env.privacy.__init__", "from dp_experts_env.chairs import JudgeEnv", "must not import chairs"),
    ("dp_experts_env.testing", "from dp_experts_env.study.tournament import x", "must not import study.tournament"),
    ("dp_experts_env.testing", "import dp_experts_agents.hedge", "dp_experts_env must not import dp_experts_agents"),
    ("dp_experts_env.cli.look", "import_module('dp_experts_adversaries')", "must not import dp_experts_adversaries"),
    ("dp_experts_agents.auto", "import dp_experts_adversaries", "must not import dp_experts_adversaries"),
    ("dp_experts_adversaries.adaptive", "from dp_experts_agents import hedge", "must not import dp_experts_agents"),
    ("dp_experts_env.data", "import leftpad", "leftpad is not declared"),
    ("dp_experts_env.data", "def f():\n    import leftpad.right", "leftpad is not declared"),
    ("dp_experts_env.data", "import torch", "torch is an extra"),
    ("dp_experts_env.data", "class A:\n    from sklearn import svm", "scikit-learn is an extra"),
    ("dp_experts_agents.hedge", "import numpy as np\nnp.random.seed(0)", "numpy.random.seed uses"),
    ("dp_experts_agents.hedge", "import numpy\nx = numpy.random.rand(3)", "numpy.random.rand uses"),
    ("dp_experts_agents.hedge", "from numpy import random as r\nr.shuffle([1])", "numpy.random.shuffle uses"),
    ("dp_experts_agents.hedge", "from numpy.random import normal\nnormal()", "numpy.random.normal uses"),
    ("dp_experts_agents.hedge", "import numpy.random as nr\nf = nr.random", "numpy.random.random uses"),
    ("dp_experts_agents.hedge", "import numpy as np\nnp.random.default_rng()", "default_rng is called without a seed"),
    ("dp_experts_agents.hedge", "from numpy.random import default_rng\ndefault_rng(None)", "without a seed"),
    ("dp_experts_agents.hedge", "import numpy as np\nnp.random.SeedSequence()", "SeedSequence is called without"),
    ("dp_experts_agents.hedge", "import random", "global state"),
    ("dp_experts_agents.hedge", "import numpy as np\nnp.random.get_state()", "numpy.random.get_state uses"),
    ("dp_experts_env.testing.suite", "import numpy as np\nnp.random.seed(1)", "numpy.random.seed uses"),
    ("dp_experts_agents.hedge", "from random import choice", "global state"),
]


def _faults(module: str, source: str) -> list[str]:
    tree = ast.parse(source)
    core, extras = frozenset({"numpy"}), frozenset({"torch", "scikit-learn"})
    return [
        *layer_faults(module, tree),
        *dependency_faults(module, tree, core, extras),
        *randomness_faults(module, tree),
    ]


@pytest.mark.parametrize(("module", "source"), GOOD)
def test_a_sound_module_passes(module: str, source: str) -> None:
    assert _faults(module, source) == []


@pytest.mark.parametrize(("module", "source", "expected"), BAD)
def test_a_faulty_module_is_caught(module: str, source: str, expected: str) -> None:
    (fault,) = _faults(module, source)
    assert expected in fault


@pytest.mark.parametrize(
    "text",
    [
        *(f"see /{folder}/me/data.csv" for folder in ("home", "root", "Users", "tmp", "work")),
        "PATH=/" + "usr/local/bin",
        "'C:" + "\\Users\\me'",
        "https://pypi." + "org/simple",
        "files.pythonhosted" + ".org",
        "--index-url https://download.pytorch" + ".org/whl/cpu",
    ],
)
def test_a_faulty_text_is_caught(text: str) -> None:
    assert len(list(text_faults("a.md", text))) == 1


@pytest.mark.parametrize(
    "text",
    ["#!/us" + "r/bin/env bash", "https://example.org/home/page", "tests/wo" + "rk/x", "1/2 and/or a/b", "R:\\ n"],
)
def test_a_sound_text_passes(text: str) -> None:
    assert list(text_faults("a.md", text)) == []
