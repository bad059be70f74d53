"""Convolution solvers for OpenCL CPU devices."""
