"""A report as one HTML page that asks for nothing outside itself: graphs, kernels, roofline, search, memory, code.

Code is packed (deflate, base64) and unpacked by the browser when it is opened, so that a page of a language model stays
below a few megabytes.  Everything that is not the page's own text is escaped.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from importlib import resources
from typing import TYPE_CHECKING

from snell.engine.report.graph_picture import fused_picture, graph_picture
from snell.engine.report.measured import KernelRow, Measurements, kernel_names, measurements
from snell.engine.report.memory_picture import memory_picture
from snell.engine.report.roofline import Point, roofline
from snell.engine.report.rules import RuleLine
from snell.engine.report.search_curve import search_curve
from snell.engine.report.svg import amount, escape, seconds_text

if TYPE_CHECKING:
    from snell.engine.report.report import KernelReport, Report

__all__ = ["page"]


def page(report: Report, *, measure: bool) -> str:
    """The page; `measure` runs each kernel for some milliseconds."""
    found = measurements(report.compilation, measure=measure)
    parts = [
        _head(report, found),
        _graphs(report, found),
        _kernels(report, found),
        _roofline(found),
        _search(report),
        _memory(report, found),
        _rules(report.rules),
        _code(report, found),
    ]
    style, script = (resources.files("snell.engine.report").joinpath(name).read_text("utf-8") for name in _FILES)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>snell: what a program became</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}</style></head>\n<body>{''.join(parts)}\n<script>{script}</script></body></html>\n"
    )


_FILES = ("page.css", "page.js")


def _head(report: Report, found: Measurements) -> str:
    graph, program = report.compilation.lowered.graph, report.compilation.assembled.program
    facts = [
        ("operations as written", str(len(graph.nodes()))),
        ("kernel calls", str(sum(row.runs for row in found.rows))),
        ("distinct kernels", str(len(found.rows))),
        ("arena", amount(float(program.arena_bytes.evaluate(found.sizes)), "B")),
        ("compiled in", seconds_text(sum(report.seconds.values()))),
    ]
    if found.limits is not None:
        facts.append(("kernels, measured", seconds_text(found.seconds)))
    target = report.compilation.options.target
    threads = report.compilation.options.threads
    sizes = ", ".join(f"{dim.name} = {size}" for dim, size in found.sizes.items())
    where = f"For {target.cpu} ({target.name}), {threads} thread{'s' if threads != 1 else ''}"
    shown = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    said = escape(where + (f"; figures at {sizes}" if sizes else ""))
    return f"<h1>What the program became</h1><p>{said}.</p><dl>{shown}</dl>"


def _section(title: str, said: str, content: str) -> str:
    return f"\n<h2>{title}</h2><p>{said}</p>{content}" if content else ""


def _graphs(report: Report, found: Measurements) -> str:
    heat = {row.name: found.share(row) for row in found.rows}
    pictures = (
        (
            "Before",
            "The program as it was traced, in primitives; numbers, ramps and weights are left out.",
            graph_picture(report.compilation.lowered.graph),
        ),
        (
            "After fusion",
            "The kernels that run, warmer where the time goes.",
            fused_picture(report.compilation, kernel_names(report.compilation), heat),
        ),
    )
    return "".join(
        _section(title, f"{said} Drag to move, turn the wheel to look closer.", _graph(picture))
        for title, said, picture in pictures
        if picture["boxes"]
    )


def _graph(picture: dict[str, list[object]]) -> str:
    data = json.dumps(picture, separators=(",", ":")).replace("<", "\\u003c")
    return f'<div class="graph"><script type="application/json">{data}</script></div>'


def _kernels(report: Report, found: Measurements) -> str:
    computes = {kernel.name: ", ".join(kernel.computes) for kernel in report.kernels}
    heads = ("kernel", "computes", "runs", "time", "share", "bytes", "FLOP", "FLOP/byte", "rate")
    head = "".join(f"<th{_number(k)}>{name}</th>" for k, name in enumerate(heads))
    rows = "".join(_kernel_row(row, computes.get(row.name, ""), found) for row in found.rows)
    said = (
        "Sorted by the time of all runs; bytes and operations are those of one run, bytes the least that must move. "
        "Each kernel was timed alone, its data in cache where it fits."
    )
    return _section("Kernels", said, f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>')


def _number(column: int) -> str:
    return ' class="number"' if column > 1 else ""


def _kernel_row(row: KernelRow, computes: str, found: Measurements) -> str:
    share, cost = found.share(row), row.cost
    cells = (
        f'<a class="name" href="#{row.name}">{row.name[:9]}</a>',
        f"<code>{escape(computes if len(computes) <= 60 else computes[:59] + '…')}</code>",
        str(row.runs),
        "–" if row.seconds is None else seconds_text(row.seconds),
        "–" if row.seconds is None else f'{share:.1%}<span class="bar" style="width:{100 * share:.1f}%"></span>',
        amount(cost.bytes, "B"),
        amount(cost.flops, ""),
        f"{cost.flops / cost.bytes:.3g}" if cost.bytes else "–",
        "–" if not row.seconds else amount(cost.flops / row.seconds, "FLOP/s"),
    )
    return "<tr>" + "".join(f"<td{_number(k)}>{cell}</td>" for k, cell in enumerate(cells)) + "</tr>"


def _roofline(found: Measurements) -> str:
    if found.limits is None:
        return ""
    points = [
        Point(row.cost.flops / row.cost.bytes, row.cost.flops / row.seconds, found.share(row), _said(row, found))
        for row in found.rows
        if row.seconds and row.cost.bytes
    ]
    said = (
        "Each disc is a kernel, as large as its share of the time, under what this machine's memory and arithmetic could "
        "do when it was measured. Above the slope: its data came from a cache. Work that a mask leaves out is counted."
    )
    return _section("Roofline", said, roofline(points, found.limits))


def _said(row: KernelRow, found: Measurements) -> str:
    rate = amount(row.cost.flops / row.seconds, "FLOP/s") if row.seconds else ""
    return f"{row.name[:9]}\n{rate}, {found.share(row):.1%} of the time"


def _search(report: Report) -> str:
    return _section("Search", "The best time found so far, over candidates.", search_curve(report.search))


def _memory(report: Report, found: Measurements) -> str:
    picture = memory_picture(report.compilation.assembled.program, found.sizes)
    return _section("Memory", "A rectangle is a buffer of the arena, from its first call to its last.", picture)


def _rules(lines: Iterable[RuleLine]) -> str:
    heads = ("rule", "what it does", "applied", "cost before", "after", "without it")
    head = "".join(f"<th{_number(k)}>{name}</th>" for k, name in enumerate(heads))
    rows: list[str] = []
    for line in lines:
        costs = ["–" if cost is None else amount(cost, "") for cost in (line.before, line.after, line.without)]
        cells = (f"<code>{escape(line.name)}</code>", escape(line.note), str(line.applied), *costs)
        rows.append("<tr>" + "".join(f"<td{_number(k)}>{cell}</td>" for k, cell in enumerate(cells)) + "</tr>")
    said = "What shaped the program. Costs are in additions, over the definitions where the rule applied."
    return _section("Rules", said, f"<table><tr>{head}</tr>{''.join(rows)}</table>" if rows else "")


def _code(report: Report, found: Measurements) -> str:
    kernels = {kernel.name: kernel for kernel in report.kernels}
    known = [kernels[row.name] for row in found.rows if row.name in kernels]
    return _section("Code", "Each kernel at three levels, in the order of the table.", "".join(map(_levels, known)))


def _levels(kernel: KernelReport) -> str:
    levels = (("Loops", kernel.loops), ("LLVM IR", kernel.llvm_ir), ("Assembly", kernel.assembly))
    inner = "".join(
        f'<details class="code"><summary>{title} <span class="faint">{text.count(chr(10)):,} lines</span></summary>'
        f'<pre data-packed="{_packed(text)}"></pre></details>'
        for title, text in levels
    )
    computes = escape(", ".join(kernel.computes)[:90])
    name = f'<span class="name">{kernel.name[:9]}</span> <span class="faint">{computes}</span>'
    return f'<details id="{kernel.name}"><summary>{name}</summary>{inner}</details>'


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()
