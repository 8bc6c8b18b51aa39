"""A private learner meets an adaptive opponent and real patients, then a small tournament."""

import dp_experts_env as dpe


def main() -> None:
    learner = dpe.make_learner("private_hedge", epsilon=1.0, delta=1e-6)

    # An opponent that charges whoever was named last: 100 games of 1000 rounds, played at once.
    opponent = dpe.make_adversary("punish_last", num_experts=10, horizon=1000)
    print(dpe.play(learner, opponent, num_games=100, seed=0))

    # 569 patients, one a round; 257 experts, each a threshold on one measurement of the tumour.
    match = dpe.play(learner, dpe.make_adversary("replay", source="tumour"), num_games=100, seed=0)
    print(match)
    print(f"the best threshold is wrong about {match.best_loss[0]:.0f} patients of {match.spec.horizon}")

    # Every learner against every opponent; those that take epsilon play at each of them.
    result = dpe.tournament(
        ["uniform", "hedge", "private_hedge"], ["bernoulli", "tumour"], epsilons=(1.0, 4.0), num_games=50, seed=0
    )
    columns = ["adversary", "learner", "privacy", "epsilon", "delta", "mean_regret", "ci95", "best_loss", "ratio"]
    print(result.table[columns].to_string(index=False, float_format="{:.3g}".format))


if __name__ == "__main__":
    main()
