"""The learners, private and not; see ``dp_experts_env.learners()`` for their names."""
