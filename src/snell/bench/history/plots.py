"""Plots in SVG: each figure of a suite as a share of what the machine could do, or of the best where no limit is known.

A row is a benchmark, a dot an implementation; the line at 1 is the limit (the roofline at that case).  Shares make
figures of different units comparable: further right is always faster.
"""

from collections.abc import Iterable, Sequence
from html import escape

from snell.bench.history.line import Line, latest

__all__ = ["suite_plot"]

_LEFT, _WIDTH, _ROW, _TOP, _BOTTOM, _RIGHT = 270, 920, 22, 44, 40, 30
_COLOURS = {
    "snell": "#0b6a8f", "snell+search": "#3aa0c9", "numpy": "#8a8a2e", "torch": "#d1552c", "torch.compile": "#9c3a6b",
    "jax": "#5d4fa3", "onnxruntime": "#3f8f5b", "openvino": "#b8860b", "llama.cpp": "#6d6d72",
}  # fmt: skip
_OTHER = "#444444"
_STYLE = (
    "text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#6d6d72}line{stroke:#b8b8b4;stroke-opacity:.45}"
    ".limit{stroke:#6d6d72;stroke-opacity:1;stroke-width:1.6}"
)


def suite_plot(lines: Iterable[Line]) -> str:
    """The latest figures of one suite on one machine."""
    shown = latest(lines)
    benches = list(dict.fromkeys(line.bench for line in shown))
    impls = sorted({line.impl for line in shown}, key=lambda impl: (not impl.startswith("snell"), impl))
    shares = {bench: _shares([line for line in shown if line.bench == bench]) for bench in benches}
    most = max(1.0, *(share for row in shares.values() for share in row.values())) if shares else 1.0
    height = _TOP + _ROW * len(benches) + _BOTTOM
    parts = [*_legend(impls), *_scale(most, height)]
    for place, bench in enumerate(benches):
        y = _TOP + _ROW * (place + 0.5)
        parts.append(f'<text x="{_LEFT - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(bench)}</text>')
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts += [_dot(impl, share, most, y) for impl, share in reversed(shares[bench].items())]
    box = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}><style>{_STYLE}</style>{"".join(parts)}</svg>\n'


def _shares(own: Sequence[Line]) -> dict[str, float]:
    """Speed over the limit's, or over the best where no limit is known; snell first."""
    speeds = {line.impl: line.speed(line.value) for line in own if line.value}
    limits = [line.speed(line.limit) for line in own if line.limit]
    whole = max(limits) if limits else max(speeds.values(), default=1.0)
    order = sorted(speeds, key=lambda impl: (not impl.startswith("snell"), impl))
    return {impl: speeds[impl] / whole for impl in order}


def _x(share: float, most: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * share / most


def _dot(impl: str, share: float, most: float, y: float) -> str:
    colour, radius = _COLOURS.get(impl, _OTHER), 6 if impl == "snell" else 4
    label = f"{escape(impl)}: {share:.0%}"
    return (
        f'<circle cx="{_x(share, most):.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"><title>{label}</title></circle>'
    )


def _legend(impls: Sequence[str]) -> list[str]:
    parts: list[str] = []
    x = float(_LEFT)
    for impl in impls:
        parts.append(f'<circle cx="{x:.0f}" cy="16" r="5" fill="{_COLOURS.get(impl, _OTHER)}"/>')
        parts.append(f'<text x="{x + 10:.0f}" y="20">{escape(impl)}</text>')
        x += 30 + 7 * len(impl)
    return parts


def _scale(most: float, height: int) -> list[str]:
    bottom = height - _BOTTOM
    parts: list[str] = []
    for quarter in range(int(4 * most) + 1):
        x, kind = _x(quarter / 4, most), ' class="limit"' if quarter == 4 else ""
        parts.append(f'<line{kind} x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>')
        if quarter % 2 == 0 or most <= 2:
            parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{25 * quarter} %</text>')
    said = "of the machine's limit in that run, of the fastest where no limit is known"
    parts.append(f'<text x="{(_LEFT + _WIDTH) / 2:.0f}" y="{height - 6}" text-anchor="middle">{said}</text>')
    return parts
