"""What Spark SQL says in other words than DuckDB's, expression by expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark


def call(name: str, *given: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=[one.copy() for one in given])


def _micros(seconds: exp.Expression) -> exp.Expression:
    number = exp.Mul(this=exp.cast(exp.paren(seconds.copy()), "double"), expression=exp.Literal.number("1e6"))
    return exp.cast(call("rint", number), "bigint")


def _unix_micros(instant: exp.Expression) -> exp.Expression:
    return call("unix_micros", exp.cast(instant.copy(), "timestamptz"))


def _named(node: exp.Anonymous) -> exp.Expression:
    name = node.name.lower()
    if name == "epoch_us":
        return _unix_micros(node.expressions[0])
    if name == "isfinite":
        return exp.paren(
            exp.LT(this=call("abs", node.expressions[0]), expression=exp.cast(exp.Literal.string("Infinity"), "double"))
        )
    if name == "timezone":
        zone, instant = node.expressions
        return exp.cast(call("from_utc_timestamp", instant, zone), "timestampntz")
    return node


def _shifted(node: exp.Binary) -> exp.Expression:
    """An instant some seconds before or after another."""
    right = node.expression
    if isinstance(right, exp.Anonymous) and right.name.lower() == "to_seconds":
        whole = type(node)(this=_unix_micros(node.this), expression=_micros(right.expressions[0]))
        return call("timestamp_micros", whole)
    is_epoch = isinstance(right, exp.Cast) and right.this.name == "1970-01-01"
    return call("unix_date", node.this) if is_epoch else node


def _cast(node: exp.Cast) -> exp.Expression:
    """DuckDB rounds to whole numbers, Spark cuts off. Spark works out typeof() when it plans."""
    kind, given = node.to.sql("duckdb"), node.this
    if isinstance(given, exp.Explode):
        return exp.Explode(this=exp.cast(given.this.copy(), f"{kind}[]", dialect="duckdb"))
    if (
        kind not in WHOLE
        or isinstance(given, EXACT)
        or (isinstance(given, exp.Anonymous) and given.name.lower() in EXACT_NAMED)
    ):
        return node
    is_double = exp.EQ(this=call("typeof", given), expression=exp.Literal.string("double"))
    rounded = exp.Cast(this=call("rint", given), to=node.to.copy())
    return exp.If(this=is_double, true=rounded, false=node.copy())


def _series(node: exp.GenerateSeries) -> exp.Expression:
    """Spark's does not take an end before its begin."""
    first, last, step = node.args["start"], node.args["end"], node.args.get("step")
    if node.args.get("is_end_exclusive"):
        first, last = exp.cast(first.copy(), "bigint"), exp.cast(last.copy(), "bigint")
        is_any, last = exp.LT(this=first, expression=last), exp.Sub(this=last.copy(), expression=exp.Literal.number(1))
    else:
        is_any = exp.LTE(this=first.copy(), expression=last.copy())
    given = [first, last, *([step] if step else [])]
    return exp.Case(ifs=[exp.If(this=is_any, true=call("sequence", *given))])


def _window(node: exp.Window) -> exp.Expression:
    of = node.this.this if isinstance(node.this, exp.IgnoreNulls) else node.this
    if isinstance(of, WITHOUT_FRAME):
        node.set("spec", None)
    if isinstance(of, exp.RowNumber | exp.Rank | exp.DenseRank) and not isinstance(node.parent, exp.Cast):
        return exp.cast(node.copy(), "bigint")
    return node


def _as_double(node: exp.Expression) -> exp.Expression:
    return node if isinstance(node.parent, exp.Cast) else exp.cast(node.copy(), "double")


def _length(node: exp.Length) -> exp.Expression:
    counted = call("array_size", node.this) if isinstance(node.this, exp.Split) else node.copy()
    return exp.cast(counted, "bigint")


def _quantile(node: exp.Expression) -> exp.Expression:
    return call("percentile", node.this, node.args.get("expression") or exp.Literal.number("0.5"))


def _joined(node: exp.GroupConcat) -> exp.Expression:
    order, of = None, node.this
    if isinstance(of, exp.Order):
        order, of = of, of.this
    joined = call("listagg", of, node.args["separator"])
    if order is None:
        return joined
    order = order.copy()
    order.set("this", None)
    return exp.WithinGroup(this=joined, expression=order)


WITHOUT_FRAME = (exp.Lag, exp.Lead, exp.RowNumber, exp.Rank, exp.DenseRank)
WHOLE = ("BIGINT", "INT", "INTEGER", "SMALLINT")
EXACT = (exp.Predicate, exp.Literal, exp.Null, exp.Not, exp.Window, exp.RowNumber, exp.Count, exp.Length)
EXACT_NAMED = ("array_size", "unix_date", "rint", "typeof")
REWRITES: dict[type[exp.Expression], Callable[[Any], exp.Expression]] = {
    exp.Add: _shifted,
    exp.Anonymous: _named,
    exp.Cast: _cast,
    exp.Ceil: _as_double,
    exp.Floor: _as_double,
    exp.GenerateSeries: _series,
    exp.GroupConcat: _joined,
    exp.Length: _length,
    exp.Median: _quantile,
    exp.PercentileCont: _quantile,
    exp.Sub: _shifted,
    exp.TimeToUnix: lambda node: exp.paren(exp.Div(this=_unix_micros(node.this), expression=exp.Literal.number("1e6"))),
    exp.UnixToTime: lambda node: call("timestamp_micros", _micros(node.this)),
    exp.Window: _window,
}


class SparkWriter(Spark.Generator):  # type: ignore[misc]
    TRANSFORMS: ClassVar = {**Spark.Generator.TRANSFORMS}
    TRANSFORMS.pop(exp.Select)
    # A name means something else in another part of a query.
    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type]] = set()

    def literal_sql(self, expression: exp.Literal) -> str:
        """A fraction is a double: a decimal rounds."""
        text: str = super().literal_sql(expression)
        return f"{text}D" if not expression.is_string and "." in text and "e" not in text.lower() else text

    def escape_sql(self, expression: exp.Escape) -> str:
        r"""Spark's own escape is \, too."""
        return str(self.sql(expression, "this"))
