"""Lets qkv, its peers and a loop that shows what the processor can do take turns, and makes figures of their times."""

import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

# What is timed of a turn takes about so long, or one call.
TURN_SECONDS = 0.03
# What comes before it untimed: a core that wakes up on a virtual machine is slow for a while, and worker threads sleep.
WARM_SECONDS = 0.02
# The loop of a Rate runs as long as a turn of qkv, but no longer than this.
LONGEST_RATE = 0.5
SETTLE_SECONDS = 0.002
LONGEST_SETTLING = 0.5


@dataclasses.dataclass
class Contestant:
    """Whoever is timed.

    Attributes:
      name: of library and function.
      call: does the work once.
      result: does it once and returns the result, a torch tensor; None if it is another than that of qkv.
      path: which way the work took inside the library, where that can be told.
      seconds: of one call, the mean of as many as it is told; None: a loop over call().
    """

    name: str
    call: Callable[[], Any]
    result: Callable[[], Any] | None = None
    path: str = ""
    seconds: Callable[[int], float] | None = None

    def seconds_of(self, calls):
        if self.seconds:
            return self.seconds(calls)
        begin = time.perf_counter()
        for _ in range(calls):
            self.call()
        return (time.perf_counter() - begin) / calls


@dataclasses.dataclass
class Rate:
    """What the speed of a call is held against: `work` of one call, and measure(seconds) = how much of it a loop of
    about so long does in a second."""

    field: str
    work: float
    measure: Callable[[float], float]


def fma_rate(shim, flops, dtype="f32"):
    return Rate("percent_of_fma", flops, lambda seconds: shim.fma_gflops(seconds, dtype) * 1e9)


def settle():
    """Waits until the process is at rest.

    Worker threads of OpenMP and ONNX Runtime spin after a call before they sleep, for some 10 and up to 100 ms; whoever is next
    would share the processor with them.
    """
    end = time.perf_counter() + LONGEST_SETTLING
    is_busy = True
    while is_busy and time.perf_counter() < end:
        begin = time.process_time()
        time.sleep(SETTLE_SECONDS)
        is_busy = time.process_time() - begin > SETTLE_SECONDS / 4


def warm_up(contestant):
    """At least one call."""
    end = time.perf_counter() + WARM_SECONDS
    contestant.call()
    while time.perf_counter() < end:
        contestant.call()


def size_of_turn(contestant):
    """How many calls are timed in a turn, and about how many seconds they take."""
    warm_up(contestant)
    seconds = max(1e-7, contestant.seconds_of(1))
    calls = max(1, round(TURN_SECONDS / seconds))
    return calls, calls * seconds


def turn(contestant, calls):
    settle()
    warm_up(contestant)
    return contestant.seconds_of(calls)


def rate_turn(rate, seconds):
    settle()
    rate.measure(WARM_SECONDS)
    return rate.measure(seconds)


def take_turns(contestants, rates, repeat):
    """Returns, of each round, the seconds of one call of each contestant, and what the rates measured.

    The first contestant is the one that is held against the rates: they have a turn directly before its own and one directly after,
    each as long, and what counts is the mean. They run before every other turn, too, so that all find the processor equally awake.
    """
    sizes = [size_of_turn(contestant) for contestant in contestants]
    calls = [n for n, _ in sizes]
    rate_seconds = min(LONGEST_RATE, max(TURN_SECONDS, sizes[0][1]))
    rounds = []
    for _ in range(repeat):
        before = [rate_turn(rate, rate_seconds) for rate in rates]
        seconds = [turn(contestants[0], calls[0])]
        after = [rate_turn(rate, rate_seconds) for rate in rates]
        for contestant, n in zip(contestants[1:], calls[1:]):
            for rate in rates:
                rate_turn(rate, rate_seconds)
            seconds.append(turn(contestant, n))
        rounds.append((seconds, [(b + a) / 2 for b, a in zip(before, after)]))
    return rounds


def spread(values):
    """Median, and the middle half."""
    values = sorted(values)
    return statistics.median(values), values[len(values) // 4], values[-1 - len(values) // 4]


def against(name, path, mine, theirs):
    if theirs is None:
        return {"peer": None, "peer_path": None, "peer_ms": None, "ratio": None, "ratio_low": None, "ratio_high": None}
    ratio, low, high = spread(t / m for t, m in zip(theirs, mine))
    return {"peer": name, "peer_path": path, "peer_ms": statistics.median(theirs) * 1e3, "ratio": ratio,
            "ratio_low": low, "ratio_high": high}


def compete(facts, ours, peers, rates, repeat):
    """One object for each peer, or one without a peer: `facts` and the figures."""
    rounds = take_turns([ours, *peers], rates, repeat)
    mine = [seconds[0] for seconds, _ in rounds]
    figures = {"qkv_ms": statistics.median(mine) * 1e3, "rounds": repeat}
    for n, rate in enumerate(rates):
        figures[rate.field] = 100 * statistics.median(rate.work / m / measured[n]
                                                      for m, (_, measured) in zip(mine, rounds))
    if not peers:
        return [facts | figures | against(None, "", mine, None)]
    return [facts | figures | against(peer.name, peer.path, mine, [seconds[n] for seconds, _ in rounds])
            for n, peer in enumerate(peers, 1)]


def check_equal(what, ours, peers, tolerance):
    """Raises unless every peer that computes the same gets the same."""
    for peer in peers:
        if peer.result is None:
            continue
        error = (ours.result() - peer.result()).abs().max().item()
        if not error <= tolerance:
            raise SystemExit(f"{what}: {peer.name} differs from qkv by {error}")
