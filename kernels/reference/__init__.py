"""The specification of every kernel in plain torch."""
