"""The conformance suites are tested by mutants: broken classes, each with the exact checks that must fail.

Every mutant breaks one rule of an honest class that passes all checks. A check that can fail but never does here, and
a check that fails where it should not, both show as a wrong set of names.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest

from dp_experts_env import Adversary, GameSpec, Guarantee, Learner
from dp_experts_env.testing import (
    ConformanceError,
    adversary_checks,
    learner_checks,
)


def failures(checks: Any) -> set[str]:
    """Run checks and return the names of those that fail; whatever fails must be a ConformanceError of its name."""
    failed = {}
    for name, check in checks:
        try:
            check()
        except ConformanceError as error:
            failed[name] = error
    assert all(error.check == name and repr(name) in str(error) for name, error in failed.items())
    return set(failed)


# -- learners ------------------------------------------------------------------------------------------------------


class Weights(Learner):
    """Exponential weights whose rate spends epsilon over the horizon: the honest learner that the mutants break."""

    def __init__(self, epsilon: float = 4.0, delta: float = 0.0) -> None:
        self.epsilon = epsilon
        self.delta = delta

    def start(self) -> None:
        self.rate = self.rate_for(self.spec)
        self.total = np.zeros(self.spec.num_experts)
        self.stream = self.rng

    def rate_for(self, spec: GameSpec) -> float:
        return self.epsilon / (2.0 * max(spec.horizon - 1, 1))

    def log_law(self, total: Any) -> Any:
        logs = -self.rate * (total - total.min(-1, keepdims=True))
        return logs - np.log(np.exp(logs).sum(-1, keepdims=True))

    def draw(self, law: Any, uniforms: Any) -> Any:
        above = np.asarray(uniforms)[..., None] >= law.cumsum(-1)
        return np.minimum(above.sum(-1), self.spec.num_experts - 1)

    def act(self) -> Any:
        choice = self.draw(np.exp(self.log_law(self.total)), self.stream.random(self.spec.shape))
        self.note("choice", choice)
        return choice

    def observe(self, losses: Any) -> None:
        self.total = self.total + losses

    def run(self, block: Any) -> Any:
        if block.ndim > 2 or self.total.ndim > 1:
            return super().run(block)
        totals = np.cumsum(np.concatenate([self.total[None], block]), axis=0)
        self.total = totals[-1].copy()
        law = np.exp(self.log_law(totals[:-1]))
        if self.spec.shape:
            law = law[:, None]
        return self.draw(law, self.stream.random((len(block), *self.spec.shape)))

    def probabilities(self) -> Any:
        return np.exp(self.log_law(self.total))

    def outcomes(self) -> Any:
        return self.log_law(self.total)

    def take(self, outcome: Any) -> Any:
        return outcome

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        return Guarantee(self.epsilon, self.delta, source="basic composition of exponential mechanisms")

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        rate = self.rate_for(spec)
        return math.log(spec.num_experts) / rate + rate * spec.horizon / 8.0


class Leader(Learner):
    """Names the leader, deterministically: the honest deterministic learner."""

    deterministic = True

    def start(self) -> None:
        self.total = np.zeros(self.spec.num_experts)

    def act(self) -> Any:
        return np.broadcast_to(self.total.argmin(-1), self.spec.shape)

    def observe(self, losses: Any) -> None:
        self.total = self.total + losses


class Single(Learner):
    """Plays one game only, by Gumbel noise: the honest learner that is looped over."""

    batched = False

    def start(self) -> None:
        self.total = np.zeros(self.spec.num_experts)

    def act(self) -> Any:
        return int((self.total - self.rng.gumbel(size=self.spec.num_experts)).argmin())

    def observe(self, losses: Any) -> None:
        self.total += losses


class KeepsLosses(Weights):
    """Keeps the array handed in and adds it up in the next round."""

    def start(self) -> None:
        super().start()
        self.last = np.zeros(self.spec.num_experts)

    def act(self) -> Any:
        self.total, self.last = self.total + self.last, np.zeros(self.spec.num_experts)
        return super().act()

    def observe(self, losses: Any) -> None:
        self.last = losses

    def run(self, block: Any) -> Any:
        return Learner.run(self, block)

    def probabilities(self) -> Any:
        return np.exp(self.outcomes())

    def outcomes(self) -> Any:
        return self.log_law(self.total + self.last)


class ChangesLosses(Weights):
    """Scales the losses in place."""

    def observe(self, losses: Any) -> None:
        super().observe(losses)
        losses *= 0.5


class SeedsNumpy(Weights):
    """Seeds numpy's global generator."""

    def start(self) -> None:
        super().start()
        np.random.seed(0)  # noqa: NPY002


class DrawsFromNumpy(Weights):
    """Breaks ties between experts by numpy's global generator."""

    def observe(self, losses: Any) -> None:
        super().observe(losses + 1e-9 * np.random.rand(self.spec.num_experts))  # noqa: NPY002


class PeeksInBlocks(Weights):
    """Counts the current row of a block before it chooses."""

    def run(self, block: Any) -> Any:
        if block.ndim > 2 or self.total.ndim > 1:
            return super().run(block)
        self.total = self.total + block[0]
        choices = super().run(np.concatenate([block[1:], np.zeros_like(block[:1])]))
        return choices


class ForgetsBlocks(Weights):
    """Plays a block well and does not add its losses up."""

    def run(self, block: Any) -> Any:
        before = self.total
        choices = super().run(block)
        self.total = before
        return choices


class LeavesRange(Weights):
    """Names expert N once an expert has lost more than 900."""

    def act(self) -> Any:
        return super().act() + np.broadcast_to(self.total.max(-1) > 900.0, self.spec.shape)

    def run(self, block: Any) -> Any:
        return Learner.run(self, block)


class KeepsStream(Weights):
    """Goes on with the generator of its first game."""

    def start(self) -> None:
        first = getattr(self, "stream", self.rng)
        super().start()
        self.stream = first


class KeepsTotals(Weights):
    """Begins a game of the same size with the losses of the last one."""

    def start(self) -> None:
        last = getattr(self, "total", None)
        super().start()
        if last is not None and last.shape == self.total.shape:
            self.total = last


class SharesState(Weights):
    """Keeps the losses on the class."""

    totals: ClassVar[dict[int, Any]] = {}

    @property
    def total(self) -> Any:
        return self.totals[self.spec.num_experts]

    @total.setter
    def total(self, value: Any) -> None:
        self.totals[self.spec.num_experts] = value


class SumsToMore(Weights):
    """States probabilities that sum to 1 + 1e-10."""

    def probabilities(self) -> Any:
        return super().probabilities() * (1.0 + 1e-10)


class MisstatesLaw(Weights):
    """States the probabilities of another learning rate."""

    def probabilities(self) -> Any:
        law = super().probabilities() ** 1.5
        return law / law.sum(-1, keepdims=True)


class MisstatesOutcomes(Weights):
    """States the outcomes of another learning rate."""

    def outcomes(self) -> Any:
        return self.log_law(self.total * 0.5)


class TakesAnother(Weights):
    """Plays another choice than the one that the outcome stands for."""

    def take(self, outcome: Any) -> Any:
        return self.spec.num_experts - 1 - outcome


class LosesMass(Weights):
    """Leaves a thousandth of the outcomes out."""

    def outcomes(self) -> Any:
        return super().outcomes() + math.log1p(-1e-3)


class DrawsWhenAsked(Weights):
    """Draws a number whenever it is asked for probabilities."""

    def probabilities(self) -> Any:
        self.stream.random()
        return super().probabilities()


class OverclaimsPrivacy(Weights):
    """Claims a third of the epsilon that it spends."""

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        return Guarantee(self.epsilon / 3.0, self.delta, source="wishful thinking")


class SpendsMore(Weights):
    """Claims, truthfully, less privacy than was asked for."""

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        return Guarantee(2.0 * self.epsilon, self.delta, source="basic composition")


class MovesClaim(Weights):
    """Claims what it has spent so far, which changes within a game."""

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        return Guarantee(self.epsilon * (1.0 - 0.01 * (self.round > 0)), self.delta, source="spent so far")


class ClaimsNothing(Weights):
    """Takes epsilon and delta and claims nothing."""

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        return None


class UnderstatesRegret(Weights):
    """Claims a regret of 0.1."""

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        return 0.1


class BoundsOnlyStrong(Weights):
    """Claims a regret bound against adaptive adversaries but none against weaker ones."""

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        return super().regret_bound(spec, best_loss) if against == "adaptive" else math.nan


class CouplesGames(Weights):
    """Averages the losses over the games of a batch."""

    def observe(self, losses: Any) -> None:
        super().observe(losses.mean(0) if losses.ndim > 1 else losses)


class SharesDraws(Weights):
    """Draws one number for all games of a batch."""

    def act(self) -> Any:
        law = np.broadcast_to(np.exp(self.log_law(self.total)), (*self.spec.shape, self.spec.num_experts))
        return self.draw(law, np.broadcast_to(self.stream.random(), self.spec.shape))

    def run(self, block: Any) -> Any:
        return Learner.run(self, block)


class PairsDraws(Weights):
    """Draws one number for each pair of games in a batch."""

    def act(self) -> Any:
        uniforms = self.stream.random(self.spec.shape)
        return self.draw(
            np.exp(self.log_law(self.total)), np.repeat(uniforms, 2)[: uniforms.size] if uniforms.shape else uniforms
        )

    def run(self, block: Any) -> Any:
        return Learner.run(self, block)


class PlaysBatchesOtherwise(Weights):
    """Takes another stream in a batch."""

    def start(self) -> None:
        super().start()
        if self.spec.shape:
            self.stream = self.rng.spawn(1)[0]


class MisreadsShared(Weights):
    """Counts shared losses twice in a batch."""

    def observe(self, losses: Any) -> None:
        super().observe(losses * (2.0 if self.spec.shape and losses.ndim == 1 else 1.0))

    def run(self, block: Any) -> Any:
        return Learner.run(self, block)


class NotesSometimes(Weights):
    """Records a note only in even rounds."""

    def act(self) -> Any:
        choice = super().act()
        if self.round % 2:
            self.note("odd", choice)
        return choice


class NotesLess(Weights):
    """Records one number for the whole batch."""

    def act(self) -> Any:
        choice = super().act()
        self.note("largest", np.max(choice))
        return choice


class Undocumented(Weights):
    pass


class CallsItselfDeterministic(Weights):
    """Declares deterministic = True and draws."""

    deterministic = True


class HidesDeterminism(Leader):
    """Does not declare that it is deterministic."""

    deterministic = False


class RenamesKeyword(Weights):
    """Stores a constructor keyword under another name."""

    def __init__(self, epsilon: float = 4.0, delta: float = 0.0, speed: float = 1.0) -> None:
        super().__init__(epsilon, delta)
        self.velocity = speed


class RoundsKeyword(Weights):
    """Stores another value than the one given."""

    def __init__(self, epsilon: float = 4.0, delta: float = 0.0, speed: float = 1.5) -> None:
        super().__init__(epsilon, delta)
        self.speed = round(speed)


class TakesName(Weights):
    """Has a keyword that make_learner reads."""

    def __init__(self, epsilon: float = 4.0, delta: float = 0.0, name: str = "") -> None:
        super().__init__(epsilon, delta)
        self.name = name


class CannotPickle(Weights):
    """Holds a lambda."""

    def start(self) -> None:
        super().start()
        self.square = lambda value: value * value


class NeedsTwoExperts(Weights):
    """Fails with one expert."""

    def act(self) -> Any:
        if self.spec.num_experts == 1:
            raise ZeroDivisionError("one expert")
        return super().act()


class Warns(Weights):
    """Divides by zero in the last round of a game of one round."""

    def act(self) -> Any:
        if self.spec.horizon == 1:
            np.log(np.zeros(1))
        return super().act()


class AcceptsAnything(Weights):
    """Begins a game without looking at what it is handed."""

    def reset(self, spec: Any, rng: Any) -> None:
        if isinstance(spec, GameSpec) and isinstance(rng, np.random.Generator):
            super().reset(spec, rng)


class CountsFromOne(Weights):
    """Says that a round has been played before it has."""

    @property
    def round(self) -> int:
        return self._round + 1


class NeverTheSame(Weights):
    """Takes a new stream in every game, whatever generator it was handed."""

    count: ClassVar[int] = 0

    def start(self) -> None:
        super().start()
        NeverTheSame.count += 1
        self.stream = np.random.default_rng(NeverTheSame.count)


LEARNER_MUTANTS: dict[type[Learner], set[str]] = {
    KeepsLosses: {"inputs"},
    ChangesLosses: {
        "pickles",
        "same_seed",
        "reset",
        "instances",
        "batch_of_one",
        "run",
        "causality",
        "inputs",
        "protocol",
        "bad_losses",
        "games",
        "notes",
        "probabilities",
        "outcomes",
    },
    SeedsNumpy: {"global_generators"},
    DrawsFromNumpy: {"global_generators"},
    PeeksInBlocks: {"run", "causality", "inputs", "small_games"},
    ForgetsBlocks: {"run", "inputs"},
    LeavesRange: {"extremes"},
    KeepsStream: {"reset"},
    KeepsTotals: {"reset"},
    SharesState: {"pickles", "instances"},
    SumsToMore: {"probabilities"},
    MisstatesLaw: {"probabilities", "outcomes"},
    MisstatesOutcomes: {"outcomes"},
    TakesAnother: {"outcomes"},
    LosesMass: {"outcomes"},
    DrawsWhenAsked: {"probabilities", "outcomes"},
    OverclaimsPrivacy: {"privacy"},
    SpendsMore: {"guarantee"},
    MovesClaim: {"guarantee"},
    ClaimsNothing: {"guarantee"},
    UnderstatesRegret: {"regret"},
    BoundsOnlyStrong: {"regret_bound"},
    CouplesGames: {"games"},
    SharesDraws: {"games", "probabilities", "outcomes"},
    PairsDraws: {"games"},
    PlaysBatchesOtherwise: {"batch_of_one"},
    MisreadsShared: {"batch_of_one", "shared_losses", "privacy"},
    NotesSometimes: {"notes"},
    NotesLess: {"notes"},
    Undocumented: {"docstring"},
    CallsItselfDeterministic: {"deterministic"},
    HidesDeterminism: {"seeds", "games"},
    RenamesKeyword: {"builds"},
    TakesName: {"builds"},
    RoundsKeyword: {"builds"},
    CannotPickle: {"pickles"},
    NeedsTwoExperts: {"small_games", "regret_bound"},
    Warns: {"small_games", "regret_bound"},
    AcceptsAnything: {"protocol"},
    CountsFromOne: {"choices", "reset", "run"},
    NeverTheSame: {
        "builds",
        "pickles",
        "same_seed",
        "reset",
        "instances",
        "batch_of_one",
        "shared_losses",
        "run",
        "causality",
        "inputs",
        "global_generators",
        "small_games",
        "protocol",
        "bad_losses",
        "games",
        "notes",
        "probabilities",
        "outcomes",
    },
}


@pytest.mark.parametrize("cls", [Weights, Leader, Single])
def test_honest_learner_passes(cls: type[Learner]) -> None:
    assert failures(learner_checks(cls, horizon=8)) == set()


@pytest.mark.parametrize("cls", LEARNER_MUTANTS, ids=lambda cls: cls.__name__)
def test_broken_learner_fails_exactly(cls: type[Learner]) -> None:
    assert failures(learner_checks(cls, horizon=8)) == LEARNER_MUTANTS[cls]


def test_every_learner_check_can_fail() -> None:
    names = {name for cls in (Weights, Leader) for name, _ in learner_checks(cls)}
    assert set().union(*LEARNER_MUTANTS.values()) == names


# -- adversaries ---------------------------------------------------------------------------------------------------


class Coins(Adversary):
    """Fair coins, each game its own: the honest oblivious adversary that the mutants break."""

    stochastic = True
    examples = ({"num_experts": 3, "horizon": 5},)

    def emit(self) -> Any:
        return self.toss(1)[0]

    def emit_block(self, rounds: int) -> Any:
        return self.toss(rounds)

    def toss(self, rounds: int) -> Any:
        return (self.np_random.random((rounds, *self.game.shape, self.num_experts)) < 0.5).astype(float)


class Punish(Adversary):
    """Charges the expert named most often, a little less after a coin: the honest adaptive adversary."""

    examples = ({"num_experts": 3, "horizon": 5},)

    def start(self) -> None:
        self.counts = self.zeros(self.num_experts)

    def emit(self) -> Any:
        charge = np.where(self.np_random.random(self.game.shape) < 0.5, 1.0, 0.75)
        return self.one_hot(self.counts.argmax(-1)) * charge[..., None]

    def see(self, choices: Any) -> None:
        self.counts += self.one_hot(choices)


class PunishOne(Adversary):
    """Charges the last choice, in one game only: the honest adversary that is looped over."""

    batched = False
    examples = ({"num_experts": 3, "horizon": 5},)

    def start(self) -> None:
        self.last = 0

    def emit(self) -> Any:
        return np.eye(self.num_experts)[self.last] * self.np_random.random()

    def see(self, choices: Any) -> None:
        self.last = choices


class IgnoresSeed(Coins):
    """Tosses the same coins in every game."""

    def start(self) -> None:
        self.np_random = np.random.default_rng(7)


class IgnoresSeedQuietly(Coins):
    """Tosses the same coins in every game, from a stream beside the one it was handed."""

    def start(self) -> None:
        self.coins = np.random.default_rng(7)

    def toss(self, rounds: int) -> Any:
        return (self.coins.random((rounds, *self.game.shape, self.num_experts)) < 0.5).astype(float)


class TossesNumpy(Coins):
    """Tosses numpy's global coins."""

    def toss(self, rounds: int) -> Any:
        return super().toss(rounds) * (0.5 + 0.5 * np.random.rand())  # noqa: NPY002


class SeedsGlobally(Coins):
    """Seeds numpy's global generator."""

    def start(self) -> None:
        np.random.seed(0)  # noqa: NPY002


class BlocksOtherwise(Coins):
    """Tosses the coins of a block in another order."""

    def emit_block(self, rounds: int) -> Any:
        return self.toss(rounds)[::-1]


class ReusesBlock(Coins):
    """Hands out the same array for every block."""

    def emit_block(self, rounds: int) -> Any:
        if not hasattr(self, "buffer") or len(self.buffer) != rounds:
            self.buffer = self.toss(rounds)
        else:
            self.buffer[...] = self.toss(rounds)
        return self.buffer


class HidesAdaptivity(Punish):
    """Says that it is oblivious and charges the leader."""

    @property
    def oblivious(self) -> bool:
        return True


class Peeks(Coins):
    """Charges the expert named in the round itself, when it is played as an environment."""

    def step(self, action: Any) -> Any:
        self.peeked = action if type(action) is int else 0
        try:
            return super().step(action)
        finally:
            self.peeked = None

    def toss(self, rounds: int) -> Any:
        losses = super().toss(rounds)
        if getattr(self, "peeked", None) is not None:
            losses[..., self.peeked] = 1.0
        return losses


class KeepsCounts(Punish):
    """Does not forget the choices of the last game."""

    def start(self) -> None:
        if not hasattr(self, "counts"):
            super().start()


class SharesCounts(Punish):
    """Keeps the choices on the class."""

    shared: ClassVar[dict[Any, Any]] = {}

    def start(self) -> None:
        self.shared[self.game] = self.zeros(self.num_experts)

    @property
    def counts(self) -> Any:
        return self.shared[self.game]

    @counts.setter
    def counts(self, value: Any) -> None:
        self.shared[self.game] = value


class MixesGames(Punish):
    """Charges in all games of a batch the expert named most often in any."""

    def emit(self) -> Any:
        losses = super().emit()
        counts = self.counts.sum(0) if self.game.shape else self.counts
        return np.where(counts == counts.max(), losses, 0.5 * losses)


class ForgetsGames(Punish):
    """Emits one vector for a batch, as if it played one game."""

    def emit(self) -> Any:
        losses = super().emit()
        return losses[0] if self.game.shape else losses


class DrawsMoreInBatches(Coins):
    """Wastes a draw in a batch."""

    def start(self) -> None:
        if self.game.shape:
            self.np_random.random()


class CopiesGames(Coins):
    """Emits the same coins for every game of a batch, as if they were each game's own."""

    def toss(self, rounds: int) -> Any:
        coins = (self.np_random.random((rounds, self.num_experts)) < 0.5).astype(float)
        return np.repeat(coins[:, None], self.game.num_games, axis=1) if self.game.num_games else coins


class LeavesRangeLate(Coins):
    """Emits a loss of 2 in round 900."""

    def emit(self) -> Any:
        return super().emit() + (self.round == 899)


class StretchesGame(Coins):
    """Truncates the game at the horizon as well."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, terminated, info


class NeverEnds(Coins):
    """Does not say that the game is over."""

    def step(self, action: Any) -> Any:
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, False, truncated, info


class PaysLosses(Coins):
    """Pays the loss instead of charging it."""

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, -reward, *rest


class AddsInformation(Coins):
    """Adds a key to the information of even rounds."""

    def step(self, action: Any) -> Any:
        *result, info = super().step(action)
        return *result, {**info, "even": True} if self.round % 2 == 0 else info


class ReusesObservation(Coins):
    """Hands out the same observation array every round."""

    def step(self, action: Any) -> Any:
        observation, *rest = super().step(action)
        if not hasattr(self, "buffer"):
            self.buffer = observation
        self.buffer[...] = observation
        return self.buffer, *rest


class Drifts(Coins):
    """Declares identical rounds and loses more in the second half of the game."""

    def emit_block(self, rounds: int) -> Any:
        return np.stack([self.emit() for _ in range(rounds)])

    def emit(self) -> Any:
        return super().emit() * (1.0 if self.round % 200 >= 100 else 0.25)


class Sticks(Coins):
    """Declares independent rounds and holds its coins for two rounds."""

    def emit_block(self, rounds: int) -> Any:
        return np.stack([self.emit() for _ in range(rounds)])

    def emit(self) -> Any:
        if self.round % 3 != 1:
            self.held = super().emit()
        return self.held


class NoWords(Coins):
    pass


class HoldsLambda(Coins):
    """Holds a lambda."""

    def start(self) -> None:
        self.square = lambda value: value * value


class TakesAnyAction(Coins):
    """Reads an action as an index from either end."""

    def step(self, action: Any) -> Any:
        return super().step(action % self.num_experts if isinstance(action, int) else action)


class DrawsEntropy(Coins):
    """Takes fresh entropy in a game that was not seeded."""

    count: ClassVar[int] = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is None:
            DrawsEntropy.count += 1
            seed = 1000 + DrawsEntropy.count
        return super().reset(seed=seed, options=options)


class OddKind(Punish):
    """Says that it is stochastic."""

    @property
    def kind(self) -> str:
        return "stochastic"


class LosesKeyword(Coins):
    """Stores its own keyword under another name."""

    def __init__(self, bias: float = 0.5, **game: Any) -> None:
        super().__init__(**game)
        self.inclination = bias


class TakesReservedKeyword(Coins):
    """Has a keyword that Gymnasium's makers read."""

    def __init__(self, adversary: str = "bernoulli", **game: Any) -> None:
        super().__init__(**game)
        self.adversary = adversary


class TakesNoSize(Coins):
    """Does not pass the keywords of the game on."""

    examples = ()

    def __init__(self) -> None:
        super().__init__(num_experts=3, horizon=20)


class FailsWithOneExpert(Coins):
    """Fails with one expert."""

    def start(self) -> None:
        if self.num_experts == 1:
            raise ZeroDivisionError("one expert")


class WarnsAtTheEnd(Coins):
    """Divides by zero in the last round."""

    def step(self, action: Any) -> Any:
        result = super().step(action)
        if self.round == self.horizon:
            np.log(np.zeros(1))
        return result


class ActsBeforeReset(Coins):
    """Emits before the game has begun, and past its end."""

    def _require_turn(self, call: str, rounds: int = 1) -> None:
        if not hasattr(self, "np_random"):
            raise ValueError


ADVERSARY_MUTANTS: dict[type[Adversary], set[str]] = {
    IgnoresSeed: {"gymnasium", "seeds"},
    IgnoresSeedQuietly: {"seeds"},
    TossesNumpy: {
        "pickles",
        "gymnasium",
        "same_seed",
        "seeded_then_unseeded",
        "instances",
        "oblivious",
        "emit_block",
        "batch_of_one",
        "games",
        "fresh_arrays",
        "simultaneity",
        "step",
        "vector_env",
        "bad_actions",
        "protocol",
        "global_generators",
    },
    SeedsGlobally: {"global_generators"},
    BlocksOtherwise: {"emit_block"},
    ReusesBlock: {"emit_block", "fresh_arrays"},
    HidesAdaptivity: {"oblivious"},
    Peeks: {"oblivious", "simultaneity", "step", "vector_env"},
    KeepsCounts: {"gymnasium", "same_seed", "simultaneity"},
    SharesCounts: {"pickles", "same_seed", "instances", "games", "fresh_arrays", "step", "bad_actions"},
    MixesGames: {"games"},
    ForgetsGames: {
        "losses",
        "same_seed",
        "batch_of_one",
        "games",
        "fresh_arrays",
        "vector_env",
        "protocol",
        "small_games",
        "global_generators",
    },
    DrawsMoreInBatches: {"batch_of_one", "vector_env"},
    CopiesGames: {"games"},
    LeavesRangeLate: {"horizon"},
    StretchesGame: {"horizon", "vector_env"},
    NeverEnds: {"horizon", "vector_env"},
    PaysLosses: {"step", "vector_env"},
    AddsInformation: {"step", "vector_env"},
    ReusesObservation: {"gymnasium", "fresh_arrays"},
    Drifts: {"identical_rounds"},
    Sticks: {"identical_rounds"},
    NoWords: {"docstring"},
    HoldsLambda: {"pickles"},
    TakesAnyAction: {"bad_actions"},
    DrawsEntropy: {"seeded_then_unseeded", "vector_env"},
    OddKind: {"kind"},
    LosesKeyword: {"builds"},
    TakesReservedKeyword: {"builds"},
    TakesNoSize: {
        "builds",
        "pickles",
        "gymnasium",
        "losses",
        "same_seed",
        "seeded_then_unseeded",
        "seeds",
        "instances",
        "oblivious",
        "kind",
        "identical_rounds",
        "emit_block",
        "batch_of_one",
        "games",
        "fresh_arrays",
        "simultaneity",
        "step",
        "vector_env",
        "bad_actions",
        "protocol",
        "global_generators",
    },
    FailsWithOneExpert: {"small_games"},
    WarnsAtTheEnd: {"oblivious", "fresh_arrays", "simultaneity", "horizon", "step", "vector_env", "bad_actions"},
    ActsBeforeReset: {"horizon", "protocol"},
}


@pytest.mark.parametrize("cls", [Coins, Punish, PunishOne])
def test_honest_adversary_passes(cls: type[Adversary]) -> None:
    assert failures(adversary_checks(cls, rounds=12)) == set()


@pytest.mark.parametrize("cls", ADVERSARY_MUTANTS, ids=lambda cls: cls.__name__)
def test_broken_adversary_fails_exactly(cls: type[Adversary]) -> None:
    assert failures(adversary_checks(cls, rounds=12)) == ADVERSARY_MUTANTS[cls]


def test_every_adversary_check_can_fail() -> None:
    names = {name for cls in (Coins, Punish) for name, _ in adversary_checks(cls)}
    assert set().union(*ADVERSARY_MUTANTS.values()) == names
