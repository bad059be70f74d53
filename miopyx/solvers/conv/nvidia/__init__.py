"""Convolution solvers for NVIDIA's tensor cores."""
