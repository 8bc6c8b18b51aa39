"""Private release: time and memory at scale, errors on smooth data, and the tumour patients beside another MWEM.

    python benchmarks/mwem.py [--out benchmarks/results/mwem.csv] [--smartnoise FOLDER]

``--smartnoise`` names the folder ``snsynth`` of an unpacked smartnoise-synth (measured with 1.0.8): its class MWEM is
re-run on the same histogram, queries and budget, with stand-ins for its base class and for OpenDP's Laplace noise.
Its updates, selections and outputs are its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import resource
import sys
import time
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dp_experts_agents.mwem import MWEM, ProjectedSmoothMWEM, Queries, SmoothMWEM, histogram

DATASETS = Path(__file__).resolve().parents[1] / "dp_experts_env" / "datasets"


def scale(cells: int = 100_000, queries: int = 10_000, rounds: int = 50) -> Iterator[dict[str, Any]]:
    """Random {0, 1} queries packed into bits, 125 MB, against records in a few cells."""
    rng = np.random.default_rng(0)
    family = Queries.packed(rng.integers(0, 256, (queries, -(-cells // 8)), dtype=np.uint8), cells)
    counts = rng.multinomial(100_000, rng.dirichlet(np.full(cells, 0.01)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    estimator = MWEM(cells, 1.0, rounds=rounds, rng=rng).fit(counts, family)
    seconds = time.perf_counter() - began
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    truth = family.answers(counts.astype(float), (0.0, 1.0)) / counts.sum()
    error = float(np.abs(estimator.answer(family) - truth).max())
    shared = {"part": "scale", "who": "MWEM", "cells": cells, "queries": queries, "rounds": rounds, "epsilon": 1.0}
    yield {
        **shared,
        "error": error,
        "bound": estimator.error_bound(0.05, queries),
        "seconds": seconds,
        "more_MiB": more,
    }


def segments(cells: int, parts: int) -> Queries:
    """The ``parts + 1`` initial segments of the cells in equal steps."""
    step = cells // parts
    return Queries(lambda first, last: np.arange(cells) < step * np.arange(first, last)[:, None], parts + 1, cells)


def smooth(repeats: int = 3, sigma: float = 0.25, size: int = 25_000) -> Iterator[dict[str, Any]]:
    """Thresholds; (sigma, 0)-smooth data: equal counts on the last quarter of the cells. The domain and class grow.

    Only the bound of MWEM is shown where a class has more than 10^7 entries.
    """
    for cells in (100, 1000, 10_000, 100_000):
        for parts in sorted({100, min(cells, 10_000, 10**8 // cells)}):
            family = segments(cells, parts)
            counts = np.zeros(cells, dtype=int)
            counts[-cells // 4 :] = size // (cells // 4)
            truth = np.concatenate([[0.0], counts.cumsum() / size])[:: cells // parts]
            for cls in (MWEM, SmoothMWEM, ProjectedSmoothMWEM):
                errors, began = [], time.perf_counter()
                for seed in range(repeats):
                    rng = np.random.default_rng(seed)
                    if cls is MWEM:
                        estimator = MWEM(cells, 1.0, size=size, rng=rng)
                        bound, plan = estimator.error_bound(0.05, parts + 1), estimator.plan(parts + 1)
                        if cells * parts > 10**7:
                            continue
                        estimator.fit(counts, family)
                    else:
                        estimator = cls(cells, sigma, 1.0, gamma=0.01, rng=rng)
                        estimator.fit(counts, cover=segments(cells, 100))
                        bound, plan = estimator.error_bound(0.05, 101), estimator.plan_
                    errors.append(np.abs(estimator.answer(family) - truth).max())
                yield {
                    "part": "smooth",
                    "who": cls.__name__,
                    "cells": cells,
                    "queries": parts + 1,
                    "rounds": plan.rounds,
                    "epsilon": 1.0,
                    "error": float(np.mean(errors)) if errors else np.nan,
                    "deviation": float(np.std(errors)) if errors else np.nan,
                    "bound": bound,
                    "seconds": (time.perf_counter() - began) / repeats,
                }


def patients() -> tuple[Any, Any, list[tuple[int, int, int, int]]]:
    """The 569 patients of the tumour game on public edges, worst radius by diagnosis, and 1,890 rectangles of cells."""
    table = pd.read_csv(DATASETS / "tumour.csv")
    edges = [np.arange(5.0, 41.0), np.array([-0.5, 0.5, 1.5])]
    counts = histogram(table.to_numpy(), edges)
    boxes = [(a, b, c, d) for a in range(35) for b in range(a + 1, 36) for c, d in ((0, 1), (1, 2), (0, 2))]
    rows = np.zeros((len(boxes), 35, 2), dtype=np.uint8)
    for row, (a, b, c, d) in zip(rows, boxes, strict=True):
        row[a:b, c:d] = 1
    return counts, rows.reshape(len(boxes), -1), boxes


def smartnoise(folder: Path) -> Any:
    """Return the module ``mwem`` of smartnoise-synth, with stand-ins for what it imports."""
    base, utils = types.ModuleType("snsynth.base"), types.ModuleType("snsynth.utils")
    base.Synthesizer = object  # type: ignore[attr-defined]
    utils.laplace_noise = lambda scale: np.random.laplace(0.0, scale)  # type: ignore[attr-defined] # noqa: NPY002
    package = types.ModuleType("snsynth")
    sys.modules.update({"snsynth": package, "snsynth.base": base, "snsynth.utils": utils})
    spec = importlib.util.spec_from_file_location("snsynth.mwem", folder / "mwem.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"no mwem.py in {folder}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def their_release(module: Any, counts: Any, boxes: Any, epsilon: float, rounds: int, passes: int, seed: int) -> Any:
    """Run smartnoise-synth's MWEM; it draws from numpy's and Python's global state, which is seeded here."""
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    table = counts.reshape(35, 2).astype(float)
    part = module.Histogram(table, [35, 2], [None, None], np.arange(2))
    # it slices the transpose: the last axis first
    part.queries = [module.Query([np.s_[c:d], np.s_[a:b]]) for a, b, c, d in boxes]
    part.iterations, part.meas_eps = rounds, epsilon / 2 / rounds
    them = module.MWEMSynthesizer(epsilon, iterations=rounds, mult_weights_iterations=passes)
    them.histograms, them.max_iterations = [part], rounds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = np.asarray(them.mwem()[0][0])
    return found.ravel() / found.sum()


def real(folder: Path | None, repeats: int = 12) -> Iterator[dict[str, Any]]:
    """Mean over repeats of the largest error over the rectangles, at several budgets.

    ``passes`` are passes over past answers; theirs count the round's own update, and both release the last distribution
    (ours with 0 passes the mean, as proved).
    """
    counts, rows, boxes = patients()
    truth, module = rows @ counts / counts.sum(), None if folder is None else smartnoise(folder)
    uniform = float(np.abs(rows.mean(1) - truth).max())
    for epsilon in (0.5, 2.0, 8.0):
        for rounds, again in ((None, 0), (5, 0), (5, 20), (10, 0), (10, 20)):
            errors, began = [], time.perf_counter()
            for seed in range(repeats):
                rng = np.random.default_rng(seed)
                estimator = MWEM(70, epsilon, rounds=rounds, passes=again, rng=rng).fit(counts, rows)
                errors.append(np.abs(estimator.answer(rows) - truth).max())
            planned = estimator.plan_.rounds
            shared = {"part": "tumour", "cells": 70, "queries": len(rows), "epsilon": epsilon, "uniform": uniform}
            yield {
                **shared,
                "who": "MWEM, rounds left open" if rounds is None else f"MWEM, {again} passes",
                "rounds": planned,
                "error": float(np.mean(errors)),
                "deviation": float(np.std(errors)),
                "bound": estimator.error_bound(0.05, len(rows)),
                "seconds": (time.perf_counter() - began) / repeats,
            }
            if module is None or rounds is None or again:
                continue
            for passes in (1, 20):
                began = time.perf_counter()
                errors = [
                    np.abs(rows @ their_release(module, counts, boxes, epsilon, rounds, passes, seed) - truth).max()
                    for seed in range(repeats)
                ]
                yield {
                    **shared,
                    "who": f"smartnoise-synth, {passes} passes",
                    "rounds": rounds,
                    "error": float(np.mean(errors)),
                    "deviation": float(np.std(errors)),
                    "seconds": (time.perf_counter() - began) / repeats,
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/mwem.csv"))
    parser.add_argument("--smartnoise", type=Path, help="folder snsynth of smartnoise-synth")
    parser.add_argument("--parts", nargs="+", default=["scale", "smooth", "tumour"], help="what to run")
    arguments = parser.parse_args()
    parts = {"scale": scale, "smooth": smooth, "tumour": lambda: real(arguments.smartnoise)}
    rows = []
    for name in arguments.parts:
        for row in parts[name]():
            print(
                {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True
            )
            rows.append(row)
    pd.DataFrame(rows).round(6).to_csv(arguments.out, index=False)


if __name__ == "__main__":
    main()
