"""The plain twin of drawing from one list: which places a rule picks, with lists and sets."""

import math

from tests import oracles
from tests.oracles import MASK, draw, floyd, mix64, splitmix64

HIGHEST = (2 - 2**-23) * 2.0**127


def mixed(key, value):
    """Mix a value into a key, as `draws` documents it."""
    return mix64(((key ^ mix64(value + oracles.GOLDEN & MASK)) * 0xD6E8FEB86659FD93 + oracles.GOLDEN) & MASK)


def fraction(unit_key, number):
    return (splitmix64(unit_key, number) >> 11) * 2.0**-53


def visible(times, bound, *, strict, window):
    """Return the places that a bound leaves."""
    if bound is None or times[:1] == [None]:
        return list(range(len(times)))
    early = [place for place, time in enumerate(times) if (time < bound if strict else time <= bound)]
    return early if window is None else [place for place in early if times[place] >= bound - window]


def pick(entries, rule, unit_key, *, bound=None, excluded=()):
    """Return the places of the entries (neighbour, weight, time, …) that a rule picks, in order."""
    seen = visible([entry[2] for entry in entries], bound, strict=rule.strict, window=rule.window)
    free = [place for place in seen if entries[place][0] not in excluded]
    if rule.method == "recent":
        return free if rule.fanout < 0 else free[len(free) - min(rule.fanout, len(free)) :]
    if rule.method == "top":
        known = [place for place in free if not math.isnan(entries[place][1])]
        if rule.fanout < 0 or len(known) <= rule.fanout:
            return known
        return sorted(known, key=lambda place: (-entries[place][1], place))[: rule.fanout]
    if rule.method == "weighted":
        return weighted(entries, seen, free, rule, unit_key)
    if rule.fanout >= 0 and excluded and len(seen) > 4 * rule.fanout:
        picks, unit_key = rejected(entries, seen, rule, unit_key, excluded)
        if picks is not None:
            return picks
    if rule.fanout < 0 or (not rule.replace and len(free) <= rule.fanout):
        return free
    if not free:
        return []
    if rule.replace:
        return [free[draw(unit_key, d, len(free))] for d in range(rule.fanout)]
    return [free[place] for place in floyd(unit_key, len(free), rule.fanout)]


def rejected(entries, seen, rule, unit_key, excluded):
    """Draw places until enough are free and new; (None, another key) where that takes long."""
    picks, tries = [], 4 * rule.fanout + 64
    for d in range(tries):
        if len(picks) == rule.fanout:
            return picks, unit_key
        place = seen[draw(unit_key, d, len(seen))]
        if entries[place][0] not in excluded and (rule.replace or place not in picks):
            picks.append(place)
    return None, mixed(unit_key, tries)


def tried(seen, own, greatest, rule, unit_key):
    """Draw by rejection until sixteen tries are in vain; the picks are at zero weight from then on."""
    picks, number = [], 0
    while len(picks) < rule.fanout:
        for _ in range(16):
            place, share = seen[draw(unit_key, number, len(seen))], fraction(unit_key, number + 1)
            number += 2
            if share * greatest < own.get(place, 0.0):
                break
        else:
            break
        picks.append(place)
        if not rule.replace:
            own[place] = 0.0
    return picks, number


def weighted(entries, seen, free, rule, unit_key):
    """Draw one by one in proportion to the weights, adding up anew once half of the sum is taken."""
    own = {place: min(entries[place][1], HIGHEST) if entries[place][1] > 0 else 0.0 for place in free}
    there = [place for place in seen if own.get(place, 0.0) > 0]
    if rule.fanout < 0 or (not rule.replace and len(there) <= rule.fanout):
        return there
    picks, number, sums, taken = [], 0, None, 0.0
    raw = [entries[place][1] for place in seen]
    positive = sum(weight > 0 for weight in raw)
    if 4 * rule.fanout <= positive and rule.fanout <= 64 and all(weight <= HIGHEST for weight in raw):
        picks, number = tried(seen, own, max(raw, default=0.0), rule, unit_key)
    while there and len(picks) < rule.fanout:
        if sums is None:
            sums, total, taken = [], 0.0, 0.0
            for place in seen:
                total += own.get(place, 0.0)
                sums.append(total)
        target = min(fraction(unit_key, number) * total, math.nextafter(total, 0.0))
        number += 1
        place = seen[next(i for i, value in enumerate(sums) if value > target)]
        if not rule.replace and own[place] == 0:
            continue
        if not rule.replace:
            taken, own[place] = taken + own[place], 0.0
        picks.append(place)
        if taken > 0.5 * total:
            sums = None
    return picks
