"""How fast bundles are, beside what else there is, on this machine.

    python -m tests.benchmarks.bundles PEERS [--jax PYTHON] [--torch PYTHON] [--rounds 3] [--out FOLDER] [--growth]
                                       [ROW ...]

PEERS is a folder with the peers' scripts (`workloads.py`, `keras_peers.py`, `jax_vmap.py`, `torch_vmap.py`); the
others are the Python interpreters that have JAX and PyTorch. Every contender runs in a process of its own, in turn, and
medians are compared; that the members equal their models alone is asserted first. Prints a table and writes it as JSON
and as a chart; with `--growth` a second chart shows how an epoch grows with the number of members. The exit status is 1
where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

TOLERANCE = 1e-5
_JOINED, _ALONE = "joined", "alone"


@dataclass(frozen=True)
class Row:
    """A workload, and how many times faster than each peer a bundle is to be."""

    name: str
    kind: str
    workload: str
    members: int
    bars: Mapping[str, float]
    epochs: int = 5


ROWS = (
    Row("mlp-64", "epoch", "mlp", 64, {"solo": 80, _JOINED: 10, "jax": 1.0, "torch": 1.5}, epochs=10),
    Row("mlp-1000", "epoch", "mlp", 1000, {"jax": 1.0}),
    Row("mlp-8-uneven", "uneven", "mlp", 8, {_ALONE: 15}, epochs=10),
    Row("cnn-8", "epoch", "cnn", 8, {"solo": 1.9, _JOINED: 1.1, "torch": 1.0}),
    Row("lstm-8", "epoch", "lstm", 8, {"solo": 6, "jax": 0.6}),
    Row("mlp-64-ten", "ten", "mlp", 64, {"solo": 25}),
    Row("per-10000", "keys", "mlp", 10_000, {_ALONE: 200}, epochs=5),
    Row("mlp-64-predict", "predict", "mlp", 64, {_ALONE: 20}),
    Row("mlp-1000-memory", "memory", "mlp", 1000, {}),
)
MOST_MEMORY = 4.0


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    row: str
    against: str
    seconds: float
    other: float
    bar: float

    @property
    def ratio(self) -> float:
        return self.other / self.seconds

    @property
    def holds(self) -> bool:
        return self.ratio >= self.bar


def output(command: list[str]) -> dict[str, float]:
    """What a process prints last, as JSON."""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


class Contest:
    """Runs the contenders.

    Args:
        peers: the folder of their scripts.
        pythons: by peer, the interpreter that has what it needs; those left out are not run.
    """

    def __init__(self, peers: Path, pythons: Mapping[str, str]) -> None:
        self.peers = peers
        self.pythons = dict(pythons)

    def job(self, kind: str, row: Row) -> dict[str, float]:
        job = [sys.executable, "-m", "tests.benchmarks.bundle_job", str(self.peers)]
        return output([*job, kind, row.workload, str(row.members), str(row.epochs)])

    def peer(self, name: str, row: Row) -> dict[str, float]:
        arguments = [row.workload, str(row.members)]
        if name in ("solo", _JOINED):
            return output([sys.executable, str(self.peers / "keras_peers.py"), name, *arguments, "2"])
        return output([self.pythons[name], str(self.peers / f"{name}_vmap.py"), *arguments, str(row.epochs)])

    def run(self, row: Row, rounds: int) -> list[Result]:
        names = [name for name in row.bars if name in ("solo", _JOINED) or name in self.pythons]
        mine: list[dict[str, float]] = []
        others: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for turn in range(1 if row.kind == "keys" else rounds):
            mine.append(self.job(row.kind, row))
            for name in names if turn % 2 == 0 else names[::-1]:
                if name != "solo" or not others[name]:  # the slowest by far: once will do
                    others[name].append(self.peer(name, row))
        key = {"ten": "ten_s", "predict": "predict_s", "keys": "keys_s"}.get(row.kind, "epoch_s")
        if row.kind == "keys" and max(found["difference"] for found in mine) > TOLERANCE:
            raise RuntimeError("a key's model is not its model alone")
        seconds = statistics.median(found[key] for found in mine)
        results = [
            Result(row.name, name, seconds, statistics.median(_time(row, found) for found in found_all), row.bars[name])
            for name, found_all in others.items()
        ]
        if _ALONE in row.bars:
            alone = statistics.median(found["alone_s"] for found in mine)
            results.append(Result(row.name, _ALONE, seconds, alone, row.bars[_ALONE]))
        return results


def _time(row: Row, found: Mapping[str, float]) -> float:
    return found["first_epoch_s"] + 9 * found["epoch_s"] if row.kind == "ten" else found["epoch_s"]


def table(results: list[Result]) -> str:
    lines = [f"{'':4} {'workload':16} {'against':8} {'seconds':>9} {'theirs':>9} {'times':>8} {'at least':>9}"]
    for each in results:
        verdict = "ok" if each.holds else "MISS"
        figures = f"{each.seconds:9.3f} {each.other:9.3f} {each.ratio:8.2f} {each.bar:9g}"
        lines.append(f"{verdict:4} {each.row:16} {each.against:8} {figures}")
    return "\n".join(lines)


def chart(results: list[Result], path: Path) -> None:
    """Ratios as bars, what is asked as a mark on each."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.4 * len(results) + 1.5), layout="constrained")
    labels = [f"{each.row} / {each.against}" for each in results]
    axes.barh(labels, [each.ratio for each in results], color=["C0" if each.holds else "C3" for each in results])
    axes.plot([each.bar for each in results], labels, "k|", markersize=14, label="at least")
    axes.set(xscale="log", xlabel="times faster than")
    axes.invert_yaxis()
    axes.legend()
    figure.savefig(path)


GROWTH = (1, 4, 16, 64, 256, 1024, 4096)


def growth(contest: Contest, path: Path) -> None:
    """How an epoch of the dense nets grows with their number: seconds, and seconds a member."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    taken = [contest.job("epoch", Row("", "epoch", "mlp", members, {}))["epoch_s"] for members in GROWTH]
    for members, epoch_s in zip(GROWTH, taken, strict=True):
        print(
            f"{members:5} members: {epoch_s:8.3f} s an epoch, {1000 * epoch_s / members:8.3f} ms a member", flush=True
        )
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.loglog(GROWTH, taken, "o-", base=2)
    axes.set(xlabel="members", ylabel="seconds an epoch")
    axes.grid(visible=True)
    figure.savefig(path)


def distance(contest: Contest, results: list[Result]) -> None:
    """Prints how near the dense nets come to the machine."""
    taken = {result.row: result.seconds for result in results}
    for row in (row for row in ROWS if row.name in ("mlp-64", "mlp-1000") and row.name in taken):
        found = contest.job("peak", row)
        rate = found["epoch_flops"] / taken[row.name]
        share = 100 * rate / found["peak_flops_s"]
        print(f"{row.name}: {rate / 1e9:.1f} GFLOP/s, {share:.0f} % of batched matrix products of the same shapes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", type=Path)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(row.name for row in ROWS))
    parser.add_argument("--jax", metavar="PYTHON")
    parser.add_argument("--torch", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--growth", action="store_true", help="draw how an epoch grows with the members (needs --out)")
    given = parser.parse_intermixed_args()
    pythons = {name: python for name, python in (("jax", given.jax), ("torch", given.torch)) if python}
    contest = Contest(given.peers.resolve(), pythons)
    results: list[Result] = []
    ok = True
    for workload in ("mlp", "cnn", "lstm"):
        difference = contest.job("equality", Row("", "equality", workload, 4, {}, epochs=1))["difference"]
        ok &= difference <= TOLERANCE
        print(
            f"{workload}: largest difference to the models alone {difference:.1e} (at most {TOLERANCE:g})", flush=True
        )
    for row in (row for row in ROWS if not given.rows or row.name in given.rows):
        if row.kind == "memory":
            found = contest.job("memory", row)
            ok &= found["peak_ratio"] <= MOST_MEMORY
            print(f"{row.name}: {found['peak_mib']:.0f} MiB, {found['peak_ratio']:.2f} times (at most {MOST_MEMORY:g})")
            continue
        found_row = contest.run(row, given.rounds)
        print(table(found_row), flush=True)
        results += found_row
    distance(contest, results)
    if given.out and given.growth:
        given.out.mkdir(parents=True, exist_ok=True)
        growth(contest, given.out / "growth.svg")
    if given.out and results:
        given.out.mkdir(parents=True, exist_ok=True)
        kept = [{**asdict(each), "ratio": each.ratio, "holds": each.holds} for each in results]
        (given.out / "bundles.json").write_text(json.dumps(kept, indent=2), encoding="utf-8")
        chart(results, given.out / "bundles.svg")
    return 0 if ok and all(each.holds for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
