"""Where the median of what is measured lies, from repetitions that do not depend on each other. The same as
interval_of_median() in measure.hpp."""

import math
import statistics


def interval_of_median(values, wanted=0.95):
    """(low, high, confidence): between the n-th least and the n-th greatest value, for the greatest n with at least
    `wanted` confidence (a sign test, which assumes nothing of how they are distributed); between the least and the
    greatest where there are fewer than six."""
    ordered = sorted(values)
    count = len(ordered)
    below = math.comb(count, 0) / 2**count  # the chance that at most k of them are below the median
    low, high, confidence = ordered[0], ordered[-1], max(0.0, 1 - 2 * below) if count > 1 else 0.0
    for k in range(1, (count - 1) // 2 + (count % 2 == 0)):
        below += math.comb(count, k) / 2**count
        if 1 - 2 * below < wanted:
            break
        low, high, confidence = ordered[k], ordered[count - 1 - k], 1 - 2 * below
    return low, high, confidence


def is_narrow(values, share):
    """Whether half of the interval is at most this share of the median."""
    low, high, confidence = interval_of_median(values)
    return confidence > 0 and (high - low) / 2 <= share * statistics.median(values)
