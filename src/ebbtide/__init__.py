"""ebbtide: a local coding assistant for Mixture-of-Experts models larger than fast memory."""

__version__ = "0.1.0"
