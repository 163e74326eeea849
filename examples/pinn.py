"""A physics-informed network solves a boundary value problem from its equation alone, without data.

The equation is u''(x) - u(x) = -5 sin(2x) on [0, π] with u(0) = u(π) = 0, whose solution is sin(2x) (Raissi, Perdikaris and
Karniadakis, 2019, for the method).  The loss has the second derivative of the network in it, and a step differentiates
that once more with respect to the parameters.

Run with `python examples/pinn.py`.
"""

import math
import sys
from typing import Any

import numpy as np

import snell as sn

WEIGHT_OF_THE_BOUNDARY = 10.0


def objective(model: Any, params: Any, state: Any, points: Any) -> Any:
    """The mean squared residual of the equation at the points (n, 1), and the squared values at the boundary."""

    def u(x: Any) -> Any:
        return model(x, params, state)[0]

    def slope(x: Any) -> Any:
        return sn.jvp(u, (x,), (sn.ones_like(x),))[1]

    second = sn.jvp(slope, (points,), (sn.ones_like(points),))[1]
    residual = second - u(points) + 5.0 * sn.sin(2.0 * points)
    ends = u(sn.array([[0.0], [math.pi]]))
    return sn.square(residual).mean() + WEIGHT_OF_THE_BOUNDARY * sn.square(ends).mean(), state, {}


def solve(steps: int = 2000, points: int = 64, hidden: int = 32) -> float:
    """Train; gives the greatest error of the solution on [0, π]."""
    model = sn.nn.Chain(
        sn.nn.Linear(1, hidden, sn.tanh), sn.nn.Linear(hidden, hidden, sn.tanh), head=sn.nn.Linear(hidden, 1)
    )
    params, state = model.init(sn.random.key(0))
    rate = sn.optim.lr_schedule.cosine(5e-3, steps=steps)
    ts = sn.train.TrainState.create(model, params, state, sn.optim.adam(rate))
    generator = np.random.default_rng(0)
    for _ in range(steps):
        x = generator.uniform(0.0, math.pi, (points, 1)).astype(np.float32)
        _, ts = sn.train.step(ts, x, objective)
    x = np.linspace(0.0, math.pi, 101, dtype=np.float32)[:, None]
    return float(np.abs(np.asarray(sn.train.predict(ts, x)) - np.sin(2 * x)).max())


def main() -> None:
    """Solve the problem, and say how well."""
    sys.stdout.write(f"greatest error against the exact solution: {solve():.4f}\n")


if __name__ == "__main__":
    main()
