"""Training history: every epoch of a small network in one store, and four uses of such a history.

    python training_history.py [FOLDER]

A network of two layers learns scikit-learn's handwritten digits in plain NumPy. After each epoch the program writes the
weights to the store, one key per layer, and closes the epoch with a tag. Then it uses the old versions: it restores an
epoch and reproduces its accuracy bit for bit, plots one layer's norm over its history, compares two epochs, and starts
training again from an old version as a branch beside the original.

Needs icecore, NumPy, scikit-learn and matplotlib. Writes digits.ice and norm.png to FOLDER (default: the current one).
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import icecore

matplotlib.use("Agg")  # no display needed
import matplotlib.pyplot as plt

EPOCHS = 20
RESTORED = 7
HIDDEN = 64
BATCH = 32


def digits():
    """Images as rows from 0 to 1, and labels; one quarter for testing."""
    images, labels = load_digits(return_X_y=True)
    return train_test_split(images / 16, labels, test_size=0.25, random_state=0)


def new_network(rng):
    """Layers by name. Keys end with these names, so all layers of a run are neighbours in the store."""
    return {
        "hidden/bias": np.zeros(HIDDEN),
        "hidden/weight": rng.normal(0, 0.1, (64, HIDDEN)),
        "output/bias": np.zeros(10),
        "output/weight": rng.normal(0, 0.1, (HIDDEN, 10)),
    }


def forward(net, images):
    hidden = np.maximum(images @ net["hidden/weight"] + net["hidden/bias"], 0)
    scores = hidden @ net["output/weight"] + net["output/bias"]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def accuracy(net, images, labels):
    return float((forward(net, images)[1].argmax(axis=1) == labels).mean())


def train_epoch(net, images, labels, rate, rng):
    """One pass of stochastic gradient descent; returns the mean loss."""
    losses = []
    for chosen in np.array_split(rng.permutation(len(images)), len(images) // BATCH):
        hidden, likely = forward(net, images[chosen])
        losses.append(-np.log(likely[np.arange(len(chosen)), labels[chosen]]).mean())
        likely[np.arange(len(chosen)), labels[chosen]] -= 1  # now the gradient of the scores
        back = (likely @ net["output/weight"].T) * (hidden > 0)
        for name, gradient in {
            "output/weight": hidden.T @ likely,
            "output/bias": likely.sum(axis=0),
            "hidden/weight": images[chosen].T @ back,
            "hidden/bias": back.sum(axis=0),
        }.items():
            net[name] -= rate / len(chosen) * gradient
    return float(np.mean(losses))


def save(store, run, net, epoch, loss, score):
    """Writes all layers at one instant, then tags the version, so readers always see a complete epoch."""
    with store.batch() as b:
        for name, weights in net.items():
            b.put_array(f"{run}/{name}", weights)
        b.put_array(f"{run}/accuracy", np.float64(score))  # the exact bits
    return store.tag(f"{run}/epoch-{epoch}", note=f"loss {loss:.4f}, accuracy {score:.4f}")


def load(snapshot, run):
    """The run's layers as read-only views into the store: nothing is copied."""
    layers = [key.decode() for key in snapshot.keys(prefix=f"{run}/")]
    return {key.removeprefix(f"{run}/"): snapshot.get_array(key) for key in layers if not key.endswith("/accuracy")}


def train(store, run, net, data, epochs, rate, seed):
    train_images, test_images, train_labels, test_labels = data
    for epoch in epochs:
        loss = train_epoch(net, train_images, train_labels, rate, np.random.default_rng((seed, epoch)))
        score = accuracy(net, test_images, test_labels)
        save(store, run, net, epoch, loss, score)
    print(f"{run}: epoch {epoch}, {store.find_tag(f'{run}/epoch-{epoch}').note}")


def restore(store, data):
    """Reads epoch 7 and shows that it is exactly the network that was saved."""
    then = store.at(tag=f"main/epoch-{RESTORED}")
    score = accuracy(load(then, "main"), data[1], data[3])
    saved = float(then.get_array("main/accuracy"))
    if score.hex() != saved.hex():
        raise SystemExit(f"epoch {RESTORED} was not reproduced: {score!r} is not {saved!r}")
    print(f"epoch {RESTORED} restored: accuracy {score:.4f}, the same to the last bit")


def plot_norm(store, key, file):
    """Plots the history of one key, oldest first: one array per version, without copies."""
    versions, norms = [], []
    for change in reversed(store.history(key)):
        versions.append(change.version)
        norms.append(np.linalg.norm(store.get_array(key, change.version)))
    plt.figure(figsize=(6, 3))
    plt.plot(versions, norms, "o-")
    plt.gca().xaxis.get_major_locator().set_params(integer=True)
    plt.xlabel("version")
    plt.ylabel(f"norm of {key}")
    plt.tight_layout()
    plt.savefig(file)
    print(f"{key}: norm from {norms[0]:.2f} to {norms[-1]:.2f} over {len(norms)} versions, plotted in {file}")


def compare(store, before, after):
    """Prints the differences between two epochs, key by key; equal values do not appear."""
    print(f"from {before} to {after}:")
    for key, _, _ in store.diff(before, after, prefix="main/").views():
        if not key.endswith(b"/accuracy"):
            change = store.get_array(key, after) - store.get_array(key, before)
            print(f"  {key.decode():22} moved by {np.linalg.norm(change):.3f}")


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "digits.ice"
    path.unlink(missing_ok=True)
    data = digits()

    with icecore.open(path, "x") as store:
        train(store, "main", new_network(np.random.default_rng(0)), data, range(1, EPOCHS + 1), rate=0.1, seed=0)
        restore(store, data)
        plot_norm(store, "main/hidden/weight", folder / "norm.png")
        compare(store, "main/epoch-5", "main/epoch-6")

        # A branch: the versions of a store form one sequence, so the new run has a key prefix of its own and starts
        # from the content of an old version. (A second store would also work; in one store, diff and tags cover both.)
        old = load(store.at(tag=f"main/epoch-{RESTORED}"), "main")
        branch = {name: weights.copy() for name, weights in old.items()}  # views are read-only
        train(store, "branch", branch, data, range(RESTORED + 1, EPOCHS + 1), rate=0.5, seed=0)
        for run in ("main", "branch"):
            print(f"{run} ends with accuracy {float(store.get_array(f'{run}/accuracy')):.4f}")
        print(f"{path}: {store.stats().file_bytes / 1e6:.1f} MB hold {len(store.tags())} epochs")


if __name__ == "__main__":
    main()
