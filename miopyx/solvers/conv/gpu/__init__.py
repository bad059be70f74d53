"""Convolution solvers for any GPU."""
