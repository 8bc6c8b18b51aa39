"""The attack: learned judges catch liars in fresh games and accuse no one honest; the command says what it found."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import dp_experts_env as dpe
from dp_experts_env import cli, rl
from dp_experts_env.privacy.audit import load_audit

LN3 = math.log(3.0)
QUICK = {"against": ["first_round", "last_round"], "opponents": ["bernoulli", "punish_last"], "progress": False}


class RandomisedResponse(dpe.Learner):
    """Two experts: from round 2 on names the better one of round 1, or with probability 1/4 the other: exactly ln 3."""

    def __init__(self, against: str = "adaptive", claim: float = LN3) -> None:
        self.against = against
        self.claim = claim

    def start(self) -> None:
        self.named = self.rng.integers(2, size=self.spec.shape)
        self.lie = self.rng.random(self.spec.shape) < 0.25

    def act(self) -> Any:
        return self.named

    def observe(self, losses: Any) -> None:
        if self.round == 0:
            better = np.broadcast_to(losses.argmin(-1), self.spec.shape)
            self.named = np.where(self.lie, 1 - better, better)

    def guarantee(self, spec: dpe.GameSpec) -> dpe.Guarantee:
        return dpe.Guarantee(self.claim, against=self.against, source="randomised response")


# -- the learned judge -------------------------------------------------------------------------------------------------


def test_a_learned_judge_catches_a_liar_in_fresh_games() -> None:
    """It claims epsilon 1 at a rate three times too high. The error of an audit is 5%; the seeds are fixed, and the
    exact epsilon, 1.847, is far from the claim."""
    learner = dpe.make_learner("leaky_triple_rate")
    trained = rl.train_judge(learner, 24_000, num_experts=2, horizon=4, seed=0, progress=False)
    found = dpe.audit(learner, trained.player(True), 20_000, seed=1)
    assert found.violated
    assert found.epsilon_lower <= dpe.exact_privacy(learner, num_experts=2, horizon=4, delta=found.delta)


def test_a_learned_judge_accuses_no_one_honest() -> None:
    """The null control: 100 fresh audits at confidence 0.95 of a learner that loses ln 3 and claims 1.4.

    Its counts would have to be four standard deviations off to accuse it. Had it claimed exactly what it loses, each
    audit would accuse it with probability at most 1/20: more than 18 of 100 with probability below 6e-7. That the
    largest bound comes near ln 3 shows that the judge knows where to look.
    """
    learner = RandomisedResponse(claim=1.4)
    trained = rl.train_judge(learner, 20_000, num_experts=2, horizon=4, seed=0, progress=False)
    judge = trained.player(True)
    shown = [dpe.audit(learner, judge, 500, seed=[2, number]) for number in range(100)]
    assert sum(found.violated for found in shown) <= 5
    bounds = np.array([found.epsilon_lower for found in shown])
    assert np.count_nonzero(bounds > LN3) <= 18
    assert bounds.max() > LN3 / 2


# -- the attack --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def leaky() -> rl.Attack:
    return rl.attack(
        "leaky_copy_last",
        3000,
        num_experts=2,
        horizon=3,
        regret_horizon=20,
        num_games=2000,
        regret_games=20,
        seed=5,
        **QUICK,
    )


def test_the_attack_compares_in_equally_many_fresh_games(leaky: rl.Attack) -> None:
    assert [line.name for line in leaky.leakage] == ["learned", "first_round", "last_round"]
    audits = [line.audit for line in leaky.leakage if line.audit is not None]
    assert len(audits) == 3
    assert {found.num_games for found in audits} == {2000}
    # The error is shared among the three.
    assert {found.confidence for found in audits} == {1.0 - 0.05 / 3}
    assert [name for name, _ in leaky.regret] == ["learned", "learned, drawn", "bernoulli", "punish_last"]
    assert {len(match.regret) for _, match in leaky.regret} == {20}
    assert leaky.violated
    assert leaky.learned_epsilon == audits[0].epsilon_lower
    assert leaky.written_epsilon == max(found.epsilon_lower for found in audits[1:])
    assert leaky.learned_regret == max(match.mean_regret for _, match in leaky.regret[:2])
    assert leaky.written_regret == max(match.mean_regret for _, match in leaky.regret[2:])


def test_no_seed_is_shared_by_training_and_measuring(leaky: rl.Attack) -> None:
    assert leaky.judge is not None
    keys = [found.audit.seed.spawn_key for found in leaky.leakage if found.audit is not None]
    keys += [match.seed.spawn_key for _, match in leaky.regret]
    assert len(set(keys)) == len(keys)
    # Training had children 0 and 1 of the root, the audits those of child 2, the matches those of child 3.
    assert {key[0] for key in keys} == {2, 3}
    children = np.random.SeedSequence(5).spawn(2)
    assert [leaky.judge.seed, leaky.adversary.seed] == [int(child.generate_state(1)[0]) for child in children]


def test_an_attack_is_a_function_of_its_seed(leaky: rl.Attack) -> None:
    size = {"num_experts": 2, "horizon": 3, "regret_horizon": 20, "num_games": 2000, "regret_games": 20}
    np.random.seed(8)  # noqa: NPY002
    again = rl.attack("leaky_copy_last", 3000, seed=5, **size, **QUICK)
    assert [line.audit.hits for line in again.leakage if line.audit] == [
        line.audit.hits for line in leaky.leakage if line.audit
    ]
    assert all(np.array_equal(a[1].regret, b[1].regret) for a, b in zip(again.regret, leaky.regret, strict=True))


def test_a_learner_private_against_oblivious_adversaries_meets_no_judge_unless_asked() -> None:
    size = {"num_experts": 2, "horizon": 3, "regret_horizon": 10, "num_games": 200, "regret_games": 4}
    found = rl.attack(RandomisedResponse("oblivious"), 500, seed=0, **size, **QUICK)
    assert found.judge is None
    assert found.leakage[0].audit is None
    assert "a learned judge is adaptive" in found.leakage[0].why_not
    assert all(line.audit is not None for line in found.leakage[1:])
    assert found.learned_epsilon == 0.0
    forced = rl.attack(RandomisedResponse("oblivious"), 500, seed=0, override=True, **size, **QUICK)
    assert forced.judge is not None
    assert forced.leakage[0].audit is not None
    assert forced.leakage[0].audit.claimed is None
    assert not forced.violated


@pytest.mark.parametrize(
    ("keywords", "named"),
    [
        ({"budget": 0}, "budget"),
        ({"num_games": 100}, "num_games"),
        ({"regret_games": 0}, "regret_games"),
        ({"confidence": 1.0}, "confidence"),
        ({"against": ["leader_flop"]}, "leader_flip"),
        ({"opponents": ["bernouli"]}, "bernoulli"),
        ({"learner": "hedgehog"}, "hedgehog"),
        ({"learner": 3}, "learner"),
        ({"seed": "x"}, "seed"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_trained(keywords: dict[str, Any], named: str) -> None:
    with pytest.raises(dpe.GameError, match=named):
        rl.attack(**{"learner": "hedge", "budget": 10**9, **keywords})


# -- the command -------------------------------------------------------------------------------------------------------


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "argv", ["dp-experts", "attack", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    said = capsys.readouterr()
    return int(stopped.value.code or 0), said.out, said.err


SIZE = ("-N", 2, "-T", 3, "--regret-horizon", 10, "-G", 1000, "--regret-games", 10)
ONLY = ("--pair", "first_round", "--adversary", "punish_last")


def test_the_command_reports_saves_and_fails_on_a_violation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ("leaky_copy_last", "--budget", 3000, "--seed", 5, *SIZE, *ONLY, "--save", tmp_path / "found")
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert (code, err) == (1, "")
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert lines["learned"]
    assert "VIOLATED" in out
    for text in (
        "first_round",
        "punish_last",
        "learned, drawn",
        "more leakage",
        "regret in 10 rounds",
        "none of which",
    ):
        assert text in out
    files = {path.name for path in (tmp_path / "found").iterdir()}
    assert files == {"judge.zip", "judge.json", "adversary.zip", "adversary.json", "audit.json"}
    # The saved judge, from its file, plays the saved audit again to the last game.
    judge = rl.load_trained(tmp_path / "found" / "judge")
    saved = load_audit(tmp_path / "found" / "audit.json")
    again = saved.replay(pair=[judge.player(certain) for certain in (True, False)])
    assert again.hits == saved.hits
    # A second run replaces its own files, and nobody else's.
    assert run(monkeypatch, capsys, *arguments)[0] == 1
    (tmp_path / "found" / "judge.json").write_text(json.dumps({"mine": 1}))
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "")
    assert "was not made by this command" in err


def test_the_command_finds_no_fault_with_an_honest_learner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(monkeypatch, capsys, "private_hedge", "--epsilon", 2, "--budget", 2000, *SIZE, *ONLY)
    assert (code, err) == (0, "")
    assert "VIOLATED" not in out
    assert "consistent" in out
    assert "(2, 1e-06)-DP" in out


def test_the_command_refuses_in_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, named in (
        (("hedgehog",), "hedgehog"),
        (("hedge", "--epsilon", 1), "--epsilon"),
        (("hedge", "--budget", 0), "budget"),
        (("hedge", "--pair", "first"), "first_round"),
    ):
        code, out, err = run(monkeypatch, capsys, *arguments)
        assert (code, out) == (2, "")
        assert named in err
        assert err.count("\n") == 1
