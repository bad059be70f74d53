"""Finding OpenCL devices, probing them in a child process, ranking them."""
