"""A policy learns which losses give a learner away; a fresh audit, which training never touches, says what it found.

Needs the extra: pip install 'dp-experts-env[rl]'. About fifteen seconds on one core.
"""

import dp_experts_env as dpe
from dp_experts_env.rl import train_judge


def main() -> None:
    for name in ("leaky_triple_rate", "private_hedge"):
        learner = dpe.make_learner(name)
        trained = train_judge(learner, budget=30_000, num_experts=2, horizon=4, seed=0)
        # A pair like any other. Training games never count, and the audit does not ask it for a guess.
        judge = trained.player(deterministic=True)
        found = dpe.audit(learner, judge, num_games=20_000, seed=1)
        claim = found.claimed
        print(
            f"{name} claims epsilon {claim.epsilon:g}; the learned judge shows at least {found.epsilon_lower:.2f} "
            f"of at most {found.epsilon_limit:.2f}: {found.verdict}"
        )


if __name__ == "__main__":
    main()
