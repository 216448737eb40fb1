#!/usr/bin/env python3
"""Fits the polynomials of qkv/kernels/math-inl.h and prints them with their largest error.

Those for floats are minimax fits (Lawson's iteration on a dense Chebyshev grid) in double precision, coefficients then rounded to float;
2^f for doubles is Chebyshev's series in 40 digits. Needs numpy and mpmath. Run: python3 tools/fit_polynomials.py
"""
import math

import mpmath
import numpy as np


def fit(target, weight, low, high, powers, rounds=400, points=4000, by_first=False):
    """Coefficients c of sum c_k x^powers[k] that minimise max |weight * (p - target)| on [low, high], divided by the first if asked."""
    x = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(np.pi * (np.arange(points) + 0.5) / points)
    basis = np.stack([x**p for p in powers], axis=1)
    y = np.array([target(v) for v in x])
    w = np.array([weight(v) for v in x])
    lawson = np.ones(points)
    for _ in range(rounds):
        s = np.sqrt(lawson) * w
        coefficients, *_ = np.linalg.lstsq(basis * s[:, None], y * s, rcond=None)
        error = np.abs(w * (basis @ coefficients - y))
        lawson *= error / error.max() + 1e-9
        lawson /= lawson.max()
    if by_first:
        coefficients = coefficients / coefficients[0]
    rounded = coefficients.astype(np.float32)
    return rounded, np.abs(w * (basis @ rounded.astype(np.float64) - y)).max()


def show(name, result):
    coefficients, error = result
    print(f"{name}: largest weighted error {error:.2e}")
    print("   ", ", ".join(float(c).hex() + "f" for c in coefficients))


# Of degree 10, for 2^f = 1 + f (...): so 2^0 is exactly 1.
mpmath.mp.dps = 40
for low, high in (-0.5, 0.5), (0, 1):
    series, error = mpmath.chebyfit(
        lambda f: mpmath.expm1(f * mpmath.ln(2)) / f if f else mpmath.ln(2), [low, high], 11, error=True)
    print(f"(2^f - 1)/f on {low} .. {high}, for doubles: largest error {float(error):.2e}")
    print("   ", ", ".join(float(c).hex() for c in reversed(series)))
show("2^f on -1/2 .. 1/2, divided by the constant term, relative error",
     fit(lambda f: 2.0**f, lambda f: 2.0**-f, -0.5, 0.5, range(7), 1500, by_first=True))
show("(2^f - 1)/f on 0 .. 1, weighted so that it is the relative error of 2^f",
     fit(lambda f: math.expm1(f * math.log(2)) / f if f else math.log(2), lambda f: f / 2**f, 0.0, 1.0, range(6), 1500))
show("tanh(x)/x on |x| < 0.625, in x^2; the kernel adds the 1 last",
     fit(lambda z: math.tanh(math.sqrt(z)) / math.sqrt(z), lambda z: 1.0, 1e-12, 0.625**2, range(6)))
show("erf(x)/x - 1 on |x| < 1, in x^2",
     fit(lambda z: math.erf(math.sqrt(z)) / math.sqrt(z) - 1, lambda z: 1.0, 1e-12, 1.0, range(8)))
show("-log2(erfc(x)) on 1 .. 4",
     fit(lambda x: -math.log2(math.erfc(x)), lambda x: math.erfc(x) * math.log(2), 1.0, 4.0, range(9)))
