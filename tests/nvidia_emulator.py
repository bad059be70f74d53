"""NVIDIA's kernels on a CPU, instruction by instruction where OpenCL C has PTX: what they compute, not how fast.

clang compiles a kernel to LLVM's intermediate representation for NVIDIA's target, in which lines of PTX are still text.
Each line becomes a call of a C function that does the same (`data/nvidia_emulator.c`), and clang makes a library for
this machine of the rest, with OpenCL C's own functions as PoCL has them.  `data/libcuda_stub.c` runs it in the place of
the device, so that handles, plans and solvers are the ones that users have.  `pytest --emulated` runs the tests of all
devices so.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import nvidia_programs

if TYPE_CHECKING:
    from collections.abc import Callable

RUNTIME = Path(__file__).parent / "data" / "nvidia_emulator.c"
MARK = "//emulated by "  # in PTX, before the library's path; the stub knows it, too
# Kernels take the way that they take with NVIDIA's compiler; work-items are the emulator's, not PoCL's.
PRELUDE = "#define __NV_CL_C_VERSION 120\n" + "".join(
    f"{kind} __attribute__((convergent)) nv_{name}(uint d);\n#define {name} nv_{name}\n" for kind, name in (
        ("size_t", "get_local_id"), ("size_t", "get_group_id"), ("size_t", "get_local_size"),
        ("size_t", "get_num_groups"), ("size_t", "get_global_size"), ("size_t", "get_global_id"), ("void", "barrier")))


class Unknown(Exception):
    """An instruction that is not written yet."""


# Instructions.  In C an operand $i is the cell b[i], of 64 bits: results first, then what is read.

def _split(text: str) -> list[str]:
    """Return what commas separate, brackets aside."""
    pieces, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and not depth:
            pieces.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*pieces, last] if last else pieces


def _each(operand: str) -> list[str]:
    """Return the members of a vector in braces."""
    return _split(operand[1:-1]) if operand.startswith("{") else [operand]


def _as(kind: str, operand: str) -> str:
    """Return an operand's lowest bits as a type: U16, U32, U64 or F32; a sum of addresses in brackets, too."""
    operand = operand.strip("[] ")
    if "+" in operand:
        return " + ".join(_as(kind, part) for part in operand.split("+"))
    if operand.startswith("$"):
        return f"{kind}(b[{operand[1:]}])"
    return operand if re.fullmatch(r"-?(0x)?[0-9a-fA-F]+", operand) else f"{kind}({operand})"


def _u32(operand: str) -> str:
    return _as("U32", operand)


def _u64(operand: str) -> str:
    return _as("U64", operand)


def _f32(operand: str) -> str:
    return _as("F32", operand)


def _cell(operand: str) -> int:
    """Return the number of an operand's cell, of a vector's first one."""
    return int(_each(operand.strip("[]"))[0].removeprefix("$"))


def _moved(names: list[str], bits: str, at: str, store: bool) -> str:
    """Return C that stores members of a vector to local memory, or loads them."""
    kind, size = f"uint{bits}_t", int(bits) // 8
    wide = "U16" if bits == "16" else "U32"
    lines = [f"at[{i}] = ({kind}) {_as(wide, name)};" if store else f"{_as(wide, name)} = at[{i}];"
             for i, name in enumerate(names)]
    return f"{{ {kind} *at = ({kind} *) local_at({_u32(at)}, {size * len(names)}); {' '.join(lines)} }}"


def _loaded(names: list[str], bits: str, at: str, what: str) -> str:
    lines = [f"{_as('U16' if bits == '16' else 'U32', name)} = v[{i}];" for i, name in enumerate(names)]
    return (f"{{ cell v[4]; nv_load(v, {_u64(at)}, {len(names)}, {int(bits) // 8}, \"{what}\"); "
            f"{' '.join(lines)} }}")


def _wgmma(m: re.Match, o: list[str]) -> str:
    n = int(m[1])
    if len(_each(o[0])) != n // 2 or o[4:6] != ["1", "1"]:
        raise Unknown(m[0])
    if o[1].startswith("{"):  # a in registers
        if len(_each(o[1])) != 4:
            raise Unknown(m[0])
        return f"nv_wgmma_registers(b, {n}, {o[3]}, {o[6]}, {_KINDS[m[2]]});"
    return f"nv_wgmma(b, {n}, {o[3]}, {o[6]}, {o[7]}, {_KINDS[m[2]]});"


def _wgmma_tf32(m: re.Match, o: list[str]) -> str:
    """Numbers along the summed axis."""
    n = int(m[1])
    if len(_each(o[0])) != n // 2 or o[4:] != ["1", "1"]:
        raise Unknown(m[0])
    if not o[1].startswith("{"):
        return f"nv_wgmma(b, {n}, {o[3]}, 0, 0, TF32);"
    if len(_each(o[1])) != 4:  # a in registers
        raise Unknown(m[0])
    return f"nv_wgmma_tf32(b, {n}, {o[3]});"


def _wgmma_bytes(m: re.Match, o: list[str]) -> str:
    n = int(m[1])
    if len(_each(o[0])) != n // 2 or o[4:] != ["1", "1"]:
        raise Unknown(m[0])
    return f"nv_wgmma_bytes(b, {n}, {o[3]}, {_KINDS[m[2]]}, {_KINDS[m[3]]});"


def _mma(m: re.Match, o: list[str]) -> str:
    zero = len({*_each(o[3])}) == 1
    return (f"nv_mma(b, {_cell(o[0])}, {_cell(o[1])}, {_cell(o[2])}, {_cell(o[3])}, {int(zero)}, "
            f"{_KINDS[m[1]]});")


def _copy(m: re.Match, o: list[str]) -> str:
    """The last operand is how many bytes are read, or a predicate that says to read none."""
    size = _u32(o[2])
    read = size if len(o) < 4 else _u32(o[3]) if o[3].startswith("$") else f"{o[3]} ? 0 : {size}"
    return f"nv_copy({_u32(o[0])}, {_u64(o[1])}, {size}, {read});"


def _copy_box(m: re.Match, o: list[str]) -> str:
    """By a tensor map: its address and where the box begins; then the barrier, and the distances of im2col."""
    name, places = _split(o[1][1:-1])
    at = ", ".join(f"(int32_t) {_u32(one)}" for one in _each(places))
    apart = ", ".join(_as("U16", one) for one in _each((*o, "{0}")[3]))
    return (f"nv_copy_box({_u32(o[0])}, {_u64(name)}, (int32_t[5]) {{{at}}}, (int32_t[3]) {{{apart}}}, {_u32(o[2])}, "
            f"{int('im2col' in m[0])}, {len(_each(places))});")


def _atomic(o: list[str], then: str) -> str:
    return (f"{{ uint64_t *at = (uint64_t *) global_at({_u64(o[1])}, 8, \"atom\"); {_u64(o[0])} = *at; {then} }}")


def _word_of_two(m: re.Match, o: list[str]) -> str:
    kind = "bfloat" if m[2] == "bf16" else "half"
    high, low = (f"nv_relu({_f32(name)})" if m[1] else _f32(name) for name in o[1:])
    return f"{_u32(o[0])} = (uint32_t) {kind}_from({high}) << 16 | {kind}_from({low});"


def _two_of_word(m: re.Match, o: list[str]) -> str:
    low, high = (_as("U16", name) for name in _each(o[0]))
    return f"{low} = {_u32(o[1])} & 0xffff; {high} = {_u32(o[1])} >> 16;"


_KINDS = {"f16": "HALF", "bf16": "BFLOAT", "tf32": "TF32", "s8": "INT8", "e4m3": "E4M3", "e5m2": "E5M2"}
_NOTHING = (r"//launch:|barrier\.cluster\.arrive\..*|prefetch\..*|fence\..*|setmaxnreg\..*|griddepcontrol\..*|"
            r"wgmma\.fence\.sync\.aligned")
_INSTRUCTIONS: list[tuple[str, Callable[[re.Match, list[str]], str]]] = [
    (_NOTHING, lambda m, o: ""),
    # Barriers
    (r"bar\.warp\.sync", lambda m, o: "nv_warp_barrier();"),
    (r"bar\.sync", lambda m, o: f"nv_named_barrier({_u32(o[0])}, {_u32(o[1])}, \"bar.sync\");"),
    (r"mbarrier\.init\..*b64", lambda m, o: f"nv_mbarrier_init({_u32(o[0])}, {_u32(o[1])});"),
    (r"mbarrier\.arrive\.shared.*b64", lambda m, o: f"nv_mbarrier_arrive({_u32(o[1])});"),
    (r"mbarrier\.try_wait\.parity\..*b64", lambda m, o: f"{_u32(o[0])} = nv_mbarrier_try({_u32(o[1])}, {_u32(o[2])});"),
    (r"mbarrier\.expect_tx\..*b64", lambda m, o: f"nv_mbarrier_expect({_u32(o[0])}, {_u32(o[1])});"),
    (r"mbarrier\.arrive\.expect_tx\..*b64",
     lambda m, o: f"nv_mbarrier_expect({_u32(o[1])}, {_u32(o[2])}); nv_mbarrier_arrive({_u32(o[1])});"),
    # Clusters, and groups that run at once
    (r"barrier\.cluster\.wait\..*", lambda m, o: "nv_cluster_barrier();"),
    (r"mapa\.shared::cluster\.u32", lambda m, o: f"{_u32(o[0])} = nv_mapa({_u32(o[1])}, {_u32(o[2])});"),
    (r"st\.async\.shared::cluster\.mbarrier::complete_tx::bytes\.v4\.b32",
     lambda m, o: f"nv_store_async({_u32(o[0])}, (uint32_t[4]) {{{', '.join(map(_u32, _each(o[1])))}}}, "
                  f"{_u32(o[2])});"),
    (r"ld\.acquire\.gpu\.global\.u32", lambda m, o: f"{_u32(o[0])} = nv_acquire({_u64(o[1])});"),
    (r"red\.release\.gpu\.global\.add\.u32",
     lambda m, o: f"*(uint32_t *) global_at({_u64(o[0])}, 4, \"red\") += {_u32(o[1])}; progress++;"),
    # Copies into local memory
    (r"cp\.async\.mbarrier\.arrive\.noinc\..*b64", lambda m, o: f"nv_mbarrier_arrive_copied({_u32(o[0])});"),
    (r"cp\.async\.c[ag]\.shared\.global", _copy),
    (r"cp\.async\.bulk\.tensor\.\dd\..*complete_tx::bytes", _copy_box),
    (r"mov\.b64", lambda m, o: f"{_u64(o[0])} = nv_parameter({int(o[1].rpartition('_param_')[2])});"),
    (r"cvta\.param\.u64", lambda m, o: f"{_u64(o[0])} = {_u64(o[1])};"),
    (r"cp\.async\.bulk\..*complete_tx::bytes",
     lambda m, o: f"nv_copy_bulk({_u32(o[0])}, {_u64(o[1])}, {_u32(o[2])}, {_u32(o[3])});"),
    (r"cp\.async\.commit_group", lambda m, o: "nv_commit();"),
    (r"cp\.async\.wait_group", lambda m, o: f"nv_wait_group({_u32(o[0])});"),
    # Of a warp, or a warpgroup
    (r"ldmatrix\.sync\.aligned\.m8n8\.x4(\.trans)?\.shared\.b16",
     lambda m, o: f"nv_ldmatrix(b, {_cell(o[0])}, {_cell(o[1])}, {int(bool(m[1]))});"),
    (r"movmatrix\.sync\.aligned\.m8n8\.trans\.b16", lambda m, o: f"nv_movmatrix(b, {_cell(o[0])}, {_cell(o[1])});"),
    (r"shfl\.sync\.(idx|bfly)\.b32",
     lambda m, o: f"nv_shuffle(b, {_cell(o[0])}, {_cell(o[1])}, {_cell(o[2])}, {int(m[1] == 'bfly')});"),
    (r"redux\.sync\.max\.u32", lambda m, o: f"nv_redux_max(b, {_cell(o[0])}, {_cell(o[1])});"),
    (r"mma\.sync\.aligned\.m16n8k(?:8|16|32)\.row\.col\.[fs]32\.(f16|bf16|tf32|s8)\.\1\.[fs]32", _mma),
    (r"wgmma\.commit_group\.sync\.aligned", lambda m, o: "nv_wgmma_commit();"),
    (r"wgmma\.wait_group\.sync\.aligned", lambda m, o: f"nv_wgmma_wait({_u32(o[0])});"),
    (r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.(f16|bf16)\.\2", _wgmma),
    (r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k8\.f32\.tf32\.tf32", _wgmma_tf32),
    (r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k32\.f32\.(e4m3|e5m2)\.(e4m3|e5m2)", _wgmma_bytes),
    # Memory
    (r"cvta\.to\.shared\.u64", lambda m, o: f"{_u64(o[0])} = {_u64(o[1])};"),
    (r"st\.shared\.(?:v\d\.)?[bu](\d+)", lambda m, o: _moved(_each(o[1]), m[1], o[0], True)),
    (r"ld\.shared\.(?:v\d\.)?[bu](\d+)", lambda m, o: _moved(_each(o[0]), m[1], o[1], False)),
    (r"ld\.global(?:\.nc|\.cg)(?:\.v\d)?\.[bf](\d+)", lambda m, o: _loaded(_each(o[0]), m[1], o[1], m[0])),
    (r"atom\.global\.cas\.b64", lambda m, o: _atomic(o, f"if (*at == {_u64(o[2])}) *at = {_u64(o[3])};")),
    (r"atom\.global\.max\.u32",
     lambda m, o: f"{{ uint32_t *at = (uint32_t *) global_at({_u64(o[1])}, 4, \"atom\"); {_u32(o[0])} = *at; "
                  f"if ({_u32(o[2])} > *at) *at = {_u32(o[2])}; }}"),
    (r"atom\.global\.add\.u64", lambda m, o: _atomic(o, f"*at += {_u64(o[2])};")),
    # Numbers
    (r"cvt\.u32\.u64", lambda m, o: f"{_u32(o[0])} = (uint32_t) {_u64(o[1])};"),
    (r"cvt\.rn(\.relu)?\.(f16|bf16)x2\.f32", _word_of_two),
    (r"cvt\.rna\.tf32\.f32", lambda m, o: f"{_u32(o[0])} = tf32_from({_f32(o[1])});"),
    (r"cvt\.rn\.satfinite\.(e4m3|e5m2)x2\.f32",
     lambda m, o: f"{_as('U16', o[0])} = byte_from({_f32(o[1])}, {_KINDS[m[1]]}) << 8 "
                  f"| byte_from({_f32(o[2])}, {_KINDS[m[1]]});"),
    (r"cvt\.rn\.f16x2\.(e4m3|e5m2)x2",
     lambda m, o: f"{_u32(o[0])} = nv_halves_of_bytes({_as('U16', o[1])}, {_KINDS[m[1]]});"),
    (r"cvt\.f32\.f16", lambda m, o: f"{_f32(o[0])} = half_of({_as('U16', o[1])});"),
    (r"cvt\.rn\.f16\.f32", lambda m, o: f"{_as('U16', o[0])} = half_from({_f32(o[1])});"),
    (r"max\.(f16|bf16)x2", lambda m, o: f"{_u32(o[0])} = nv_max_of_two({_u32(o[1])}, {_u32(o[2])}, {_KINDS[m[1]]});"),
    (r"set\.(gt|nan)\.u32\.(f16|bf16)x2",
     lambda m, o: f"{_u32(o[0])} = nv_set_of_two({_u32(o[1])}, {_u32(o[2])}, {_KINDS[m[2]]}, {int(m[1] == 'nan')});"),
    (r"prmt\.b32", lambda m, o: f"{_u32(o[0])} = nv_prmt({_u32(o[1])}, {_u32(o[2])}, {_u32(o[3])});"),
    (r"mov\.b32 from a word", _two_of_word),
    (r"mov\.b32 to a word",
     lambda m, o: f"{_u32(o[0])} = " + " | (uint32_t) ".join(
         f"{_as('U16', name)}{' << 16' * i}" for i, name in enumerate(_each(o[1]))) + ";"),
    (r"mov\.[bu](16|32)", lambda m, o: f"{_as('U' + m[1], o[0])} = {_as('U' + m[1], o[1])};"),
    (r"and\.b32", lambda m, o: f"{_u32(o[0])} = {_u32(o[1])} & {_u32(o[2])};"),
    (r"ex2\.approx\.ftz\.f32", lambda m, o: f"{_f32(o[0])} = nv_exp_2({_f32(o[1])});"),
    (r"rcp\.approx\.ftz\.f32", lambda m, o: f"{_f32(o[0])} = 1 / {_f32(o[1])};"),
    (r"add\.s64", lambda m, o: f"{_u64(o[0])} = {_u64(o[1])} + {_u64(o[2])};"),
    (r"add\.f32", lambda m, o: f"{_f32(o[0])} = {_f32(o[1])} + {_f32(o[2])};"),
    (r"setp\.num\.f32", lambda m, o: f"{o[0]} = {_f32(o[1])} == {_f32(o[1])} && {_f32(o[2])} == {_f32(o[2])};"),
    (r"add\.[su]32", lambda m, o: f"{_u32(o[0])} = {_u32(o[1])} + {_u32(o[2])};"),
    (r"setp\.(eq|ne)\.[us]32", lambda m, o: f"{o[0]} = {_u32(o[1])} {'==' if m[1] == 'eq' else '!='} {_u32(o[2])};"),
    (r"selp\.s32", lambda m, o: f"{_u32(o[0])} = {o[3]} ? {_u32(o[1])} : {_u32(o[2])};"),
]


def instruction(text: str) -> str:
    """Return C for one instruction of PTX, its predicate included."""
    guard, name, rest = re.fullmatch(r"(?:@(!?\w+) )?(\S+) ?(.*)", " ".join(text.split())).groups()
    operands = _split(rest)
    if name == "mov.b32" and "{" in rest:
        name += " from a word" if operands[0].startswith("{") else " to a word"
    for pattern, write in _INSTRUCTIONS:
        m = re.fullmatch(pattern, name)
        if m:
            code = write(m, operands)
            return f"if ({guard}) {{ {code} }}" if guard else code
    raise Unknown(text)


def _function(name: str, text: str) -> str:
    """Return the C function of a line of PTX, in braces or not."""
    text = text.replace("//@", "").strip()
    if text.startswith("{ ."):
        text = text[1:-1]
    lines = []
    for statement in filter(None, map(str.strip, text.split(";"))):
        if statement.startswith(".reg"):
            kind, names = statement.split(None, 2)[1:]
            lines.append(f"{'int' if kind == '.pred' else 'cell'} {names.replace(',', ' = 0,')} = 0;")
        else:
            lines.append(instruction(statement))
    return f"void {name}(cell *b)\n{{\n    " + "\n    ".join(lines) + "\n}\n"


# LLVM's intermediate representation

_ASM = re.compile(r'asm (?:sideeffect )?"((?:[^"\\]|\\.)*)", "([^"]*)"\(')
_KERNEL = re.compile(r"^define [^@\n]*spir_kernel void @(\w+)\((.*?)\) [^()\n]*\{$", re.M)

# Of global and of local memory, by an address that is not written in the program.
_ACCESS = re.compile(r"^  (?:%\S+ = )?(?:load|store) (?:volatile )?([^%@]+?)(?: %\S+| [\w.+-]+)?, "
                     r"ptr addrspace\(([13])\) (%\S+), align (\d+)", re.M)
_VECTOR_ACCESS = re.compile(r"^  (?:%\S+ = )?(?:tail )?call [^@\n]*@_Z\d+v(?:load|store)(?:a?_half)?(\d*)(?:_rte)?"
                            r"[^(\n]*?(Dh|[hctsjimlfd])\((?:[^,\n]*noundef %\S+, )?(i64 noundef \S+), "
                            r"ptr addrspace\(1\) noundef (%\S+)\)", re.M)
_BYTES = {"i1": 1, "i8": 1, "i128": 16, "i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8,
          "h": 1, "c": 1, "t": 2, "s": 2, "Dh": 2, "j": 4, "i": 4, "f": 4, "l": 8, "m": 8, "d": 8}


def _checked(m: re.Match) -> str:
    """Put a look at the address before a load or a store."""
    vector = re.fullmatch(r"<(\d+) x (\w+)>", m[1].strip())
    count, kind = (int(vector[1]), vector[2]) if vector else (1, m[1].strip())
    if kind not in _BYTES:
        raise Unknown(m[0])
    return (f"  call void @nv_access_{m[2]}(ptr addrspace({m[2]}) {m[3]}, i64 0, i64 {count * _BYTES[kind]}, "
            f"i64 {m[4]})\n{m[0]}")


def _checked_vector(m: re.Match) -> str:
    """Likewise before OpenCL C's vloadN and vstoreN, which count in their vectors."""
    size = _BYTES[m[2]]
    return (f"  call void @nv_access_1(ptr addrspace(1) {m[4]}, {m[3]}, "
            f"i64 {int(m[1] or 1) * size}, i64 {size})\n{m[0]}")


def _closing(text: str, start: int) -> int:
    """Return where the bracket that opens before `start` is closed."""
    depth = 1
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if not depth:
            return i
    raise ValueError(text[start:start + 80])


def lower(text: str) -> tuple[str, str]:
    """Return a kernel's representation without PTX, for this machine, and the C that it calls."""
    names: dict[tuple[str, ...], str] = {}
    wrappers, functions, pieces, last = [], [], [], 0
    for m in _ASM.finditer(text):
        line = text.rfind("\n", 0, m.start()) + 1
        result = text[line:m.start()].split("call", 1)[1].strip()
        inputs = [operand.split()[0] for operand in _split(text[m.end():_closing(text, m.end())])]
        key = (m[1], m[2], result, *inputs)
        if key not in names:
            names[key] = name = f"ptx_{len(names)}"
            wrappers.append(_wrapper(name, result, inputs, m[2], not m[1]))
            if m[1]:
                functions.append(_function(f"{name}_c", m[1]))
        pieces += [text[last:m.start()], f"@{names[key]}("]
        last = m.end()
    ir = "".join([*pieces, text[last:]])
    kernels = {m[1]: _entry(m[1], _split(m[2])) for m in _KERNEL.finditer(ir)}
    assert kernels, "no kernel: another version's representation"
    ir = re.sub(r"^target (datalayout|triple).*$", "", ir, flags=re.M)
    ir = re.sub(r'"target-(features|cpu)"="[^"]*"', "", ir)
    ir = ir.replace(" spir_kernel ", " ").replace(" spir_func ", " ")
    ir = re.sub(r"(addrspace\(3\) global .*?) undef,", r'\1 zeroinitializer, section "nv_local",', ir)
    ir = _VECTOR_ACCESS.sub(_checked_vector, _ACCESS.sub(_checked, ir))
    wrappers += [f"declare void @nv_access_{space}(ptr addrspace({space}), i64, i64, i64)" for space in (1, 3)]
    c = [f'#include "{RUNTIME}"', *functions, *(f"extern void run_{name}(void **);" for name in kernels),
         "static const entry entries[] = {" + "".join(f'{{"{name}", run_{name}}}, ' for name in kernels) + "{0, 0}};"]
    return "\n".join([_target(), ir, *wrappers, *kernels.values()]), "\n".join(c) + "\n"


def _wrapper(name: str, result: str, inputs: list[str], constraints: str, empty: bool) -> str:
    """Return a function that puts what a line of PTX reads into cells, and takes from there what it writes."""
    outputs = [] if result == "void" else _split(result[1:-1]) if result.startswith("{") else [result]
    read = [c for c in constraints.split(",") if c and not c.startswith(("=", "~"))]
    cells = [int(c) if c.isdigit() else len(outputs) + i for i, c in enumerate(read)]
    lines = [f"define internal {result} @{name}({', '.join(f'{kind} %a{i}' for i, kind in enumerate(inputs))}) "
             f"{'alwaysinline' if empty else 'noinline'} {{",
             f"  %b = alloca [{max([len(outputs), *(c + 1 for c in cells), 1])} x i64], align 16"]
    for i, (kind, cell) in enumerate(zip(inputs, cells, strict=True)):
        lines += [f"  %p{i} = getelementptr i64, ptr %b, i64 {cell}", f"  store {kind} %a{i}, ptr %p{i}, align 8"]
    if not empty:
        lines.append(f"  call void @{name}_c(ptr %b)")
    for i, kind in enumerate(outputs):
        lines += [f"  %q{i} = getelementptr i64, ptr %b, i64 {i}", f"  %v{i} = load {kind}, ptr %q{i}, align 8"]
    if result.startswith("{"):
        before = "undef"
        for i, kind in enumerate(outputs):
            lines.append(f"  %r{i} = insertvalue {result} {before}, {kind} %v{i}, {i}")
            before = f"%r{i}"
        lines.append(f"  ret {result} {before}")
    else:
        lines.append(f"  ret {result} %v0" if outputs else "  ret void")
    return "\n".join([*lines, "}"]) + ("" if empty else f"\ndeclare void @{name}_c(ptr)")


def _entry(name: str, parameters: list[str]) -> str:
    """Return a function that calls a kernel with arguments from an array of their addresses, as CUDA has them."""
    lines, passed = [f"define void @run_{name}(ptr %args) {{"], []
    for i, parameter in enumerate(parameters):
        kind = re.match(r"ptr addrspace\(\d\)|\S+", parameter)[0]
        lines += [f"  %s{i} = getelementptr ptr, ptr %args, i64 {i}", f"  %p{i} = load ptr, ptr %s{i}"]
        by_value = re.search(r"byval\(([^)]*)\)(?: align (\d+))?", parameter)
        if by_value:  # the array's values are at no multiples of more than 8
            kind, align = by_value[1], by_value[2] or 8
            lines += [f"  %c{i} = alloca {kind}, align {align}", f"  %v{i} = load {kind}, ptr %p{i}, align 8",
                      f"  store {kind} %v{i}, ptr %c{i}, align {align}"]
            passed.append(f"ptr {by_value[0]} %c{i}")
        else:
            lines.append(f"  %v{i} = load {kind}, ptr %p{i}")
            passed.append(f"{kind} %v{i}")
    return "\n".join([*lines, f"  call void @{name}({', '.join(passed)})", "  ret void", "}"])


@cache
def _target() -> str:
    done = subprocess.run([nvidia_programs.clang(), "-x", "c", "-S", "-emit-llvm", "-o", "-", "-"], input="int x;",
                          capture_output=True, text=True, check=True)
    return "\n".join(line for line in done.stdout.splitlines() if line.startswith("target "))


# Libraries

@cache
def builtins() -> tuple[str, str] | None:
    """Return PoCL's library of OpenCL C's functions, None where there is none, and the processor that it is for."""
    try:
        avx2 = " avx2 " in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    kind, processor = ("avx2", "haswell") if avx2 else ("GENERIC", "x86-64")
    for folder in ("/usr/share/pocl", "/usr/local/share/pocl"):
        path = Path(folder) / f"kernel-x86_64-pc-linux-gnu-{kind}.bc"
        if path.exists():
            return str(path), processor
    return None


@cache
def why_not() -> str:
    """Return what is missing here, or an empty text."""
    if os.uname().machine != "x86_64":
        return "needs x86-64"
    if nvidia_programs.clang() is None:
        return "needs a clang that builds for NVIDIA's GPUs"
    if builtins() is None:
        return "needs PoCL's library of OpenCL C's functions"
    try:
        library(b"__kernel void f(__global float *y) { y[get_local_id(0)] = fmax(y[0], 1.0f); }", [])
    except AssertionError as e:
        return f"clang does not know, or PoCL was made by a later one: {e}"
    return ""


@cache
def _folder() -> Path:
    return Path(os.environ.get("NVIDIA_EMULATOR_CACHE") or tempfile.mkdtemp(prefix="nvidia-emulator-"))


def _run(*arguments: str, data: bytes = b"", folder: Path | None = None) -> bytes:
    done = subprocess.run([nvidia_programs.clang(), *arguments], input=data, cwd=folder, capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return done.stdout


@cache
def _archive() -> Path:
    """Return PoCL's functions, compiled the first time: of vectors, a library of C passes some in other registers."""
    pocl, processor = builtins()
    path = _folder() / "functions.a"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=_folder()) as name:
            _run("-w", "-O0", "-fPIC", f"-march={processor}", "-ffunction-sections", "-c", "-x", "ir", pocl, "-o",
                 "functions.o", folder=Path(name))
            subprocess.run(["ar", "rcs", "functions.a", "functions.o"], cwd=name, check=True)
            os.replace(Path(name) / "functions.a", path)
    return path


def library(text: bytes, options: list[str]) -> Path:
    """Return the library of a program, which is compiled the first time."""
    key = hashlib.blake2b(repr((text, options, RUNTIME.read_bytes(), Path(__file__).read_bytes())).encode(),
                          digest_size=16).hexdigest()
    path = _folder() / f"{key}.so"
    if path.exists():
        return path
    flags = nvidia_programs.FLAGS[:nvidia_programs.FLAGS.index("-S")]
    ir, c = lower(_run(*options, *flags, "-w", "-S", "-emit-llvm", "-o", "-", "-",
                       data=PRELUDE.encode() + text).decode())
    with tempfile.TemporaryDirectory(dir=_folder()) as name:
        work = Path(name)
        (work / "kernel.ll").write_text(ir)
        (work / "ptx.c").write_text(c)
        here = ("-fPIC", f"-march={builtins()[1]}", "-ffp-contract=off", "-w")
        _run(*here, "-O1", "-c", "kernel.ll", "-o", "kernel.o", folder=work)
        _run(*here, "-O2", "-c", "ptx.c", "-o", "ptx.o", folder=work)
        _run("-shared", "-Wl,--gc-sections", "-Wl,--exclude-libs,ALL", "-Wl,--no-undefined", "kernel.o", "ptx.o",
             str(_archive()), "-o", "done.so", "-lm", folder=work)
        os.replace(work / "done.so", path)
    return path
