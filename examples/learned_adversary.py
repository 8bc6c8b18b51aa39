"""A policy learns to emit losses: it defeats follow-the-leader as thoroughly as can be, and Hedge hardly at all.

Needs the extra: pip install 'dp-experts-env[rl]'. About fifteen seconds on one core.
"""

import math

import dp_experts_env as dpe
from dp_experts_env.rl import train_adversary


def main() -> None:
    size = {"num_experts": 4, "horizon": 100}
    for name, budget in (("follow_the_leader", 20_000), ("hedge", 20_000)):
        learner = dpe.make_learner(name)
        # Each round the policy charges one expert, before it sees whom the learner names; its return is the regret.
        trained = train_adversary(learner, budget, seed=0, **size)
        learned = dpe.play(learner, trained.player(deterministic=True), num_games=100, seed=1)
        print(f"{name}: the learned adversary forces a regret of {learned.mean_regret:.1f} in 100 rounds")
        for foe in ("foreseer", "punish_last", "bernoulli"):
            match = dpe.play(learner, dpe.make_adversary(foe, **size), num_games=100, seed=1)
            print(f"  {foe} forces {match.mean_regret:.1f}")
        if not math.isnan(learned.regret_bound):
            best = learned.best_loss.mean()
            print(f"  proved: at most {learned.regret_bound:.1f} where the best expert loses {best:.1f}")


if __name__ == "__main__":
    main()
