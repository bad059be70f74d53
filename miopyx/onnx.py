"""ONNX models by miopyx calls: the public name of `miopyx.tools.onnx`."""

from .tools.onnx import *  # noqa: F403
