"""Which width every block of experts has: what a width costs in quality, and who gets how many planes."""
