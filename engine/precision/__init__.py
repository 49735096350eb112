"""Elastic precision: which blocks of experts are used at which widths."""
