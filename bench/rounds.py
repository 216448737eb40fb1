"""Lets qkv, its rivals and a loop that shows what the processor can do take turns, and makes figures of their times."""

import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

# A turn takes about so long, or one call.
TURN_SECONDS = 0.03
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
    """What the speed of a call is held against: `work` of one call, and measure() = how much of it a loop does in a second."""

    field: str
    work: float
    measure: Callable[[], float]


def fma_rate(shim, flops, dtype="f32"):
    return Rate("percent_of_fma", flops, lambda: shim.fma_gflops(dtype) * 1e9)


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


def calls_in_a_turn(contestant):
    contestant.call()
    return max(1, round(TURN_SECONDS / max(1e-7, contestant.seconds_of(1))))


def turn(contestant, calls):
    settle()
    if calls > 1:
        contestant.call()  # wakes the threads
    return contestant.seconds_of(calls)


def take_turns(contestants, rates, repeat):
    """Returns, of each round, what the rates measured and the seconds of one call of each contestant."""
    calls = [calls_in_a_turn(contestant) for contestant in contestants]
    rounds = []
    for _ in range(repeat):
        settle()
        measured = [rate.measure() for rate in rates]
        rounds.append((measured, [turn(c, n) for c, n in zip(contestants, calls)]))
    return rounds


def spread(values):
    """Median, and the middle half."""
    values = sorted(values)
    return statistics.median(values), values[len(values) // 4], values[-1 - len(values) // 4]


def against(name, path, mine, theirs):
    if theirs is None:
        return {"peer": None, "peer_path": "", "peer_ms": None, "ratio": None, "ratio_low": None, "ratio_high": None}
    ratio, low, high = spread(t / m for t, m in zip(theirs, mine))
    return {"peer": name, "peer_path": path, "peer_ms": statistics.median(theirs) * 1e3, "ratio": ratio,
            "ratio_low": low, "ratio_high": high}


def compete(facts, ours, rivals, rates, repeat):
    """One object for each rival, or one without a rival: `facts` and the figures."""
    rounds = take_turns([ours, *rivals], rates, repeat)
    mine = [seconds[0] for _, seconds in rounds]
    figures = {"qkv_ms": statistics.median(mine) * 1e3, "rounds": repeat}
    for n, rate in enumerate(rates):
        figures[rate.field] = 100 * statistics.median(rate.work / m / measured[n]
                                                      for m, (measured, _) in zip(mine, rounds))
    if not rivals:
        return [facts | figures | against(None, "", mine, None)]
    return [facts | figures | against(rival.name, rival.path, mine, [seconds[n] for _, seconds in rounds])
            for n, rival in enumerate(rivals, 1)]


def check_equal(what, ours, rivals, tolerance):
    """Raises unless every rival that computes the same gets the same."""
    for rival in rivals:
        if rival.result is None:
            continue
        error = (ours.result() - rival.result()).abs().max().item()
        if not error <= tolerance:
            raise SystemExit(f"{what}: {rival.name} differs from qkv by {error}")
