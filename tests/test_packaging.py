"""The core needs no extra, the wheel is whole, a third party's classes come in, and the suites find their Pythons."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = "dp-experts-env"
SOURCES = {
    "dp_experts_env": ROOT / "dp_experts_env",
    "dp_experts_agents": ROOT / "agents" / "dp_experts_agents",
    "dp_experts_adversaries": ROOT / "adversaries" / "dp_experts_adversaries",
}
EXTRAS = (
    "torch",
    "stable_baselines3",
    "sb3_contrib",
    "pettingzoo",
    "sklearn",
    "vega_datasets",
    "opendp",
    "dp_accounting",
)


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command to its end and return its output; what it said is in the message if it fails."""
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, f"{command[:4]} failed:\n{result.stdout}\n{result.stderr}"
    return result.stdout


def build_wheel(source: Path, folder: Path) -> Path:
    """Build a wheel with what is installed here, without the network."""
    options = ("--no-deps", "--no-build-isolation", "--no-index")
    run(sys.executable, "-m", "pip", "wheel", "-q", *options, "-w", folder, source, cwd=folder.parent)
    (wheel,) = folder.glob("*.whl")
    return wheel


def beyond_the_core() -> str:
    """Import names, as JSON, that are installed here but that neither the core nor anything it needs brings along."""
    needed, queue = set[str](), [PROJECT]
    while queue:
        name = canonicalize_name(queue.pop())
        if name not in needed:
            needed.add(name)
            for text in metadata.requires(name) or []:
                requirement = Requirement(text)
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    queue.append(requirement.name)
    inside, outside = set(SOURCES), set[str]()
    for distribution in metadata.distributions():
        modules = {
            file.parts[0].partition(".")[0] for file in distribution.files or () if file.suffix in (".py", ".so")
        }
        (inside if canonicalize_name(distribution.metadata["Name"]) in needed else outside).update(modules)
    assert {"numpy", "gymnasium", "typer"} <= inside
    absent = outside - inside - {""}
    assert {"pytest", "hypothesis", "hatchling"} <= absent
    return json.dumps(sorted(absent))


CORE_ALONE = """
import importlib, json, pkgutil, sys

ABSENT = frozenset(json.loads(sys.argv[1]))

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import dp_experts_env as dpe

early = [name for name in ("dp_experts_agents", "dp_experts_adversaries") if name in sys.modules]
assert not early, f"imported before they were asked for: {early}"

learners = dpe.learners() + dpe.learners(leaky=True)
for name in learners:
    dpe.play(dpe.make_learner(name), dpe.make_adversary("bernoulli", num_experts=4, horizon=20), num_games=3, seed=0)
for name in dpe.adversaries():
    dpe.play(dpe.make_learner("uniform"), dpe.make_adversary(name), num_games=None, seed=0)
imported = sorted(sys.modules)

modules = []
for package in ("dp_experts_env", "dp_experts_agents", "dp_experts_adversaries") if ABSENT else ():
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        try:
            modules.append(importlib.import_module(found.name).__name__)
        except dpe.MissingExtraError:
            assert found.name == "dp_experts_env.rl", f"{found.name} cannot be imported without an extra"

print(json.dumps({"learners": learners, "modules": modules, "imported": imported}))
"""


def test_core_imports_and_plays_with_no_extra(tmp_path: Path) -> None:
    said = json.loads(run(sys.executable, "-W", "error", "-c", CORE_ALONE, beyond_the_core(), cwd=tmp_path))
    assert {"uniform", "hedge", "private_hedge"} <= set(said["learners"])
    assert {"dp_experts_env.cli", "dp_experts_env.testing", "dp_experts_agents.hedge"} <= set(said["modules"])


def test_core_never_imports_what_is_heavy(tmp_path: Path) -> None:
    # With the extras within reach, where they are: an "except ImportError" would hide behind their absence.
    said = json.loads(run(sys.executable, "-c", CORE_ALONE, "[]", cwd=tmp_path))
    assert not {"torch", "stable_baselines3", "sklearn"} & set(said["imported"])


def test_the_guard_of_these_tests_guards(tmp_path: Path) -> None:
    needy = CORE_ALONE.replace("import dp_experts_env as dpe", "import hypothesis")
    with pytest.raises(AssertionError, match="No module named 'hypothesis'"):
        run(sys.executable, "-c", needy, beyond_the_core(), cwd=tmp_path)


def test_environment_is_the_one_that_is_tested() -> None:
    expected = os.environ.get("DP_EXPERTS_EXTRAS")
    if expected is None:
        pytest.skip("DP_EXPERTS_EXTRAS is not set: nothing is said about which extras are installed")
    missing = {module for module in EXTRAS if importlib.util.find_spec(module) is None}
    assert missing == {"required": set(), "absent": set(EXTRAS)}[expected]


INSTALLED = """
import json, sys
from importlib import resources
from pathlib import Path
import gymnasium as gym
import dp_experts_adversaries, dp_experts_agents
import dp_experts_env as dpe

for package in (dpe, dp_experts_agents, dp_experts_adversaries):
    assert Path(package.__file__).is_relative_to(sys.prefix), package.__file__
    assert resources.files(package).joinpath("py.typed").is_file()
losses = dpe.load_losses("tumour")
match = dpe.play(dpe.make_learner("hedge"), dpe.make_adversary("replay", source="tumour"), num_games=2, seed=0)
env = gym.make("dp_experts/PunishLast-v0", num_experts=3, horizon=2)
env.reset(seed=0)
assert env.step(0)[1] <= 0.0
print(json.dumps({"shape": losses.shape, "best": match.best_loss.tolist(), "adversaries": dpe.adversaries()}))
"""


def test_wheel_is_whole_and_works_elsewhere(tmp_path: Path) -> None:
    wheel = build_wheel(ROOT, tmp_path / "wheels")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    info = {name for name in packed if ".dist-info/" in name}
    assert packed - info == {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in SOURCES.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name.split(".dist-info/")[1] for name in info} >= {"METADATA", "entry_points.txt", "licenses/LICENSE"}

    # A new environment that holds nothing but this wheel; what the core needs is lent by the environment of the tests
    # through a path file, which passes on no editable install.
    fresh = tmp_path / "fresh"
    run(sys.executable, "-m", "venv", "--without-pip", fresh, cwd=tmp_path)
    python = fresh / "bin" / "python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel, cwd=tmp_path
    )
    (site,) = fresh.glob("lib/python*/site-packages")
    lent = [path for path in sys.path if path.endswith("-packages")]
    (site / "lent.pth").write_text("\n".join(lent) + "\n", encoding="utf-8")
    said = json.loads(run(python, "-I", "-c", INSTALLED, cwd=tmp_path))
    assert said["shape"] == [569, 257]
    assert said["best"] == [47.0, 47.0]
    assert {"bernoulli", "replay", "punish_last"} <= set(said["adversaries"])
    assert "private_hedge" in run(fresh / "bin" / "dp-experts", "list", cwd=tmp_path)


@pytest.mark.slow
def test_source_archive_builds_the_same_wheel(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=ROOT)
    (archive,) = tmp_path.glob("*.tar.gz")
    contents = []
    for source, folder in ((archive, "from_archive"), (ROOT, "from_folder")):
        with zipfile.ZipFile(build_wheel(source, tmp_path / folder)) as wheel:
            contents.append({entry.filename: entry.CRC for entry in wheel.infolist()})
    assert contents[0] == contents[1]
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"LICENSE", "README.md", "Makefile", "tests/test_packaging.py"} <= names


PLUGIN = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tiny-experts"
version = "1.0"

[project.entry-points."dp_experts_env.agents"]
stubborn = "tiny_experts:Stubborn"

[project.entry-points."dp_experts_env.adversaries"]
see_saw = "tiny_experts:SeeSaw"
""",
    "tiny_experts.py": """
import numpy as np
import dp_experts_env as dpe


class Stubborn(dpe.Learner):
    deterministic = True

    def __init__(self, expert: int = 0) -> None:
        self.expert = expert

    def act(self):
        return np.full(self.spec.shape, self.expert)


class SeeSaw(dpe.Adversary):
    def emit(self):
        return self.one_hot(np.full(self.game.shape, self.round % self.num_experts))
""",
}

PLUGGED = """
import json
import gymnasium as gym
import dp_experts_env as dpe

match = dpe.play(
    dpe.make_learner("stubborn", expert=1),
    dpe.make_adversary("see_saw", num_experts=2, horizon=5),
    num_games=3, seed=0, record="choices",
)
env = gym.make("dp_experts/SeeSaw-v0", num_experts=2, horizon=2)
env.reset(seed=0)
envs = gym.make_vec("dp_experts/SeeSaw-v0", num_envs=4, num_experts=2, horizon=2)
envs.reset(seed=0)
print(json.dumps({
    "learners": dpe.learners(),
    "adversaries": dpe.adversaries("oblivious"),
    "module": dpe.learner_class("stubborn").__module__,
    "regret": match.regret.tolist(),
    "choices": match.choices.tolist(),
    "rewards": [env.step(0)[1], env.step(0)[1]],
    "batch": envs.step([0, 1, 0, 1])[1].tolist(),
}))
"""


def test_third_party_classes_come_in_by_entry_points(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name, text in PLUGIN.items():
        (source / name).write_text(text, encoding="utf-8")
    options = ("--no-deps", "--no-build-isolation", "--no-index")
    run(sys.executable, "-m", "pip", "install", "-q", *options, "--target", target, source, cwd=tmp_path)

    said = json.loads(run(sys.executable, "-W", "error", "-c", PLUGGED, cwd=tmp_path, PYTHONPATH=str(target)))
    assert {"stubborn", "hedge"} <= set(said["learners"])
    assert {"see_saw", "bernoulli"} <= set(said["adversaries"])
    assert said["module"] == "tiny_experts"
    # Experts 0 and 1 pay in turn, 0 first: after five rounds 0 has paid three times and 1 twice.
    assert said["regret"] == [0.0, 0.0, 0.0]
    assert said["choices"] == [[1] * 5] * 3
    assert said["rewards"] == [-1.0, 0.0]
    assert said["batch"] == [-1.0, 0.0, -1.0, 0.0]

    with pytest.raises(AssertionError, match="unknown name 'stubborn'"):
        run(sys.executable, "-c", PLUGGED, cwd=tmp_path)


@pytest.fixture
def suites(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script behind `make test`, with a PATH of its own and no version manager."""
    spec = importlib.util.spec_from_file_location("suites", ROOT / ".ci" / "suites.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("PATH", str(tmp_path))
    return module


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def test_suites_pass_over_a_shim_that_fails(suites: ModuleType, tmp_path: Path) -> None:
    assert suites.interpreter("3.12") == (None, "no python3.12 on PATH or in pyenv")
    _script(tmp_path / "python3.12", "echo 'version not chosen' >&2; exit 127")
    found, why = suites.interpreter("3.12")
    assert found is None
    assert "does not work" in why


def test_suites_pass_over_another_version(suites: ModuleType, tmp_path: Path) -> None:
    here = f"3.{sys.version_info.minor}"
    _script(tmp_path / "python3.9", f'exec {sys.executable} "$@"')
    found, why = suites.interpreter("3.9")
    assert found is None
    assert f"is {here}" in why
    _script(tmp_path / f"python{here}", f'exec {sys.executable} "$@"')
    assert suites.interpreter(here) == (tmp_path / f"python{here}", "")


def test_suites_look_into_pyenv(suites: ModuleType, tmp_path: Path) -> None:
    here = f"3.{sys.version_info.minor}"
    binaries = tmp_path / "pyenv root" / "versions" / f"{here}.1" / "bin"
    binaries.mkdir(parents=True)
    _script(tmp_path / "pyenv", f"echo '{tmp_path}/pyenv root'")
    _script(tmp_path / f"python{here}", "exit 127")
    _script(binaries / f"python{here}", f'exec {sys.executable} "$@"')
    assert suites.interpreter(here) == (binaries / f"python{here}", "")


@pytest.mark.slow
@pytest.mark.parametrize(("body", "passed"), [("assert True", True), ("assert False", False)])
def test_suites_report_what_pytest_found(
    body: str, passed: bool, suites: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_one.py").write_text(f"def test_one():\n    {body}\n", encoding="utf-8")
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(suites, "PYTEST", ("-m", "pytest", "-q"))
    failures: list[str] = []
    outcome, good = suites.suite("3.x", Path(sys.executable), "required", failures, "-p", "no:cacheprovider")
    assert good == passed
    assert ("1 passed in" if passed else "FAILED: 1 failed in") in outcome
    assert [line.split(" - ")[0] for line in failures] == ([] if passed else ["3.x: FAILED test_one.py::test_one"])
