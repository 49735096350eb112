"""One file per command; each imports what is heavy only when it runs."""
