"""What test files of PyTorch 2.6 miss in a newer `torch.testing`: a script for tests/pytorch_tests.py --first."""

from torch.testing._internal import (
    common_cuda,
    common_device_type,
    common_methods_invocations,
    common_mkldnn,
    common_nn,
)

for module, name, make in (
        (common_mkldnn, "bf32_on_and_off", lambda: common_mkldnn.reduced_f32_on_and_off),
        (common_cuda, "tf32_is_not_fp32", lambda: lambda: True),
        (common_nn, "new_module_tests", lambda: common_nn.get_new_module_tests()),
        (common_methods_invocations, "skip", lambda: common_device_type.skip),
        (common_methods_invocations, "xfail", lambda: common_device_type.xfail),
        (common_methods_invocations, "skipOps",
         lambda: lambda cls, name, to_skip: common_device_type.skipOps(to_skip))):
    if not hasattr(module, name):
        setattr(module, name, make())
