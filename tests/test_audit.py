"""The audit: catches every liar, accuses no one honest, and can be saved and played again."""

from __future__ import annotations

import builtins
import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dp_experts_env as dpe
from dp_experts_env.privacy import audit as module
from dp_experts_env.study.report import trade_off_figure
from dp_experts_env.study.survey import STAGES, hunt, small_exact, survey

LN3 = math.log(3.0)


class RandomisedResponse(dpe.Learner):
    """Two experts: in round 2 names the better one of round 1 with probability 3/4: exactly ln 3."""

    def __init__(self, law: bool = True, claim: float = LN3) -> None:
        self.law, self.claim = law, claim

    def start(self) -> None:
        self._better: Any = None

    def act(self) -> Any:
        first = (
            np.zeros(self.spec.shape, dtype=np.int64)
            if self._better is None
            else np.broadcast_to(self._better, self.spec.shape)
        )
        if self._better is None:
            return (self.rng.random(self.spec.shape) < 0.5).astype(np.int64)
        return np.where(self.rng.random(self.spec.shape) < 0.75, first, 1 - first)

    def observe(self, losses: Any) -> None:
        if self._better is None:
            self._better = losses.argmin(-1)

    def outcomes(self) -> Any:
        if not self.law:
            return super().outcomes()
        if self._better is None:
            return np.full(2, math.log(0.5))
        better = np.asarray(self._better)[..., None] == np.arange(2)
        return np.log(np.where(better, 0.75, 0.25))

    def take(self, outcome: Any) -> Any:
        return outcome

    def guarantee(self, spec: dpe.GameSpec) -> dpe.Guarantee:
        return dpe.Guarantee(self.claim, source="randomised response")


FLIP = dpe.make_pair("first_round", num_experts=2, horizon=2)


def allowed(audits: int, rate: float = 0.05) -> float:
    """Most false accusations of so many audits: the rate plus three standard deviations of a binomial."""
    return audits * rate + 3.0 * math.sqrt(audits * rate * (1.0 - rate))


@pytest.mark.parametrize("law", [True, False])
def test_an_exact_mechanism_is_not_accused_and_the_bound_is_tight(law: bool) -> None:
    """200 audits of 10,000 games a world at confidence 0.95.

    Accusations are at most binomial(200, 0.05): more than 5% plus three sigma has probability 0.002 at a true rate of
    5%; the seed is fixed.
    """
    learner = RandomisedResponse(law)
    bounds = [dpe.audit(learner, FLIP, 10_000, seed=[1, seed]).epsilon_lower for seed in range(200)]
    assert sum(bound > LN3 for bound in bounds) <= allowed(200)
    assert np.mean(bounds) >= 1.0


def test_a_million_games_show_nearly_all() -> None:
    result = dpe.audit(RandomisedResponse(), FLIP, 1_000_000, seed=2)
    assert 0.99 * LN3 <= result.epsilon_lower <= LN3
    assert not result.violated
    assert result.epsilon_limit > 10.0
    assert dpe.audit(RandomisedResponse(claim=1.08), FLIP, 1_000_000, seed=2).violated


@pytest.mark.parametrize("view", ["choices", "transcript"])
@pytest.mark.parametrize("name", ["uniform", "realizable"])
def test_identical_worlds_show_nothing(name: str, view: str) -> None:
    """200 audits of null worlds (case A26): the learner never meets a difference; as above."""
    if name == "uniform" and view == "transcript":
        pytest.skip("uniform has no transcript")
    pair = dpe.make_pair("scripted", first=np.tile([0.0, 1.0], (3, 1)), second=np.tile([0.0, 1.0], (3, 1)))
    games = 200
    found = [
        dpe.audit(dpe.make_learner(name), pair, games, view=view, statistic="plug_in", delta=0.0, seed=[3, seed])
        for seed in range(200)
    ]
    assert sum(result.epsilon_lower > 0.0 for result in found) <= allowed(200)
    if name == "realizable":
        assert not any(result.violated for result in found)


# What catches whom: pair, its keywords, view, games a world.
CAUGHT = {
    "leaky_ada_hedge": ("first_round", {}, "choices", 1_000),
    "leaky_copy_last": ("first_round", {}, "choices", 1_000),
    "leaky_dartboard": ("first_round", {"split": "all"}, "choices", 1_000),
    "leaky_perturbed_leader": ("replace_round", {"adversary": "punish_last", "at": None}, "choices", 1_000),
    "leaky_triple_rate": ("first_round", {"after": "swing"}, "choices", 100_000),
    "leaky_no_query_noise": ("suffix_push", {"threshold": 12.0}, "transcript", 4_000),
    "leaky_no_threshold_noise": ("replace_round", {"adversary": "punish_last", "at": 2}, "transcript", 10_000),
    "leaky_never_halting": ("suffix_push", {"threshold": 10.0, "charged": "all"}, "transcript", 10_000),
    "leaky_sensitivity": ("suffix_push", {"threshold": 10.0}, "transcript", 4_000),
}


def test_every_positive_control_has_its_catch() -> None:
    assert sorted(CAUGHT) == sorted(dpe.learners(leaky=True))


@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_positive_control_is_caught(name: str) -> None:
    """One audit at confidence 1 - 1e-6: an honest learner with this claim would be accused with that probability."""
    title, keywords, view, games = CAUGHT[name]
    result = dpe.audit(
        dpe.make_learner(name), dpe.make_pair(title, **keywords), games, confidence=1 - 1e-6, view=view, seed=4
    )
    assert result.violated, str(result)
    assert result.verdict == "VIOLATED"
    assert result.leaky
    assert result.epsilon_lower <= result.epsilon_limit


@pytest.mark.parametrize("name", ["private_hedge", "private_dartboard", "realizable", "gaussian_leader", "fade"])
def test_an_honest_learner_is_not_accused(name: str) -> None:
    """The same pairs at confidence 1 - 1e-6 each."""
    for title, keywords, _, _ in CAUGHT.values():
        for view in module.VIEWS:
            pair = dpe.make_pair(title, **keywords)
            result = dpe.audit(
                dpe.make_learner(name), pair, 200, confidence=1 - 1e-6, view=view, seed=5, statistic="plug_in"
            )
            assert result.verdict == "consistent"


def test_hedge_comes_close_to_its_exact_loss() -> None:
    """The likelihood ratio against the exact epsilon of the same game, at delta = 0.01."""
    learner = dpe.make_learner("private_hedge", epsilon=1.0, delta=0.01)
    exact = dpe.exact_privacy(learner, num_experts=2, horizon=5, delta=0.01)
    pair = dpe.make_pair("first_round", num_experts=2, horizon=5)
    result = dpe.audit(learner, pair, 400_000, seed=6)
    assert 0.7 * exact < result.epsilon_lower <= exact


# -- arguments ---------------------------------------------------------------------------------------------------------


def test_a_claim_against_oblivious_adversaries_is_not_tried_against_adaptive_ones() -> None:
    learner = dpe.make_learner("private_hedge", method="optimal", delta=1e-3)
    flip = dpe.make_pair("leader_flip")
    with pytest.raises(dpe.AdversaryModelError, match="oblivious"):
        dpe.audit(learner, flip, 100)
    forced = dpe.audit(learner, flip, 100, override=True, seed=0)
    assert forced.claimed is None
    assert forced.verdict == "no claim"
    assert not forced.violated
    assert dpe.audit(learner, dpe.make_pair("first_round"), 100, seed=0).claimed is not None


def test_a_claim_for_zero_out_is_not_tried_with_replacement() -> None:
    learner = dpe.make_learner("private_hedge", adjacency="zero_out")
    with pytest.raises(dpe.AdversaryModelError, match="zero_out"):
        dpe.audit(learner, dpe.make_pair("first_round"), 100)
    found = dpe.audit(learner, dpe.make_pair("first_round", adjacency="zero_out"), 100, seed=0)
    assert found.claimed is not None


def test_delta_below_the_claim_refutes_nothing() -> None:
    learner, pair = dpe.make_learner("leaky_copy_last"), dpe.make_pair("first_round")
    assert dpe.audit(learner, pair, 1_000, seed=0).violated
    assert not dpe.audit(learner, pair, 1_000, delta=0.0, seed=0).violated
    weak = dpe.make_learner("leaky_triple_rate")
    assert dpe.audit(weak, pair, 1_000, delta=0.9, seed=0).epsilon_lower == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_games": 7}, "num_games"),
        ({"num_games": 10.5}, "num_games"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.0}, "confidence"),
        ({"confidence": math.nan}, "confidence"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -0.1}, "delta"),
        ({"view": "choice"}, "did you mean 'choices'"),
        ({"statistic": "plugin"}, "did you mean 'plug_in'"),
        ({"seed": -1}, "seed"),
        ({"workers": 0}, "workers"),
        ({"override": "yes"}, "override"),
        ({"learner": "private_hedge"}, "learner"),
        ({"learner": dpe.Learner}, "learner"),
        ({"pair": "first_round"}, "pair"),
        ({"pair": []}, "pair"),
        ({"pair": [FLIP, 3]}, "pair"),
        ({"pair": [FLIP, dpe.make_pair("first_round")]}, "one size"),
        ({"pair": [FLIP, FLIP], "num_games": 100}, "at least 160 games"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    given = {"learner": RandomisedResponse(), "pair": FLIP, "num_games": 100, **arguments}
    with pytest.raises(dpe.GameError, match=message):
        dpe.audit(given.pop("learner"), given.pop("pair"), given.pop("num_games"), **given)


def test_the_result_does_not_depend_on_workers_and_is_a_function_of_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    from dp_experts_env.privacy.game import worlds

    monkeypatch.setattr(worlds, "GAMES_PER_CHUNK", 500)
    learner, pair = dpe.make_learner("leaky_triple_rate"), dpe.make_pair("first_round")
    first, second = (dpe.audit(learner, pair, 1_600, seed=9, workers=workers) for workers in (1, 2))
    assert (first.hits, first.event, first.epsilon_lower) == (second.hits, second.event, second.epsilon_lower)
    assert dpe.audit(learner, pair, 1_600, seed=10).hits != first.hits
    assert dpe.audit(learner, pair, 1_600).seed != dpe.audit(learner, pair, 1_600).seed


def test_a_pilot_chooses_among_pairs_by_other_games() -> None:
    learner = dpe.make_learner("leaky_copy_last")
    useless = dpe.make_pair("scripted", first=np.zeros((20, 4)), second=np.zeros((20, 4)))
    result = dpe.audit(learner, [useless, dpe.make_pair("first_round"), useless], 3_000, seed=0)
    assert result.pair == repr(dpe.make_pair("first_round"))
    assert result.violated
    assert result.num_games == 3_000
    assert sum(result.trials) == 2 * (3_000 - 3 * 100) // 2


def test_third_parties_play_too() -> None:
    class Copier:
        def __init__(self) -> None:
            self.best = 0

        def act(self) -> int:
            return self.best

        def observe(self, losses: Any) -> None:
            self.best = int(losses.argmin())

    learner = dpe.plain(lambda spec, rng: Copier(), claim=dpe.Guarantee(1.0, 1e-6))
    assert dpe.audit(learner, FLIP, 200, seed=0).violated


def test_a_classifier_catches_too_and_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    learner, pair = dpe.make_learner("leaky_copy_last"), dpe.make_pair("first_round")
    assert dpe.audit(learner, pair, 1_000, statistic="classifier", seed=0).violated
    found = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(dpe.MissingExtraError, match="audit"):
        dpe.audit(learner, pair, 1_000, statistic="classifier", seed=0)


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learner", "pair"),
    [
        (dpe.make_learner("leaky_triple_rate"), dpe.make_pair("first_round", after="swing")),
        (dpe.make_learner("subsampled", learner=dpe.make_learner("private_hedge", adjacency="replace")), FLIP),
        (
            dpe.make_learner("private_hedge"),
            dpe.make_pair("replace_round", adversary=dpe.make_adversary("planted", num_experts=4, horizon=5)),
        ),
        (dpe.make_learner("hedge"), dpe.make_pair("scripted", first=np.eye(2), second=[[1.0, 0.0], [0.0, 0.0]])),
        (dpe.make_learner("uniform"), [dpe.make_pair("first_round"), dpe.make_pair("last_round")]),
    ],
)
def test_saved_and_played_again(tmp_path: Any, learner: dpe.Learner, pair: Any) -> None:
    result = dpe.audit(learner, pair, 400, seed=np.random.SeedSequence(5, spawn_key=(2, 3)))
    result.save(tmp_path / "audit.json")
    found = dpe.load_audit(tmp_path / "audit.json")
    assert json.loads((tmp_path / "audit.json").read_text())["violated"] is result.violated
    for name in ("learner", "pair", "spec", "claimed", "hits", "trials", "event", "epsilon_lower", "epsilon_limit"):
        assert getattr(found, name) == getattr(result, name)
    np.testing.assert_array_equal(found.detection, result.detection)
    for again in (result.replay(), found.replay(workers=2)):
        assert (again.hits, again.event, again.epsilon_lower) == (result.hits, result.event, result.epsilon_lower)
    fresh = found.replay(seed=1)
    assert fresh.event == result.event
    assert fresh.trials == result.trials
    found.save(tmp_path / "audit.json")


def test_fresh_games_confirm_a_violation() -> None:
    """An event fixed beforehand, counted in games of another seed, at confidence 1 - 1e-6."""
    result = dpe.audit(RandomisedResponse(claim=0.7), FLIP, 10_000, confidence=1 - 1e-6, seed=0)
    fresh = result.replay(seed=1)
    assert result.violated
    assert fresh.violated
    assert fresh.event == result.event
    assert fresh.hits != result.hits


def test_fresh_games_are_fresh_under_the_same_seed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream of the fresh games is one of the audit's: no seed of theirs descends from, or is, one of those."""
    seeds: list[tuple[int, ...]] = []
    play = module.run_privacy_game

    def recorded(*sides: Any, seed: Any, **options: Any) -> Any:
        seeds.append((seed.entropy, *seed.spawn_key))
        return play(*sides, seed=seed, **options)

    monkeypatch.setattr(module, "run_privacy_game", recorded)
    result = dpe.audit(RandomisedResponse(), [FLIP, FLIP], 1_000, seed=0)
    result.replay(seed=0)
    *again, fresh = seeds[3:]
    assert again == seeds[:3]
    assert len(set(seeds[:3])) == 3
    assert not any(fresh[: len(one)] == one or one[: len(fresh)] == fresh for one in again)


def test_a_class_that_is_not_registered_is_handed_in(tmp_path: Any) -> None:
    result = dpe.audit(RandomisedResponse(), FLIP, 100, seed=0)
    result.save(tmp_path / "audit.json")
    found = dpe.load_audit(tmp_path / "audit.json")
    with pytest.raises(dpe.ArgumentError, match="not registered; hand in the learner"):
        found.replay()
    with pytest.raises(dpe.ArgumentError, match="expected RandomisedResponse"):
        found.replay(learner=RandomisedResponse(claim=2.0))
    assert found.replay(learner=RandomisedResponse()).hits == result.hits


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "other"}', '{"format": "dp-experts-audit", "version": 1}'])
def test_a_file_that_is_no_audit(tmp_path: Any, text: str) -> None:
    path = tmp_path / "audit.json"
    path.write_text(text)
    with pytest.raises(dpe.DataError, match=r"audit\.json"):
        dpe.load_audit(path)
    if '"version"' not in text:
        with pytest.raises(dpe.DataError):
            dpe.audit(RandomisedResponse(), FLIP, 100, seed=0).save(path)
        assert path.read_text() == text
    with pytest.raises(dpe.DataError):
        dpe.load_audit(tmp_path / "none.json")


def test_what_cannot_be_written_says_so(tmp_path: Any) -> None:
    pair = dpe.make_pair("first_round", num_experts=2, horizon=2)
    learner = dpe.make_learner("private_hedge")
    result = dpe.audit(learner, pair, 100, seed=0)
    result.settings["delta"] = lambda: 0.0
    with pytest.raises(dpe.ArgumentError, match="delta: a function cannot be saved"):
        result.save(tmp_path / "audit.json")
    assert not (tmp_path / "audit.json").exists()


# -- the figure --------------------------------------------------------------------------------------------------------


def test_the_figure_shows_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case A29: claim, bound and verdict of a figure are those of the audit; the region is that of the claim."""
    result = dpe.audit(RandomisedResponse(claim=0.7), FLIP, 10_000, seed=0)
    (panel,) = trade_off_figure(result).axes
    shown = [text.get_text() for text in panel.get_legend().get_texts()]
    assert "what (0.7, 0)-DP allows" in shown
    assert f"the event that was counted: ε ≥ {result.epsilon_lower:.3g}" in shown
    assert "VIOLATED" in panel.get_title()
    upper = panel.lines[0].get_xydata()
    np.testing.assert_allclose(upper[:, 1], np.minimum(math.e**0.7 * upper[:, 0], 1 - (1 - upper[:, 0]) / math.e**0.7))
    marks = [line for line in panel.lines if line.get_marker() == "o"]
    alarm, detection = marks[0].get_xydata()[0]
    assert detection > min(math.e**0.7 * alarm, 1 - (1 - alarm) / math.e**0.7), "a violation lies outside the region"
    unclaimed = dpe.audit(dpe.make_learner("hedge"), FLIP, 100, seed=0)
    assert "allows" not in "".join(t.get_text() for t in trade_off_figure(unclaimed).axes[0].get_legend().get_texts())


def test_the_curve_is_a_trade_off() -> None:
    result = dpe.audit(dpe.make_learner("leaky_triple_rate"), dpe.make_pair("first_round"), 20_000, seed=0)
    assert len(result.detection) == len(result.false_alarm) <= module.CURVE_POINTS
    assert (np.diff(result.detection) >= 0.0).all()
    assert (np.diff(result.false_alarm) >= 0.0).all()
    assert (result.detection[[0, -1]] == (0.0, 1.0)).all()


# -- many audits -------------------------------------------------------------------------------------------------------


def test_a_survey_shares_its_error_and_says_what_it_does_not_try() -> None:
    learners = {
        "oblivious": dpe.make_learner("private_hedge", method="optimal", delta=1e-3),
        "realizable": dpe.make_learner("realizable"),
    }
    pairs = {name: [dpe.make_pair(name, num_experts=2, horizon=4)] for name in ("first_round", "leader_flip")}
    rows = list(survey(learners, pairs, 200, seed=0, statistic="plug_in"))
    assert [(row.name, row.pair, row.view, row.audit is None) for row in rows] == [
        ("oblivious", "first_round", "choices", False),
        ("oblivious", "leader_flip", "choices", True),
        ("realizable", "first_round", "choices", False),
        ("realizable", "first_round", "transcript", False),
        ("realizable", "leader_flip", "choices", False),
        ("realizable", "leader_flip", "transcript", False),
    ]
    assert "oblivious" in rows[1].why_not
    for row in rows:
        if row.audit is not None:
            assert row.audit.confidence == pytest.approx(1 - 0.05 / 5)
            assert row.exact == small_exact(learners[row.name], row.view) <= row.audit.claimed.epsilon
    again = list(survey(learners, pairs, 200, seed=0, statistic="plug_in", exact=False))
    assert [row.audit and row.audit.hits for row in again] == [row.audit and row.audit.hits for row in rows]
    assert all(math.isnan(row.exact) for row in again)


def test_a_hunt_stops_at_the_first_catch_and_shares_its_error() -> None:
    pairs = {name: [dpe.make_pair(name)] for name in ("first_round", "last_round")}
    (row,) = hunt({"liar": dpe.make_learner("leaky_copy_last")}, pairs, stages=(500, 5_000), seed=0)
    assert row.audit is not None
    assert row.audit.violated
    assert row.audit.num_games == 500
    assert row.audit.confidence == pytest.approx(1 - 0.05 / 4)
    both = {name: dpe.make_learner("leaky_copy_last") for name in ("liar", "other")}
    assert [row.audit and row.audit.confidence for row in hunt(both, pairs, stages=(500, 5_000), seed=0)] == [
        pytest.approx(1 - 0.05 / 8)
    ] * 2
    (row,) = hunt({"honest": dpe.make_learner("private_hedge")}, pairs, stages=(100, 200), seed=0)
    assert row.audit is not None
    assert not row.audit.violated
    assert STAGES[-1] == 10**6


def test_bad_surveys() -> None:
    pairs = {"first_round": [dpe.make_pair("first_round")]}
    with pytest.raises(dpe.ArgumentError, match="confidence"):
        list(survey({"h": dpe.make_learner("hedge")}, pairs, 100, confidence=2.0))
    with pytest.raises(dpe.ArgumentError, match="at least one learner"):
        list(survey({}, pairs, 100))
    with pytest.raises(dpe.UnknownNameError, match="views"):
        list(survey({"h": dpe.make_learner("hedge")}, pairs, 100, views=("choice",)))


def test_the_binomial_of_this_file_is_right() -> None:
    assert stats.binom.sf(allowed(200), 200, 0.05) < 0.005


# -- bad files and surveys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *(("epsilon_lower", bad) for bad in (None, "x", -1.0, {"number": "nan"})),
        *(("hits", bad) for bad in ("x", [], [1], [-1, 0], [1, 10**9])),
        *(("false_alarm", bad) for bad in ([2.0], [[0.5]], "x")),
        *(("settings", bad) for bad in (None, {}, {"num_games": 100})),
        *(("sides", bad) for bad in ([], [5, 5], ["hedge"])),
        *(("learner", bad) for bad in (None, 5)),
        ("kind", "x"),
        ("view", None),
        ("leaky", "yes"),
        ("confidence", 2.0),
        ("num_games", "many"),
        ("favoured", 2),
        ("delta", 1.0),
        ("spec", {"num_experts": 0, "horizon": 2}),
        ("claimed", {"epsilon": -1.0}),
    ],
)
def test_a_damaged_record_is_refused_when_it_is_read(tmp_path: Any, name: str, bad: Any) -> None:
    path = tmp_path / "audit.json"
    dpe.audit(RandomisedResponse(), FLIP, 20, seed=0).save(path)
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, name: bad}))
    with pytest.raises(dpe.DataError, match=r"audit\.json: not an audit that this version can read"):
        dpe.load_audit(path)


def test_paths_and_nested_files(tmp_path: Any) -> None:
    result = dpe.audit(RandomisedResponse(), FLIP, 20, seed=0)
    for bad in (None, 5, b"x", object):
        for call in (result.save, dpe.load_audit):
            with pytest.raises(dpe.ArgumentError, match="path: expected the path of a file"):
                call(bad)
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(dpe.DataError, match=r"deep\.json"):
        dpe.load_audit(deep)
    for bad in (math.nan, "x", [], [3]):
        with pytest.raises(dpe.ArgumentError, match="pair: expected a Pair"):
            result.replay(pair=bad)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"learners": [1]}, "learners: expected a mapping"),
        ({"learners": {"h": 5}}, "learner: expected a Learner"),
        ({"pairs": 3}, "pairs: expected a mapping"),
        ({"pairs": {"p": []}}, "pair: expected a Pair"),
        ({"pairs": {"p": FLIP}}, "pairs: expected a sequence of variants of 'p'"),
        ({"pairs": {"p": [FLIP], "q": [FLIP, dpe.make_pair("last_round", horizon=3)]}}, "one size"),
        ({"pairs": {"p": [FLIP], "q": [FLIP, FLIP]}}, "at least 160 games"),
        ({"pairs": {}}, "at least one"),
        ({"views": "choices"}, "views: expected a sequence"),
        ({"views": 3}, "views: expected a sequence"),
        ({"views": ()}, "at least one"),
        ({"workres": 1}, "did you mean 'workers'"),
        ({"statistic": "plugin"}, "did you mean 'plug_in'"),
        ({"workers": 0}, "workers"),
        ({"delta": 1.0}, "delta"),
        ({"override": "yes"}, "override"),
    ],
)
def test_a_survey_refuses_before_anything_is_played(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"learners": {"r": RandomisedResponse()}, "pairs": {"p": [FLIP]}, **arguments}
    with pytest.raises(dpe.GameError, match=message):
        next(survey(num_games=100, exact=False, **given))
    with pytest.raises(dpe.GameError, match=message):
        next(hunt(stages=(100,), **given))


def test_stages_and_small_games() -> None:
    for bad in (5, (), ("x",), (7,)):
        with pytest.raises(dpe.ArgumentError, match="stages"):
            next(hunt({"r": RandomisedResponse()}, {"p": [FLIP]}, stages=bad))  # type: ignore[arg-type]
    with pytest.raises(dpe.ArgumentError, match="learner: expected a Learner"):
        small_exact("hedge", "choices")  # type: ignore[arg-type]
    with pytest.raises(dpe.UnknownNameError, match="did you mean 'choices'"):
        small_exact(RandomisedResponse(), "choice")
