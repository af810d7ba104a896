"""The lakehouse on disk: Delta tables in bronze and gold, one immutable database file a build, and the journal.

bronze/<table>/      Delta, append-only: what landed
quarantine/          Delta: rows that did not parse
builds/<id>.duckdb   silver and gold of one build, never changed once published
builds/CURRENT       the name of the build that readers use
gold/<table>/        Delta: gold, for other engines
gold/CURRENT         the build that all of gold has been exported from
archive/             samples rolled up, and rows of past days that were made of them
models/              fitted models, as JSON
<journal>.jsonl      one checksummed line a row: runs, incidents, alerts, recoveries and so on
tests.jsonl          what the data tests of the last build found
staging/             work in progress; there as long as a writer has not come to its end
"""

from gpulake.core.disk import replace_text
from gpulake.lake.engine import lake_errors
from gpulake.lake.reader import LakeReader
from gpulake.lake.store import Lake, Staging

__all__ = ["Lake", "LakeReader", "Staging", "lake_errors", "replace_text"]
