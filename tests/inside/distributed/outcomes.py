"""Scripts that compute something from their batches, loaders, random numbers or clocks, and go by it.

Each trains in float64 over several epochs, with evaluation. What becomes of each with two ranks is one of:
equal to one process; refused before training; stopped at the first differing step. ``docs/distributed.md``
holds the table, which ``python -m benchmarks.rank_outcomes write`` makes.
"""

from __future__ import annotations

from dataclasses import dataclass

EQUAL, REFUSED, STOPPED = "equal", "refused", "stopped"

TRAINING = """
import random, time
mse = nn.functional.mse_loss
def accuracy(out, y): return ((out > 0) == (y > 0)).double().mean().item()
train, held = data(), data(24, seed=8)
CLASSES
model = net()
loader = DataLoader(train, batch_size=8, shuffle=True)
evaluation = DataLoader(held, batch_size=8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
step = 0
BEFORE
for epoch in range(30):
    right = total = 0.0
    EPOCH
    for x, y in loader:
        step += 1
        BATCH
        optimizer.zero_grad()
        out = model(x)
        loss = LOSS
        loss.backward()
        GRADIENT
        optimizer.step()
        AFTER
    model.eval()
    with torch.no_grad():
        scored = sum(float(mse(model(x), y)) * len(x) for x, y in evaluation) / len(held)
    model.train()
    END
tell(model=flat(model), scored=[scored], steps=[step])
"""
_DEPTH = {"CLASSES": 0, "BEFORE": 0, "EPOCH": 4, "BATCH": 8, "GRADIENT": 8, "AFTER": 8, "END": 4}


def script(loss: str = "mse(out, y)", **parts: str) -> str:
    source = TRAINING.replace("LOSS", loss)
    for name, depth in _DEPTH.items():
        code = parts.get(name.lower(), "pass").strip()
        source = source.replace(name, code.replace("\n", "\n" + " " * depth))
    return source


@dataclass(frozen=True)
class Shape:
    """``expected``: what becomes of it; ``because``: words of the reason, a regular expression."""

    source: str
    expected: tuple[str, ...]
    because: str = ""


_BAD = (REFUSED, STOPPED)


def bad(loss: str = "mse(out, y)", because: str = "", **parts: str) -> Shape:
    return Shape(script(loss, **parts), _BAD, because)


def good(loss: str = "mse(out, y)", **parts: str) -> Shape:
    return Shape(script(loss, **parts), (EQUAL,))


_PLATEAU = "schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'max', 0.5, patience=0)"
_STOCHASTIC = """
class Some(Dataset):
    def __init__(self, base): self.base, self.kept = base, list(range(len(base)))
    def __len__(self): return len(self.kept)
    def __getitem__(self, i): return self.base[self.kept[i]]
train = Some(train)
"""
_LENGTHS = """
class Lines(Dataset):
    def __init__(self, base, lengths): self.base, self.lengths = base, lengths
    def __len__(self): return len(self.base)
    def __getitem__(self, i):
        x, y = self.base[i]
        return x, y, self.lengths[i]
def padded(samples):
    xs, ys, lengths = zip(*samples)
    mask = (torch.arange(6)[None] < torch.tensor(lengths)[:, None]).double()
    return torch.stack(xs) * mask, torch.cat([torch.stack(ys), mask], 1)
train = Lines(train, LENGTHS)
"""
_NUMBERED = """
class Numbered(Dataset):
    def __init__(self, base): self.base = base
    def __len__(self): return len(self.base)
    def __getitem__(self, i):
        return torch.cat([self.base[i][0][:5], torch.tensor([float(i)])]), self.base[i][1]
train = Numbered(train)
each = torch.ones(50)
def of_each(out, y): return ((out - y) ** 2)[:, 0].detach()
def anew(sampler): return DataLoader(train, batch_size=8, sampler=sampler)
Weighted = torch.utils.data.WeightedRandomSampler
"""
_EVALUATED_EACH = """
model.eval()
with torch.no_grad():
    for x, y in DataLoader(train, batch_size=8): each[x[:, 5].long()] = of_each(model(x), y)
model.train()
"""
_NOTED = "each[x[:, 5].long()] = of_each(out, y)"
_TIMER = """
from time import perf_counter as now
class Timer:
    clock = now
    def __init__(self, seconds): self.until = self.clock() + seconds
    def is_over(self): return self.clock() > self.until
timer = Timer(3600)
"""
_DATES = "from datetime import datetime, timedelta\nuntil = datetime.now() + timedelta(hours=8)"
_CLOCK = "by the clock"
_TOKENS = "((out - y[:, :1]) ** 2 * y[:, 1:]).sum() / y[:, 1:].sum()"

SHAPES: dict[str, Shape] = {
    # ---- what is all right
    "ordinary": good(),
    "clipped gradients": good(gradient="nn.utils.clip_grad_norm_(model.parameters(), 0.3)"),
    "a plateau schedule on the evaluation": good(
        before=_PLATEAU, end="schedule.step(-scored)"
    ),
    "a plateau schedule on the last loss": good(before=_PLATEAU, end="schedule.step(-loss.item())"),
    "early stopping on the evaluation": good(
        before="best = 9e9", end="if scored > 1.1 * best: break\nbest = min(best, scored)"
    ),
    "the loss printed": good(after="print(f'{step} {loss.item():.6f}')"),
    "a weight of the loss by the epoch": good("mse(out, y) * (1 + 0.1 * epoch)"),
    "a second loss from epoch 2 on": good("mse(out, y) + (0.1 * out.abs().mean() if epoch > 1 else 0.0)"),
    "a running mean of the loss that weighs the next": good(
        "mse(out, y) * weight", before="weight = 1.0", after="weight = 0.9 * weight + 0.1 * loss.item()"
    ),
    "teacher forcing by random": good(
        "mse(out, y if random.random() < 0.7 else out.detach() * 0.9)"
    ),
    "samples chosen by random.sample in each epoch": good(
        classes=_STOCHASTIC, epoch="train.kept = random.sample(range(50), 50)"
    ),
    "samples chosen by numpy in each epoch": good(
        classes="import numpy\n" + _STOCHASTIC, epoch="train.kept = numpy.random.permutation(50).tolist()"
    ),
    "a factor drawn by torch for each batch": good("mse(out, y) * (0.5 + torch.rand(()))"),
    "a mixing factor drawn by numpy": good(
        "mse(out, y) * numpy.random.beta(2.0, 2.0)", classes="import numpy"
    ),
    "a second model made after some epochs": good(
        before="other = None",
        batch="if other: y = y + 0.1 * other(x)",
        end="if epoch == 3:\n"
        "    other = net()\n"
        "    optimizer.add_param_group({'params': other.parameters()})",
    ),
    "random numbers stored and taken up again": good(
        end="if epoch == 5: kept = torch.get_rng_state(), random.getstate()\n"
        "if epoch == 7: torch.set_rng_state(kept[0]); random.setstate(kept[1])"
    ),
    # ---- what a slice steers
    "a plateau schedule on training accuracy": bad(
        before=_PLATEAU,
        after="right += accuracy(out, y)",
        end="schedule.step(right)",
        because="schedule|rate",
    ),
    "a learning rate by training accuracy": bad(
        after="right += accuracy(out, y)",
        end="optimizer.param_groups[0]['lr'] = 0.01 / (1 + right)", because="learning rate",
    ),
    "early stopping on training accuracy": bad(
        before="best = 0", after="right += accuracy(out, y)",
        end="if epoch and right <= best: break\nbest = right",
        because="ranks (end|go on)|ended|no longer|come to|fails|other",
    ),
    "a gradient clamp by a hook that asks for the slice": bad(
        before="for p in model.parameters(): p.register_hook(lambda g: g.clamp(-0.02, 0.02))",
        because="gradient",
    ),
    "a running buffer of a batch's mean": bad(
        "mse(model(x - model.mean), y)",
        before="model.register_buffer('mean', torch.zeros(6))",
        batch="model.mean.mul_(0.9).add_(0.1 * x.mean(0))", because="buffer|gradient",
    ),
    "a loss weighed by its own size": bad("mse(out, y) / mse(out, y).detach().sqrt()", because="gradient"),
    "a loss weighed by the slice's accuracy": bad("mse(out, y) * (1 + accuracy(out, y))", because="gradient"),
    "an adaptive weight from a running accuracy": bad(
        "mse(out, y) * weight", before="weight = 1.0",
        after="weight = 0.9 * weight + 0.2 * accuracy(out, y)", because="gradient",
    ),
    "training accuracy printed": bad(
        after="right += accuracy(out, y)", end="print(f'epoch {epoch}: {right / 7:.3f}')", because="print",
    ),
    "an epoch's loss weighed by samples printed": bad(
        after="total += loss.item() * len(x); right += len(x)",
        end="print(f'epoch {epoch}: {total / 50:.4f}')", because="print",
    ),
    "samples counted and printed": Shape(  # told where it is rank 0's share of each batch, else refused
        script(after="right += len(x)", end="print('samples', int(right))"), (EQUAL, *_BAD), "print"
    ),
    # ---- losses that change or divide by something else
    "a loss that is added after epoch 1": bad(
        "mse(out, y) + (0.1 * (out.mean() - y.mean()) ** 2 if epoch > 1 else 0.0)", because="gradient"
    ),
    "ignored samples from batch 4 on": bad(
        "mse(out, y) if step < 4 else mse(out[x[:, 0] > 0], y[x[:, 0] > 0])", because="gradient"
    ),
    "a collate function that drops samples": bad(
        before="def some(samples):\n    kept = [s for s in samples if s[0][0] < 0.6] or samples[:1]\n"
        "    return torch.utils.data.default_collate(kept)\n"
        "loader = DataLoader(train, batch_size=8, shuffle=True, collate_fn=some)",
        because="gradient",
    ),
    "a mean over tokens": bad(
        _TOKENS,
        classes=_LENGTHS.replace("LENGTHS)", "[1 + i % 6 for i in range(50)])"),
        before="loader = DataLoader(train, batch_size=8, shuffle=True, collate_fn=padded)",
        because="gradient",
    ),
    "a mean over tokens, shortest lines first": bad(
        _TOKENS,
        classes=_LENGTHS.replace("LENGTHS)", "[1 + i // 9 for i in range(50)])"),
        before="loader = DataLoader(train, batch_size=8, collate_fn=padded)", because="gradient",
    ),
    "a root of a mean of squares": bad("mse(out, y).sqrt()", because="gradient"),
    "the largest loss of a batch": bad("((out - y) ** 2).max()", because="gradient"),
    "the worst half of a batch": bad("((out - y) ** 2).flatten().topk(max(1, len(x) // 2)).values.mean()"),
    "a median": bad("((out - y) ** 2).median()", because="gradient"),
    "a variance over the batch": bad("mse(out, y) + 0.1 * out.var()", because="gradient"),
    "targets normed by their batch": bad("mse(out, (y - y.mean()) / (y.std() + 1e-3))", because="gradient"),
    "inputs normed by their batch": bad("mse(model((x - x.mean(0)) / (x.std(0) + 1e-3)), y)"),
    "mixed samples of a batch": bad("mse(model(0.7 * x + 0.3 * x.flip(0)), 0.7 * y + 0.3 * y.flip(0))"),
    "ranks within a batch": bad("mse(out.flatten().argsort().argsort() * out.flatten(), y.flatten())"),
    "a loss over differences of neighbours": bad("mse(out, y) + (out[1:] - out[:-1]).square().mean()"),
    # ---- gradients and optimizers
    "gradients divided by samples seen": bad(
        "mse(out, y, reduction='sum')",
        gradient="for p in model.parameters(): p.grad.div_(len(x))", because="gradient",
    ),
    "noise on gradients by the size of a slice": bad(
        gradient="for p in model.parameters(): p.grad.mul_(1 + 1 / len(x))", because="gradient"
    ),
    "a second optimizer with a sum": bad(
        before="other = net()\nof_other = torch.optim.SGD(other.parameters(), lr=0.003)",
        after="of_other.zero_grad()\nmse(other(x), y, reduction='sum').backward()\nof_other.step()",
        because="gradient",
    ),
    "a second loader that is not cut, weighed by its length": bad(
        "mse(out, y) + mse(model(more[0]), more[1], reduction='sum') / len(x)",
        before="second = iter(DataLoader(data(500, seed=9), batch_size=2))",
        batch="more = next(second)", because="gradient|several loaders",
    ),
    "gradients kept from the batch before": good(
        before="kept = None",
        gradient="now = [p.grad.clone() for p in model.parameters()]\n"
        "if kept: torch._foreach_add_([p.grad for p in model.parameters()], kept, alpha=0.5)\nkept = now",
    ),
    # ---- the clock, and what cannot be repeated
    "a time limit in each step": bad(
        before="began = time.time()", after="if time.time() - began > 3600: break", because=_CLOCK
    ),
    "a time limit after an epoch": bad(
        before="began = time.monotonic()", end="if time.monotonic() - began > 3600: break", because=_CLOCK
    ),
    "a date by which it must be over": bad(
        classes=_DATES, after="if datetime.now() > until: break", because=_CLOCK
    ),
    "a timer of its own": bad(classes=_TIMER, end="if timer.is_over(): break", because=_CLOCK),
    "a loss that changes after an hour": bad(
        "mse(out, y) + (0.1 * out.abs().mean() if time.time() - began > 3600 else 0.0)",
        before="began = time.time()", because=_CLOCK,
    ),
    "an evaluation every ten minutes": bad(
        before="last = time.time()",
        after="if time.time() - last > 600:\n    last = time.time(); model.eval()\n"
        "    with torch.no_grad(): model(held.tensors[0])\n    model.train()", because=_CLOCK,
    ),
    "a learning rate by the hour": bad(
        classes="from datetime import datetime",
        after="optimizer.param_groups[0]['lr'] = 0.01 / (1 + datetime.now().year % 2)", because=_CLOCK,
    ),
    "the time of an epoch printed": good(
        before="began = time.time()", end="print(f'epoch {epoch} took {time.time() - began:.1f} s')"
    ),
    "the loss printed every ten seconds": good(
        before="last = time.perf_counter()",
        after="if time.perf_counter() - last > 10: last = time.perf_counter(); print(loss.item())",
    ),
    "a checkpoint every ten minutes": good(
        before="last = time.time()",
        after="if time.time() - last > 600: last = time.time(); torch.save(model.state_dict(), 'last.pt')",
    ),
    "the date in a file's name": good(
        classes="import datetime",
        before="log = open(f'{datetime.datetime.now():%Y-%m-%d}.log', 'w')",
        end="log.write(f'{datetime.datetime.now().isoformat()} {scored}')",
    ),
    "an epoch that ends by the clock": bad(
        after="if time.perf_counter_ns() // 1000 % 5 == 0: break",
        because="ranks (end|go on)|ended|no longer|drew|come|fails|other|print",
    ),
    "a learning rate by the clock": bad(
        after="optimizer.param_groups[0]['lr'] = 0.01 / (1 + 1e-3 * (time.perf_counter_ns() % 1000))",
        because="learning rate",
    ),
    "seeded by the clock": bad(
        before="torch.manual_seed(time.time_ns() % 2**31)", because="other batches|batches"
    ),
    "weights of samples by their losses in training": bad(
        classes=_NUMBERED, after=_NOTED, end="loader = anew(Weighted(each, 50))",
        because="batches|gradient|come apart",
    ),
    "the hardest half by their losses in training": bad(
        classes=_NUMBERED, after=_NOTED,
        end="kept = each.topk(25).indices.tolist()\n"
        "loader = DataLoader(torch.utils.data.Subset(train, kept), batch_size=8)",
        because="batches|gradient|loaders|come apart",
    ),
    "weights of samples by their losses in an evaluation": good(
        classes=_NUMBERED, end=_EVALUATED_EACH + "loader = anew(Weighted(each, 50))"
    ),
    "easy batches passed over": bad(
        batch="if mse(model(x), y).item() < 1.0: continue", because="batches|gradient|come apart|ranks|end"
    ),
    "hard batches trained twice": good(
        after="if loss.item() > 2.0:\n"
        "    optimizer.zero_grad(); mse(model(x), y).backward(); optimizer.step()"
    ),
    "hard examples drawn again": bad(
        before="weights = torch.ones(50)\n"
        "sampler = torch.utils.data.WeightedRandomSampler(weights, 50)\n"
        "loader = DataLoader(train, batch_size=8, sampler=sampler)",
        after="sampler.weights[step % 50] = 1.0 + (out - y).detach().abs().mean().item()",
        because="batches|gradient|come apart",
    ),
}  # fmt: skip
