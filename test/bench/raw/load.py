"""A plain script that loads every dataset of the subscription into a table of `database`, and does nothing where it has done so
and the log has no event since. Four threads download files, and DuckDB makes the tables of them. It verifies nothing, and a
run that is ended in the middle leaves some tables and no position.
"""
import sys

import duckdb
from peer import downloads, has_news, note_usage, subscription

database, folder = sys.argv[1:]
connection = duckdb.connect(database)
connection.execute("CREATE TABLE IF NOT EXISTS positions(event VARCHAR)")
stored = connection.execute("SELECT event FROM positions").fetchone()
subscription_id, newest = subscription()
connection.execute("SET TimeZone = 'UTC'")
if stored is None:
    for dataset, paths in downloads(subscription_id, folder):
        rows = f"FROM read_parquet({paths})"
        columns = connection.execute(f"DESCRIBE {rows}").fetchall()
        # The files have times in UTC without saying so, and changes have theirs with an offset.
        zoned = ", ".join(f'"{name}"::TIMESTAMPTZ AS "{name}"' for name, kind, *_ in columns if kind == "TIMESTAMP")
        connection.execute(f'CREATE TABLE "{dataset}" AS SELECT * REPLACE ({zoned}) {rows}')
    connection.execute("INSERT INTO positions VALUES (?)", [newest])
    connection.execute("CHECKPOINT")
elif has_news(subscription_id, stored[0]):
    raise SystemExit("There is news, of which the bench does not know.")
connection.close()
note_usage()
