"""A policy learns to name experts: beside Hedge it does well against whom it trained for, and promises nothing.

Needs the extra: pip install 'dp-experts-env[rl]'. About fifteen seconds on one core.
"""

import dp_experts_env as dpe
from dp_experts_env.rl import train_learner


def main() -> None:
    for name in ("bernoulli", "punish_leader"):
        foe = dpe.make_adversary(name, num_experts=4, horizon=100)
        # lead=True shows how far each expert is behind the leader; PunishLeader is better read from its last losses.
        trained = train_learner(foe, budget=25_000, lead=name == "bernoulli", seed=0)
        policy = trained.player()
        print(f"against {name}, regret in 100 fresh games of 100 rounds (privacy):")
        for learner in (policy, dpe.make_learner("hedge"), dpe.make_learner("private_hedge")):
            match = dpe.play(learner, foe, num_games=100, seed=1)
            print(
                f"  {type(learner).__name__:13} {match.mean_regret:6.2f} +- {match.standard_error:.2f}  {match.privacy}"
            )

    # What it learned against one opponent is no defence against another, and nobody has bounded what it leaks.
    foe = dpe.make_adversary("punish_last", num_experts=4, horizon=100)
    print(f"the same policy against punish_last: {dpe.play(policy, foe, num_games=100, seed=1).mean_regret:.2f}")
    print(f"its guarantee: {policy.guarantee(dpe.GameSpec(4, 100))}")


if __name__ == "__main__":
    main()
