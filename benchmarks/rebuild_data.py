"""Rebuild the bundled data files from scikit-learn and vega_datasets, byte for byte.

    python benchmarks/rebuild_data.py            # write the files
    python benchmarks/rebuild_data.py --check    # compare only; exit code 1 names the files that differ

Needs the ``rebuild`` extra (scikit-learn, vega_datasets). Both packages carry their data, so nothing is downloaded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from sklearn.datasets import load_breast_cancer
from vega_datasets import data as vega

FOLDER = Path(__file__).resolve().parents[1] / "dp_experts_env" / "datasets"


def tumour() -> str:
    """Worst radius (feature 20) and target (1 is benign) of the 569 patients, in file order."""
    source = load_breast_cancer()
    if source.feature_names[20] != "worst radius" or list(source.target_names) != ["malignant", "benign"]:
        raise SystemExit("scikit-learn's breast-cancer data has changed its columns")
    rows = zip(source.data[:, 20].tolist(), source.target.tolist(), strict=True)
    return _csv("worst_radius,benign", rows)


def temperature() -> str:
    """Seattle hourly temperature normals in degrees Fahrenheit, in file order."""
    return _csv("temp", ((value,) for value in vega.seattle_temps()["temp"].tolist()))


def weather() -> str:
    """Seattle daily weather: precipitation in mm, temperatures in degrees Celsius, wind in m/s, in file order."""
    columns = ["precipitation", "temp_max", "temp_min", "wind"]
    return _csv(",".join(columns), vega.seattle_weather()[columns].to_numpy().tolist())


def _csv(header: str, rows: Iterable[Iterable[float]]) -> str:
    # repr is the shortest text that reads back as the same float64, so the files do not depend on a formatting option
    return "\n".join([header, *(",".join(map(repr, row)) for row in rows)]) + "\n"


FILES: dict[str, Callable[[], str]] = {
    "seattle_temperature.csv": temperature,
    "seattle_weather.csv": weather,
    "tumour.csv": tumour,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files are (default: in the package)")
    options = parser.parse_args(arguments)
    different = 0
    for name, build in FILES.items():
        path, content = options.folder / name, build().encode()
        if options.check:
            same = path.is_file() and path.read_bytes() == content
            different += not same
            print(f"{name}: {'identical' if same else 'DIFFERENT'}")
        else:
            path.write_bytes(content)
            print(f"{name}: {len(content)} bytes written")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
