"""Facts about classes, as egglog rules that never equate anything: what a class depends on, and how it splits.

`free` holds the axes a class depends on (the fewest of any member), `dtype` its type (two types in one class are an
error), `kind` marks products and numbers.

Splitting is on demand.

    (within J r t)     a sum over J has the body r, and t is a factor of it
    (part J r K)       some factor of r is free of K, so that part of the sum could be taken first
    (wanted K t)       asks for a split of t
    (split K t f d)    t = f·d with f free of K and d solid
    (solid K t)        t depends on K and no factor of it is free of K
    (coded K t)        what depends on K in t is integers, as in a quantised weight
    (integral t u m)   t holds the integers u (i32), at most m in magnitude
    (nan-test t a)     t is true where a is NaN
    (spread t)         distributed; (apart t): a sum that was split after distribution

Numbers are inert: nothing is asked of a class that is a constant, else its spellings multiply without end.
"""

from __future__ import annotations

from snell.rewrite.language import CONSTRUCTORS, I32

__all__ = ["DEPENDENT", "FACTS", "INDEPENDENT", "NOT_NUMBER"]

PRODUCT, NUMBER = 1, 2


def NOT_NUMBER(name: str) -> str:  # noqa: N802 - reads as a condition inside rule text
    return f"(= 0 (& {NUMBER} (kind {name})))"


def INDEPENDENT(axes: str, free: str) -> str:  # noqa: N802
    return f"(= 0 (set-length (set-intersect {axes} {free})))"


def DEPENDENT(axes: str, free: str) -> str:  # noqa: N802
    return f"(< 0 (set-length (set-intersect {axes} {free})))"


_RELATIONS = """
(relation within (Axes Term Term))
(relation wanted (Axes Term))
(relation solid (Axes Term))
(relation split (Axes Term Term Term))
(relation coded (Axes Term))
(relation part (Axes Term Axes))
(relation spread (Term))
(relation apart (Term))
(relation integral (Term Term BigRat))
(relation nan-test (Term Term))
"""


def _rule(name: str, conditions: str, actions: str, ruleset: str = "analysis") -> str:
    return f'(rule ({conditions}) ({actions}) :ruleset {ruleset} :name "{name}")'


def _building(name: str, conditions: str, actions: str) -> str:
    """A rule that makes new terms: it takes turns with the simplifications instead of being saturated before them."""
    return _rule(name, conditions, actions, "algebra")


def _class_facts() -> list[str]:
    """One rule per constructor sets every fact of the class."""
    rules: list[str] = []
    booleans = {"Not", "And", "Equal", "LessThan"}
    kinds = {"Mul": PRODUCT, "Scale": PRODUCT, "Divide": PRODUCT}
    payloads = {"Scale": "v", "Cast": "d", "Unary": "o", "Binary": "o", "Sum": "J", "Max": "J"}
    for name, arity in CONSTRUCTORS.items():
        if arity == 0:
            continue
        args = ["a", "b", "c"][:arity]
        pattern = f"(= t ({name} {payloads.get(name, '')} {' '.join(args)}))"
        known = " ".join(f"(= f{x} (free {x}))" for x in args)
        free = _union([f"f{x}" for x in args])
        if name in ("Sum", "Max"):
            free = f"(set-diff {free} J)"
        dtype = "d" if name == "Cast" else "0" if name in booleans else f"(dtype {args[-1]})"
        if dtype.startswith("("):
            known, dtype = f"{known} (= d {dtype})", "d"
        facts = f"(set (free t) {free}) (set (dtype t) {dtype}) (set (kind t) {kinds.get(name, 0)})"
        rules.append(_rule(f"facts.{name}", f"{pattern} {known}", facts))
    number = f"(set (free t) (set-empty)) (set (dtype t) d) (set (kind t) {NUMBER}) (ordered t)"
    rules.append(_rule("facts.Number", "(= t (Number v d))", number))
    rules.append(_rule("facts.Atom", "(= t (Atom n d s))", "(set (free t) s) (set (dtype t) d) (set (kind t) 0)"))
    return rules


def _union(sets: list[str]) -> str:
    result = sets[-1]
    for item in reversed(sets[:-1]):
        result = f"(set-union {item} {result})"
    return result


def _demand() -> list[str]:
    number = NOT_NUMBER("t")
    return [
        _rule("within.sum", f"(= t (Sum J a)) {number}", "(within J a a) (wanted J a)"),
        _rule("within.product", f"(within J r t) {number} (= t (Mul a c))", "(within J r a) (within J r c)"),
        _rule("within.scale", f"(within J r t) {number} (= t (Scale p a))", "(within J r a)"),
        _rule("within.select", "(within J r t) (= t (Select c a))", "(within J r a)"),
        _rule(
            "part",
            f"(within J r a) (= 0 (kind a)) (= s (free a)) {DEPENDENT('J', 's')} "
            "(= K (set-diff J s)) (< 0 (set-length K))",
            "(part J r K) (wanted K r)",
        ),
        _rule("wanted.product", f"(wanted K t) {number} (= t (Mul a c))", "(wanted K a) (wanted K c)"),
        _rule("wanted.select", "(wanted K t) (= t (Select c a))", "(wanted K a)"),
        _rule("wanted.scale", f"(wanted K t) {number} (= t (Scale p a))", "(wanted K a)"),
    ]


def _splits() -> list[str]:
    product = f"(wanted K t) {NOT_NUMBER('t')} (= t (Mul a c))"
    scaled = f"(wanted K t) {NOT_NUMBER('t')} (= t (Scale p a))"
    free = f"(= s (free a)) {INDEPENDENT('K', 's')}"
    return [
        _rule("solid.atom", f"(wanted K t) (= 0 (kind t)) (= s (free t)) {DEPENDENT('K', 's')}", "(solid K t)"),
        _rule("solid.product", f"{product} (solid K a) (solid K c)", "(solid K t)"),
        _rule("split.at-product", f"{product} {free} (solid K c)", "(split K t a c)"),
        _building("split.left", f"{product} {free} (split K c f d)", "(split K t (Mul a f) d)"),
        _building("split.right", f"{product} (solid K a) (split K c f d)", "(split K t f (Mul a d))"),
        _building("split.both", f"{product} (split K a f d) (split K c g e)", "(split K t (Mul f g) (Mul d e))"),
        _building("split.at-scale", f"{scaled} (solid K a) (= d (dtype a))", "(split K t (Number p d) a)"),
        _building("split.scale", f"{scaled} (split K a f d)", "(split K t (Scale p f) d)"),
        _rule("coded.split", "(split K a f b) (integral b v m)", "(coded K a)"),
        _rule("coded.solid", "(solid K a) (integral a v m)", "(coded K a)"),
    ]


def _integers() -> list[str]:
    """Which float classes hold bounded integers, and the i32 term of them."""
    limit = "(= F (dtype t)) (exact-below F top)"
    return [
        _rule("ordered.compare", "(= t (LessThan a b)) (= d (dtype a)) (integer d)", "(ordered a) (ordered b)"),
        _rule("ordered.cast", "(= t (Cast F a)) (= d (dtype a)) (integer d)", "(ordered t)"),
        _rule(
            "nan-test",
            "(= t (And (Not (LessThan a p)) (Not (LessThan m a)))) (plus-infinity p) (minus-infinity m)",
            "(nan-test t a)",
        ),
        _building(
            "integral.cast",
            "(= t (Cast F a)) (exact-below F top) (= d (dtype a)) (integer d) (holds d m) (<= m top)",
            f"(integral t (Cast {I32} a) m)",
        ),
        _building(
            "integral.number",
            "(= t (Number v F)) (exact-below F top) (= v (floor v)) (<= (max v (neg v)) top)",
            f"(integral t (Number v {I32}) (max v (neg v)))",
        ),
        _building(
            "integral.scale",
            f"(= t (Scale p a)) (!= t a) {NOT_NUMBER('t')} (integral a u m) (= p (floor p)) "
            f"(= n (* m (max p (neg p)))) {limit} (<= n top)",
            "(integral t (Scale p u) n)",
        ),
        _building(
            "integral.product",
            f"(= t (Mul a c)) (integral a u m) (integral c v n) {limit} (<= (* m n) top)",
            "(integral t (Mul u v) (* m n))",
        ),
        _building(
            "integral.sum",
            f"(= t (Add a c)) {NOT_NUMBER('t')} (integral a u m) (integral c v n) {limit} (<= (+ m n) top)",
            "(integral t (Add u v) (+ m n))",
        ),
        _building("integral.select", "(= t (Select c a)) (integral a u m)", "(integral t (Select c u) m)"),
        _building(
            "integral.reduction",
            f"(= t (Sum J a)) {NOT_NUMBER('t')} (integral a u m) (at-most J k) {limit} (<= (* m k) top)",
            "(integral t (Sum J u) (* m k))",
        ),
    ]


FACTS = "\n".join([_RELATIONS, *_class_facts(), *_demand(), *_splits(), *_integers()])
