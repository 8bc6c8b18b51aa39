"""The bundled games against a second, exact implementation; the readers against round trips and damaged files."""

import csv
import importlib.util
import io
import itertools
import subprocess
import sys
import tracemalloc
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dp_experts_env
from dp_experts_env import data
from dp_experts_env.data import bundled, expert_names, load_losses
from dp_experts_env.spec import ArgumentError, DataError, UnknownNameError

FOLDER = Path(data.__file__).parent / "datasets"
REBUILD = Path(__file__).parents[1] / "benchmarks" / "rebuild_data.py"


# The bundled games


@pytest.mark.parametrize(
    ("name", "shape", "best_loss", "best"),
    [
        ("rain", (1461, 53), 408, "as yesterday"),
        ("temperature_1F", (8591, 22), 8, "value 24 hours before"),
        ("temperature_2F", (8591, 22), 0, "value 24 hours before"),
        ("tumour", (569, 257), 47, "benign if worst radius <= 16.875"),
        ("tumour_realizable", (522, 257), 0, "benign if worst radius <= 16.875"),
    ],
)
def test_figures(name, shape, best_loss, best):
    losses = load_losses(name)
    totals = losses.sum(axis=0)
    assert losses.shape == shape
    assert totals.min() == best_loss
    assert expert_names(name)[totals.argmin()] == best
    assert set(np.unique(losses)) == {0.0, 1.0}


def test_tumour_realizable_next_best():
    assert np.sort(load_losses("tumour_realizable").sum(axis=0))[:2].tolist() == [0, 2]


def test_bundled_names():
    assert bundled() == ("rain", "temperature_1F", "temperature_2F", "tumour", "tumour_realizable")
    for name in bundled():
        names = expert_names(name)
        assert len(names) == len(set(names)) == load_losses(name).shape[1]


@pytest.mark.parametrize("name", bundled())
def test_bundled_arrays_are_shared_and_read_only(name):
    losses = load_losses(name)
    assert losses.dtype == np.float64
    assert losses.flags.c_contiguous
    assert load_losses(name) is losses
    with pytest.raises(ValueError, match="read-only"):
        losses[0, 0] = 0.5
    with pytest.raises(ValueError, match="WRITEABLE"):
        losses.flags.writeable = True


# The oracles: plain loops over exact integers, reading the files by themselves


@cache
def source(name, scale):
    with open(FOLDER / name, newline="") as file:
        rows = [[Decimal(cell) * scale for cell in row] for row in itertools.islice(csv.reader(file), 1, None)]
    assert all(value == int(value) for row in rows for value in row)
    return [[int(value) for value in row] for row in rows]


@cache
def slow_tumour():
    rows = []
    for radius, benign in source("tumour.csv", 10_000):
        rows.append([int((256 * radius <= 40 * i * 10_000) != (benign == 10_000)) for i in range(257)])
    return rows


@cache
def slow_tumour_realizable():
    mistakes = [sum(row[i] for row in slow_tumour()) for i in range(257)]
    return [row for row in slow_tumour() if row[mistakes.index(47)] == 0]


@cache
def slow_temperature():
    y = [row[0] for row in source("seattle_temperature.csv", 10)]
    smoothers = [[p, 20, y[0], 1] for p in (1, 2, 4, 6, 10, 14, 18)]  # rate p/q, level L/D
    holts = [[p, r, y[0], 0, 1] for p, r in ((5, 1), (3, 3), (8, 2))]  # rates p/10 and r/10, level L/D, trend B/D
    rows = {1: [], 2: []}
    for t in range(1, len(y)):
        if t >= 168:
            forecasts = [(y[t - 1], 1), (y[t - 24], 1), (y[t - 168], 1)]  # numerator, denominator
            forecasts += [(sum(y[t - w : t]), w) for w in (2, 3, 5, 10, 20, 50)]
            forecasts += [(sum(y[:t]), t)]
            forecasts += [(level, scale) for _, _, level, scale in smoothers]
            forecasts += [(y[t - 1] * (t - 1) + y[t - 1] - y[0], t - 1), (2 * y[t - 1] - y[t - 2], 1)]
            forecasts += [(level + trend, scale) for _, _, level, trend, scale in holts]
            errors = [(abs(top - y[t] * bottom), bottom) for top, bottom in forecasts]
            for tolerance, losses in rows.items():
                losses.append([int(error > 10 * tolerance * bottom) for error, bottom in errors])
        for state in smoothers:
            p, q, level, scale = state
            state[2:] = p * y[t] * scale + (q - p) * level, q * scale
        for state in holts:
            p, r, level, trend, scale = state
            new = p * y[t] * scale + (10 - p) * (level + trend)  # over 10 scale
            state[2:] = 10 * new, r * (new - 10 * level) + (10 - r) * 10 * trend, 100 * scale
    return rows


@cache
def slow_rain():
    days = source("seattle_weather.csv", 10)
    rows = []
    for t, (precipitation, high, low, wind) in enumerate(days):
        wet = [days[t - lag][0] > 0 if t >= lag else False for lag in (1, 2, 3)]
        spread = 0
        if t > 0:
            _, high, low, wind = days[t - 1]
            spread = high - low
        says = [wet[0], False, True]
        for value, limits in (
            (high, (5, 8, 11, 14, 17, 20, 25)),
            (low, (0, 3, 6, 9, 12, 15)),
            (wind, (1, 2, 3, 4, 5, 6)),
            (spread, (4, 6, 8, 10, 12)),
        ):
            for limit in limits:
                says += [value < 10 * limit, not value < 10 * limit]
        says += [sum(wet[:2]) > 1, sum(wet) > 1.5]
        rows.append([int(said != (precipitation > 0)) for said in says])
    return rows


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("rain", slow_rain),
        ("temperature_1F", lambda: slow_temperature()[1]),
        ("temperature_2F", lambda: slow_temperature()[2]),
        ("tumour", slow_tumour),
        ("tumour_realizable", slow_tumour_realizable),
    ],
)
def test_recipe_equals_exact_loops_cell_by_cell(name, oracle):
    np.testing.assert_array_equal(load_losses(name), oracle())


@pytest.mark.parametrize("name", ["rain", "temperature_1F", "temperature_2F"])
@pytest.mark.parametrize("kept", [200, 777])
def test_forecasts_do_not_see_the_future(name, kept, monkeypatch):
    whole, columns = load_losses(name), data._columns
    monkeypatch.setattr(data, "_columns", lambda file: columns(file)[:, :kept])
    _, wrong = data._GAMES[name]()
    assert len(wrong) == kept - (len(columns("seattle_temperature.csv")[0]) - 8591 if "temp" in name else 0)
    np.testing.assert_array_equal(wrong, whole[: len(wrong)])


@pytest.mark.parametrize("name", ["temperature_1F", "temperature_2F"])
def test_forecasts_do_not_see_the_value_they_forecast(name, monkeypatch):
    """Moving the last value far away makes every expert wrong: none of them had a part of it in its forecast."""
    columns = data._columns

    def moved(file):
        values = columns(file).copy()
        values[:, -1] += 1000
        return values

    monkeypatch.setattr(data, "_columns", moved)
    _, wrong = data._GAMES[name]()
    assert wrong[-1].all()
    np.testing.assert_array_equal(wrong[:-1], load_losses(name)[:-1])


def test_expert_names_describe_the_columns():
    """Each rule of `rain` is read off its name alone and played on the source."""
    days = source("seattle_weather.csv", 10)
    losses = load_losses("rain")
    position = {"high": 1, "low": 2, "wind": 3}
    checked = 0
    for expert, name in enumerate(expert_names("rain")):
        words = name.split()
        if len(words) > 3 and words[3] in position:
            value, limit = position[words[3]], 10 * int(words[-2])
            for t in range(1, len(days)):
                said = days[t - 1][value] < limit if words[5] == "below" else days[t - 1][value] >= limit
                assert losses[t, expert] == (said != (days[t][0] > 0))
            checked += 1
    assert checked == 38


def test_bundled_games_need_no_extra():
    code = (
        "import sys; from dp_experts_env import data; [data.load_losses(name) for name in data.bundled()];"
        "print(sorted({'sklearn', 'vega_datasets', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_rebuild_script(tmp_path, capsys):
    pytest.importorskip("sklearn")
    pytest.importorskip("vega_datasets")
    spec = importlib.util.spec_from_file_location("rebuild_data", REBUILD)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.main(["--check"]) == 0
    assert capsys.readouterr().out.count("identical") == 3
    assert script.main(["--folder", str(tmp_path)]) == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in FOLDER.glob("*.csv")
    }
    rain = tmp_path / "seattle_weather.csv"
    rain.write_text(rain.read_text().replace("12.8", "12.9", 1))
    (tmp_path / "tumour.csv").unlink()
    capsys.readouterr()
    assert script.main(["--check", "--folder", str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "seattle_temperature.csv: identical",
        "seattle_weather.csv: DIFFERENT",
        "tumour.csv: DIFFERENT",
    ]


def test_every_data_file_is_documented():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    files = sorted(path.name for path in FOLDER.glob("*.csv"))
    assert len(files) == 3
    for name in files:
        assert name in text
    for licence in ("CC BY 4.0", "BSD-3-Clause", "MIT", "NOAA", "10.24432/C5DW2B"):
        assert licence in text


# Names and paths


def test_public_name():
    assert dp_experts_env.load_losses is load_losses


@pytest.mark.parametrize(
    ("name", "near"),
    [("tumor", "'tumour'"), ("temperature_2f", "'temperature_2F'"), ("Rain", "'rain'")],
)
def test_unknown_name_suggests_the_nearest(name, near):
    with pytest.raises(UnknownNameError, match=r"did you mean .*" + near + r".*\.csv, \.npy or \.parquet"):
        load_losses(name)
    with pytest.raises(UnknownNameError, match=f"name: .*did you mean .*{near}"):
        expert_names(name)


@pytest.mark.parametrize("name", ["", "qqqqq"])
def test_unknown_name_lists_the_known(name):
    with pytest.raises(UnknownNameError, match="known: rain, temperature_1F"):
        load_losses(name)


def test_expert_names_of_a_path():
    with pytest.raises(UnknownNameError):
        expert_names("mine.csv")


@pytest.mark.parametrize("name", ["missing.csv", "missing.npy", "missing.parquet", "no/such/folder", "nul\0byte.csv"])
def test_missing_file(name):
    with pytest.raises(DataError, match="no such file"):
        load_losses(name)


@pytest.mark.parametrize("name", ["missing", "rain"])
def test_a_path_object_is_never_a_bundled_name(name, tmp_path):
    with pytest.raises(DataError, match="no such file"):
        load_losses(tmp_path / name)
    with pytest.raises(DataError, match="no such file"):
        load_losses(Path("no_such") / name)


def test_a_bundled_name_wins_over_a_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rain").write_text("0.5")
    assert load_losses("rain").shape == (1461, 53)
    with pytest.raises(DataError, match=r"\.csv, \.npy or \.parquet but found ''"):
        load_losses(Path("rain"))


@pytest.mark.parametrize("name", ["folder", "folder.csv", "folder.npy", "folder.parquet"])
def test_directory(name, tmp_path):
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match="directory"):
        load_losses(tmp_path / name)


@pytest.mark.parametrize("name", ["a.txt", "a.xlsx", "a.npz", "a.csv.gz", "a.pkl", "a"])
def test_unsupported_suffix_lists_the_supported(name, tmp_path):
    (tmp_path / name).write_text("0.5\n")
    with pytest.raises(DataError, match=r"ends in \.csv, \.npy or \.parquet but found"):
        load_losses(str(tmp_path / name))


@pytest.mark.parametrize("suffix", data.SUFFIXES)
def test_empty_file(suffix, tmp_path):
    path = tmp_path / f"empty{suffix}"
    path.touch()
    with pytest.raises(DataError, match="file is empty"):
        load_losses(path)


def test_home_folder_and_upper_case_suffix(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "Mine.CSV").write_text("a,b\n0.25,1\n")
    assert load_losses("~/Mine.CSV").tolist() == [[0.25, 1.0]]


# Round trips


MATRICES = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(0, 1, allow_subnormal=True)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("losses")


def check_loaded(losses, expected):
    assert type(losses) is np.ndarray
    assert losses.dtype == np.float64
    assert losses.dtype.isnative
    assert losses.flags.c_contiguous
    assert not losses.flags.writeable
    np.testing.assert_array_equal(losses, expected, strict=True)


def write_csv(path, losses, header=True, quoting=csv.QUOTE_MINIMAL, end="\n", encoding="utf-8", tail=""):
    with open(path, "w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, quoting=quoting, lineterminator=end)
        if header:
            writer.writerow([f'expert "{i}", ü' for i in range(losses.shape[1])])
        writer.writerows(losses.tolist())
        file.write(tail)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    losses=MATRICES,
    header=st.booleans(),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig"]),
    tail=st.sampled_from(["", "\n", "\n \n\n"]),
)
def test_csv_round_trip(folder, losses, header, quoting, end, encoding, tail):
    write_csv(folder / "a.csv", losses, header, quoting, end, encoding, tail)
    check_loaded(load_losses(folder / "a.csv"), losses)  # floats are written 0.0 and 1.0: never taken for a header


@settings(derandomize=True, max_examples=30, deadline=None)
@given(losses=MATRICES)
def test_csv_written_by_numpy_and_pandas(folder, losses):
    np.savetxt(folder / "b.csv", losses, delimiter=",")
    check_loaded(load_losses(folder / "b.csv"), np.loadtxt(folder / "b.csv", delimiter=",", ndmin=2))
    np.savetxt(folder / "b.csv", losses, delimiter=",", header=",".join("abcdef"[: losses.shape[1]]))
    assert load_losses(folder / "b.csv").shape == losses.shape
    frame = pd.DataFrame(losses, columns=list("abcdef"[: losses.shape[1]]))
    frame.to_csv(folder / "b.csv", index=False)
    check_loaded(load_losses(folder / "b.csv"), losses)
    frame.to_csv(folder / "b.csv", index=False, header=False)
    check_loaded(load_losses(folder / "b.csv", header=False), losses)
    pd.DataFrame(losses).to_csv(folder / "b.csv", index=False)  # columns are called 0, 1, 2, ...
    check_loaded(load_losses(folder / "b.csv", header=True if losses.shape[1] <= 2 else None), losses)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    losses=MATRICES,
    dtype=st.sampled_from(["<f8", ">f8", "f4", "f2", "i1", "u8", "?", "longdouble"]),
    order=st.sampled_from("CF"),
    mapped=st.booleans(),
)
def test_npy_round_trip(folder, losses, dtype, order, mapped):
    array = np.asarray(losses.round() if np.dtype(dtype).kind in "iub" else losses, dtype=dtype, order=order)
    np.save(folder / "a.npy", array)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "_MAP_BYTES", 0 if mapped else 2**26)
        loaded = load_losses(folder / "a.npy")
    check_loaded(loaded, array.astype(np.float64))
    check_loaded(load_losses(array), array.astype(np.float64))


@settings(derandomize=True, max_examples=40, deadline=None)
@given(losses=MATRICES, dtype=st.sampled_from(["f8", "f4", "i4", "bool"]), group=st.integers(1, 7))
def test_parquet_round_trip(folder, losses, dtype, group):
    array = (losses.round() if dtype in ("i4", "bool") else losses).astype(dtype)
    frame = pd.DataFrame(array, columns=[f"expert {i}" for i in range(array.shape[1])])
    frame.to_parquet(folder / "a.parquet", row_group_size=group)
    check_loaded(load_losses(folder / "a.parquet"), array.astype(np.float64))
    indexed = frame.set_index(pd.Index([f"day {i}" for i in range(len(frame))], name="day"))
    indexed.to_parquet(folder / "a.parquet")  # the file itself says that `day` is an index
    check_loaded(load_losses(folder / "a.parquet"), array.astype(np.float64))
    table = pa.table([pa.array(column) for column in array.T], names=["same"] * array.shape[1])
    pq.write_table(table, folder / "a.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "_SLICE_CELLS", 2)
        check_loaded(load_losses(folder / "a.parquet"), array.astype(np.float64))


# Arrays


def test_a_float64_array_is_not_copied_and_stays_writable():
    array = np.full((3, 2), 0.5)
    losses = load_losses(array)
    assert np.shares_memory(losses, array)
    assert not losses.flags.writeable
    array[0, 0] = 0.25
    assert losses[0, 0] == 0.25


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((2, 3, 4)), r"shape \(2, 3, 4\)"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        (np.zeros((3, 0)), r"shape \(3, 0\)"),
        (np.array([["0.5"]]), "dtype"),
        (np.array([[0.5, None]]), "dtype object"),
        (np.array([[0.5j]]), "dtype complex128"),
        (np.array([[0]], dtype="M8[D]"), "dtype datetime64"),
        (np.ma.masked_array([[0.5, 0.5]], [[False, True]]), "masked"),
        ([[0.5], [0.5, 0.5]], "rectangular"),
        (None, "dtype object"),
        (b"rain", "dtype"),
        (0.5, r"shape \(\)"),
        ([[0.5, 1.5]], r"round 1, expert 1: expected a loss in \[0, 1\] but found 1.5; rescale"),
        ([[0.5, 0.5], [-1e-300, 0.5]], r"round 2, expert 0: .* found -1e-300"),
        ([[0.5], [np.nextafter(1, 2)]], r"round 2, expert 0: .* found 1.0000000000000002"),
        ([[0.5], [0.5], [np.nan]], r"round 3, expert 0: .* found nan$"),
        ([[0.5, -np.inf]], r"round 1, expert 1: .* found -inf$"),
        ([[0, np.inf], [1, 1]], r"round 1, expert 1: .* found inf$"),
        (np.array([[0, 255]], dtype=np.uint8), r"round 1, expert 1: .* found 255;"),
        ([[0.5, 0], [0.5, 1], [0.5, 2]], r"round 3, expert 1: .* found 2.0; is this an index column"),
        ([[1, 0.5], [2, 0.5]], r"round 2, expert 0: .* found 2.0; is this an index column"),
    ],
)
def test_bad_array(array, message):
    with pytest.raises(DataError, match=f"losses: .*{message}"):
        load_losses(array)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.data())
def test_the_bad_cell_is_named_whatever_the_slices(draw):
    rounds, experts = draw.draw(st.integers(1, 30)), draw.draw(st.integers(1, 5))
    row, expert = draw.draw(st.integers(0, rounds - 1)), draw.draw(st.integers(0, experts - 1))
    bad = draw.draw(st.sampled_from([np.nan, np.inf, -0.5, 7.0]))
    array = np.full((rounds, experts), 0.5)
    array[row, expert] = bad
    array[row + 1 :] = draw.draw(st.sampled_from([0.5, np.nan]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "_SLICE_CELLS", draw.draw(st.integers(1, 40)))
        with pytest.raises(DataError, match=rf"round {row + 1}, expert {expert}: .* found {bad}"):
            load_losses(array)


# CSV files as people have them


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5\n", [[0.5]]),
        ("0.5", [[0.5]]),
        ("0.5,0.25\n1,0\n", [[0.5, 0.25], [1, 0]]),
        ("a,b\n1,0\n", [[1, 0]]),
        (" a , b \n 1 , 0 \n", [[1, 0]]),
        ('"0.5","1"\n"0","1e-3"\n', [[0.5, 1], [0, 0.001]]),
        ("1,0\n0,1\n", [[1, 0], [0, 1]]),
        ("0.0,1.0\n0,1\n", [[0, 1], [0, 1]]),
        ("0,1,2\n0.5,0.5,1\n", [[0.5, 0.5, 1]]),  # 2 is no loss: the columns are numbered
        ("1,2\n0.5,0.25\n", [[0.5, 0.25]]),
        ("# a,b\n0.5,0.25\n", [[0.5, 0.25]]),
        ("+.5,1.\n", [[0.5, 1]]),
        ("a\n1\n\n\n", [[1]]),
    ],
)
def test_csv_text(text, expected, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    check_loaded(load_losses(tmp_path / "a.csv"), np.array(expected, dtype=float))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "only a header"),
        ("\n\n", "only blank lines"),
        ("0.5,0.5\n\n0.5,0.5\n", "line 2 is blank"),
        ("\n0.5,0.5\n", "line 1 is blank"),
        # ragged
        ("0.5,0.5\n0.5\n", "line 2: expected 2 cells but found 1"),
        ("a,b\n0.5,0.5\n1,1\n0.5,0.5,0.5\n", "line 4: expected 2 cells but found 3"),
        ("a,b\n0.5,0.5,0.5\n", "header names 2 experts but the rows have 3 cells; is there an index column"),
        ("a,b,c\n0.5,0.5\n", "header names 3 experts but the rows have 2 cells"),
        # text, missing cells
        ("a,b\n0.5,0.5\n0.5,high\n", r"line 3 \(round 2, expert 1 \('b'\)\): expected a number but found 'high'$"),
        ("0.5,0.5\n0.5,x\n", r"line 2 \(round 2, expert 1\): expected a number but found 'x'$"),
        ("a,b\n0.5,\n", r"line 2 \(round 1, expert 1 \('b'\)\): .* found ''; is there .* a missing loss"),
        ("0.5,0.5,\n0.5,0.5,\n", r"line 1 \(round 1, expert 2\): .* found ''; .* trailing comma"),
        ("a,b\nNA,0.5\n", r"line 2 \(round 1, expert 0 \('a'\)\): expected a number but found 'NA'"),
        ("a,b\nTrue,0.5\n", "found 'True'"),
        ("a,b\n0.5,1_0\n", "found '1_0'"),
        ("a,b\n0.5,0x1\n", "found '0x1'"),
        ("a,b\n0.5,0.5 # fine\n", "found '0.5 # fine'"),
        ("a,b\n0.5,50%\n", "found '50%'"),
        ("NA,NA\n0.5,0.5\n", "names two experts 'NA'"),
        ("0.5,x\n0.5,0.5\n", r"line 1 \(round 1, expert 1\): expected a number but found 'x'"),
        ("a,b\n0.5,0.5\n" + "0.5," + "y" * 500 + "\n", r"found 'y{40}\.\.\.'"),
        ('a,b\n0.5,"0.5\n0.5,0.5\n', "expected a number but found '0.5"),
        # outside [0, 1]
        ("a,b\n0.5,0.5\n0.5,1.5\n", r"round 2, expert 1 \('b'\): expected a loss in \[0, 1\] but found 1.5; rescale"),
        ("0.5,nan\n", "round 1, expert 1: .* found nan$"),
        ("a,b\n0.5,inf\n", r"round 1, expert 1 \('b'\): .* found inf$"),
        ("a\n1e400\n", "found inf$"),
        # index columns
        (",a,b\n0,0.5,0.5\n1,0.5,0.5\n", "column 1 of the header has no name; is it an index column .*index=False"),
        (",0,1\n0,0.5,0.5\n1,0.5,0.5\n", r"line 1 \(round 1, expert 0\): .* found ''; is there an index column"),
        ("a,b,\n0.5,0.5,\n", "column 3 of the header has no name"),
        ("t,a\n0,0.5\n1,0.5\n2,0.5\n", r"round 3, expert 0 \('t'\): .* found 2.0; is this an index column"),
        ("t,a\n1,0.5\n2,0.5\n", r"round 2, expert 0 \('t'\): .* found 2.0; is this an index column"),
        ("t,a\n2024-01-01,0.5\n", r"round 1, expert 0 \('t'\)\): .* found '2024-01-01'"),
        # other separators and decimal commas
        ("0.5;0.5\n", "found '0.5;0.5'; separate columns by commas"),
        ("0,5;0,5\n", "found '5;0'; separate columns by commas and write decimals with a point"),
        ("a;b\n0.5;0.5\n", r"line 2 \(round 1, expert 0 \('a;b'\)\): .*; separate columns by commas"),
        ("a\tb\n0.5\t0.5\n", "separate columns by commas"),
        ("0.5 0.5\n0.5 0.5\n", "line 1 .*; separate columns by commas"),
        ('"0,5","0,25"\n"1","0"\n', r"line 1 \(round 1, expert 0\): .* found '0,5'; write decimals with a point"),
        ('"0,5;0,5"\n', "separate columns by commas and write decimals with a point"),
        ('a,b\n"1,000",0.5\n', "found '1,000'; write decimals with a point and no thousands separators"),
        # a first row that could be either
        ("0,1\n0.5,0.5\n", r"first line '0,1' may number the experts .* header=True or header=False"),
        ("0\n0.5\n", "first line '0' may number"),
        ("1\n0\n", "first line '1' may number"),
    ],
)
def test_bad_csv_text(text, message, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=f"a.csv: .*(?:{message})"):
        load_losses(path)


def test_header_argument(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("0,1\n0.5,0.25\n")
    assert load_losses(path, header=True).tolist() == [[0.5, 0.25]]
    assert load_losses(path, header=False).tolist() == [[0, 1], [0.5, 0.25]]
    path.write_text("a,b\n0.5,0.25\n")
    with pytest.raises(DataError, match=r"line 1 \(round 1, expert 0\): expected a number but found 'a'"):
        load_losses(path, header=False)
    path.write_text("a,2\n0.5,0.25\n")
    assert load_losses(path, header=True).tolist() == [[0.5, 0.25]]
    with pytest.raises(DataError, match="found 'a'"):
        load_losses(path)
    for source_ in ("rain", np.zeros((1, 1)), tmp_path / "a.npy"):
        with pytest.raises(ArgumentError, match=r"header: .* not a \.csv file"):
            load_losses(source_, header=True)
    with pytest.raises(ArgumentError, match="header: expected True, False or None but found 'yes'"):
        load_losses(path, header="yes")


@pytest.mark.parametrize("content", ["a,b\n0.5,0.5\n".encode("utf-16"), b"\xfc,b\n0.5,0.5\n", b"a\n0.5\n\xff\n"])
def test_csv_that_is_not_utf8(content, tmp_path):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(DataError, match="not UTF-8 text"):
        load_losses(tmp_path / "a.csv")


# Binary files


def test_pickled_npy_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[0.5, None]], dtype=object))
    with pytest.raises(DataError, match="Object arrays cannot be loaded"):
        load_losses(tmp_path / "a.npy")
    np.array([[0.5]]).dump(tmp_path / "b.npy")
    with pytest.raises(DataError, match=r"not a \.npy file \(pickles"):
        load_losses(tmp_path / "b.npy")


@pytest.mark.parametrize("mapped", [False, True])
def test_bad_npy(mapped, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "_MAP_BYTES", 0 if mapped else 2**26)
    path = tmp_path / "a.npy"
    with open(path, "wb") as file:
        np.savez(file, a=np.zeros((2, 2)))
    with pytest.raises(DataError, match=r"\.npz archives are refused"):
        load_losses(path)
    for array, message in (
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((3, 0)), r"a\.npy: .*(\(3, 0\)|empty)"),
        (np.array([["x"]]), "dtype"),
        (np.array([(0.5,)], dtype=[("a", float)]), "dtype"),
        (np.array([[0.5, np.nan]]), "round 1, expert 1: .* found nan"),
        (np.array([[0.5], [2.0]], order="F"), "round 2, expert 0: .* found 2.0"),
    ):
        np.save(path, array)
        with pytest.raises(DataError, match=message):
            load_losses(path)
    np.save(path, np.zeros((100, 100)))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="cannot be read as an array of numbers"):
        load_losses(path)


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [0.5, 0.5], "b": ["x", "y"]}, "column 'b': expected numbers but found type string"),
        ({"a": [[0.5], [0.5]]}, "column 'a': expected numbers but found type list"),
        ({"a": pa.array(["x", "x"]).dictionary_encode()}, "column 'a': expected numbers"),
        ({"a": [0.5, 0.5], "b": [0.5, None]}, r"round 2, expert 1 \('b'\): the cell is empty"),
        ({"a": [True, None]}, r"round 2, expert 0 \('a'\): the cell is empty"),
        ({"a": [None, None]}, "found type null"),
        ({"a": [0.5, float("nan")]}, r"round 2, expert 0 \('a'\): .* found nan"),
        ({"a": [0.5, 0.5], "b": [0.5, -1]}, r"round 2, expert 1 \('b'\): .* found -1.0"),
        ({"t": [0, 1, 2], "b": [0.5, 0.5, 0.5]}, r"round 3, expert 0 \('t'\): .* index column"),
        ({"a": pa.array([], pa.float64())}, r"shape \(0, 1\)"),
        ({}, r"shape \(0, 0\)"),
    ],
)
def test_bad_parquet(columns, message, tmp_path):
    with pytest.raises(DataError, match=rf"a\.parquet: .*{message}"):
        load_losses(parquet(tmp_path / "a.parquet", **columns))


def test_empty_parquet_cell_in_a_later_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "_SLICE_CELLS", 4)
    path = parquet(tmp_path / "a.parquet", a=[0.5] * 9, b=[0.5] * 6 + [None, None, 0.5])
    with pytest.raises(DataError, match="round 7, expert 1"):
        load_losses(path)


def test_parquet_index_only(tmp_path):
    pd.DataFrame(index=pd.Index([3, 5], name="t")).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"shape \(2, 0\)"):
        load_losses(tmp_path / "a.parquet")


def test_not_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_text("0.5,0.5\n" * 10)
    with pytest.raises(DataError, match="cannot be read as a Parquet file"):
        load_losses(path)


def intact(suffix):
    losses = np.linspace(0, 1, 24).reshape(8, 3)
    buffer = io.BytesIO()
    if suffix == ".npy":
        np.save(buffer, losses)
    elif suffix == ".parquet":
        pd.DataFrame(losses, columns=list("abc")).to_parquet(buffer)
    else:
        buffer.write(pd.DataFrame(losses, columns=list("abc")).to_csv(index=False).encode())
    return buffer.getvalue()


def load_or_refuse(path, content):
    """Return the matrix, or `None` where the file is refused by our own error, which names it."""
    path.write_bytes(content)
    try:
        return load_losses(path)
    except DataError as error:
        return None if str(path) in str(error) else pytest.fail(f"the message lacks the file: {error}")


@pytest.mark.parametrize("suffix", data.SUFFIXES)
def test_truncated_file(suffix, tmp_path):
    """Every prefix is refused, save that of a CSV which is a shorter file in order."""
    content = intact(suffix)
    prefixes = [content[:size] for size in range(0, len(content), 1 if suffix != ".parquet" else 7)]
    loaded = [load_or_refuse(tmp_path / f"a{suffix}", prefix) for prefix in prefixes]
    assert len(prefixes) > 200
    for prefix, losses in zip(prefixes, loaded, strict=True):
        if losses is not None:
            assert suffix == ".csv"
            assert losses.shape == (prefix.rstrip(b"\n").count(b"\n"), 3)
    assert (suffix == ".csv") == any(losses is not None for losses in loaded)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(suffix=st.sampled_from([".csv", ".npy"]), place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
@pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning")
def test_one_wrong_byte(folder, suffix, place, byte):
    """A damaged file is refused with our error or yields a valid matrix, never another error."""
    content = bytearray(intact(suffix))
    content[int(place * (len(content) if suffix == ".csv" else 128))] = byte
    losses = load_or_refuse(folder / f"damaged{suffix}", content)
    if losses is not None:
        check_loaded(losses, np.asarray(losses))
        assert losses.min() >= 0
        assert losses.max() <= 1


# Memory: at most one extra copy


@pytest.mark.parametrize(
    ("suffix", "dtype", "copies"),
    [(".array", "f8", 0), (".array", "f4", 1), (".npy", "f8", 0), (".npy", "f4", 1), (".parquet", "f8", 1)],
)
def test_memory(suffix, dtype, copies, tmp_path, monkeypatch):
    """Peak memory that Python allocates, in units of the float64 matrix (16 MB), leaves 20% for slices."""
    monkeypatch.setattr(data, "_MAP_BYTES", 2**20)
    monkeypatch.setattr(data, "_SLICE_CELLS", 2**14)
    array = np.random.default_rng(0).random((100_000, 20)).astype(dtype)
    path = tmp_path / f"a{suffix}"
    if suffix == ".npy":
        np.save(path, array)
    elif suffix == ".parquet":
        pd.DataFrame(array, columns=list("abcdefghijklmnopqrst")).to_parquet(path)
    load_losses(np.zeros((1, 1)) if suffix == ".array" else path)  # imports
    tracemalloc.start()
    try:
        losses = load_losses(array if suffix == ".array" else path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(losses, array)
    assert peak < (copies + 0.2) * losses.nbytes


def test_memory_of_csv(tmp_path):
    array = np.random.default_rng(0).random((20_000, 10))
    pd.DataFrame(array, columns=list("abcdefghij")).to_csv(tmp_path / "a.csv", index=False)
    tracemalloc.start()
    try:
        losses = load_losses(tmp_path / "a.csv")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(losses, array)
    assert peak < 2.2 * losses.nbytes
