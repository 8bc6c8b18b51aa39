"""Auto: the pick, the table it reads, and that the picked learner is played coin for coin."""

from __future__ import annotations

import csv
import itertools
import math
import sys
from importlib import resources
from typing import Any

import numpy as np
import pytest

import dp_experts_env as dpe
from dp_experts_adversaries.families import FAMILIES
from dp_experts_agents import auto as module
from dp_experts_agents.auto import SMALL, Auto, nearest_game, ratios, table, worst_bound
from dp_experts_env import cli
from dp_experts_env.registry import constructor_keywords
from dp_experts_env.spec import Adjacency, ArgumentError, GameSpec, UnknownNameError
from dp_experts_env.testing import check_learner

SIZES = [GameSpec(10, 1_000), GameSpec(100, 10_000), GameSpec(3, 50), GameSpec(1, 1)]
BUDGETS = [(1.0, 1e-6), (1.0, 0.0), (0.3, 1e-6), (3.0, 0.0)]


def raw() -> list[dict[str, str]]:
    path = resources.files("dp_experts_agents") / "tables" / "recommend.csv"
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


# -- the table ---------------------------------------------------------------------------------------------------------


def test_table_names_private_learners_that_tell_no_lies() -> None:
    names = {line["learner"] for line in raw()}
    assert names <= set(dpe.learners(private=True)) - {"auto"}
    assert not names & set(dpe.learners(leaky=True))
    for name in names:
        assert {"epsilon", "delta"} <= set(constructor_keywords(dpe.learner_class(name)))


def test_table_is_a_grid_of_all_families_without_doubles() -> None:
    lines = raw()
    assert tuple(lines[0])[7:] == tuple(FAMILIES), "a column for every family of the suite, in its order"
    assert set(SMALL) < set(FAMILIES)
    keys = [tuple(line.values())[:6] for line in lines]
    assert len(set(keys)) == len(keys)
    budgets: dict[tuple[int, int], set[tuple[float, float]]] = {}
    for game in table():
        budgets.setdefault((game.horizon, game.num_experts), set()).add((game.epsilon, game.delta))
    for found in budgets.values():
        epsilons, deltas = {epsilon for epsilon, _ in found}, {delta for _, delta in found}
        assert found == set(itertools.product(epsilons, deltas))
        assert 0.0 in deltas, "pure budgets are in the table"
        assert max(deltas) > 0.0, "approximate budgets are in the table"


def test_figures_of_the_table_are_regrets() -> None:
    for line in raw():
        assert int(line["games"]) >= 2
        assert line["told"] in ("0", "1")
        played = {name: float(line[name]) for name in FAMILIES if line[name]}
        assert played, line
        if line["told"] == "1":
            assert set(played) <= set(SMALL)
        # A learner's loss and the best expert's lie in [0, T].
        assert all(abs(regret) <= int(line["horizon"]) for regret in played.values())


@pytest.mark.parametrize("told", [False, True])
def test_who_was_dropped_could_not_have_been_picked(told: bool) -> None:
    """Its worst regret so far exceeds twice the least worst R; a yardstick is at most R, the ratio of R at most 2."""
    for game in table():
        found = ratios(game, told)
        playing = [regret for ratio, regret, _ in found.values() if not math.isnan(ratio)]
        assert playing, f"nobody played all families in {game}"
        dropped = [regret for ratio, regret, _ in found.values() if math.isnan(ratio)]
        # The table has one decimal.
        assert all(regret > module.ROBUST * (min(playing) - 0.1) for regret in dropped), game
        assert min(ratio for ratio, _, _ in found.values() if not math.isnan(ratio)) <= 1.0 / module.FLOOR


def test_ratio_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two families, the floor between their least regrets; c is not robust, d dropped."""
    game = module.Game(800, 2, 1.0, 0.0)
    rows = (
        module.Row("a", False, 4, {"A": 10.0, "D": 40.0}),
        module.Row("b", False, 4, {"A": 30.0, "D": 50.0}),
        module.Row("c", False, 4, {"A": 2.0, "D": 400.0}),
        module.Row("d", False, 4, {"A": 90.0}),
        module.Row("b", True, 4, {"A": 5.0}),
    )
    monkeypatch.setattr(module, "table", lambda: {game: rows})
    monkeypatch.setattr(module, "families", lambda: ("A", "D"))
    monkeypatch.setattr(module, "SMALL", ("A",))
    ratios.cache_clear()
    try:
        found = ratios(game, False)
        floor = module.FLOOR * 40.0
        assert found["a"][0] == max(10.0 / max(floor, 10.0), 1.0)
        assert found["b"][0] == max(30.0 / max(floor, 10.0), 50.0 / 40.0)
        assert found["c"][0] == 10.0
        assert math.isnan(found["d"][0])
        assert found["b"][1:] == (50.0, "D")
        assert found["d"][1:] == (90.0, "A")
    finally:
        ratios.cache_clear()


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ((1_000, 10, 1.0, 1e-6), (1_000, 10, 1.0, 1e-6)),
        ((10_000, 100, 3.0, 0.0), (10_000, 100, 3.0, 0.0)),
        ((9_000, 80, 0.9, 1e-9), (10_000, 100, 1.0, 1e-6)),
        ((1, 1, 1e-3, 1e-2), (1_000, 10, 0.3, 1e-6)),
        ((10**7, 10**5, 50.0, 0.0), (10_000, 100, 3.0, 0.0)),
        ((10**7, 2, 1.0, 1e-12), (100_000, 10, 1.0, 1e-6)),
    ],
)
def test_nearest_game(asked: tuple[Any, ...], found: tuple[Any, ...]) -> None:
    assert nearest_game(*asked) == found


def test_pure_and_approximate_budgets_are_never_mixed() -> None:
    for delta in (0.0, 1e-300, 1e-9, 0.5):
        assert (nearest_game(2_000, 20, 1.0, delta).delta > 0) == (delta > 0)


# -- the pick ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "by", "best_loss"),
    [
        (1.0, 1e-6, "simulated", None),
        (1.0, 0.0, "simulated", 0.0),
        (0.3, 1e-6, "simulated", None),
        (1.0, 1e-6, "certified", None),
    ],
)
def test_pick_depends_on_public_parameters_alone(
    epsilon: float, delta: float, by: str, best_loss: float | None
) -> None:
    for spec in SIZES if by == "simulated" else SIZES[::2]:
        auto = Auto(epsilon, delta, best_loss, by)
        before = auto.choice(spec)
        for losses in (np.zeros, np.ones):
            auto.reset(spec, np.random.default_rng(5))
            auto.run(losses((min(spec.horizon, 20), spec.num_experts)))
            assert repr(auto.choice(spec)) == repr(before)
        assert repr(Auto(epsilon, delta, best_loss, by).choice(spec)) == repr(before)
        batch = GameSpec(spec.num_experts, spec.horizon, 7)
        assert repr(auto.choice(batch)) == repr(before)


@pytest.mark.parametrize(
    ("epsilon", "delta", "by"), [*((*budget, "simulated") for budget in BUDGETS), (1.0, 1e-6, "certified")]
)
def test_claims_are_the_picked_learners(epsilon: float, delta: float, by: str) -> None:
    for spec in SIZES if by == "simulated" else SIZES[::2]:
        auto = Auto(epsilon, delta, by=by)
        inner = auto.learner(spec)
        assert type(inner) is dpe.learner_class(auto.choice(spec).name)
        claim = auto.guarantee(spec)
        assert claim == inner.guarantee(spec)
        assert claim is not None
        assert claim.epsilon <= epsilon
        assert claim.delta <= delta
        assert claim.adjacency is Adjacency.REPLACE
        for best_loss in (0.0, spec.horizon / 3, float(spec.horizon)):
            for model in ("stochastic", "oblivious", "adaptive"):
                mine, theirs = (one.regret_bound(spec, best_loss, model) for one in (auto, inner))
                assert mine == theirs or (math.isnan(mine) and math.isnan(theirs))


@pytest.mark.parametrize(
    ("by", "delta", "num_games"),
    [("simulated", 1e-6, None), ("simulated", 1e-6, 3), ("simulated", 0.0, 3), ("certified", 0.0, None)],
)
def test_plays_the_picked_learner_bit_for_bit(by: str, delta: float, num_games: int | None) -> None:
    spec = GameSpec(10, 300, num_games)
    losses = np.random.default_rng(1).random((300, 10))
    auto = Auto(1.0, delta, by=by)
    inner = auto.learner(spec)
    transcripts = []
    for learner in (auto, inner):
        learner.reset(spec, np.random.default_rng(2))
        learner._notes = {}
        choices = []
        for row in losses[:100]:
            choices.append(learner.act())
            learner.observe(row)
        notes = learner._notes
        learner._notes = None
        rest = learner.run(losses[100:])
        transcripts.append((np.array(choices), rest, notes))
    (mine, my_rest, my_notes), (theirs, their_rest, their_notes) = transcripts
    np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(my_rest, their_rest)
    assert list(my_notes) == list(their_notes)
    for name in my_notes:
        np.testing.assert_array_equal(np.array(my_notes[name]), np.array(their_notes[name]))


def test_outcome_law_is_the_picked_learners() -> None:
    """The dartboard is picked by its certificate at delta=0 and has a law; Auto's is the same, and takes the same."""
    spec = GameSpec(4, 30)
    auto = Auto(1.0, 0.0, by="certified")
    inner = auto.learner(spec)
    for learner in (auto, inner):
        learner.reset(spec, np.random.default_rng(0))
    rng = np.random.default_rng(3)
    for _ in range(30):
        law = inner.outcomes()
        np.testing.assert_array_equal(auto.outcomes(), law)
        outcome = int(rng.choice(len(law), p=np.exp(law) / np.exp(law).sum()))
        assert auto.take(outcome) == inner.take(outcome)
        losses = rng.random(4)
        auto.observe(losses)
        inner.observe(losses)


@pytest.mark.parametrize(
    ("spec", "delta", "name"),
    [
        (GameSpec(10, 10_000), 1e-6, "gaussian_leader"),
        (GameSpec(1_000, 10_000), 1e-6, "private_dartboard"),
        (GameSpec(10, 1_000), 0.0, "private_dartboard"),
    ],
)
def test_certified_rule_picks_the_least_bound(spec: GameSpec, delta: float, name: str) -> None:
    auto = Auto(1.0, delta, by="certified")
    choice = auto.choice(spec)
    assert choice.name == name
    bounds = {row.name: row.regret_bound for row in auto.candidates(spec)}
    assert choice.regret_bound == bounds[name] == min(value for value in bounds.values() if not math.isnan(value))
    inner = auto.learner(spec)
    on_grid = max(inner.regret_bound(spec, loss) for loss in np.linspace(0.0, spec.horizon, 997))
    assert on_grid <= choice.regret_bound <= on_grid * 1.02


def test_bound_on_best_loss_lowers_the_certified_bound() -> None:
    spec = GameSpec(100, 10_000)
    told, untold = Auto(delta=0.0, best_loss=0.0, by="certified"), Auto(delta=0.0, by="certified")
    assert told.choice(spec).regret_bound < untold.choice(spec).regret_bound


def test_largest_bound_over_all_best_losses() -> None:
    """A bound 10 + L*/4, at most T - L*, has its peak at L* = (T - 10)/1.25; so has the search, rounded up."""

    class Peaked(dpe.Learner):
        def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
            return min(10.0 + best_loss / 4.0, spec.horizon - best_loss)

    peak = 10.0 + (1_000 - 10.0) / 1.25 / 4.0
    assert peak <= worst_bound(Peaked(), 5, 1_000, 1_000.0) <= peak + 1e-2
    assert worst_bound(Peaked(), 5, 1_000, 40.0) == pytest.approx(20.0, abs=1e-2)
    assert worst_bound(Peaked(), 5, 1_000, 0.0) == 10.0
    assert math.isnan(worst_bound(dpe.make_learner("fade"), 5, 1_000, 1_000.0))


def test_simulated_rule_picks_the_least_ratio_and_ties_go_to_the_certificate() -> None:
    for epsilon, delta in BUDGETS:
        for spec in SIZES[:2]:
            auto = Auto(epsilon, delta)
            name, why, bound = auto.choice(spec)
            rows = {row.name: row for row in auto.candidates(spec)}
            playing = [row for row in rows.values() if not math.isnan(row.ratio)]
            least = min(row.ratio for row in playing)
            factor = module.tie(nearest_game(spec.horizon, spec.num_experts, epsilon, delta))
            assert 1.0 < factor <= 1.15
            tied = [row for row in playing if row.ratio <= factor * least]
            assert rows[name] in tied
            proved = [row.regret_bound for row in tied if not math.isnan(row.regret_bound)]
            assert bound == min(proved) if proved else math.isnan(bound)
            assert f"{rows[name].ratio:.2f}" in why
            assert rows[name].family in why


@pytest.mark.parametrize("by", ["simulated", "certified"])
def test_zero_out_is_claimed_where_it_is_asked(by: str) -> None:
    spec = GameSpec(10, 1_000)
    claim = Auto(by=by, adjacency="zero_out").guarantee(spec)
    assert claim is not None
    assert claim.adjacency is Adjacency.ZERO_OUT


def test_candidates_begin_with_the_pick() -> None:
    for by in module.RULES:
        auto = Auto(by=by)
        assert auto.candidates(SIZES[0])[0].name == auto.choice(SIZES[0]).name


# -- conformance -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{}, {"delta": 0.0}, {"best_loss": 0.0}])
def test_conformance(parameters: dict[str, Any]) -> None:
    assert "guarantee" in check_learner(Auto(**parameters))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -1e-9}, "delta"),
        ({"best_loss": -1.0}, "best_loss"),
        ({"best_loss": "few"}, "best_loss"),
        ({"by": "luck"}, "by"),
        ({"adjacency": "swap"}, "adjacency"),
    ],
)
def test_bad_arguments_are_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{message}: "):
        Auto(**parameters)


def test_unknown_rule_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'simulated'"):
        Auto(by="simulate")


# -- the command line --------------------------------------------------------------------------------------------------


def recommended(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "argv", ["dp-experts", "recommend", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    said = capsys.readouterr()
    assert (stopped.value.code, said.err) == (0, "")
    return said.out


@pytest.mark.parametrize("by", ["simulated", "certified"])
@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        ([], {}),
        (["--epsilon", "0.5", "--delta", "0", "--best-loss", "3"], {"epsilon": 0.5, "delta": 0.0, "best_loss": 3.0}),
    ],
)
def test_recommend_prints_all_candidates_and_the_pick(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    by: str,
    options: list[str],
    keywords: dict[str, Any],
) -> None:
    out = recommended(capsys, monkeypatch, "-N", "20", "-T", "2000", "--by", by, *options)
    spec = GameSpec(20, 2_000)
    auto = Auto(**keywords, by=by)
    choice = auto.choice(spec)
    rows = {line.split()[0]: line for line in out.split("\n\n")[0].splitlines()[2:]}
    for candidate in auto.candidates(spec):
        assert ("none" in rows[candidate.name]) == math.isnan(candidate.regret_bound)
        assert ("dropped" in rows[candidate.name]) == math.isnan(candidate.ratio)
        assert ("picked" in rows[candidate.name]) == (candidate.name == choice.name)
    # A long line is broken.
    said = "".join(out.split())
    for text in (repr(auto.learner(spec)), choice.why, str(auto.guarantee(spec))):
        assert "".join(text.split()) in said


def test_recommend_refuses_in_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["dp-experts", "recommend", "--epsilon", "-1"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    said = capsys.readouterr()
    assert (stopped.value.code, said.out) == (2, "")
    assert said.err.startswith("dp-experts: epsilon: ")
