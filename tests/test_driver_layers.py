"""The driver's operations beside convolutions: flags, verification, printed lines, lists, exit codes."""

import json
import re

import numpy as np
import pytest

from miopyx.tools.driver import data, families, layer, main, run
from miopyx.tools.driver.families import FAMILIES, LAYERS
from miopyx.tools.driver.options import ADDITIONS, Command, UsageError, parse_flags, parse_line

SIZES = "-n 3 -c 6 -H 9 -W 8"
# Small lines of every operation, and how many results each verifies.
LINES = {
    "pool -W 3x4x9x8,NCHW": 2,
    "pool -W 3x4x9x8,NHWC -y 3 -x 2 -v 2 -u 2 -p 1 -q 1 -M 1 -I miopenIndexUint32": 2,
    "pool -W 2x3x5x6x7 -y 2 -Z 2 -o 1 -I miopenIndexUint16": 2,
    "pool -W 2x3x5x6x7,NDHWC -M 0 -s 2 -m max": 2,
    "pool -W 3x4x9x8 -m avg -p 1 -q 1 -v 2": 2,
    "pool -W 3x4x9x8,500x90x10x1 -O ,400x95x10x1 -D ,600x100x11x1 -m avg_in -p 1 -q 1": 2,
    "pool -W 3x4x9x8 -z same": 2,
    "pool -W 3x4x9x8 -F 1": 1,
    "pool -W 3x4x9x8 -F 2": 1,
    **{f"activ {SIZES} -m {mode} -A 0.7 -B 0.6 -G 1.5": 2 for mode in range(10)},
    f"activ {SIZES} -m 10 -A -0.7 -B 0.6": 2,
    f"activ {SIZES} --in_d 3 --layout NDHWC": 2,
    f"activ {SIZES} -F 2 -m 1": 1,
    f"lrn {SIZES}": 2,
    f"lrn {SIZES} -m cross -N 4 -B 0.5 -K 2 --layout NHWC": 2,
    "lrn -n 2 -c 3 -H 5 -W 5 -N 8 -m cross -A 0.5 -F 2": 1,
    f"bnorm {SIZES}": 1,
    f"bnorm {SIZES} -m 1 -s 1 -r 1 -F 1": 1,
    f"bnorm {SIZES} -m 1 -F 2 -r 1 -L NHWC": 1,
    f"bnorm {SIZES} -F 2": 1,
    f"bnorm {SIZES} -m 1 -b 1 -s 1": 1,
    f"bnorm {SIZES} -D 3 -b 1": 1,
    **{f"bnorm {SIZES} -m 1 -f {mode} -x 0.7 -y 0.6 -z 1.5 -F 1 -s 1": 1 for mode in range(1, 10)},
    **{f"bnorm {SIZES} -m {mode % 2} -f {mode} -x 0.7 -y 0.6 -z 1.5 -b 1 -s {mode // 2 % 2}": 1
       for mode in range(1, 10)},
    f"bnorm {SIZES} -m 1 -f 8 -F 2 -r 1 -I 1 -L NHWC": 1,
    f"bnorm {SIZES} -m 1 -f 10 -x -0.7 -y 0.6 -b 1": 1,
    f"bnorm {SIZES} -f 10 -x -0.7 -y 0.6 -F 1": 1,
    f"bnorm {SIZES} -I 1 -F 2": 1,
    f"bnorm {SIZES} -F 2 -r 1 -I 1": 1,
    f"bnorm {SIZES} -m 1 -F 1 -r 1 -Q 1 -s 1": 1,
    f"bnorm {SIZES} -m 1 -F 1 -r 1 -Q 1 -f 2": 1,
    f"softmax {SIZES}": 2,
    f"softmax {SIZES} -m 0 -a 0 -A 0.5 -B 2": 2,
    f"softmax {SIZES} -a 2 --layout NHWC": 2,
    f"softmax {SIZES} -a 2 -F 2 -m 0": 1,
    f"layernorm {SIZES} -m 1": 1,
    f"layernorm {SIZES} -F 0 -o 1": 2,
    f"layernorm {SIZES} -F 2 -m 1 -o 2 --in_d 2": 1,
    f"addlayernorm {SIZES} -F 0 -m 3": 2,
    f"t5layernorm {SIZES} -m 5": 2,
    f"t5layernorm {SIZES}": 2,
    f"groupnorm {SIZES} -F 0 -m 1 -g 3 -D 0": 2,
    f"groupnorm {SIZES} -F 0 -m 0 -g 2 -D 2": 2,
    **{f"reduce -D 5,6,7 -R 0,2 -O {op} -I 1 -N {op % 2} -A 0.5 -B {op % 3}": 1 for op in range(9)},
    "reduce -D 40,30 -R 1 -C 6": 1,
    "reducecalculation -X 9x8x7": 1,
    "reducecalculation -X 9x8x7 -O 1 -R 2 -N 1": 1,
    **{f"reduceextreme -X 9x8x7 -O {op}": 1 for op in range(1, 5)},
    "dropout -d 5,6,7 -p 0.3 -l 5 -m 6": 2,
    "dropout -d 50 -e 1 -F 1": 1,
    "dropout -d 50,3 -p 1 -F 2": 1,
    "cat -1 2x3x4 -2 2x5x4 -3 2x1x4 -d 1": 1,
    "ctc -k 20,7 -l 5,2 -b 3": 1,
    "ctc -m 0 -n 2": 1,
    "glu -D 6x8 -R 1 -F 0": 2,
    "prelu -D 3x4x5 -P 4": 1,
    "prelu -D 3x4x5": 1,
    "kthvalue -D 5x7 -k 3 -c 0": 1,
    "kthvalue -D 5x7x2 -k 3 -d 1 -K 1": 1,
    "getitem": 1,
    "getitem -O 5x3 -D 5,5 -N 4x6x3 -1 2 -2 2 -3 0,1": 1,
    "getitem -O 9x6 -D 9 -N 8x6 -4 1 -5 0,0,8,2": 1,
    "softmarginloss -D 4x25 -F 0 -C 0": 2,
    "softmarginloss -R mean": 1,
    "multimarginloss --power 2": 1,
    "multimarginloss -R sum -C 0 --margin 0.5": 1,
    "rope -X 2x3x8 -F 0": 2,
    "gemm -m 30 -n 20 -k 50 -A 0.5 -B 2": 1,
    **{f"gemm -b 3 -m 4 -n 5 -k 6 -u {i & 1} -v {i >> 1 & 1} -C {i >> 2} -A 1.5 -B {i % 2}": 1 for i in range(8)},
    "adam -d 5x6 -W 0.1": 1,
    "adam -d 5x6 -a 1 -m 1": 1,
    "transformersadamw -d 5x6 -W 0.1": 1,
    **{f"CBAInfer {SIZES} -k 6 -F {mode} -M 1": 1 for mode in range(7)},
    **{f"CBAInfer {SIZES} -k 6 -F {mode % 2 + 4} -m {mode} -A 0.7 -B 0.6 -G 1.5": 1 for mode in range(10)},
    f"CBAInfer {SIZES} -k 6 -F 1 -m 10 -A -0.7 -B 0.6": 1,
    f"CBAInfer {SIZES} -k 9 -g 3 -u 2 -v 3 -p 1 -q 2 -l 2 -y 2": 1,
    f"CBAInfer {SIZES} -k 4 -z same --layout NHWC": 1,
    f"CBAInfer {SIZES} -k 4 -z valid -m 8 -A 0.1": 1,
    f"CBAInfer {SIZES} -F 2": 1,
    "layernorm -X 5x7 -o 1 -F 0 -m 1": 2,
    "addlayernorm -X 3x4x2x5x2 -o 2 -F 0": 2,
    "t5layernorm -X 12": 2,
    "groupnorm -n 3 -c 6 -D 0 -H 0 -W 5 -g 2 -F 0": 2,
    "softmarginloss -D 3x4x5 -S 20x1x4 -F 0 -R sum": 2,
    "rnn": 3,
    "rnn -m lstm -k 5 -l 2 -r 1 -b 1 -n 4,4,3,1 -W 7 -H 9": 3,
    "rnn -m gru -k 4 -n 3,1 -q 1 -p 1 -H 9 -W 9 -a 1": 3,
    "rnn -m relu -k 4 -l 3 -r 1 -n 5,3,2 -U 1 -P 0.4 -L 3 -M 4 -F 6": 2,
    "rnn -m lstm -k 3 -c 1": 1,
    "rnn_seq": 3,
    "rnn_seq -m lstm -b 1 -l 3 -r 1 -K 9,7,2": 3,
    "rnn_seq -m gru -I 2 -n 5 -K 3,9,1,4,10 -l 2 -F 4": 1,
    "rnn_seq -m relu -I 3 -n 5 -K 3,9,1,0,10 -l 2 -b 1 -U 1 -P 0.3 -L 5": 3,
    "rnn_seq -m tanh -r 1 -c 1 -F 1": 1,
    f"tensorop {SIZES} -v 2.5": 1,
    f"tensorop {SIZES} -o 1 -v 0.5": 1,
    **{f"tensorop {SIZES} -o {op} -A 0.5 -B 2 -G {op % 2}": 1 for op in range(2, 6)},
    f"tensorop {SIZES} -o 2 --b_lens 1x6x1x1 -i 3": 1,
}
# On devices one line of each kind: what their kernels compute in all modes and types is tested elsewhere, and each of
# them takes a while to build.
ON_DEVICES = ("pool -W 3x4x9x8,NCHW", f"activ {SIZES} --in_d 3 --layout NDHWC", f"lrn {SIZES}",
              f"bnorm {SIZES} -m 1 -s 1 -r 1 -F 1", f"bnorm {SIZES} -m 1 -b 1 -s 1",
              f"bnorm {SIZES} -m 1 -F 1 -r 1 -Q 1 -f 2",
              f"softmax {SIZES} -m 0 -a 0 -A 0.5 -B 2", f"tensorop {SIZES} -o 2 --b_lens 1x6x1x1 -i 3",
              f"groupnorm {SIZES} -F 0 -m 1 -g 3 -D 0", f"CBAInfer {SIZES} -k 6 -F 0 -M 1",
              f"CBAInfer {SIZES} -k 6 -F 5 -m 1 -A 0.7 -B 0.6 -G 1.5",
              "reduce -D 5,6,7 -R 0,2 -O 3 -I 1 -N 1 -A 0.5 -B 0",
              "reducecalculation -X 9x8x7 -O 1 -R 2 -N 1", "reduceextreme -X 9x8x7 -O 4",
              "dropout -d 5,6,7 -p 0.3 -l 5 -m 6",
              "rnn -m lstm -k 5 -l 2 -r 1 -b 1 -n 4,4,3,1 -W 7 -H 9",
              "rnn_seq -m relu -I 3 -n 5 -K 3,9,1,0,10 -l 2 -b 1 -U 1 -P 0.3 -L 5")
SPELLINGS = ("bnormfp16fp32", "bnormbfp16fp32")


def drive(line, device_name, *more):
    return main([*line.split(), "--device", device_name, *more])


# ------------------------------------------------------------------------------------------------------------ flags


@pytest.mark.parametrize("family", LAYERS, ids=lambda family: family.name)
def test_flags(family, capsys):
    names, letters = [f.name for f in family.flags], [f.short for f in family.flags if f.short]
    assert len(set(names)) == len(names)
    assert len(set(letters)) == len(letters)
    assert all(len(letter) == 1 and letter != "h" for letter in letters)
    assert not set(names) & {flag.name for flag in ADDITIONS}
    for flag in family.flags:
        given = next((v for v in flag.allowed if v != flag.default), flag.default) if flag.allowed else flag.default
        assert parse_flags([f"--{flag.name}={given}"], family=family) == {flag.name: given}
        if flag.short:
            assert parse_flags([f"-{flag.short}", str(given)], family=family) == {flag.name: given}
        command = Command(family.name, {flag.name: given}, family)
        assert parse_line(str(command), FAMILIES) == command
    assert main([family.name, "--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"--{flag.name}" in text for flag in (*family.flags, *ADDITIONS))
    assert family.name + "fp16" in text.splitlines()[0]


@pytest.mark.parametrize(("operation", "defaults"), [
    ("pool", {"input": "100x3x32x32,NCHW", "forw": 0, "win_h": 3, "pool_stride_w": 1, "pad_d": 0, "index_position": 0,
              "mode": "max", "index_type": "miopenIndexUint8", "iter": 10}),
    ("activ", {"batchsize": 100, "mode": 3, "alpha": 1.0, "beta": 1.0, "gamma": 1.0, "forw": 0}),
    ("lrn", {"lrnN": 5, "alpha": 0.001, "beta": 0.75, "lrnK": 1.0, "mode": "within", "forw": 0}),
    ("bnorm", {"forw": 0, "back": 0, "mode": 0, "save": 0, "run": 0, "batchsize": 32, "in_d": 0, "iter": 1,
               "activ_mode": 0, "activ_alpha": 1.0, "activ_beta": 1.0, "inverse_variance": 0, "ping_pong_buffers": 0}),
    ("softmax", {"batchsize": 100, "in_channels": 3, "in_h": 32, "alpha": 1.0, "beta": 0.0, "algorithm": 1, "mode": 1}),
    ("layernorm", {"forw": 1, "batchsize": 100, "in_w": 32, "eps": 1e-5, "normalized_dim": 3, "mode": 0}),
    ("t5layernorm", {"forw": 0, "mode": 5, "batchsize": 100, "in_channels": 3}),
    ("groupnorm", {"forw": 1, "batchsize": 32, "in_channels": 32, "in_d": 14, "in_h": 14, "in_w": 14, "num_groups": 4,
                   "mode": 0}),
    ("CBAInfer", {"fusion_mode": 0, "batchsize": 32, "in_channels": 3, "in_h": 32, "out_channels": 32, "fil_h": 3,
                  "pad_h": 0, "alpha": 1.0, "beta": 0.0, "gamma": 1.0, "activMode": 3, "bnMode": 0, "iter": 1,
                  "group_count": 1, "conv_stride_w": 1, "dilation_h": 1}),
    ("reduce", {"DimLengths": "100,60,16,240", "DimsToReduce": "0,2", "ReduceOp": 0, "CompType": 1, "NanPropagation": 0,
                "IndicesUsed": 0, "alpha": 1.0, "beta": 0.0, "iter": 1}),
    ("reducecalculation", {"input": "256x4x8732", "DimToReduce": 1, "ReduceCalculationOp": 2, "iter": 10}),
    ("reduceextreme", {"input": "21x500x375", "DimToReduce": 0, "ReduceExtremeOp": 1, "iter": 10}),
    ("dropout", {"forw": 0, "input_dim": "4", "dropout": 0.5, "seed_low": 0, "seed_high": 0, "use_mask": 0, "iter": 1}),
    ("cat", {"input1": "2x32x128x128x128", "input3": "", "dim": 0, "iter": 10}),
    ("ctc", {"batchsize": 4, "num_class": 9, "input_len": "20", "label_len": "5", "apply_softmax_layer": 1, "iter": 1}),
    ("adam", {"dims": "64x32x128", "lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0}),
    ("rnn", {"forw": 0, "num_layer": 1, "seq_len": 1, "bidirection": 0, "batchsize": "4", "hid_h": 32, "in_h": 32,
             "iter": 1, "bias": "", "mode": "tanh", "inputmode": 0, "use_padding": 0, "fwdtype": 0, "dropout": 0.0}),
    ("rnn_seq", {"seq_len": 10, "batch_size": 4, "seq_len_array": "", "in_vec": 32, "io_layout": 1, "iter": 1}),
    ("tensorop", {"tensor_op": 0, "alpha1": 1.0, "alpha2": 1.0, "beta": 0.0, "tensor_val": 1.0, "batchsize": 64}),
])
def test_defaults_are_miopendrivers(operation, defaults):
    command = Command(operation, {}, FAMILIES[operation])
    assert {name: command[name] for name in defaults} == defaults


@pytest.mark.parametrize("line", [
    "pool -n 4", "pool -W 3x4x9", "pool -W 3x4x9x8,3x4", "pool -W axb", "pool -m avgin", "pool -I miopenIndexUint9",
    "pool -z full", "pool -r 1", "pool -W 1x1x8x8 -z same -y 2", "pool -w 1", "activ -m 11", "activ -A x",
    "activ -A nan", "activ --layout NCHWc4", "lrn -m cross_channel", "lrn -m 1", "bnorm -F 3", "bnorm -A 2",
    "bnorm -F 1 -b 1", "bnorm -f 11", "bnorm -I 1", "bnorm -b 1 -I 1", "bnorm -Q 1", "bnorm -F 2 -r 1 -Q 1",
    "softmax -a 3", "tensorop -o 6", "tensorop --b_lens 1x", "tensorop -v inf",
    "layernorm -m 2", "layernorm -o 6", "t5layernorm -m 1", "groupnorm -g 0", "groupnorm -g 3",
    "groupnorm --layout NHWC",
    "reduce -R 4", "reduce -R 0,0", "reduce -D 4x5", "reduce -O 9", "reduceextreme -O 0",
    "reducecalculation -R 3", "dropout -d 4x5", "dropout -f 1", "dropout -l -1",
    "cat -d 5", "cat -1 2x3 -2 2x3x4", "ctc -k a", "ctc -k 3 -l 5", "glu -D 5x3", "prelu -P 3", "kthvalue -k 9",
    "kthvalue -d 5", "getitem -1 2", "getitem -3 2", "softmarginloss -R most", "multimarginloss -D 3", "rope -X 3x5",
    "adam -m 2", "CBAInfer -F 7", "CBAInfer -M 0", "CBAInfer -F 3 -M 0", "CBAInfer -g 2", "CBAInfer -m 11",
    "CBAInfer -z full", "CBAInfer --layout NCDHW", "CBAInfer -D plan.dot", "CBAInfer -H 9 -y 2 -z same",
    "layernorm -X 3xx4", "layernorm -X 5 -o 2", "t5layernorm -m 6", "reduce -o 1", "pool -j x.bin",
    "softmarginloss -D 3x4 -S 4",
    "rnn -m elman", "rnn -n 3,4 -k 2", "rnn -n a", "rnn -n 0", "rnn -n ,", "rnn -p 1 -W 5", "rnn -c 1 -F 2", "rnn -F 8",
    "rnn -f 0", "rnn -b 2", "rnn -k 0", "rnn_seq -K 1,2", "rnn_seq -K 11 -I 2", "rnn_seq -n 2 -K 3,2,1", "rnn_seq -I 0",
    "rnn_seq -K -1 -I 3",
    "conv -W 1x1x2x2", "poolint8",
])
def test_lines_that_do_not_parse(line, capsys):
    assert main([*line.split(), "--device", "host"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("miopyx-driver: ")


@pytest.mark.parametrize("line", [
    "pool -y 0", "pool -p -1", "pool -v 0", "pool -W 1x1x2x2", "pool -W 0x1x9x9", "activ -n 0", "bnorm -c -1",
    "activ --in_d 2 --layout NHWC", "tensorop --b_lens 2x3x1x1 -o 2", "lrn -N 0",
    "layernorm -o 5", "groupnorm -g 3", "CBAInfer -n 0", "CBAInfer -u 0", "reduce -D 0,5 -R 1", "dropout -p 1.5",
    "rnn -U 1 -P 2", "rnn_seq -I 2 -K 0",
])
def test_what_the_library_refuses(line, capsys):
    code = main([*line.split(), "--device", "host"])
    assert code in (2, 3)
    assert "Verifies" not in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------------- verification


@pytest.mark.parametrize("line", LINES)
def test_lines_verify(line, capsys):
    assert drive(line, "host") == 0
    assert capsys.readouterr().out.count(" Verifies OK on CPU reference (") == LINES[line]


@pytest.mark.parametrize("line", ON_DEVICES)
def test_lines_verify_on_devices(line, device_name, capsys):
    assert drive(line, device_name) == 0
    assert capsys.readouterr().out.count(" Verifies OK on CPU reference (") == LINES[line]


@pytest.mark.parametrize("operation", [name for family in LAYERS for name in family.operations
                                       if name not in LINES] + list(SPELLINGS))
def test_types(operation):
    family = FAMILIES[operation]
    line = next(line for line in LINES if line.split()[0] == family.name)
    assert drive(line.replace(family.name, operation, 1), "host") == 0


@pytest.fixture
def one_wrong_element(monkeypatch):
    """Every result that comes back from the device has one wrong element."""
    download = run.Session.download

    def wrong(self, buffer, array):
        values = download(self, buffer, array)
        values[0] = 0 if abs(float(values[0])) > 1e-9 else 1  # no gap of any tensor
        return values

    monkeypatch.setattr(run.Session, "download", wrong)


@pytest.mark.parametrize("line", LINES)
def test_a_wrong_element_fails(line, one_wrong_element, capsys):
    assert drive(line, "host") == 1
    out = capsys.readouterr().out
    assert len(re.findall(r"^\w.* FAILED: \S+ > \S+", out, re.M)) == LINES[line]
    assert "Verifies OK" not in out


@pytest.mark.parametrize("line", LINES)
def test_an_output_that_nothing_wrote_fails(line, monkeypatch, capsys):
    kind = LAYERS[FAMILIES[line.split()[0]]]
    passes = kind.passes
    monkeypatch.setattr(kind, "passes", lambda self: [p._replace(call=lambda *_: None) for p in passes(self)])
    if line.startswith("tensorop") and "-o 1" in line:
        monkeypatch.setattr(kind, "values", lambda self, name, generator: np.ones(3 * 6 * 9 * 8, np.float32))
    assert drive(line, "host") == 1
    assert "Verifies OK" not in capsys.readouterr().out


def test_an_index_that_names_another_place_fails(monkeypatch, capsys):
    """dx alone would not show it: the forward direction compares the indices themselves."""
    line = "pool -W 1x1x4x4 -y 2 -x 2 -v 2 -u 2 -F 0"
    check = layer.check

    def changed(work, direction, host, before):
        if "workSpace" in direction.outputs:
            host["workSpace"][1] ^= 1
        return check(work, direction, host, before)

    monkeypatch.setattr(layer, "check", changed)
    assert drive(line, "host") == 1
    assert "Forward Pooling FAILED: 1 > 0 (wrong workSpace)" in capsys.readouterr().out


def test_blocks_cover_everything(monkeypatch):
    monkeypatch.setattr(layer, "_BLOCK", 64)
    for line in (f"bnorm {SIZES} -m 1 -s 1 -r 1 -F 1", f"softmax {SIZES} -a 2", "pool -W 3x4x9x8,NCHW",
                 f"tensorop {SIZES} -o 2 --b_lens 1x6x1x1"):
        assert drive(line, "host") == 0


def test_uniform():
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        values = data.uniform(data.Generator(7), dtype, 40000, -0.5, 1.5).astype(np.float64)
        assert -0.5 <= values.min() < -0.49
        assert 1.49 < values.max() <= 1.5
    whole = data.uniform(data.Generator(7), "float64", 1 << 21, 0, 1)
    assert (whole[:40000] == data.uniform(data.Generator(7), "float64", 40000, 0, 1)).all()
    assert np.allclose(whole * 2**31, data.Generator(7).draw(1 << 21))


@pytest.mark.parametrize(("dtype", "largest"), [
    ("float16", 4 * 2**-10), ("bfloat16", 4 * 2**-7), ("float32", 80 * 2**-23), ("float64", 1e-12)])
def test_limits_are_sharp(dtype, largest):
    assert layer.limit(dtype, 1e-3, 5e-2) == largest
    assert layer.elementwise_limit(dtype) <= largest
    assert layer.limit(dtype, 1e-6, 1e-4) <= {"float32": 1e-6, "float16": 1e-4, "bfloat16": 8e-4}.get(dtype, largest)


# ------------------------------------------------------------------------------------------------------ printed lines


def test_times_of_recurrent_layers(capsys):
    """-w alone asks for times, as MIOpenDriver's rnn has no -t."""
    assert drive("rnn_seq -w 1 -i 2", "host") == 0
    out = capsys.readouterr().out
    for title in ("Forward RNN", "Backward RNN Data", "Backward RNN Weights"):
        assert f"Wall-clock Time {title} Elapsed: " in out
        assert re.search(rf"^GPU Kernel Time {title} Elapsed: \d+\.\d+ ms \(average\)$", out, re.M)
        assert re.search(rf"^MIOpen {title} Solution: \d+/\w+$", out, re.M)


@pytest.mark.parametrize(("words", "titles", "tensor"), [
    ("pool -W 3x4x9x8,NCHW", ("Forward Pooling", "Backward Pooling"), "3x4x9x8"),
    (f"activ {SIZES}", ("Forward Activation", "Backward Activation"), "3x6x9x8"),
    (f"lrn {SIZES}", ("Forward LRN", "Backward LRN"), "3x6x9x8"),
    (f"bnorm {SIZES} -m 1 -s 1 -r 1 -F 1", ("Forward Training Batch Normalization",), "3x6x9x8"),
    (f"softmax {SIZES} -m 0 -a 0", ("Forward Softmax", "Backward Softmax"), "3x6x9x8"),
    (f"tensorop {SIZES} -o 2", ("Tensor Op",), "3x6x9x8"),
])
def test_lines_of_a_run(words, titles, tensor, device_name, capsys):
    arguments = [*words.split(), "-t", "1", "-w", "1", "-i", "3", "--device", device_name]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    number = r"[-+.0-9e]+"
    expected = [re.escape(" ".join(["miopyx-driver", *arguments])), "PRNG seed: 12345678"]
    for title in titles:
        expected += [
            rf"MIOpen {title} Solution: [1-9]\d*/\w+",
            rf"Wall-clock Time {title} Elapsed: {number} ms, Auxiliary API calls: {number} ms",
            rf"GPU Kernel Time {title} Elapsed: {number} ms \(average\)",
            "stats: name, tensor, bytesRead, bytesWritten, GB/s, timeMs",
            rf"stats: (fwd|bwd)-\w+, {tensor}, \d+, \d+, {number}, {number}",
            rf"{title} Verifies OK on CPU reference \({number} < {number}\)",
        ]
    assert len(lines) == len(expected), lines
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line), line
    assert main([*arguments, "-V", "0"]) == 0
    assert "Verifies" not in capsys.readouterr().out


def test_bytes_are_those_that_must_move(capsys):
    for line, moved in (("pool -W 3x4x9x8,NCHW -F 1", (3456, 2016)), (f"activ {SIZES} -F 1", (5184, 5184)),
                        (f"activ {SIZES} -F 2 -m 3", (10368, 5184)), (f"tensorop {SIZES} -o 0", (0, 5184)),
                        (f"tensorop {SIZES} -o 2 --b_lens 1x6x1x1", (5184 + 24, 5184)),
                        (f"softmaxfp16 {SIZES} -F 2", (5184, 2592)), (f"bnorm {SIZES} -m 1", (10368 + 48, 5184))):
        assert drive(line, "host", "-t", "1") == 0
        rows = [row for row in capsys.readouterr().out.splitlines() if row.startswith("stats: ")]
        assert tuple(map(int, rows[1].split(", ")[2:4])) == moved, line


def test_tiny_prints():
    assert not families.prints(parse_line("lrn -P 0", FAMILIES))
    assert not families.prints(parse_line("pool -P 0", FAMILIES))
    assert families.prints(parse_line("softmax", FAMILIES))


# -------------------------------------------------------------------------------------------------------------- lists


LIST = f"""conv -n 2 -c 6 -k 20 -H 9 -W 8 -F 1
./bin/MIOpenDriver pool -M 0 --input 5x4x9x8,288x72x8x1 -y 3 -x 3 -p 0 -q 0 -v 1 -u 1 -m max -F 0 -t 1
activ {SIZES} -F 1  # a remark
bnormfp16fp32 {SIZES} -m 1 --forw 1
tensorop {SIZES} -o 2
"""


@pytest.fixture
def a_list(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text(LIST)
    return path


def test_a_list_of_many_operations(a_list, tmp_path, device_name, capsys):
    result = tmp_path / "out.json"
    assert main(["--file", str(a_list), "--batch", "2", "--device", device_name, "--json", str(result)]) == 0
    out = capsys.readouterr().out
    assert "GB/s" in out.splitlines()[0]
    assert "5 of 5 lines verified on " in out
    assert re.search(r"^fwd: 5 of 5 verified, 0 failed, geometric mean \S+ GFLOP/s and \S+ GB/s$", out, re.M)
    found = json.loads(result.read_text())
    assert [(r["line"], r["direction"]) for r in found["results"]] == [
        (1, "fwd"), (2, "fwd"), (2, "bwd"), (3, "fwd"), (4, "fwd"), (5, "fwd")]
    for entry in found["results"]:
        assert entry["problem"]["x" if "x" in entry["problem"] else "C"][0] == 2
        assert entry["verdict"] == "ok"
        assert entry["solver"] != "UNKNOWN"
        assert (entry["gflops"] if entry["line"] == 1 else entry["gb_per_s"]) > 0


def test_an_operation_beside_a_list(tmp_path, capsys):
    path = tmp_path / "list.txt"
    path.write_text("activ -n 2\nactivfp16 -n 2 -m 1\n")
    assert main(["activbfp16", "--file", str(path), "-c", "2", "-i", "1", "--verbose", "--device", "host"]) == 0
    out = capsys.readouterr().out
    assert "miopyx-driver activbfp16 -n 2 -c 2 -i 1" in out
    assert "miopyx-driver activbfp16 -n 2 -m 1 -c 2 -i 1" in out
    for arguments, why in ((["poolfp16"], "cannot be run as poolfp16"), (["conv", "-k", "3"], "no flag --out_chan")):
        assert main([*arguments, "--file", str(path), "--device", "host"]) == 2
        assert why in capsys.readouterr().err


def test_a_failure_and_an_error_in_a_list(tmp_path, monkeypatch, capsys):
    path = tmp_path / "list.txt"
    path.write_text("pool -W 2x2x300x300 -M 1\nactiv -n 2\n")  # 8 bits do not count an image's pixels
    assert main(["--file", str(path), "--device", "host"]) in (2, 3)
    out = capsys.readouterr().out
    assert "1 of 2 lines verified" in out
    assert out.count("error: ") == 2
    monkeypatch.setattr(run.Session, "download", lambda self, buffer, array: np.ones_like(array))
    assert main(["--file", str(path), "--device", "host"]) == 1


def test_commands_of_other_families_are_not_mixed_up():
    with pytest.raises(UsageError, match="unknown operation"):
        parse_line("pool -F 1")
    assert parse_line("pool -F 1", FAMILIES) != parse_line("conv -F 1", FAMILIES)
    assert len(FAMILIES) == len({name for family in FAMILIES.values() for name in family.operations})
