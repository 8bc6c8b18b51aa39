"""Write an opponent in a dozen lines; it is an environment, plays in batches and is checked at once."""

import gymnasium as gym
import numpy as np

import dp_experts_env as dpe
from dp_experts_env.testing import check_adversary


class PunishLoyalty(dpe.Adversary):
    """Charges the expert that the learner named last, the more the longer the learner has stayed with it."""

    def start(self):
        self.last = self.zeros().astype(int)  # zeros() has the leading axis of games, where there is one
        self.stay = self.zeros()

    def emit(self):
        return self.one_hot(self.last) * (1.0 - 0.5**self.stay)[..., None]

    def see(self, choices):
        self.stay = np.where(choices == self.last, self.stay + 1, 1)
        self.last = np.asarray(choices)


def main() -> None:
    dpe.register_adversary("punish_loyalty", PunishLoyalty)

    env = gym.make("dp_experts/PunishLoyalty-v0", num_experts=4, horizon=100)
    env.reset(seed=0)
    rewards = [env.step(2)[1] for _ in range(100)]
    print(f"always naming expert 2 costs {-sum(rewards):.2f} in 100 rounds")

    foe = dpe.make_adversary("punish_loyalty", num_experts=4, horizon=1000)
    for name in ("uniform", "hedge", "shrinking_dartboard"):
        print(dpe.play(dpe.make_learner(name), foe, num_games=100, seed=0))

    check_adversary(PunishLoyalty)
    print("PunishLoyalty keeps the rules of the game")


if __name__ == "__main__":
    main()
