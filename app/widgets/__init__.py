"""One idea each; none of them talks to the engine."""
