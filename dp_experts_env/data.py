"""Loss matrices: the bundled real games, and a user's own from a .npy, .csv or .parquet file.

A loss matrix has one row per round and one column per expert, shape ``(T, N)``, with losses in [0, 1]. The package
ships the source values (patients, temperatures, weather); the recipes here turn them into games. Experts use only
the past, and every range and tolerance is a public constant, never read off the data.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn, TextIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_experts_env.spec import ArgumentError, DataError, FloatArray, UnknownNameError, check_name

SUFFIXES = (".csv", ".npy", ".parquet")
"""The file formats that :func:`load_losses` reads."""

_MAP_BYTES = 2**26  # a .npy file from this size on is mapped rather than read, so that it need not fit in memory
_SLICE_CELLS = 2**20  # cells validated or converted at once


def load_losses(source: str | os.PathLike[str] | ArrayLike, *, header: bool | None = None) -> FloatArray:
    """Return a loss matrix from a bundled game, a file or an array.

    Nothing in a file is guessed. A CSV file is UTF-8, with commas between columns, a point in decimals and no index
    column. Its first row is a header if no cell of it is a number, or if it numbers the columns (0, 1, 2, ... or
    1, 2, ...) beyond 1, which no loss can reach; a first row "0", "1" or "0,1" could be both and is refused unless
    ``header`` says which. The columns that a Parquet file's pandas metadata declares as its index are not experts.

    Args:
        source: one of :func:`bundled`; or the path of a .csv, .npy or .parquet file; or an array. A bundled name
            wins over a file of that name.
        header: whether the first row of a CSV file names the experts; ``None`` detects it as described.

    Returns:
        Shape ``(T, N)``, float64, in [0, 1], C-contiguous and read-only. Bundled games are built once and shared.
        A C-contiguous float64 array comes back as a view of itself; such a .npy file of 64 MiB or more is
        memory-mapped, and must not be rewritten while in use. In every other case one copy is made.

    Raises:
        UnknownNameError: ``source`` is neither a bundled name nor looks like a path.
        DataError: the file is missing, unreadable or of an unsupported format, or the matrix is not two-dimensional,
            is empty, holds something that is not a number, or leaves [0, 1]. The message names the cell: rounds count
            from 1, experts from 0.
        ArgumentError: ``header`` is not a bool or ``None``, or is given where there is no CSV file.
    """
    if header is not None and not isinstance(header, bool):
        raise ArgumentError(f"header: expected True, False or None but found {header!r}")
    path = None if isinstance(source, str) and source in _GAMES else _as_path(source)
    if header is not None and (path is None or path.suffix.lower() != ".csv"):
        raise ArgumentError(f"header: expected None, since the source is not a .csv file, but found {header!r}")
    if path is not None:
        names, array = _read(path, header)
        return _validated(array, str(path), names)
    if isinstance(source, str):
        return _game(source)[1]
    if np.ma.is_masked(source):
        raise DataError("losses: expected a loss in every cell but found masked cells")
    try:
        array = np.asarray(source)
    except ValueError as error:
        raise DataError("losses: expected a rectangular array of numbers, shape (rounds, experts)") from error
    return _validated(array, "losses")


def bundled() -> tuple[str, ...]:
    """Return the names of the bundled games, sorted."""
    return tuple(sorted(_GAMES))


def expert_names(name: str) -> tuple[str, ...]:
    """Return a readable name for each expert of a bundled game, in the order of the columns.

    Raises:
        UnknownNameError: ``name`` is not one of :func:`bundled`.
    """
    return _game(check_name("name", name, bundled()))[0]


# The bundled games


def _tumour() -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    radius, benign = _columns("tumour.csv")
    thresholds = np.linspace(0.0, 40.0, 257)
    names = tuple(f"benign if worst radius <= {threshold}" for threshold in thresholds)
    return names, (radius[:, None] <= thresholds) != (benign[:, None] == 1)


def _tumour_realizable() -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    names, wrong = _tumour()
    best = wrong.sum(axis=0).argmin()
    return names, wrong[~wrong[:, best]]


def _temperature(tolerance: int) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    # In tenths of a degree the values are integers: an error of exactly the tolerance is then seen as such.
    y = np.rint(10 * _columns("seattle_temperature.csv")[0])
    t = np.arange(168, len(y))
    total = np.concatenate(([0.0], np.cumsum(y)))  # total[t] is the sum of the t values before y[t]
    windows = (2, 3, 5, 10, 20, 50)
    rates = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
    holt_rates = ((0.5, 0.1), (0.3, 0.3), (0.8, 0.2))
    smoothed = _holt(y, *np.array([*((rate, 0.0) for rate in rates), *holt_rates]).T)[t].T
    forecasts = {
        "last value": y[t - 1],
        "value 24 hours before": y[t - 24],
        "value 168 hours before": y[t - 168],
        **{f"mean of the last {w} values": (total[t] - total[t - w]) / w for w in windows},
        "mean of all past values": total[t] / t,
        **{f"exponential smoothing, rate {rate}": smoothed[i] for i, rate in enumerate(rates)},
        "drift": y[t - 1] + (y[t - 1] - y[0]) / (t - 1),
        "linear extrapolation": 2 * y[t - 1] - y[t - 2],
        **{f"Holt, level rate {a}, trend rate {b}": smoothed[len(rates) + i] for i, (a, b) in enumerate(holt_rates)},
    }
    errors = np.abs(np.column_stack(list(forecasts.values())) - y[t, None])
    return tuple(forecasts), errors > 10 * tolerance


def _holt(y: FloatArray, level_rates: FloatArray, trend_rates: FloatArray) -> FloatArray:
    """Return Holt's linear forecasts of ``y[t]`` from ``y[:t]``, shape ``(T, K)``; row 0 is the starting level.

    The level starts at ``y[0]`` and the trend at 0. A trend rate of 0 is simple exponential smoothing.
    """
    forecasts = np.empty((len(y), len(level_rates)))
    level, trend = np.full_like(level_rates, y[0]), np.zeros_like(trend_rates)
    forecasts[0] = level
    for t in range(1, len(y)):
        forecasts[t] = level + trend
        previous, level = level, level_rates * y[t] + (1 - level_rates) * forecasts[t]
        trend = trend_rates * (level - previous) + (1 - trend_rates) * trend
    return forecasts


def _rain() -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    # In tenths, as above: the range of 12.8 and 8.8 degrees is 4, which float64 differences miss.
    precipitation, high, low, wind = (np.rint(10 * column) for column in _columns("seattle_weather.csv"))
    rain = precipitation > 0
    # The first day's yesterday: dry, without range, otherwise like the day itself. Days before it are dry.
    rain1, rain2, rain3 = (np.concatenate((np.zeros(lag, bool), rain[:-lag])) for lag in (1, 2, 3))
    yesterday = {
        ("high", "C", (5, 8, 11, 14, 17, 20, 25)): np.concatenate((high[:1], high[:-1])),
        ("low", "C", (0, 3, 6, 9, 12, 15)): np.concatenate((low[:1], low[:-1])),
        ("wind", "m/s", (1, 2, 3, 4, 5, 6)): np.concatenate((wind[:1], wind[:-1])),
        ("range", "C", (4, 6, 8, 10, 12)): np.concatenate(([0.0], (high - low)[:-1])),
    }
    forecasts = {"as yesterday": rain1, "never": np.zeros_like(rain), "always": np.ones_like(rain)}
    for (quantity, unit, limits), value in yesterday.items():
        for limit in limits:
            forecasts[f"rain if yesterday's {quantity} was below {limit} {unit}"] = value < 10 * limit
            forecasts[f"rain if yesterday's {quantity} was at least {limit} {unit}"] = value >= 10 * limit
    forecasts["rain if on more than half of the last 2 days"] = rain1 & rain2
    forecasts["rain if on more than half of the last 3 days"] = rain1.astype(int) + rain2 + rain3 >= 2
    return tuple(forecasts), np.column_stack(list(forecasts.values())) != rain[:, None]


_GAMES: dict[str, Callable[[], tuple[tuple[str, ...], NDArray[np.bool_]]]] = {
    "rain": _rain,
    "temperature_1F": lambda: _temperature(1),
    "temperature_2F": lambda: _temperature(2),
    "tumour": _tumour,
    "tumour_realizable": _tumour_realizable,
}


@cache
def _game(name: str) -> tuple[tuple[str, ...], FloatArray]:
    names, wrong = _GAMES[name]()
    losses = np.ascontiguousarray(wrong, dtype=np.float64)
    losses.flags.writeable = False
    return names, losses[:]  # all callers share it, and unlike its base nobody can make the view writable


def _columns(file: str) -> FloatArray:
    with (resources.files("dp_experts_env") / "datasets" / file).open(encoding="utf-8") as lines:
        return np.loadtxt(lines, delimiter=",", skiprows=1, ndmin=2, unpack=True)


# A user's own files


def _as_path(source: Any) -> Path | None:
    """Return the path that ``source`` is, ``None`` if it is an array, or raise :class:`UnknownNameError`."""
    if not isinstance(source, (str, os.PathLike)):
        return None
    text = os.path.expanduser(os.fsdecode(source))
    path = Path(text)
    if isinstance(source, str) and not (text and (path.suffix or len(path.parts) > 1 or os.path.exists(text))):
        try:
            check_name("source", source, bundled())
        except UnknownNameError as error:
            raise UnknownNameError(f"{error}; a file's name ends in {_listed(SUFFIXES)}") from None
    return path


def _read(path: Path, header: bool | None) -> tuple[list[str], NDArray[Any]]:
    """Return the names of the experts, if the file has them, and its array, not yet validated."""
    if os.path.isdir(path):
        raise DataError(f"{path}: expected a file but found a directory")
    if not os.path.exists(path):
        raise DataError(f"{path}: no such file (bundled games: {', '.join(bundled())})")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{path}: expected a file name that ends in {_listed(SUFFIXES)} but found {path.suffix!r}")
    try:
        if path.stat().st_size == 0:
            raise DataError(f"{path}: the file is empty")
        if suffix == ".csv":
            return _read_csv(path, header)
        return ([], _read_npy(path)) if suffix == ".npy" else _read_parquet(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def _read_npy(path: Path) -> NDArray[Any]:
    with open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise DataError(f"{path}: not a .npy file (pickles and .npz archives are refused)")
    mode: Any = "r" if path.stat().st_size >= _MAP_BYTES else None
    try:
        array: NDArray[Any] = np.load(path, mmap_mode=mode, allow_pickle=False)
    except Exception as error:  # numpy's parser answers damaged headers with many kinds of error, MemoryError too
        raise DataError(f"{path}: cannot be read as an array of numbers: {error}") from error
    return array


def _read_parquet(path: Path) -> tuple[list[str], FloatArray]:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]  # slow to import
    import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            index = (schema.pandas_metadata or {}).get("index_columns", [])
            columns = [i for i, name in enumerate(schema.names) if name not in index]
            names = [str(schema.names[i]) for i in columns]
            for i, name in zip(columns, names, strict=True):
                kind = schema.types[i]
                if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
                    raise DataError(f"{path}: column {name!r}: expected numbers but found type {kind}")
            losses = np.empty((file.metadata.num_rows, len(columns)))
            rows = max(1, _SLICE_CELLS // max(1, len(columns)))
            start = 0
            for batch in file.iter_batches(batch_size=rows):
                for expert, i in enumerate(columns):
                    cells = batch.column(i)
                    if cells.null_count:
                        round = start + int(np.flatnonzero(cells.is_null().to_numpy(zero_copy_only=False))[0]) + 1
                        raise DataError(f"{path}: {_cell(round, expert, names)}: the cell is empty")
                    losses[start : start + len(cells), expert] = cells.to_numpy(zero_copy_only=False)
                start += batch.num_rows
            if start != len(losses):
                raise DataError(f"{path}: expected {len(losses)} rows but found {start}")
    except DataError:
        raise
    except Exception as error:  # as above: a damaged file has many ways to fail
        raise DataError(f"{path}: cannot be read as a Parquet file: {error}") from error
    return names, losses


def _read_csv(path: Path, header: bool | None) -> tuple[list[str], FloatArray]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = _lines(path, file)
            first = next(lines, None)
            if first is None:
                raise DataError(f"{path}: the file holds only blank lines")
            names = _header(path, first, header)
            row = next(lines, None) if names else first
            if row is None:
                raise DataError(f"{path}: expected at least one round but found only a header")
            rows = itertools.chain((row,), lines)
            losses = np.loadtxt(rows, dtype=np.float64, delimiter=",", quotechar='"', comments=None, ndmin=2)
    except DataError:
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text: {error}") from error
    except ValueError as error:
        _raise_bad_line(path, names, error)
    if names and losses.shape[1] != len(names):
        raise DataError(
            f"{path}: the header names {len(names)} experts but the rows have {losses.shape[1]} cells; "
            "is there an index column or a trailing comma?"
        )
    return names, losses


def _lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield the lines; blank ones may only end the file, since elsewhere they could be missing rounds."""
    blank = 0
    for number, line in enumerate(file, 1):
        if not line.strip():
            blank = blank or number
        elif blank:
            raise DataError(f"{path}: line {blank} is blank")
        else:
            yield line


def _header(path: Path, line: str, header: bool | None) -> list[str]:
    """Return the names in the first line, or an empty list if it holds losses."""
    try:
        cells = [cell.strip() for cell in next(csv.reader([line]))]
    except csv.Error as error:
        raise DataError(f"{path}: line 1 cannot be read as CSV: {error}") from error
    numbers = [_is_number(cell) for cell in cells]
    if header is None and all(numbers):
        numbered = any(cells == [str(start + i) for i in range(len(cells))] for start in (0, 1))
        if numbered and int(cells[-1]) <= 1:
            raise DataError(
                f"{path}: the first line {line.strip()!r} may number the experts or be the losses of round 1; "
                "name the experts in the file, or pass header=True or header=False"
            )
        header = numbered
    elif header is None and not any(numbers):
        header = not any(_count_numbers(cell) for cell in cells)
    if not header:
        return []
    for i, cell in enumerate(cells):
        if not cell:
            raise DataError(
                f"{path}: column {i + 1} of the header has no name; is it an index column "
                "(pandas: write with index=False) or a trailing comma?"
            )
        if cell in cells[:i]:
            raise DataError(f"{path}: the header names two experts {cell!r}")
    return cells


def _raise_bad_line(path: Path, names: list[str], error: ValueError) -> NoReturn:
    """Read the file again, slowly, and name the first line that numpy could not take."""
    with contextlib.suppress(csv.Error), open(path, encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        if names:
            next(reader)
        width = 0
        for cells in reader:
            line = reader.line_num
            width = width or len(cells)
            for expert, cell in enumerate(cells):
                if not _is_number(cell):
                    where = f"line {line} ({_cell(line - bool(names), expert, names)})"
                    shown = cell if len(cell) <= 40 else cell[:40] + "..."
                    raise DataError(f"{path}: {where}: expected a number but found {shown!r}{_hint(cell)}")
            if len(cells) != width:
                raise DataError(f"{path}: line {line}: expected {width} cells but found {len(cells)}")
    raise DataError(f"{path}: cannot be read as numbers: {error}") from error


def _hint(cell: str) -> str:
    if not cell.strip():
        return "; is there an index column, a trailing comma or a missing loss?"
    if _count_numbers(cell) > 1:
        return "; separate columns by commas and write decimals with a point"
    return "; write decimals with a point and no thousands separators" if "," in cell else ""


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python's digit grouping, which nothing else reads


def _count_numbers(cell: str) -> int:
    """Return how many numbers a cell holds if they may have decimal commas and any separator; 0 if it holds text."""
    parts = re.split(r"[;\t |]+", cell.strip())
    return len(parts) if all(_is_number(part.replace(",", ".")) for part in parts) else 0


def _validated(array: NDArray[Any], label: str, names: list[str] | None = None) -> FloatArray:
    """Return the array as a read-only loss matrix, copied only if it is not float64 and C-contiguous already."""
    if array.dtype.kind not in "biuf":
        raise DataError(f"{label}: expected numbers but found dtype {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(
            f"{label}: expected shape (rounds, experts), at least one of each, but found shape {array.shape}"
        )
    rounds = max(1, _SLICE_CELLS // array.shape[1])
    for start in range(0, len(array), rounds):
        block = array[start : start + rounds]
        if not (block.min() >= 0 and block.max() <= 1):
            row, expert = np.argwhere(~((block >= 0) & (block <= 1)))[0].tolist()
            value, column = block[row, expert].item(), array[:, expert]
            hint = "; rescale other ranges explicitly" if np.isfinite(value) else ""
            if column[0] in (0, 1) and np.array_equal(column, column[0] + np.arange(len(column))):
                hint = "; is this an index column? leave it out"
            cell = _cell(start + row + 1, expert, names)
            raise DataError(f"{label}: {cell}: expected a loss in [0, 1] but found {value!r}{hint}")
    losses: FloatArray = np.ascontiguousarray(array, dtype=np.float64).view()
    losses.flags.writeable = False
    return losses


def _cell(round: int, expert: int, names: list[str] | None) -> str:
    name = f" ({names[expert]!r})" if names and expert < len(names) else ""
    return f"round {round}, expert {expert}{name}"


def _listed(items: tuple[str, ...]) -> str:
    return f"{', '.join(items[:-1])} or {items[-1]}"
