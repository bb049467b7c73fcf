"""Statements that random programs are made of (random_programs.py). Each function is given the program so far and returns a statement for variables that suit it
now, or None."""
import torch

# Left out is what one process itself leaves to chance, or to the order in which a kernel goes: decisions by figures that are zero but for rounding, writes behind
# autograd's back (.data, numpy) to what it has saved, writes from memory that is written.
STATEMENTS = []


def statement(times):
    def enter(function):
        STATEMENTS.extend([function] * times)
        return function

    return enter


def index(p, shape):
    """An index of a tensor of this shape."""
    rows = shape[0]
    last = f"{p.pick(range(-rows, rows))}" if rows else "0"
    start = p.pick(range(rows + 1))
    choices = [last, f"{start}:", f":{start}", f"::{p.pick([1, 2, 3])}", f"{p.pick(range(3))}:-1", "...", "None", f"[{last}]", f"[0, {last}, 0]",
               f"torch.tensor([{last}, 0])", f"torch.arange({rows}) % 2 == 0"]
    if len(shape) > 1:
        column = p.pick(range(-shape[1], shape[1])) if shape[1] else 0
        choices += [f":, {column}", f":, {column}:", "..., 0", f"{last}, {column}", f"1:, :{abs(column) + 1}", f":, [{column}, 0]", "..., None", ":, ::2",
                    f"[0, {last}], [{column}, 0]", f"{start}:, {column}", f"torch.arange({rows}), {column}"]
    return p.pick(choices)


def same_shape(p, name, among="xyvp"):
    shape = p[name].shape
    return p.pick(p.tensors(lambda t: t.is_floating_point() and t.shape == shape, among) or [name])


def dim_of(p, name):
    dims = p[name].dim()
    return p.pick(range(-dims, dims)) if dims else 0


@statement(6)
def layer(p):
    name = p.float(lambda t: t.shape[-1] == p.width)
    form = p.pick(["{v} @ p0", "F.linear({v}, p0, p1)", "{v} @ p2", "{v} * p1", "p1 + {v}", "F.layer_norm({v}, [%d])" % p.width, "{v} @ p1", "F.linear({v}, p0).tanh()", "{v} - p3",
                   "torch.matmul({v}, p0.t())", "torch.einsum('...i,ij->...j', {v}, p0)", "{v} / (1 + p1 ** 2)"])
    return f"{p.fresh()} = " + form.format(v=name)


@statement(6)
def pointwise(p):
    form = p.pick(["torch.tanh({v})", "torch.relu({v})", "{v}.sigmoid()", "{v} * 2", "1 - {v}", "-{v}", "{v} ** 2", "{v}.abs()", "F.gelu({v})", "{v}.clamp(-0.5, 0.5)",
                   "torch.where({v} > 0, {v}, 0.1 * {v})", "{v}.clone()", "{v}.double()", "{v}.float().double()", "({v} > 0).double()", "{v}.masked_fill({v} > 1, 0.5)", "{v}.detach()",
                   "{v}.detach().clone()", "F.softmax({v}, -1)", "F.log_softmax({v}, 0)", "F.normalize({v}, dim=-1)", "torch.exp(-{v}.abs())", "{v}.contiguous()", "{v} + torch.zeros_like({v})",
                   "{v}.sign() * {v}", "torch.nan_to_num({v})", "{v}.lerp(torch.ones_like({v}), 0.1)", "F.dropout({v}, 0.5, True)", "{v} + 0.1 * torch.randn_like({v})",
                   "{v} * torch.rand({v}.shape, dtype=torch.double)", "{v}.new_full({v}.shape, 0.5) * {v}", "{v}.to(torch.float32)"])
    return f"{p.fresh()} = " + form.format(v=p.float())


@statement(5)
def two(p):
    name = p.float()
    other = p.pick([same_shape(p, name), same_shape(p, name), p.float()])
    form = p.pick(["{a} + {b}", "{a} * {b}", "{a} - {b}", "torch.maximum({a}, {b})", "{a} / (1 + {b}.abs())", "torch.where({a} > {b}, {a}, {b})", "torch.cat([{a}, {b}])", "torch.stack([{a}, {b}])",
                   "torch.stack([{a}, {b}], -1)", "torch.cat([{a}, {b}], -1)", "{a} @ {b}.transpose(-1, -2)", "{a}.transpose(-1, -2) @ {b}", "{a}.addcmul({b}, {b})", "torch.atan2({a}, {b} + 3)",
                   "torch.outer({a}.reshape(-1)[:4], {b}.reshape(-1)[:3])", "torch.cdist({a}, {b})", "F.cosine_similarity({a}, {b}, -1)", "torch.dot({a}.flatten()[:3], {b}.flatten()[:3])",
                   "F.mse_loss({a}, {b})", "torch.hypot({a}, {b})", "torch.hstack([{a}, {b}])", "{a}[:, None] - {b}[None]"])
    return f"{p.fresh()} = " + form.format(a=name, b=other)


@statement(6)
def view(p):
    name = p.float()
    shape = tuple(p[name].shape)
    dims = len(shape)
    forms = ["{v}.unsqueeze(0)", "{v}.unsqueeze(-1)", "{v}.squeeze()", "{v}.flatten()", "{v}.reshape(-1)", "{v}.view_as({v})", "{v}.flip(0)", "{v}.roll(1, 0)", "{v}.expand(2, *{v}.shape)", "{v}.reshape(-1, 1)",
             "{v}.chunk(2)[-1]", "{v}.split(2)[0]", "{v}.unbind(0)[-1]", "{v}.repeat(2, *[1] * ({v}.dim() - 1))", "{v}.repeat_interleave(2, 0)", "{v}.reshape(2, -1)", "{v}.unfold(0, 2, 1)", "{v}.unfold(-1, 2, 1)",
             "{v}.unsqueeze(1).expand(-1, 3, *{v}.shape[1:])"]
    if dims > 1:
        forms += ["{v}.t()", "{v}.transpose(0, 1)", "{v}.mT", "{v}.permute(%s)" % ", ".join(map(str, reversed(range(dims)))), "{v}.flatten(0, 1)", "{v}.diagonal()", "{v}.movedim(0, -1)", "{v}.narrow(1, 0, 2)",
                  "{v}.select(1, 0)", "{v}.view(%d, -1)" % shape[0], "{v}.view(-1)", "{v}.tril()", "{v}.chunk(2, 1)[0]", "{v}.transpose(0, 1).contiguous()", "{v}.unflatten(0, (-1, 1))"]
    forms += [f"{{v}}[{index(p, shape)}]"] * 8
    return f"{p.fresh()} = " + p.pick(forms).format(v=name)


@statement(5)
def reduction(p):
    name = p.float()
    dim = dim_of(p, name)
    form = p.pick(["{v}.sum()", "{v}.mean()", "{v}.sum(%d)", "{v}.mean(%d)", "{v}.mean(%d, keepdim=True)", "{v}.max(%d).values", "{v}.amax(%d)", "{v}.max()", "{v}.min(%d)[0]", "{v}.std(%d)", "{v}.var()", "{v}.norm()",
                   "{v}.norm(dim=%d)", "{v}.logsumexp(%d)", "{v}.cumsum(%d)", "{v}.sort(%d).values", "{v}.sort(%d, descending=True)[0]", "{v}.topk(2, %d).values", "{v}.prod(%d)", "{v}.median(%d).values",
                   "{v}.argmax(%d).double()", "{v}.softmax(%d)", "{v} - {v}.mean(%d, keepdim=True)", "{v} / {v}.norm(dim=%d, keepdim=True).clamp_min(0.1)", "({v} > 0).sum(%d).double()", "{v}.flip(%d).cumsum(%d)",
                   "torch.var_mean({v}, %d)[0]", "torch.linalg.vector_norm({v}, dim=%d)", "{v}.square().mean().sqrt()", "torch.trapezoid({v}, dim=%d)", "{v}.diff(dim=%d)", "{v}.quantile(0.5, dim=%d)",
                   "{v}.cummax(%d)[0]", "{v}.argsort(%d).double()", "{v}.count_nonzero(%d).double()", "{v}.kthvalue(1, %d)[0]", "{v}.renorm(2, 0, 1.0)", "{v}.nansum(%d)"])
    return f"{p.fresh()} = " + form.replace("%d", str(dim)).format(v=name)


@statement(9)
def write(p):
    """To a result in place, as a whole or through an index."""
    name = p.float(among="v")
    if name[0] != "v":
        return None
    shape = tuple(p[name].shape)
    other = same_shape(p, name)
    at = f"{name}[{index(p, shape)}]"
    first = f"{name} = {name}.clone()\n" if p.chance(0.7) else ""
    return first + p.pick([f"{name} += 1", f"{name} *= 0.5", f"{name}.relu_()", f"{name}.mul_({other})", f"{name}.add_({other}, alpha=0.1)", f"{name}.copy_({other})", f"{name}.clamp_(-1, 1)", f"{name}.zero_()",
                   f"{name}.tanh_()", f"{name}.masked_fill_({name} > 0.5, 0.0)", f"{name}[{name} < 0] = 0", f"{name}[{name} > 0] *= 0.5", f"{name}.fill_(0.3)", f"{name}.sub_({name}.mean())",
                   f"{name}.t_()", f"{name}.unsqueeze_(0)", f"{name}.uniform_()", f"{name}.normal_()", f"{name}.index_fill_(0, torch.tensor([0]), 0.2)",
                   f"{name}.index_add_(0, torch.tensor([0, 1]), {other}[:2])", f"{name}.index_copy_(0, torch.tensor([1, 0]), {other}[:2])", f"{name}.scatter_(0, torch.zeros_like({other}, dtype=torch.long), {other})",
                   f"torch.mul({name}, 0.7, out={name})", f"{name} = {name}.clone()\n{name}.data.mul_(0.9)", f"{name}.detach().add_(0.1)", f"{name}.view(-1)[0] = 0.4", f"{name}.select(0, 0).mul_(2)", f"{name}.transpose(0, -1)[0] += 0.1",
                   f"{name}.resize_as_({other})", f"{name} = {name}.clone()\n{name}.set_({name}.clone())"]
                  + [f"{at} = 0.1", f"{at} += 1", f"{at} *= 2", f"{at} = {at} * 0.5", f"{at}.zero_()", f"{at} = {other}[{index(p, shape)}].clone()"] * 5)


@statement(5)
def read(p):
    name = p.float()
    return p.pick([f"say('%.9g' % {name}.mean().item())", f"say('%.9g' % float({name}.max()))", f"say(str(len({name})))", f"say(weigh({name}))", f"say('%.6g' % {name}.flatten()[0])",
                   f"say('%.9g' % sum({name}.flatten().tolist()))", f"say('%.9g' % {name}.detach().numpy().std())", f"say(str(tuple({name}.shape)).replace(' ', ''))", f"say(str({name}.is_contiguous()))",
                   f"say(str({name}.stride()).replace(' ', ''))", f"say(str(bool(({name} > 0).any())))", f"say(str({name}.requires_grad) + str({name}.dtype))", f"say(str(torch.equal({name}, {same_shape(p, name)})))",
                   f"say('%d' % ({name} > 0).sum())", f"say('%.9g' % torch.linalg.norm({name}.detach()))", f"say('%d' % {name}.argmax())", f"say(str({name}.numel()) + str({name}.nbytes))",
                   f"say('%.9g' % max({name}.detach().reshape(-1).numpy()))", f"say(str({name}.isnan().any().item()))", f"say(str(torch.allclose({name}, {same_shape(p, name)})))",
                   f"say(','.join('%.6f' % (value + 10) for value in {name}.detach().reshape(-1)[-3:]))", f"say(str({name}.is_leaf) + str({name}.grad_fn is None))"])


@statement(4)
def branch(p):
    name, fresh = p.float(), p.fresh()
    return p.pick([f"{fresh} = {name} * 2 if {name}.flatten()[0] > 0 else {name} * 3", f"{fresh} = {name} if {name}.sum().item() > 1 else -{name}",
                   f"{fresh} = {name}\nwhile {fresh}.norm() > 2:\n    {fresh} = {fresh} * 0.5", f"{fresh} = sum(row.sum() for row in {name})", f"{fresh} = torch.stack([row * number for number, row in enumerate({name})])",
                   f"{fresh} = torch.stack([{name}[i] for i in range(0, len({name}), 2)])", f"{fresh} = {name}.clone()\nfor i in range(len({fresh})):\n    {fresh}[i] = {fresh}[i] * i",
                   f"{fresh} = torch.zeros_like({name})\nfor i in range(len({name})):\n    {fresh}[i] = {name}[i] + ({fresh}[i - 1] if i else 0)",
                   f"{fresh} = 0\nfor a, b in zip({name}, y):\n    {fresh} = {fresh} + a.sum() * b", f"{fresh} = torch.cat([part.tanh() for part in {name}.split(3)])", f"{fresh} = max({name}.unbind(0), key=lambda row: float(row.flatten()[0]))",
                   f"{fresh} = torch.cat([{name}[k[:len({name})] == c] for c in range({p.width})])", f"with torch.no_grad():\n    {fresh} = {name} * 2\n    {fresh}[0] = 1", f"a, *b = {name}\n{fresh} = a + len(b)",
                   f"{fresh} = {name}.detach().requires_grad_()\nsay(weigh(torch.autograd.grad(({fresh} ** 2).sum(), {fresh})[0]))", f"with torch.no_grad():\n    p1.add_({name}.mean() * 0.01)",
                   f"{fresh} = torch.tensor({name}.tolist(), dtype=torch.double)", f"{fresh} = torch.from_numpy({name}.detach().numpy().copy())", f"{fresh} = torch.as_tensor([row.sum().item() for row in {name}], dtype=torch.double)",
                   f"{fresh} = {name}.clone()\nnumbers = {fresh}.detach().numpy()\nnumbers[0] = 0.3"])


@statement(4)
def state(p):
    name = p.float(lambda t: t.shape[-1] == p.width)
    other = p.float()
    return p.pick([f"s0.mul_(0.9).add_({name}.detach().reshape(-1, {p.width}).mean(0), alpha=0.1)", f"s0 = 0.9 * s0 + 0.1 * {name}.detach().reshape(-1, {p.width}).sum(0)", f"s1[0] = {name}.detach().reshape(-1, {p.width})[-1]",
                   f"with torch.no_grad():\n    s1.copy_({name}.reshape(-1, {p.width})[:2])", f"s2 += {other}.detach().mean()", f"s2 = s2 * 0.5 + {other}.detach().abs().max()", f"{p.fresh()} = s0 * {name}", f"{p.fresh()} = {name} - s1[0]",
                   f"kept.append({other}.detach())\nsay(weigh(kept[0]))", f"kept.append({other}.sum().item())", f"if kept and hasattr(kept[-1], 'shape') and kept[-1].shape == {other}.shape:\n    {p.fresh()} = {other} + kept[-1]",
                   f"s1 = torch.roll(s1, 1, 0)\ns1[0] = {name}.detach().reshape(-1, {p.width}).amax(0)", f"s0.data = s0.data + {name}.detach().reshape(-1, {p.width})[0]", f"s2.fill_({other}.detach().std())", f"{p.fresh()} = {other} * s2"])


@statement(4)
def pick_rows(p):
    name, fresh = p.float(), p.fresh()
    rows = p[name].shape[0]
    form = p.pick(["{v}[k[:len({v})] > 0]", "{v}[torch.randperm(len({v}))]", "{v}.index_select(0, torch.tensor([0, %d]))" % max(rows - 1, 0), "{v}[y[:len({v})].argsort()]", "{v}.gather(1, k[:len({v}), None])",
                   "{v}[torch.arange(len({v})), k[:len({v})]]", "{v}[{v} > 0]", "torch.masked_select({v}, {v} < 0)", "{v}.take(k)", "{v}[torch.randint(len({v}), (3,))]", "{v}.gather(0, k[None, :{v}.shape[1]])",
                   "{v}[{v}.reshape(len({v}), -1)[:, 0].argmax()]", "torch.zeros(%d, *{v}.shape[1:], dtype=torch.double).index_add(0, k[:len({v})], {v})" % p.width, "torch.take_along_dim({v}, {v}.argsort(-1), -1)",
                   "{v}[{v}.reshape(len({v}), -1)[:, 0].topk(2)[1]]", "{v}[:, {v}[0].argsort()]", "F.one_hot(k, %d).double()" % p.width, "torch.bincount(k, y.abs()).double()", "{v}[torch.bernoulli(torch.full((len({v}),), 0.5)).bool()]",
                   "torch.unique(k).double()", "{v}.scatter_add(0, k[:len({v}), None].expand_as({v}) % len({v}), {v})", "torch.histc({v}.detach(), 4, -1, 1)", "F.embedding(k, p0)", "{v}[(k[:len({v})] == 1).nonzero()[:, 0]]",
                   "F.cross_entropy({v}, k[:len({v})], reduction='none')", "F.nll_loss({v}, k[:len({v})])", "torch.nonzero({v} > 0).double()", "torch.multinomial(F.softmax({v}, -1), 1).double()",
                   "torch.zeros(%d, dtype=torch.double).scatter_add(0, k, y)" % p.width, "torch.searchsorted(torch.linspace(-1, 1, 5).double(), {v}).double()"])
    return f"{fresh} = " + form.format(v=name)


@statement(3)
def around(p):
    """Autograd's own doors: hooks, second derivatives, checkpoints, functions of the program's own, copies."""
    name, fresh = p.float(lambda t: t.requires_grad, "v"), p.fresh()
    if not p[name].requires_grad:
        return None
    return p.pick([f"{name}.register_hook(lambda gradient: gradient * 0.5)", f"{name}.register_hook(lambda gradient: gradient * torch.linspace(0.1, 1, gradient.numel(), dtype=torch.double).view_as(gradient))", f"{name}.register_hook(lambda gradient: say(weigh(gradient)))", f"{name}.retain_grad()",
                   f"{fresh} = torch.autograd.grad({name}.square().sum(), p0, create_graph=True, allow_unused=True)[0]", f"say(weigh(torch.autograd.grad({name}.sum(), p1, retain_graph=True, allow_unused=True)[0]))",
                   f"from torch.utils.checkpoint import checkpoint\n{fresh} = checkpoint(lambda a: torch.tanh(a) * p3, {name}, use_reentrant={p.chance(0.5)})",
                   "class Half(torch.autograd.Function):\n    @staticmethod\n    def forward(c, a):\n        c.save_for_backward(a)\n        return a * a.mean()\n    @staticmethod\n    def backward(c, g):\n        return g * c.saved_tensors[0].mean() * 0.5\n"
                   f"{fresh} = Half.apply({name})",
                   f"{fresh} = torch.autograd.grad({name}.sum(), {name}, torch.ones_like({name}.sum()))[0] + {name}", f"import copy\n{fresh} = copy.deepcopy({name}.detach())",
                   f"import io\nfile = io.BytesIO()\ntorch.save({name}.detach(), file)\nfile.seek(0)\n{fresh} = torch.load(file)", f"import pickle\n{fresh} = pickle.loads(pickle.dumps({name}.detach()))",
                   f"with torch.enable_grad():\n    {fresh} = ({name} * 2).detach().requires_grad_()\n    {fresh}.sum().backward()\nsay(weigh({fresh}.grad))", f"({name} * 0.01).mean().backward(retain_graph=True)",
                   f"{fresh} = torch.func.vmap(lambda row: row * 2 + row.sum())({name})", f"{fresh} = torch.nn.utils.parameters_to_vector([p0, p1]).sum() * {name}",
                   f"{fresh} = torch.utils.checkpoint.checkpoint(lambda a: F.dropout(a @ p0, 0.3), {name}, use_reentrant=False)"])


@statement(4)
def module(p):
    """Layers that the program makes when it first comes here; some have a state."""
    name, fresh, width = p.float(lambda t: t.shape[-1] == p.width and t.dim() == 2), p.fresh(), p.width
    made = f"m{p.number}{len(p.lines)}"
    kind = p.pick([f"nn.BatchNorm1d({width})", f"nn.Linear({width}, {width})", f"nn.GRUCell({width}, {width})", f"nn.LayerNorm({width})", f"nn.Sequential(nn.Linear({width}, 4), nn.Tanh(), nn.Linear(4, {width}))",
                   f"nn.BatchNorm1d({width}, momentum=None).eval()", f"nn.PReLU()", "nn.Dropout(0.4)", f"nn.Bilinear({width}, {width}, 2)", f"nn.GRU({width}, 3, batch_first=True)", f"nn.LSTM({width}, 3)", "nn.Conv1d(1, 2, 3, padding=1)",
                   f"nn.MultiheadAttention({width}, 1, batch_first=True)", f"nn.BatchNorm1d({width}, affine=False)", "nn.GroupNorm(1, %d)" % width, f"nn.TransformerEncoderLayer({width}, 1, 8, batch_first=True)"])
    call = "m({v}, {v})" if "Bilinear" in kind else "m({v}[None])[0]" if "GRU(" in kind or "LSTM" in kind else "m({v}[:, None])" if "Conv" in kind else "m({v}[None], {v}[None], {v}[None])[0]" if "Multi" in kind \
        else "m({v}[:, None])" if "Encoder" in kind else "m({v})"
    form = p.pick([call, call, call + " + {v}.sum()", call + ".detach()", call + ".mean(0)"])
    return f"{made} = globals().get('{made}') or {kind}.double()\n{fresh} = " + form.replace("m(", made + "(").format(v=name)


@statement(3)
def integers(p):
    fresh, classes = p.fresh(), p.width
    ints = p.tensors(lambda t: t.dtype in (torch.long, torch.bool) and t.dim(), "kvv") or ["k"]
    name = p.pick(ints)
    return f"{fresh} = " + p.pick(["{k} * 2", "{k} % 2 == 0", "{k} // 2", "{k}.cumsum(0)", "{k}.sort()[0]", "{k} + k[0]", "{k}.flip(0)", "({k} > 1).long()", "~({k} > 1)", "({k} > 0) & ({k} < 2)", "{k}.sum()", "{k}.double()", "{k}.max() - {k}",
                                   "{k}.unsqueeze(-1).expand(-1, 2)", "torch.arange(len({k}))", "torch.arange(len(x)) * k", "(x > 0).any(-1)", "(x > 0).all(0)", "x.argmax(-1)", "x.argsort(-1)", "(x > 0).sum(0)", "{k}.bincount()", "{k}.clone()", "k.eq({k})",
                                   "x.topk(2)[1]", "F.one_hot(k, %d)" % classes, "{k}.float().mean().long()", "torch.where(x > 0, 1, 2)", "x.sign().long()", "{k}.unique()", "{k}.repeat(2)", "torch.cat([{k}, k])", "(y[:, None] > y).sum(1)",
                                   "(x * 40).to(torch.int8).sum(dtype=torch.int8) + {k}.sum()", "(x.abs() * 60).to(torch.uint8).sum(0, dtype=torch.uint8) + (x > 0).sum(0)"]).format(k=name)


@statement(3)
def batch(p):
    """Of the batch itself: written to, cut by the program, looked at for its gradient."""
    fresh, half = p.fresh(), p.rows // 2
    return p.pick([f"{fresh} = x[:{half}] @ p0", f"{fresh} = x[{half}:] @ p0 + p1", f"{fresh} = torch.cat([part @ p0 for part in x.split({half})])", f"{fresh} = sum((a @ p1 - b).square().sum() for a, b in zip(x, y))", "x = x + 0.1", "x[0] = 0.5", "x[:, 0] *= 2",
                   "x += 0.1 * torch.randn_like(x)", "y = y * 2", "y[k == 0] = 0", "x = x[torch.randperm(len(x))]", f"{fresh} = torch.cat([x, x]) @ p0", f"x.requires_grad_()\n{fresh} = torch.autograd.grad((x @ p0).square().mean(), x)[0]",
                   f"{fresh} = x.clone().requires_grad_()\n(({fresh} @ p0) ** 2).sum().backward()\nsay(weigh({fresh}.grad))\n{fresh} = {fresh}.detach() + {fresh}.grad.sign() * 0.1", f"{fresh} = x.t() @ (x @ p0)", f"{fresh} = F.linear(x, p0).view(1, -1, {p.width})",
                   f"{fresh} = x.repeat(2, 1).view(2, -1, {p.width}) @ p0", f"{fresh} = (x.unsqueeze(1) * p0).sum(-1)", f"{fresh} = torch.stack([F.linear(row, p0) for row in x])", f"{fresh} = F.embedding(k, p0) + x", f"{fresh} = (x @ p0)[k > 0]", f"{fresh} = torch.bmm(x[:, None], p0.expand(len(x), -1, -1))",
                   f"{fresh} = []\nfor i in range(0, len(x), 3):\n    {fresh}.append((x[i:i + 3] @ p0).mean(0))\n{fresh} = torch.stack({fresh})", f"{fresh} = torch.no_grad()(lambda: (x @ p0).tanh())()", f"with torch.inference_mode():\n    s = (x @ p0).mean()\nsay('%.9g' % s)",
                   f"{fresh} = F.mse_loss((x @ p1), y)", f"{fresh} = F.smooth_l1_loss(x @ p1, y, reduction='sum')", f"{fresh} = F.cross_entropy(x @ p0, k)", f"{fresh} = F.cross_entropy(x @ p0, k, torch.linspace(0.5, 1, {p.width}).double())", f"{fresh} = (F.softmax(x @ p0, -1) * p1).sum(-1) - y",
                   f"{fresh} = torch.nn.functional.binary_cross_entropy_with_logits(x @ p1, (y > 0).double())", f"{fresh} = F.triplet_margin_loss(x @ p0, x.flip(0), x.roll(1, 0))", f"{fresh} = torch.pdist(x @ p0)", f"{fresh} = torch.cov((x @ p0).t())", f"{fresh} = torch.corrcoef((x @ p0).t()).clamp(-2, 2)"])


@statement(3)
def with_values(p):
    """Writes of other results, by masks, rows and lists of the batch."""
    name = p.float(lambda t: len(t) == p.rows, "v")
    if name[0] != "v":
        return None
    other = same_shape(p, name)
    first = f"{name} = {name}.clone()\n" if p.chance(0.7) else ""
    return first + p.pick([f"{name}[k > 0] = {other}[k > 0]", f"{name}[k == 1] = 0", f"{name}[k > 1] += 1", f"{name}.index_put_((k,), {other}, accumulate=True)", f"{name}[{other} > 0] = {other}[{other} > 0]", f"{name}[torch.randperm(len({name}))] = {other}",
                           f"{name}[torch.arange(len({name})), k % {name}.shape[1]] = 0.2", f"{name}[k.argsort()] = {name}.clone()", f"{name}.masked_scatter_({name} > 0, {other}.flip(0))", f"{name}.index_add_(0, k, {other})", f"{name}[:2], {name}[-2:] = {name}[-2:].clone(), {name}[:2].clone()",
                           f"for i in range(0, len({name}), 2):\n    {name}[i] = {other}[i] * 2", f"for row in {name}:\n    row.mul_(0.9)", f"for row, c in zip({name}, k):\n    row.add_(int(c))", f"for part in {name}.chunk(3):\n    part.clamp_(max=0.5)", f"{name}.unbind(0)[1].zero_()",
                           f"torch.add({other}, 1, out={name})", f"{name}.copy_({other}.flip(0))", f"{name} = {name}.clone()\n{name}.data[0] = 0", f"{name} = {name}.clone()\n{name}.data = {other}.detach().clone()", f"{name}.t().mul_(0.5)", f"{name} = {name}.clone()\n{name}.detach().numpy()[1] = 0.25", f"{name}.scatter_add_(0, k.view(-1, *[1] * ({name}.dim() - 1)).expand_as({name}), {other}.detach().clone())",
                           f"{name}[...] = {other}.mean(0)", f"{name}.sub_({name}.mean(0)).div_({name}.std(0) + 1)", f"{name}.addcdiv_({other}, {other}.abs() + 1, value=0.1)", f"{name}.cumsum_(0)", f"{name}.fill_diagonal_(0.5)", f"{name}.squeeze_()", f"{name}.swapaxes_(0, -1)"])


@statement(2)
def python(p):
    """What Python itself does with tensors: containers, functions, classes, formats."""
    name, fresh = p.float(), p.fresh()
    return p.pick([f"{fresh} = sum([{name}.mean(), {name}.sum() * 0.1])", f"say(f'{{{name}.mean():.6f}}')", f"say(str(sorted({name}.flatten().tolist())[0] > 0))", f"{fresh} = {{'a': {name}, 'b': {name} * 2}}['b']", f"def double(t, by=2):\n    return t * by\n{fresh} = double({name})",
                   f"class Holder:\n    def __init__(self, t):\n        self.t = t\n    def norm(self):\n        return self.t / (self.t.norm() + 1)\n{fresh} = Holder({name}).norm()", f"{fresh} = (lambda t: t.tanh() - t.mean())({name})", f"import functools\n{fresh} = functools.reduce(torch.add, [{name}] * 3)",
                   f"say(str([tuple(t.shape) for t in {name}.split(2)][-1]).replace(' ', ''))", f"say(str({name}[0].tolist() == {name}[-1].tolist()))", f"say(repr({name}.detach().flatten()[0].double() + 10).replace(' ', ''))", f"say(str(({name} > 0).tolist().count(True) if {name}.dim() == 1 else 0))",
                   f"say(str(hash(tuple({name}.shape))))", f"import numpy\nsay('%.9g' % numpy.asarray({name}.detach()).sum())", f"import numpy\n{fresh} = torch.from_numpy(numpy.sort({name}.detach().numpy(), 0))", f"{fresh} = torch.tensor([max(row.tolist()) for row in {name}], dtype=torch.double)",
                   f"{fresh} = [t for t in {name}][1]", f"{fresh}, *_ = {name}.split(2)", f"{fresh} = torch.jit.script(lambda t: t)({name}) if False else {name} * 1", f"kept[:] = kept[-1:] + [{name}.detach()[0]]\n{fresh} = torch.as_tensor(kept[-1]) * 2", f"say(str(type({name}).__name__) + str({name}.device))",
                   f"global_mean = 0.9 * globals().get('global_mean', 0) + 0.1 * {name}.detach().mean()\n{fresh} = {name} - global_mean", f"before = torch.is_grad_enabled()\ntorch.set_grad_enabled(False)\n{fresh} = {name} + 1\ntorch.set_grad_enabled(before)", f"{fresh} = {name}.expand_as({name}).clone()",
                   f"{fresh} = {name}.apply_(abs) if not {name}.requires_grad else {name}", f"{fresh} = torch.Tensor({name}.tolist()).double()", f"{fresh} = {name}.new_tensor({name}.tolist())", f"{fresh} = {name}.type(torch.double) * {name}.new_ones(1)", f"{fresh} = torch.zeros({name}.shape[0], dtype=torch.double) + {name}.sum()"])
