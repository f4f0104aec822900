"""The contigs of FASTQ files once more, by other means: texts, dictionaries, one process.

    python3 contigs_again.py CONTIGS READS...

Ends with 1 unless the FASTA file CONTIGS holds exactly the same contigs: 31-mers seen 4 times or more, bases beside
them seen twice or more with a quality of 20 or more.
"""

import gzip
import sys
from collections import Counter

K, QUALITY_MIN, DEPTH_MIN, EXTENSIONS_MIN = 31, 20, 4, 2
COMPLEMENT = str.maketrans("ACGT", "TGCA")


def other_strand(text):
    return text.translate(COMPLEMENT)[::-1]


def strands(path):
    """The bases of each read, and which of them are to be trusted; then those of its other strand."""
    with gzip.open(path, "rt") as file:
        while file.readline():
            bases = file.readline().rstrip("\n")
            file.readline()
            trusted = [ord(q) - 33 >= QUALITY_MIN for q in file.readline().rstrip("\n")]
            yield bases, trusted
            yield other_strand(bases), trusted[::-1]


def codes_of(paths):
    """For each k-mer as it is read on either strand, the one base before and the one behind it."""
    depth, before, behind = Counter(), Counter(), Counter()
    for path in paths:
        for bases, trusted in strands(path):
            for i in range(len(bases) - K + 1):
                x = bases[i : i + K]
                if "N" in x:
                    continue
                depth[x] += 1
                if i > 0 and trusted[i - 1]:
                    before[x, bases[i - 1]] += 1
                if i + K < len(bases) and trusted[i + K]:
                    behind[x, bases[i + K]] += 1

    def only(counts, x):
        enough = [b for b in "ACGT" if counts[x, b] >= EXTENSIONS_MIN]
        return enough[0] if len(enough) == 1 else None

    codes = {x: (only(before, x), only(behind, x)) for x, count in depth.items() if count >= DEPTH_MIN}
    return {x: code for x, code in codes.items() if all(code)}


def contigs_of(codes):
    """Chains of k-mers that lead to each other. There is no ring among them, or it is missed."""

    def step(x):
        y = x[1:] + codes[x][1]
        return y if y in codes and codes[y][0] == x[0] and y != other_strand(x) else None

    found = set()
    for x in codes:
        if step(other_strand(x)):
            continue  # not the first of a chain
        text = x
        while x := step(x):
            text += x[-1]
        found.add(min(text, other_strand(text)))
    return sorted(found)


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        records = file.read().split(">")[1:]
    given = sorted("".join(record.split("\n")[1:]) for record in records)
    again = contigs_of(codes_of(sys.argv[2:]))
    print(f"{len(given)} contigs in {sys.argv[1]}, {len(again)} found again, {len(set(given) & set(again))} equal")
    return 0 if given == again else 1


if __name__ == "__main__":
    sys.exit(main())
