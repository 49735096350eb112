"""Kernels: tensors and page tables, no model names."""
