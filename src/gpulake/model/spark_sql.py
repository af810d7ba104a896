"""The SQL of models, which DuckDB runs, as Spark SQL with the same meaning.

Each thing that the two engines mean differently is rewritten by name here. What has no equal in Spark (hash keys, JSON,
regular expressions, texts read as numbers, naive local times) is evaluated by DuckDB itself, inside Spark's workers, as
a function of Arrow columns: so keys and texts are the same to the last bit.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from sqlglot import exp, parse_one

from gpulake.core.errors import BuildError
from gpulake.lake.engine import Connection
from gpulake.model.spark_words import REWRITES, SparkWriter, call

# Nodes that only DuckDB evaluates as DuckDB does, and the type of their result.
ONLY_DUCKDB: dict[type[exp.Expression], str] = {
    exp.ArrayToString: "string",
    exp.JSONExtract: "string",
    exp.JSONExtractScalar: "string",
    exp.JSONKeys: "array<string>",
    exp.RegexpExtract: "string",
    exp.RegexpLike: "boolean",
    exp.RegexpReplace: "string",
    exp.Round: "double",
    exp.SplitPart: "string",
}
ONLY_DUCKDB_NAMED = {"cardinality": "bigint", "hash": "bigint", "list_median": "double", "list_sum": "double"}
TYPES = {"BIGINT": "bigint", "DOUBLE": "double", "DATE": "date", "BOOLEAN": "boolean", "TEXT": "string"}
TYPES |= {"TIMESTAMPTZ": "timestamp", "TIMESTAMP": "timestamp_ntz", "TIMESTAMPNTZ": "timestamp_ntz"}
DUCKDB_TYPES = {"bigint": "BIGINT", "double": "DOUBLE", "date": "DATE", "boolean": "BOOLEAN", "string": "VARCHAR"}
DUCKDB_TYPES |= {"timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP", "array<string>": "VARCHAR[]"}
# Of these, arguments that are no columns of a row stay with Spark.
NOT_OF_A_ROW = (exp.AggFunc, exp.Window, exp.Subquery, exp.Explode, exp.Exists)


@dataclass(frozen=True)
class Function:
    """A function of Arrow columns c0, c1, …, which DuckDB evaluates."""

    sql: str
    returns: str

    @property
    def name(self) -> str:
        return "duckdb_" + hashlib.sha256(f"{self.sql} {self.returns}".encode()).hexdigest()[:12]


MEDIAN_OF_OTHERS = Function(
    "CASE WHEN c1 IS NULL THEN list_median(c0)"
    " ELSE list_median(list_concat(c0[:list_position(c0, c1) - 1], c0[list_position(c0, c1) + 1:])) END::DOUBLE",
    "double",
)


@dataclass
class Translation:
    """Of one query. `described` has every table that it reads, without rows, and every step as a view."""

    described: Connection
    functions: dict[str, Function] = field(default_factory=dict)

    def of(self, sql: str) -> str:
        tree = parse_one(sql, read="duckdb")
        self._inline_windows(tree)
        self._expand_whole_rows(tree)
        self._expand_unions_by_name(tree)
        self._expand_replaced_stars(tree)
        self._order_numbers(tree)
        self._find_local_times(tree)
        self._call_duckdb(tree)
        self._leave_own_row_out(tree)
        for node in reversed(list(tree.walk())):
            if rewrite := REWRITES.get(type(node)):
                new = rewrite(node)
                if new is not node:
                    node.replace(new)
        _name_views(tree)
        for cte in tree.find_all(exp.CTE):
            cte.set("materialized", None)
        return str(SparkWriter(dialect="spark").generate(tree))

    def _describe(self, select: exp.Expression, place: exp.Expression) -> list[tuple[str, str]]:
        """Names and types of the columns of a query that stands at this place."""
        rows = self.described.execute(f"DESCRIBE {_within(select, place)}").fetchall()
        return [(str(row[0]), str(row[1])) for row in rows]

    def _inline_windows(self, tree: exp.Expression) -> None:
        """A name before an operator is misread, and some functions take no frame."""
        for select in list(tree.find_all(exp.Select)):
            named = {window.name: window for window in select.args.get("windows") or []}
            select.set("windows", None)
            for window in list(select.find_all(exp.Window)) if named else []:
                if window.alias in named and window.find_ancestor(exp.Select) is select:
                    inline = named[window.alias].copy()
                    inline.set("this", window.this.copy())
                    inline.set("over", "OVER")
                    window.replace(inline)

    def _expand_whole_rows(self, tree: exp.Expression) -> None:
        """`order by rows`: by each of their columns, in which nothing is the greatest."""
        for ordered in list(tree.find_all(exp.Ordered)):
            column, select = ordered.this, ordered.find_ancestor(exp.Select)
            if not isinstance(column, exp.Column) or column.table or select is None:
                continue
            source = next((one for one in _sources(select) if one.alias_or_name == column.name), None)
            if source is None:
                continue
            terms = [
                exp.Ordered(this=exp.column(name, column.name, quoted=True), nulls_first=False)
                for name, _ in self._describe(exp.select("*").from_(source.copy()), ordered)
            ]
            order = ordered.parent
            order.set("expressions", [one for at in order.expressions for one in (terms if at is ordered else [at])])

    def _expand_unions_by_name(self, tree: exp.Expression) -> None:
        for union in reversed([one for one in tree.find_all(exp.Union) if one.args.get("by_name")]):
            sides = [union.this, union.expression]
            described = [dict(self._describe(_without_with(side), side)) for side in sides]
            every = described[1] | described[0]
            names = [*described[0], *(name for name in described[1] if name not in described[0])]
            for side, has in zip(("this", "expression"), described, strict=True):
                picked = [
                    exp.column(name, quoted=True)
                    if name in has
                    else exp.alias_(exp.cast(exp.Null(), every[name], dialect="duckdb"), name, quoted=True)
                    for name in names
                ]
                old = union.args[side]
                with_ = old.args.get("with_")
                old.set("with_", None)
                new = exp.select(*picked).from_(
                    exp.Subquery(this=old.copy(), alias=exp.TableAlias(this=exp.to_identifier("side")))
                )
                new.set("with_", with_)
                union.set(side, new)
            union.set("by_name", False)

    def _expand_replaced_stars(self, tree: exp.Expression) -> None:
        for star in list(tree.find_all(exp.Star)):
            replaced = {one.alias.lower(): one for one in star.args.get("replace") or []}
            if not replaced:
                continue
            select = star.find_ancestor(exp.Select)
            entry = star.parent if isinstance(star.parent, exp.Column) else star
            table = entry.table if isinstance(entry, exp.Column) else None
            plain = exp.Star(except_=star.args.get("except_"))
            every = exp.Column(this=plain, table=exp.to_identifier(table)) if table else plain
            columns = [name for name, _ in self._describe(_asking(select, every), star)]
            expanded = [
                replaced[name.lower()].copy() if name.lower() in replaced else exp.column(name, table, quoted=True)
                for name in columns
            ]
            select.set("expressions", [one for at in select.expressions for one in (expanded if at is entry else [at])])

    def _order_numbers(self, tree: exp.Expression) -> None:
        """Numbers in no order: in that of all columns, so that a part that Spark runs again gives the same."""
        for window in list(tree.find_all(exp.Window)):
            if isinstance(window.this, exp.RowNumber) and not window.args.get("order"):
                select = window.find_ancestor(exp.Select)
                names = [name for name, _ in self._describe(_asking(select, exp.Star()), window)]
                terms = [exp.Ordered(this=exp.column(name, quoted=True), nulls_first=False) for name in names]
                window.set("order", exp.Order(expressions=terms))

    def _find_local_times(self, tree: exp.Expression) -> None:
        for select in tree.find_all(exp.Select):
            calls = [
                one
                for one in select.find_all(exp.Anonymous)
                if one.name.lower() == "timezone" and one.find_ancestor(exp.Select) is select
            ]
            for zoned in calls:
                ((_, kind),) = self._describe(_asking(select, exp.alias_(zoned.expressions[1].copy(), "given")), select)
                zoned.meta["is_naive"] = kind == "TIMESTAMP"

    def _leave_own_row_out(self, tree: exp.Expression) -> None:
        """Spark has no frame without the current row."""
        for window in list(tree.find_all(exp.Window)):
            spec = window.args.get("spec")
            if spec is None or not spec.args.get("exclude"):
                continue
            if not isinstance(window.this, exp.Median):
                raise BuildError(f"{window.sql('duckdb')[:80]} has no equal in Spark", "build with DuckDB")
            self.functions[MEDIAN_OF_OTHERS.name] = MEDIAN_OF_OTHERS
            every = exp.Window(this=call("collect_list", window.this.this), over="OVER")
            every.set("partition_by", [one.copy() for one in window.args["partition_by"]])
            window.replace(call(MEDIAN_OF_OTHERS.name, every, window.this.this))

    # What DuckDB evaluates

    def _call_duckdb(self, tree: exp.Expression) -> None:
        """The outermost expressions that only DuckDB evaluates as it does, as calls of it."""
        pending = [tree]
        while pending:
            node = pending.pop()
            returns = self._returns(node)
            if returns is None:
                pending.extend(node.iter_expressions())
                continue
            given: dict[str, exp.Expression] = {}
            evaluated = self._evaluated(node.copy(), node, given, frozenset())
            if not given:
                # Of constants only.
                (row,) = self.described.execute(f"SELECT {evaluated.sql('duckdb')}").fetchall()
                node.replace(exp.cast(exp.convert(row[0]), returns, dialect="spark"))
                continue
            text = evaluated.sql("duckdb")
            function = Function(f"CAST({text} AS {DUCKDB_TYPES[returns]})", returns)
            self.functions[function.name] = function
            evaluation = call(function.name, *given.values())
            node.replace(evaluation)
            pending.extend(evaluation.expressions)

    def _returns(self, node: exp.Expression) -> str | None:
        """The type of what only DuckDB evaluates, None of anything else."""
        if isinstance(node, exp.Cast):
            kind = TYPES.get(node.to.sql("duckdb"), "string")
            is_text = node.to.sql("duckdb") == "TEXT" and not isinstance(node.this, exp.Null | exp.Literal)
            if isinstance(node, exp.TryCast) or is_text:
                return kind
            # Spark rounds a number itself, and only where a CASE asks for it: a function is called for every row.
            is_key = isinstance(node.this, exp.BitwiseRightShift)
            return kind if (kind != "bigint" or is_key) and self._returns(node.this) else None
        if isinstance(node, exp.Nullif | exp.BitwiseRightShift | exp.Bracket | exp.Paren | exp.Trim | exp.Lower):
            return self._returns(node.this)
        if isinstance(node, exp.Anonymous):
            is_naive = node.meta.get("is_naive")
            return "timestamp" if is_naive else ONLY_DUCKDB_NAMED.get(node.name.lower())
        return ONLY_DUCKDB.get(type(node))

    def _evaluated(
        self, node: exp.Expression, original: exp.Expression, given: dict[str, exp.Expression], bound: frozenset[str]
    ) -> exp.Expression:
        """The expression of c0, c1, …, and what these are."""
        if isinstance(node, exp.Comprehension):
            bound = bound | {node.expression.name}
        is_column = isinstance(node, exp.Column) and node.name not in bound
        if is_column or isinstance(node, NOT_OF_A_ROW):
            text = node.sql("duckdb")
            names = [*given]
            if text not in given:
                given[text] = original.copy()
                names.append(text)
            return exp.column(f"c{names.index(text)}")
        for key, value in list(node.args.items()):
            other = original.args.get(key)
            if isinstance(value, exp.Expression):
                node.set(key, self._evaluated(value, other, given, bound))
            elif isinstance(value, list):
                node.set(
                    key,
                    [
                        self._evaluated(one, old, given, bound) if isinstance(one, exp.Expression) else one
                        for one, old in zip(value, other, strict=True)
                    ],
                )
        return node


def _sources(select: exp.Expression) -> list[exp.Expression]:
    found = [select.args["from_"].this] if select.args.get("from_") else []
    return [*found, *(join.this for join in select.args.get("joins") or [])]


def _asking(select: exp.Expression, column: exp.Expression) -> exp.Select:
    """A query of a column from what another reads."""
    joins = [join.copy() for join in select.args.get("joins") or []]
    return exp.Select(expressions=[column.copy()], from_=select.args["from_"].copy(), joins=joins)


def _without_with(query: exp.Expression) -> exp.Expression:
    query = query.copy()
    query.set("with_", None)
    return query


def _within(select: exp.Expression, place: exp.Expression) -> str:
    """A query with the common table expressions that a place sees. Inner ones may have the names of outer ones."""
    levels: list[list[exp.Expression]] = []
    node: exp.Expression | None = place
    while node is not None:
        if isinstance(node, exp.CTE):
            # Of its own level it sees those before it.
            every = node.parent.expressions
            levels.append(every[: next(at for at, one in enumerate(every) if one is node)])
            node = node.parent.parent
        elif node.args.get("with_") is not None:
            levels.append(node.args["with_"].expressions)
        node = node.parent if node is not None else None
    query = str(select.sql("duckdb"))
    for level in levels:
        if level:
            query = f"WITH {', '.join(cte.sql('duckdb') for cte in level)} SELECT * FROM ({query})"
    return query


def _name_views(tree: exp.Expression) -> None:
    """Every table is a view of the session."""
    for table in tree.find_all(exp.Table):
        if table.db:
            table.set("this", exp.to_identifier(f"{table.catalog}__{table.name}"))
            table.set("db", None)
            table.set("catalog", None)
