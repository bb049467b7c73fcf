"""Cases of rule_sweep.py that nobody wrote: every operator that this build of libtorch has a schema for, with arguments made from the schema
(op.NAME.OVERLOAD). What is called in the plain run is called by the ranks; what libtorch refuses to do with arguments made so is no case.

Each operator gets a divided batch as its first tensor (and as the second, in the variant :both; not as the first, in :second). In-place
operators write to a divided batch, and in :second to a tensor of the program's own; out= writes to a tensor of the program's own. In :sums
all tensors that have a type which can be summed are sums over the batch, of which each rank has a part.

Arguments that have a default are left out in these. In :rows the operator works along dimension 0, that of the rows, and what has a default is given
otherwise (keepdim, correction, largest), in :rows_both with two divided tensors; in :options, for operators that ask for no dimension, the latter alone."""
import itertools
import json
import os

import torch

from rule_sweep_case import CASES, FLAT, pieces

SHAPES = [(FLAT,), (3, 4), (4, 4), (2, 6, 6), (), (2, 2, 4, 4)]
DTYPES = [["float32"], ["int64"], ["bool"], ["complex64"], ["float64"]]
MIXED = [["float32", "int64"], ["float32", "bool"], ["bool", "float32"], ["float32", "int64", "float32"]]
MASKED = [["float32", "bool", "float32"], ["float32", "float32", "bool"]]

# Operators whose results are not defined by their arguments, or which change what the process is.
NOT_CALLED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "empty_quantized", "resize", "resize_", "resize_as_", "resize_as_sparse_",
    "set_", "set_data", "data", "from_file", "requires_grad_", "retain_grad", "is_leaf", "output_nr", "rename_", "rename", "align_as", "align_to", "refine_names", "names", "pin_memory", "is_pinned",
    "record_stream", "to_mkldnn", "choose_qparams_optimized", "backward", "wait", "manual_seed", "seed", "initial_seed", "quantize_per_channel", "quantize_per_tensor", "quantize_per_tensor_dynamic",
    "quantized_lstm", "quantized_gru", "sparse_resize_", "sparse_resize_and_clear_", "clear", "insert", "append", "extend", "pop", "warn", "print", "hash", "save", "set_source_Storage", "swapaxes_copy",
    "cuda", "format", "percentFormat", "confirmed_by_owner", "grad", "hash.generic", "fbgemm_pack_gemm_matrix_fp16", "fbgemm_pack_quantized_matrix", "mkldnn_rnn_layer", "nested_to_padded_tensor", "is_owner",
    "linalg_lstsq",  # of low rank or not by rounding: the plain run differs from itself
    "native_batch_norm", "gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell",  # end the process when their tensors do not fit
}  # fmt: skip
NOT_CALLED_PREFIXES = ("_", "cudnn_", "miopen_", "mkldnn_", "fbgemm_", "fake_quantize", "quantize", "quantized_", "qint", "sym_", "q_", "to_padded", "copy_sparse", "sparse_", "slow_conv", "thnn_conv", "record_function", "choose_qparams")
NOT_CALLED_ENDINGS = ("_backward", "_backward_data", "_jvp", "_backward_input", "_backward_weight", "_double_backward")


def callable_schemas():
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        if not schema.name.startswith("aten::") or (name.startswith(NOT_CALLED_PREFIXES) and not name.startswith("__")) or name.endswith(NOT_CALLED_ENDINGS) or name in NOT_CALLED:
            continue
        if not schema.arguments or not any(str(a.type) in ("Tensor", "Tensor[]", "List[Tensor]") for a in schema.arguments) or not hasattr(torch.ops.aten, name):
            continue
        if any(str(r.type) not in TENSORS for r in schema.returns) or not schema.returns:
            continue
        found[name + ("." + schema.overload_name if schema.overload_name else "")] = schema
    return found


TENSORS = ("Tensor", "Tensor[]", "List[Tensor]")
DIMENSIONS = {"dim", "dims", "dim0", "dim1", "dim2", "axis", "axis0", "axis1", "dimension", "start_dim", "end_dim", "dims_self", "dims_other", "source", "destination"}
OF_ONE, OF_SEVERAL = ("int", "Optional[int]", "int?"), ("List[int]", "int[]", "Optional[List[int]]", "int[]?")
NOT_FLIPPED = {"non_blocking", "pin_memory", "copy", "requires_grad", "check_errors", "cudnn_enabled"}  # nothing to see, or no CPU's
# What is given where the default is something else.
OTHERWISE = {
    "alpha": 2, "beta": 2, "correction": 0, "rounding_mode": "floor", "value": 2, "reduction": 2, "offset": 1, "p": 1, "min": 0.3, "max": 0.6, "base": 2.0, "norm": "ortho", "side": "right",
    "ord": 1, "nan": 0.5, "eps": 0.1, "negative_slope": 0.5, "lambd": 0.3, "margin": 0.5, "step": 2, "approximate": "tanh", "interpolation": "nearest", "decimals": 1, "n": 2, "UPLO": "U", "bins": 5,
    "threshold": 0.4, "delta": 0.5, "blank": 1,
}  # fmt: skip
NOT_OTHERWISE = {"rrelu_with_noise", "rrelu_with_noise_"}  # end the process
ROWS, OPTIONS = ("rows", "rows_alone"), ("options",)  # ways to call it; rows_alone: other values are refused there
DEFAULT = object()


def dimension_for(argument, schema):
    """The first dimension; the one beside it where there are two."""
    is_second = argument.name in ("dim2", "axis1", "end_dim", "destination") or (argument.name == "dim1" and any(a.name == "dim0" for a in schema.arguments))
    return int(is_second) if str(argument.type) in OF_ONE else [int(is_second)]


def other_value(argument):
    """Not the default, if it is known what else there is."""
    if str(argument.type) in ("bool", "Optional[bool]", "bool?"):
        return DEFAULT if argument.name in NOT_FLIPPED else not argument.default_value
    return OTHERWISE.get(argument.name, DEFAULT)


def writes_out(schema):
    """To a tensor of the program's own, which autograd forbids where there is a history."""
    return any(a.is_out for a in schema.arguments)


def has_dimension(schema):
    return any(a.name in DIMENSIONS and str(a.type) in OF_ONE + OF_SEVERAL for a in schema.arguments)


def ways_of(schema):
    if schema.name[6:] in NOT_OTHERWISE:
        return ()
    if has_dimension(schema):
        return ROWS
    has_option = any(a.has_default_value() and str(a.type) not in TENSORS and other_value(a) is not DEFAULT for a in schema.arguments)
    return OPTIONS if has_option else ()


def tensor_of(shape, dtype, rows, at):
    """Values between 0 and 1 that tell elements apart and can be added without rounding; integers are small positions."""
    count = rows * torch.Size(shape).numel()
    base = torch.rand(count, generator=torch.Generator().manual_seed(at)).mul(0.8).add(0.1).mul(65536).round().div(65536).view(rows, *shape)
    if dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        return (base * 3).to(dtype)
    if dtype == torch.bool:
        return base > 0.4
    return torch.complex(base, base.flip(-1)).to(dtype) if dtype.is_complex else base.to(dtype)


def value_for(argument, number):
    """What stands for an argument that is no tensor and has no default; `number` tries others."""
    kind = str(argument.type)
    if kind.startswith("Optional") or kind.endswith("?"):
        return None
    plain = {"int": (1, 0), "float": (0.5, 1.0), "bool": (False, True), "number": (0.5, 2), "Scalar": (0.5, 2), "str": ("mean", "ij"), "Device": (torch.device("cpu"),) * 2, "Layout": (torch.strided,) * 2}
    if kind in plain:
        return plain[kind][number]
    if kind in ("List[int]", "int[]"):
        return [[1], [1, 1], [0]][number] if number < 3 else None
    if kind in ("List[number]", "List[float]"):
        return [0.5]
    raise LookupError(kind)


class Made:
    """How an operator is called: the shape of a row, the types of its tensors, and the choice of its other arguments."""

    def __init__(self, schema, shape, dtypes, number, result_dtype=None, way=""):
        self.schema, self.shape, self.number, self.way, self.choice = schema, tuple(shape), number, way, [shape, dtypes, number, result_dtype, way]
        self.dtypes = [getattr(torch, name) for name in dtypes]
        self.result_dtype = getattr(torch, result_dtype or "float32")
        self.operator = getattr(getattr(torch.ops.aten, schema.name[6:]), schema.overload_name or "default")

    def value(self, argument):
        """For an argument that is no tensor."""
        if self.way in ROWS and argument.name in DIMENSIONS and str(argument.type) in OF_ONE + OF_SEVERAL:
            return dimension_for(argument, self.schema)
        if argument.has_default_value():
            return other_value(argument) if self.way in ("rows", "options") else DEFAULT
        return value_for(argument, self.number)

    def call(self, rows, tensor):
        """tensor(at, shape, dtype): the tensor for the argument that is number `at` of the tensors."""
        arguments, named, at = [], {}, 0
        for argument in self.schema.arguments:
            kind = str(argument.type)
            if kind in TENSORS:
                dtype = self.dtypes[min(at, len(self.dtypes) - 1)]
                if argument.is_out:
                    value = torch.zeros(0, dtype=self.result_dtype)
                elif kind == "Tensor":
                    value = tensor(at, self.shape, dtype)
                else:
                    value = [tensor(at, self.shape, dtype), tensor(at + 1, self.shape, dtype)]
                at += 1
            else:
                value = self.value(argument)
            if value is DEFAULT:
                continue
            if argument.kwarg_only or argument.has_default_value() or named:
                named[argument.name] = value
            else:
                arguments.append(value)
        return self.operator(*arguments, **named)


def find_call(schema, ways=("",), dtypes_known=None):
    """The first way to call it that libtorch accepts, tried on tensors that are nobody's: alike in all ranks."""
    tensors = sum(str(a.type) in TENSORS and not a.is_out for a in schema.arguments)
    choices = [dtypes_known] if dtypes_known else DTYPES + (MIXED if tensors > 1 else [])
    shapes = SHAPES if hasattr(torch, "Tag") and hasattr(torch.Tag, "pointwise") else SHAPES[:3]  # each refusal takes 1.13 ten milliseconds
    at_mask = [a.name for a in schema.arguments if str(a.type) == "Tensor"].index("mask") if schema.name.startswith("aten::masked_") else None
    choices = MASKED + choices if at_mask and not dtypes_known else choices
    for way, shape, dtypes, number in itertools.product(ways, shapes, choices, (0, 1)):
        if at_mask and dtypes[min(at_mask, len(dtypes) - 1)] != "bool":  # 1.13 takes the bytes of any type for a mask
            continue
        if "_pad1d" in schema.name and number == 0:  # 1.13 takes a list of one number, and reads what lies behind it
            continue
        if schema.overload_name == "scalarrayint" and shape:  # and one spacing for several dimensions
            continue
        made = Made(schema, shape, dtypes, number, None, way)
        try:
            torch.manual_seed(0)
            with torch.no_grad():
                result = made.call(4, lambda at, shape, dtype: tensor_of(shape, dtype, 4, at))
            if writes_out(schema):
                made.choice[3] = str(pieces(result)[0].dtype)[6:]
            return made
        except LookupError:
            return None
        except Exception:  # whatever libtorch says: these arguments are none
            continue
    return None


def divided(m, t, shape, dtype, at):
    """A batch of these values that is divided, with a history where the type has one."""
    values = tensor_of(shape, dtype, t.rows, at)
    own = m.keep(m.flat(t.flat))[:, :1].view(-1, *[1] * len(shape)).clamp(-1, 1) * 0.05
    if dtype.is_floating_point or dtype.is_complex:
        return values + own.to(dtype)
    return torch.where(own > 9, 1 - values.long(), values.long()).to(dtype)


def summed(m, t, shape, dtype, at):
    """Such values as a sum over the batch, whose parts differ in each element; some of the sums are 0. Two ranks can add them up without rounding."""
    values = tensor_of(shape, dtype, t.rows, at)
    if dtype == torch.bool:
        return values
    weights = (tensor_of(shape, torch.float32, t.rows, at + 10) * 8).round() - 3
    values = torch.where(tensor_of(shape, torch.float32, t.rows, 99) > 0.7, torch.zeros_like(values), values)
    ramp = (torch.arange(t.rows) * 2 - (t.rows - 1)).view(-1, *[1] * (len(shape) + 1))  # its sum is 0
    rows = m.keep(m.flat(t.flat))[:, 0].clamp(-1, 1).view(-1, *[1] * (len(shape) + 1)) * 0.05
    if dtype.is_floating_point or dtype.is_complex:
        return values + (((rows - rows.detach()) / t.rows + ramp / 128) * (weights + 0.25)).to(dtype).sum(0)
    return values + (((rows > 9) + ramp) * (3 * weights.to(dtype) + 1)).sum(0, dtype=dtype)


def schema_case(made, which, variant=divided):
    def run(m, t):
        def tensor(at, shape, dtype):
            return variant(m, t, shape, dtype, at) if at in which else tensor_of(shape, dtype, t.rows, at)

        quiet = writes_out(made.schema)
        with torch.set_grad_enabled(not quiet):
            return made.call(t.rows, tensor)

    return run


def enter_call(name, made, variants):
    for variant, which, of in variants:
        CASES[f"op.{name}{variant}"] = schema_case(made, which, of)


def enter(found_file, every=1, offset=0):
    """Enters the cases, of every 20th operator if so, from the one numbered `offset` on. Which calls are possible is written to the file, or read from it where
    it exists: the search takes longer than the cases."""
    found = json.load(open(found_file)) if os.path.exists(found_file) else {}

    def known(key, search):
        if key not in found:
            made = search()
            found[key] = made and made.choice
        return found[key]

    for name, schema in sorted(callable_schemas().items())[offset % every :: every]:
        choice = known(name, lambda: find_call(schema))
        if choice is None:
            continue
        tensors = sum(str(a.type) in TENSORS and not a.is_out for a in schema.arguments)
        variants = [("", (0,), divided)]
        if tensors > 1:
            variants += [(":second", (1,), divided), (":both", (0, 1), divided)]
        if name not in ("view.dtype", "view_copy.dtype"):  # three ranks round, and these show the last bit
            variants += [(":sums", range(tensors + 1), summed)]
        enter_call(name, Made(schema, *choice), variants)
        ways = ways_of(schema)
        choice = known(f"{name}:{ways[0]}", lambda: find_call(schema, ways, choice[1])) if ways else None
        if choice:
            variants = [(f":{ways[0]}", (0,), divided)] + ([(":rows_both", (0, 1), divided)] if ways == ROWS and tensors > 1 else [])
            enter_call(name, Made(schema, *choice), variants)
    if not os.path.exists(found_file):
        with open(found_file, "w") as file:
            json.dump(found, file)
