"""The host path: convolutions and biases in float64 on plain CPUs, which is also what every test compares with."""
