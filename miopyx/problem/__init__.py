"""The operations beside convolutions: their descriptors and problems, one module an operation."""
