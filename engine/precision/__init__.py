"""Elastic precision: how much each width of each expert costs in quality, and which widths to use."""
