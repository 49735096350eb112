"""Triton kernels for NVIDIA cards, sm_75 to sm_120. Only what runs on a card imports this package.

The same code runs on CPU tensors in Triton's interpreter, which is how it is tested without a card.
"""
