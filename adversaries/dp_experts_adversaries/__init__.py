"""The opponents, as Gymnasium environments; see ``dp_experts_env.adversaries()`` for their names."""
