"""Convolution solvers for AMD's matrix cores."""
