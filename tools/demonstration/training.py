#!/usr/bin/env python3
"""A training history: a small network learns, every epoch is a tag of a store, and old epochs come back bit for bit.

    tools/demonstration/training.py FOLDER --library libicecore.so [--epochs 60]

The network tells three spirals apart, in plain NumPy. One process trains it and writes the weights of each epoch to
FOLDER/training.ice. A second one trains the same network again without any store and notes the SHA-256 of each epoch's
weights in FOLDER/digests.txt. This one reads every epoch back, compares it with those notes, and draws FOLDER/training.png.
Exit code 1 if any epoch differs.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import c_interface

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # sums in one order, so that two runs have the same bits
import numpy as np

POINTS, CLASSES, WIDTH = 200, 3, 48
LAYER = "hidden/weight"


def spirals():
    rng = np.random.default_rng(0)
    radius = np.tile(np.linspace(0.05, 1, POINTS), CLASSES)
    label = np.repeat(np.arange(CLASSES), POINTS)
    angle = radius * 4.5 + label * 2 * np.pi / CLASSES + rng.normal(0, 0.12, CLASSES * POINTS)
    return np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1), label


def new_network():
    rng = np.random.default_rng(1)
    shapes = {"input/weight": (2, WIDTH), LAYER: (WIDTH, WIDTH), "output/weight": (WIDTH, CLASSES)}
    net = {name: rng.normal(0, np.sqrt(2 / shape[0]), shape) for name, shape in shapes.items()}
    net.update({name.replace("weight", "bias"): np.zeros(shape[1]) for name, shape in shapes.items()})
    return net


def forward(net, points):
    first = np.maximum(points @ net["input/weight"] + net["input/bias"], 0)
    second = np.maximum(first @ net["hidden/weight"] + net["hidden/bias"], 0)
    scores = second @ net["output/weight"] + net["output/bias"]
    likely = np.exp(scores - scores.max(axis=1, keepdims=True))
    return first, second, likely / likely.sum(axis=1, keepdims=True)


def train(epochs):
    """Yields (epoch, weights, loss, accuracy) for each epoch: stochastic gradient descent with momentum."""
    points, label = spirals()
    net = new_network()
    speed = {name: np.zeros_like(weights) for name, weights in net.items()}
    for epoch in range(1, epochs + 1):
        for chosen in np.array_split(np.random.default_rng(epoch).permutation(len(points)), 20):
            first, second, likely = forward(net, points[chosen])
            likely[np.arange(len(chosen)), label[chosen]] -= 1
            error = likely / len(chosen)
            to_second = (error @ net["output/weight"].T) * (second > 0)
            to_first = (to_second @ net["hidden/weight"].T) * (first > 0)
            for name, before, after in (("output", second, error), ("hidden", first, to_second), ("input", points[chosen], to_first)):
                for part, gradient in (("weight", before.T @ after), ("bias", after.sum(axis=0))):
                    speed[f"{name}/{part}"] = 0.9 * speed[f"{name}/{part}"] - 0.03 * gradient
                    net[f"{name}/{part}"] += speed[f"{name}/{part}"]
        likely = forward(net, points)[2]
        loss = -np.log(likely[np.arange(len(label)), label]).mean()
        yield epoch, net, loss, (likely.argmax(axis=1) == label).mean()


def digest(net):
    return hashlib.sha256(b"".join(net[name].tobytes() for name in sorted(net))).hexdigest()


def write_store(path, epochs):
    store = c_interface.Store(path)
    for epoch, net, loss, accuracy in train(epochs):
        store.apply({name: weights.tobytes() for name, weights in net.items()})
        store.tag(f"epoch-{epoch}", f"loss {loss:.4f}, accuracy {accuracy:.3f}")
    store.close()


def write_digests(path, epochs):
    path.write_text("".join(f"{digest(net)}\n" for _, net, _, _ in train(epochs)), encoding="ascii")


def restored(store, epoch):
    shapes = {name: weights.shape for name, weights in new_network().items()}
    version = store.version_of(f"epoch-{epoch}")
    return {name: np.frombuffer(store.find(name, version) or b"").reshape(shape) for name, shape in shapes.items()}


def draw(store, epochs, file):
    """What the network says about the plane at three epochs, and one layer's weights over all epochs."""
    import matplotlib

    matplotlib.use("Agg")  # no display needed
    import matplotlib.pyplot as plt

    points, label = spirals()
    grid = np.stack(np.meshgrid(np.linspace(-1.1, 1.1, 160), np.linspace(-1.1, 1.1, 160)), axis=-1)
    figure = plt.figure(figsize=(10, 7), layout="constrained")
    panels = figure.subplot_mosaic([["a", "b", "c"], ["layer", "layer", "layer"]])
    for name, epoch in zip("abc", (1, max(1, epochs // 4), epochs)):
        said = forward(restored(store, epoch), grid.reshape(-1, 2))[2].argmax(axis=1).reshape(grid.shape[:2])
        panels[name].imshow(said, extent=(-1.1, 1.1, -1.1, 1.1), origin="lower", cmap="Pastel1", vmin=0, vmax=8)
        panels[name].scatter(*points.T, c=label, cmap="Set1", vmin=0, vmax=8, s=4)
        panels[name].set(title=f"epoch {epoch}, restored", xticks=[], yticks=[])
    history = np.array([np.frombuffer(value) for _, value in store.history(LAYER)])
    moved = np.argsort(np.ptp(history, axis=0))[-120:]  # the weights that change most
    drawn = history[:, moved[np.argsort(history[-1, moved])]].T
    image = panels["layer"].imshow(drawn, aspect="auto", cmap="RdBu", vmin=-abs(drawn).max(), vmax=abs(drawn).max(), extent=(0.5, len(history) + 0.5, 0, len(moved)))
    panels["layer"].set(title=f"the history of {LAYER}: the {len(moved)} weights that moved most", xlabel="epoch", ylabel="weight")
    figure.colorbar(image, ax=panels["layer"])
    figure.savefig(file, dpi=100)


def judge(store, noted):
    """The epochs whose weights are not those that were noted."""
    return [epoch for epoch, expected in enumerate(noted, 1) if digest(restored(store, epoch)) != expected]


def run(arguments):
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    path, notes, picture = folder / "training.ice", folder / "digests.txt", folder / "training.png"
    for old in (path, notes, picture):
        old.unlink(missing_ok=True)
    again = [sys.executable, "-B", __file__, str(folder), "--library", arguments.library, "--epochs", str(arguments.epochs), "--only"]
    start = time.monotonic()
    both = [subprocess.Popen([*again, part]) for part in ("store", "digests")]
    if any([process.wait() for process in both]):
        return 2
    trained_s = time.monotonic() - start
    store = c_interface.Store(path)
    start = time.monotonic()
    wrong = judge(store, notes.read_text(encoding="ascii").split())
    read_s = time.monotonic() - start
    shown = sorted({1, *range(arguments.epochs // 4, arguments.epochs, max(1, arguments.epochs // 4)), arguments.epochs} - {0})
    print("  epoch   accuracy  norm of " + LAYER)
    points, label = spirals()
    for epoch in shown:
        net = restored(store, epoch)
        accuracy = (forward(net, points)[2].argmax(axis=1) == label).mean()
        print(f"  {epoch:5}   {accuracy:8.1%}  {np.linalg.norm(net[LAYER]):.3f}")
    draw(store, arguments.epochs, picture)
    store.close()
    print(f"  {arguments.epochs} epochs trained in {trained_s:.1f} s, all of them read back in {read_s * 1e3:.0f} ms; "
          f"the store has {path.stat().st_size / 1e6:.1f} MB")
    print(f"  the picture: {picture}")
    if wrong:
        print(f"training: the weights of these epochs are not what a second training gives: {wrong}", file=sys.stderr)
        return 1
    print(f"  all {arguments.epochs} epochs have the bits that a second training, which knows no store, has noted")
    return 0


def main():
    parser = argparse.ArgumentParser(description="Keeps the weights of every epoch in a store and restores them bit for bit.")
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--library", required=True, metavar="FILE", help="libicecore.so")
    parser.add_argument("--epochs", type=int, default=60, metavar="N")
    parser.add_argument("--only", choices=("store", "digests"), help="trains, and writes this alone")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error("--epochs: at least 1")
    c_interface.use_library(arguments.library)
    if arguments.only == "store":
        return write_store(Path(arguments.folder) / "training.ice", arguments.epochs)
    if arguments.only == "digests":
        return write_digests(Path(arguments.folder) / "digests.txt", arguments.epochs)
    return run(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (c_interface.StoreError, OSError) as problem:
        print(f"training: {problem}", file=sys.stderr)
        sys.exit(2)
