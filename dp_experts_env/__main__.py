"""``python -m dp_experts_env`` is ``dp-experts``."""

from dp_experts_env.cli import main

if __name__ == "__main__":
    main()
