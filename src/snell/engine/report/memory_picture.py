"""The memory plan as a picture: across, the calls in order; up, the place in the arena; a rectangle is a buffer alive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from snell.engine.report.svg import amount, escape, linear_ticks, text
from snell.runtime.program import Call, Joint, Program, Repeat, Role, Step
from snell.symbolic import Dim

__all__ = ["lifetimes", "memory_picture"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 920, 360, 78, 46, 12, 16
_LONGEST_NAME = 60


@dataclass(slots=True)
class _Walk:
    """The first and last call that touches each slot."""

    time: int = 0
    seen: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])

    def touch(self, slots: Iterable[int], first: int, last: int) -> None:
        for slot in slots:
            begin, end = self.seen.get(slot, (first, last))
            self.seen[slot] = (min(begin, first), max(end, last))

    def run(self, steps: Iterable[Step]) -> None:
        for step in steps:
            begin = self.time
            match step:
                case Repeat():
                    self.run(step.steps)
                    whole = [slot for c in step.carries for slot in (c.initial, c.result, c.spare)]
                    self.touch([*whole, *(row.whole for row in step.rows)], begin, max(begin, self.time - 1))
                case Joint():
                    self.time += len(step.calls)
                    self.touch((slot for call in step.calls for slot in call.buffers), begin, self.time - 1)
                case Call():
                    self.touch(step.buffers, begin, begin)
                    self.time += 1


def lifetimes(program: Program) -> dict[int, tuple[int, int]]:
    """(first, last) call of each slot that a call touches; calls of repetitions count once."""
    walk = _Walk()
    walk.run(program.steps)
    return walk.seen


def memory_picture(program: Program, sizes: Mapping[Dim, int]) -> str:
    """SVG; empty where no value is kept between calls."""
    lives = lifetimes(program)
    slots = [k for k in program.slots(Role.ARENA) if k in lives]
    total = int(program.arena_bytes.evaluate(sizes))
    if not slots or not total:
        return ""
    calls = len(program.calls)
    parts = _axes(calls, total)
    for place, slot in enumerate(slots):
        parts.append(_rectangle(program, slot, lives[slot], sizes, (calls, total), place))
    return f'<svg class="plot memory" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(parts)}</svg>'


def _axes(calls: int, total: int) -> list[str]:
    parts: list[str] = []
    for tick in linear_ticks(float(total)):
        y = _y(tick, total)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(_LEFT - 8, y + 4, amount(tick, "B"), "end"))
    for tick in linear_ticks(float(calls)):
        if tick == int(tick):
            parts.append(text(_x(tick, calls), _HEIGHT - _BOTTOM + 18, f"{tick:g}", "middle"))
    parts.append(text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "call", "middle"))
    return parts


def _rectangle(
    program: Program,
    slot: int,
    life: tuple[int, int],
    sizes: Mapping[Dim, int],
    extent: tuple[int, int],
    place: int,
) -> str:
    buffer, (first, last), (calls, total) = program.buffers[slot], life, extent
    assert buffer.offset is not None
    offset, nbytes = int(buffer.offset.evaluate(sizes)), int(buffer.nbytes.evaluate(sizes))
    x, right = _x(first, calls), _x(last + 1, calls)
    top, bottom = _y(offset + nbytes, total), _y(offset, total)
    name = buffer.name if len(buffer.name) <= _LONGEST_NAME else f"{buffer.name[:_LONGEST_NAME]}…"
    when = f"call {first}" if first == last else f"calls {first} to {last}"
    said = f"{name}\n{amount(nbytes, 'B')} at {amount(offset, 'B')}\n{when}"
    size = f'width="{max(1.0, right - x - 0.6):.1f}" height="{max(0.8, bottom - top - 0.6):.1f}"'
    return f'<rect class="life tone{place % 4}" x="{x:.1f}" y="{top:.1f}" {size}><title>{escape(said)}</title></rect>'


def _x(call: float, calls: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * call / calls


def _y(offset: float, total: int) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * offset / total
