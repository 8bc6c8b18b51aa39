"""Write a private learner in twenty lines, say what it guarantees, and have it checked."""

import numpy as np

import dp_experts_env as dpe
from dp_experts_env.testing import check_learner


class ExploreThenCommit(dpe.Learner):
    """Names experts at random for a while, then draws one by the exponential mechanism and stays with it.

    Its choices depend on the losses through that one draw, from weights exp(-epsilon/2 * loss so far). Replacing one
    round moves each loss by at most 1, hence each log-probability by at most epsilon: epsilon-DP, whoever plays.

    Args:
        epsilon: privacy budget, a number > 0.
        explore: number of rounds before the draw.
    """

    def __init__(self, epsilon=1.0, explore=50):
        self.epsilon = epsilon
        self.explore = explore

    def start(self):
        self.total = np.zeros(self.spec.num_experts)

    def act(self):
        if self.round < self.explore:
            return self.rng.integers(self.spec.num_experts, size=self.spec.shape)
        if self.round == self.explore:
            noise = self.rng.gumbel(size=(*self.spec.shape, self.spec.num_experts))
            self.held = (noise - self.epsilon / 2 * self.total).argmax(-1)
        return self.held

    def observe(self, losses):
        if self.round < self.explore:
            self.total = self.total + losses  # (N,) or, in a batch, (G, N)

    def guarantee(self, spec):
        return dpe.Guarantee(self.epsilon, source="one exponential mechanism; derived in the class text")


def main() -> None:
    dpe.register_learner("explore_then_commit", ExploreThenCommit)
    result = dpe.tournament(
        ["explore_then_commit", "private_hedge"], ["planted", "temperature_2F"], epsilons=(1.0,), num_games=50, seed=0
    )
    columns = ["adversary", "learner", "epsilon", "delta", "mean_regret", "ci95"]
    print(result.table[columns].to_string(index=False, float_format="{:.3g}".format))

    check_learner(ExploreThenCommit)
    print("ExploreThenCommit keeps the rules of the game")


if __name__ == "__main__":
    main()
