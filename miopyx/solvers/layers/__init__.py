"""Solvers of everything but convolutions: one module an operation."""
