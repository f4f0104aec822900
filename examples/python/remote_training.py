"""A training job in one process whose checkpoints a dashboard in another one reads, through an icecore-server.

    icecore-server --data ./data
    python remote_training.py train icecore://localhost:7480            # as often as it is killed, again
    python remote_training.py dashboard icecore://localhost:7480        # at any time, on any machine
    python remote_training.py dashboard icecore://localhost:7480 --after 7

The job learns scikit-learn's handwritten digits in plain NumPy (training_history.py). Each epoch's weights are written in
one transaction, which is a version of the database. A job that was killed goes on behind its last complete epoch, and
learns what it would have learned without a break.

The dashboard watches the database. It is told each checkpoint once, whole and in order, also those of before it started.
It reads the weights of that version while the job writes the next one, and computes the accuracy anew: it is the one that
the job has written, to the last bit. Each line ends with the version, behind which another dashboard goes on.

Needs icecore with its part for servers (pip install '.[remote]'), NumPy, scikit-learn and matplotlib.
"""

import argparse

import icecore
import icecore.remote
import numpy as np
from icecore.remote import put
from training_history import accuracy, digits, new_network, train_epoch

EPOCHS = 12


def open_database(server):
    try:
        return server.create("training", rule="write")
    except icecore.DatabaseExistsError:
        return server.open("training")


def encoded(weights):
    return np.ascontiguousarray(weights, np.float64).tobytes()


def network_at(snapshot, shapes):
    """The weights as they were at one version."""
    names = list(shapes)
    values = snapshot.find_many([f"layer/{name}" for name in names])
    return {name: np.frombuffer(value).reshape(shapes[name]).copy() for name, value in zip(names, values, strict=True)}


def shapes_of(network):
    return {name: weights.shape for name, weights in network.items()}


def train(address):
    train_images, test_images, train_labels, test_labels = digits()
    network = new_network(np.random.default_rng(0))
    with icecore.remote.connect(address) as server:
        store = open_database(server)
        begun = int(store.find("epoch") or 0)
        if begun:
            network = network_at(store.latest(), shapes_of(network))
        print(f"begins behind epoch {begun}", flush=True)
        for epoch in range(begun + 1, EPOCHS + 1):
            loss = train_epoch(network, train_images, train_labels, 0.1, np.random.default_rng(epoch))
            score = accuracy(network, test_images, test_labels)
            checkpoint = [put(f"layer/{name}", encoded(weights)) for name, weights in network.items()]
            checkpoint += [put("epoch", str(epoch).encode()), put("loss", encoded(loss)), put("accuracy", encoded(score))]
            # One transaction: whoever reads, and a job that starts again, has the whole epoch or nothing of it.
            store.transaction([], checkpoint)
            store.tag(f"epoch-{epoch}", note=f"loss {loss:.4f}")
            print(f"epoch {epoch} written", flush=True)


def dashboard(address, after):
    _, test_images, _, test_labels = digits()
    shapes = shapes_of(new_network(np.random.default_rng(0)))
    with icecore.remote.connect(address) as server:
        store = open_database(server)
        for version, changes in store.watch(after=after):
            told = {change.key: change.value for change in changes}
            epoch = int(told[b"epoch"])
            if set(told) != {b"epoch", b"loss", b"accuracy", *(f"layer/{name}".encode() for name in shapes)}:
                raise SystemExit(f"version {version} is no whole checkpoint: {sorted(told)}")
            score = accuracy(network_at(store.at(version), shapes), test_images, test_labels)
            if encoded(score) != told[b"accuracy"]:
                raise SystemExit(f"epoch {epoch} was not reproduced")
            print(f"epoch {epoch}: loss {np.frombuffer(told[b'loss'])[0]:.4f}, accuracy {score:.4f}, version {version}", flush=True)
            if epoch == EPOCHS:
                break


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["train", "dashboard"])
    parser.add_argument("address")
    parser.add_argument("--after", type=int, default=0, help="the version behind which the dashboard begins")
    chosen = parser.parse_args()
    if chosen.what == "train":
        train(chosen.address)
    else:
        dashboard(chosen.address, chosen.after)


if __name__ == "__main__":
    main()
