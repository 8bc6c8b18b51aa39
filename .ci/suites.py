"""Run the whole suite on this Python, then the core suite on every other Python 3.10 to 3.13 that the machine has.

    python .ci/suites.py            # from an environment with the extra "dev"
    python .ci/suites.py --here     # this Python only

The core suite runs in an environment of its own a version, .venvs/3.X, that holds the core and the extra "test" and
nothing else; tests marked "slow" are left out of it. The last lines say what was tested and what was not.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MINORS = range(10, 14)
PYTEST = ("-m", "pytest", "-n", "auto", "--maxprocesses=8", "-q")


def main(arguments: list[str]) -> int:
    """Run the suites, print the table, return the exit code."""
    if arguments not in ([], ["--here"]):
        print(__doc__)
        return 2
    here = f"3.{sys.version_info.minor}"
    failures: list[str] = []
    rows = [(here, "whole suite, all extras", *suite(here, Path(sys.executable), "required", failures))]
    for minor in () if arguments else MINORS:
        version = f"3.{minor}"
        if version != here:
            found, why_not = interpreter(version)
            if found is None:
                rows.append((version, "NOT TESTED", why_not, True))
            else:
                rows.append((version, "core suite, no extra", *core_suite(version, found, failures)))
    print("\n".join(["", *failures, "", "Python"]))
    for version, what, outcome, _ in rows:
        print(f"  {version:6}{what:25}{outcome}")
    return 0 if all(passed for *_, passed in rows) else 1


def interpreter(version: str) -> tuple[Path | None, str]:
    """Find a Python of this version that works and can make environments; else say what was tried."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    candidates = [Path(folder) / f"python{version}" for folder in folders if folder]
    pyenv = shutil.which("pyenv")
    if pyenv:
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()
        candidates += sorted(Path(root or "/nowhere").glob(f"versions/{version}.*/bin/python{version}"), reverse=True)
    tried = []
    for candidate in dict.fromkeys(path for path in candidates if path.is_file()):
        probe = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
        try:
            # A shim of a version manager is a file too, but runs only where that version was chosen.
            answer = subprocess.run(
                [candidate, "-I", "-c", probe], capture_output=True, text=True, timeout=60, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            tried.append(f"{candidate} does not work ({type(error).__name__})")
        else:
            if answer.stdout.strip() == version:
                return candidate, ""
            tried.append(f"{candidate} is {answer.stdout.strip()}")
    return None, "; ".join(tried) or f"no python{version} on PATH or in pyenv"


def core_suite(version: str, base: Path, failures: list[str]) -> tuple[str, bool]:
    """Install the core and the extra "test" for this Python and run the core suite."""
    print(f"\n== Python {version}: {base}", flush=True)
    environment = ROOT / ".venvs" / version
    python = environment / "bin" / "python"
    stamp = environment / ".installed"
    state = hashlib.sha256(f"{base} {environment} ".encode() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    try:
        if not (python.exists() and stamp.exists() and stamp.read_text() == state):
            subprocess.run([base, "-m", "venv", "--clear", environment], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", "--no-compile", "-e", f"{ROOT}[test]"], check=True)
            stamp.write_text(state)
    except subprocess.CalledProcessError as error:
        return f"FAILED to install: {error}", False
    return suite(version, python, "absent", failures, "-m", "not slow")


def suite(version: str, python: Path, extras: str, failures: list[str], *options: str) -> tuple[str, bool]:
    """Run pytest and show its output, add its failures to the list, and return its last line and whether all passed."""
    began = time.monotonic()
    command = [python, *PYTEST, f"--color={'yes' if sys.stdout.isatty() else 'no'}", *options]
    last = "no output"
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "DP_EXPERTS_EXTRAS": extras},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
            if line.startswith(("FAILED ", "ERROR ")):
                failures.append(f"{version}: {line.rstrip()}")
    if process.returncode != 0:
        last = f"FAILED: {last}"
    return f"{last} [{time.monotonic() - began:.0f} s in all]", process.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
