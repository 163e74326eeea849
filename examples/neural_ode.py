"""A neural ordinary differential equation learns the field that spirals follow (Chen et al., 2018).

The network gives the velocity at a place; a classical Runge-Kutta method of order four follows it through time.  Its steps
are a `scan`, so the program holds one step, and the gradient walks back through all of them.

Run with `python examples/neural_ode.py`.
"""

import sys
from typing import Any

import numpy as np

import snell as sn

STEP = 0.1


def integrated(velocity: Any, start: Any, steps: int) -> Any:
    """Places (steps, n, 2) after each step of RK4 from `start` (n, 2)."""

    def step(place: Any, _: Any) -> Any:
        k1 = velocity(place)
        k2 = velocity(place + k1 * (STEP / 2))
        k3 = velocity(place + k2 * (STEP / 2))
        k4 = velocity(place + k3 * STEP)
        after = place + (k1 + 2.0 * k2 + 2.0 * k3 + k4) * (STEP / 6)
        return after, after

    return sn.scan(step, start, length=steps)[1]


def spirals(count: int, steps: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Starts (n, 2) and the places (n, steps, 2) that a spiralling field takes them to."""
    generator = np.random.default_rng(seed)
    start = generator.uniform(-2.0, 2.0, (count, 2)).astype(np.float32)

    def velocity(place: Any) -> Any:
        turn = sn.array([[-0.1, 2.0], [-2.0, -0.1]])
        return place @ turn.T

    places = sn.compile(lambda start: integrated(velocity, start, steps))(start)
    return start, np.asarray(places).transpose(1, 0, 2).copy()


def objective(model: Any, params: Any, state: Any, batch: Any) -> Any:
    """The mean squared distance from the true places (n, steps, 2)."""
    start, places = batch
    found = integrated(lambda place: model(place, params, state)[0], start, places.shape[1])
    return sn.losses.mse(found.permute(1, 0, 2), places), state, {}


def learn(steps: int = 600, length: int = 20, hidden: int = 32) -> float:
    """Train on 64 spirals; gives the mean squared distance on others."""
    model = sn.nn.Chain(sn.nn.Linear(2, hidden, sn.tanh), head=sn.nn.Linear(hidden, 2))
    params, state = model.init(sn.random.key(0))
    rate = sn.optim.lr_schedule.cosine(1e-2, steps=steps)
    ts = sn.train.TrainState.create(model, params, state, sn.optim.adam(rate))
    loader = sn.train.DataLoader(spirals(64, length), 32, key=0)
    _, ts = sn.train.fit(ts, loader, objective, steps=steps)
    return sn.train.evaluate(ts, [spirals(32, length, seed=1)], objective)["loss"]


def main() -> None:
    """Learn the field, and say how well."""
    sys.stdout.write(f"mean squared distance on new spirals: {learn():.5f}\n")


if __name__ == "__main__":
    main()
