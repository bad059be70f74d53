"""What launches: OpenCL entry points, buffers, built programs."""
