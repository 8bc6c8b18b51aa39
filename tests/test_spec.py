"""The vocabulary: sizes, claims, validators and their messages, remembered constructor arguments."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dp_experts_env as dpe
from dp_experts_env import spec as vocabulary
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    ChoiceError,
    GameError,
    GameSpec,
    Guarantee,
    LossError,
    Parameters,
    UnknownNameError,
    check_adjacency,
    check_block,
    check_choice_block,
    check_choices,
    check_count,
    check_delta,
    check_epsilon,
    check_losses,
    check_name,
    check_number,
)

exact = settings(derandomize=True, deadline=None, max_examples=100)


# -- errors --------------------------------------------------------------------------------------------------------


def test_every_error_is_a_game_error_and_says_when_it_is_raised() -> None:
    errors = [value for value in vars(vocabulary).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert {error.__name__ for error in errors} == {
        "GameError",
        "ArgumentError",
        "LossError",
        "ChoiceError",
        "UnknownNameError",
        "DataError",
        "ProtocolError",
        "AdversaryModelError",
        "AdjacencyError",
        "BudgetError",
        "MissingExtraError",
    }
    for error in errors:
        assert issubclass(error, GameError)
        assert getattr(dpe, error.__name__) is error
        if error is not GameError:
            assert (error.__doc__ or "").startswith("Raised when ")


def test_bad_values_are_value_errors_too() -> None:
    for error in (ArgumentError, LossError, ChoiceError, UnknownNameError, dpe.DataError, dpe.AdjacencyError):
        assert issubclass(error, ValueError)
    assert issubclass(dpe.ProtocolError, RuntimeError)
    assert issubclass(UnknownNameError, LookupError)
    assert issubclass(dpe.MissingExtraError, ImportError)


# -- sizes and claims ----------------------------------------------------------------------------------------------


def test_a_game_has_a_shape() -> None:
    assert GameSpec(3, 5).shape == ()
    assert GameSpec(3, 5, 1).shape == (1,)
    assert GameSpec(np.int64(3), np.uint8(5), 7) == GameSpec(3, 5, 7)
    assert type(GameSpec(np.int64(3), 5).num_experts) is int
    with pytest.raises(dataclasses.FrozenInstanceError):
        GameSpec(3, 5).horizon = 6  # type: ignore[misc]


@pytest.mark.parametrize("bad", [0, -1, 1.0, "3", True, np.True_, None, [2]])
@pytest.mark.parametrize("name", ["num_experts", "horizon", "num_games"])
def test_a_game_refuses_sizes(name: str, bad: Any) -> None:
    if name == "num_games" and bad is None:
        return
    with pytest.raises(ArgumentError, match=f"^{name}: expected an integer >= 1 but found"):
        GameSpec(**{"num_experts": 2, "horizon": 2, name: bad})


def test_a_guarantee_is_frozen_data() -> None:
    claim = Guarantee(1, 0, "zero_out", "oblivious", "a theorem")  # type: ignore[arg-type]
    assert claim == Guarantee(1.0, 0.0, Adjacency.ZERO_OUT, "oblivious", "a theorem")
    assert type(claim.epsilon) is float
    assert str(claim) == "(1, 0)-DP, zero_out, oblivious adversaries"
    assert Guarantee(math.inf).epsilon == math.inf
    assert Guarantee(0.0).adjacency is Adjacency.REPLACE
    assert Guarantee(0.0).against == "adaptive"
    assert pickle.loads(pickle.dumps(claim)) == claim
    with pytest.raises(dataclasses.FrozenInstanceError):
        claim.epsilon = 0.5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"epsilon": -0.1}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": -math.inf}, "epsilon"),
        ({"epsilon": "one"}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -1e-9}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"adjacency": "add"}, "adjacency"),
        ({"against": "stochastic"}, "against"),
        ({"against": "adaptiv"}, "did you mean 'adaptive'"),
    ],
)
def test_a_guarantee_refuses(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(ArgumentError, match=word):
        Guarantee(**{"epsilon": 1.0, **changes})


def test_a_guarantee_covers_weaker_adversaries() -> None:
    table = {
        (against, model): Guarantee(1.0, against=against).covers(model)
        for against in ("oblivious", "adaptive")
        for model in ("stochastic", "oblivious", "adaptive")
    }
    assert [pair for pair, covered in table.items() if not covered] == [("oblivious", "adaptive")]
    with pytest.raises(UnknownNameError):
        Guarantee(1.0).covers("friendly")


# -- numbers and names ---------------------------------------------------------------------------------------------


def test_counts() -> None:
    assert check_count("n", 0, least=0) == 0
    assert type(check_count("n", np.int32(4))) is int
    with pytest.raises(ArgumentError, match=r"^n: expected an integer >= 2 but found 1$"):
        check_count("n", 1, least=2)


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, -math.inf, "0.5", b"0.5", True, np.True_, None, [0.5], 1j, 10**400]
)
def test_numbers_refuse(bad: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^x: expected a number in \(-inf, inf\) but found"):
        check_number("x", bad)


def test_ends_of_intervals() -> None:
    assert check_number("x", 0, 0.0, 1.0) == 0.0
    assert check_number("x", np.float32(1), 0.0, 1.0) == 1.0
    for value, keywords in ((0.0, {"low_open": True}), (1.0, {"high_open": True}), (-1e-300, {}), (1.0000001, {})):
        with pytest.raises(ArgumentError, match=r"x: expected a number in [(\[]0, 1[)\]]"):
            check_number("x", value, 0.0, 1.0, **keywords)  # type: ignore[arg-type]


def test_privacy_parameters() -> None:
    assert check_epsilon(1e-300) == 1e-300
    assert check_delta(0) == 0.0
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ArgumentError, match="epsilon"):
            check_epsilon(bad)
    with pytest.raises(ArgumentError, match="delta"):
        check_delta(1.0)
    assert check_adjacency("replace") is check_adjacency(Adjacency.REPLACE) is Adjacency.REPLACE
    assert str(Adjacency.ZERO_OUT) == "zero_out" == Adjacency.ZERO_OUT
    with pytest.raises(UnknownNameError, match=r"adjacency: unknown name 'replac'; did you mean 'replace'\?"):
        check_adjacency("replac")


def test_names_suggest_the_nearest() -> None:
    assert check_name("colour", "red", ("red", "green")) == "red"
    with pytest.raises(
        UnknownNameError, match=r"^colour: unknown name 'gren'; did you mean 'green' or 'red'\? \(known: red, green\)$"
    ):
        check_name("colour", "gren", ("red", "green"))
    with pytest.raises(UnknownNameError, match=r"^colour: unknown name 7 \(known: red\)$"):
        check_name("colour", 7, ("red",))
    with pytest.raises(UnknownNameError, match=r"name39, \.\.\.\)$"):
        check_name("name", "zzz", [f"name{number}" for number in range(50)])


# -- losses and choices --------------------------------------------------------------------------------------------

ONE, MANY = GameSpec(3, 5), GameSpec(3, 5, 2)


def test_losses_pass_in_each_shape_unchanged() -> None:
    row, rows = np.array([0.0, 0.5, 1.0]), np.zeros((2, 3))
    assert check_losses(row, ONE, 1) is row
    assert check_losses(row, MANY, 1) is row
    assert check_losses(rows, MANY, 1) is rows
    for values in ([0, 1, 0], (True, False, True), np.array([0, 1, 1], dtype=np.uint8), np.ones(3, dtype=np.float32)):
        array = check_losses(values, ONE, 1)
        assert array.dtype == np.float64
        np.testing.assert_array_equal(array, np.asarray(values, dtype=np.float64))


@pytest.mark.parametrize(
    ("losses", "game", "words"),
    [
        ([0.0, math.nan, 1.0], ONE, "losses of round 4, expert 1: expected a loss in [0, 1] but found nan"),
        ([0.0, 0.0, 1e10], ONE, "losses of round 4, expert 2: expected a loss in [0, 1] but found 10000000000.0"),
        ([-0.1, 0.0, 0.0], ONE, "round 4, expert 0: expected a loss in [0, 1] but found -0.1"),
        ([0.0, 0.0, 1.0 + 1e-12], ONE, "round 4, expert 2"),
        ([[0.0, 0.0, 0.0], [0.0, math.inf, 0.0]], MANY, "losses of round 4, game 1, expert 1"),
        ([0.0, 0.0], ONE, "losses of round 4: expected shape (3,) but found (2,)"),
        ([[0.0, 0.0, 0.0]], ONE, "expected shape (3,) but found (1, 3)"),
        (np.zeros((3, 3)), MANY, "expected shape (3,) or (2, 3) but found (3, 3)"),
        (0.5, ONE, "expected shape (3,) but found ()"),
        (["0", "1", "0"], ONE, "losses of round 4: expected numbers but found dtype"),
        ([0.0, None, 1.0], ONE, "expected numbers but found dtype object"),
        ([1j, 0, 0], ONE, "expected numbers but found dtype complex128"),
        ([[0.0], [0.0, 1.0]], ONE, "expected a rectangular array of numbers"),
    ],
)
def test_losses_are_refused(losses: Any, game: GameSpec, words: str) -> None:
    with pytest.raises(LossError) as caught:
        check_losses(losses, game, 4)
    assert words in str(caught.value)


def test_blocks() -> None:
    block = np.zeros((4, 3))
    assert check_block(block, ONE, 1) is block
    assert check_block(np.zeros((4, 2, 3)), MANY, 1).shape == (4, 2, 3)
    for bad, words in (
        (np.zeros((4, 2, 3)), "expected shape (rounds, 3) but found (4, 2, 3)"),
        (np.zeros((0, 3)), "but found (0, 3)"),
        (np.zeros(3), "but found (3,)"),
    ):
        with pytest.raises(LossError) as caught:
            check_block(bad, ONE, 7)
        assert "losses from round 7" in str(caught.value)
        assert words in str(caught.value)
    broken = np.zeros((4, 2, 3))
    broken[2, 1, 0] = math.nan
    with pytest.raises(LossError, match="losses of round 9, game 1, expert 0"):
        check_block(broken, MANY, 7)


def test_choices() -> None:
    assert check_choices(np.int8(2), ONE, 1) == 2
    assert type(check_choices(np.array(2), ONE, 1)) is int
    array = check_choices(np.array([0, 2], dtype=np.uint8), MANY, 1)
    assert array.dtype == np.int64
    assert array.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("choices", "game", "words"),
    [
        (99, ONE, "choices of round 4: expected an expert in 0..2 but found 99"),
        (-1, ONE, "expected an expert in 0..2 but found -1"),
        (3, ONE, "found 3"),
        (1.0, ONE, "expected integer expert ids but found dtype float64: 1.0"),
        (True, ONE, "dtype bool"),
        ("1", ONE, "dtype"),
        (None, ONE, "dtype object"),
        ([1], ONE, "expected shape () but found (1,)"),
        (1, MANY, "expected shape (2,) but found ()"),
        ([0, 3], MANY, "choices of round 4 in game 1: expected an expert in 0..2 but found 3"),
        ([-1, 0], MANY, "choices of round 4 in game 0: expected an expert in 0..2 but found -1"),
        ([[0], [0, 1]], MANY, "expected a rectangular array of expert ids"),
        (np.array(2**63, dtype=np.uint64), ONE, "found 9223372036854775808"),
    ],
)
def test_choices_are_refused(choices: Any, game: GameSpec, words: str) -> None:
    with pytest.raises(ChoiceError) as caught:
        check_choices(choices, game, 4)
    assert words in str(caught.value)


def test_blocks_of_choices() -> None:
    assert check_choice_block([0, 2, 1], ONE, 1, 3).dtype == np.int64
    for bad, game, words in (
        ([0, 3], ONE, "choices of round 8: expected an expert in 0..2 but found 3"),
        ([[0, 0], [0, -1]], MANY, "choices of round 8 in game 1: expected an expert in 0..2 but found -1"),
        ([0, 1, 2], ONE, "choices from round 7: expected shape (2,) but found (3,)"),
        ([0.0, 1.0], ONE, "expected integer expert ids but found dtype float64"),
    ):
        with pytest.raises(ChoiceError) as caught:
            check_choice_block(bad, game, 7, 2)
        assert words in str(caught.value)


@exact
@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=3), elements=st.floats(-0.5, 1.5)))
def test_losses_pass_exactly_when_shape_and_range_are_right(array: Any) -> None:
    right = array.shape in ((3,), (2, 3)) and bool(((array >= 0) & (array <= 1)).all())
    try:
        checked = check_losses(array, MANY, 1)
    except LossError:
        assert not right
    else:
        assert right
        assert checked is array


@exact
@given(hnp.arrays(np.int64, hnp.array_shapes(max_dims=2, max_side=3), elements=st.integers(-2, 4)))
def test_choices_pass_exactly_when_shape_and_range_are_right(array: Any) -> None:
    right = array.shape == (2,) and bool(((array >= 0) & (array < 3)).all())
    try:
        checked = check_choices(array, MANY, 1)
    except ChoiceError:
        assert not right
    else:
        assert right
        np.testing.assert_array_equal(checked, array)


# -- remembered arguments ------------------------------------------------------------------------------------------


class Plain(Parameters):
    """No constructor of its own."""


class Told(Parameters):
    """Positional, keyword-only and collected arguments."""

    def __init__(self, first: int, second: Any = None, *, third: str = "c", **rest: Any) -> None:
        self.first, self.second, self.third, self.rest = first, second, third, rest


def test_arguments_are_remembered_by_name_with_defaults() -> None:
    told = Told(1, third="d", fourth=4)
    assert told.parameters == {"first": 1, "second": None, "third": "d", "fourth": 4}
    assert repr(told) == "Told(first=1, second=None, third='d', fourth=4)"
    twin = told.clone(second=2)
    assert twin.parameters == {"first": 1, "second": 2, "third": "d", "fourth": 4}
    assert told.second is None
    told.parameters["first"] = 7
    assert told.parameters["first"] == 1
    assert repr(Told(1, second=np.zeros((3, 4)))) == "Told(first=1, second=<array (3, 4)>, third='c')"


def test_a_class_without_constructor_takes_no_arguments() -> None:
    assert repr(Plain()) == repr(Plain().clone()) == "Plain()"
    assert Plain().parameters == {}
    for arguments, keywords in (((1,), {}), ((), {"epsilon": 1.0})):
        with pytest.raises(TypeError):
            Plain(*arguments, **keywords)
    with pytest.raises(TypeError, match="first"):
        Told()  # type: ignore[call-arg]


def test_arguments_survive_copies() -> None:
    told = Told(1, [2], fourth=4)
    for twin in (copy.copy(told), copy.deepcopy(told), pickle.loads(pickle.dumps(told))):
        assert repr(twin) == repr(told)
        assert twin.__dict__ == told.__dict__
