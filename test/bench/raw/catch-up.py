"""A plain script that brings a table of `database` to the newest version of a dataset, as an engineer would write it in an hour:
four threads write pages into files, DuckDB reads them with typed columns, the last change of each key counts, and one
transaction deletes and inserts. It checks nothing that the service sends, stores no progress and resumes nothing.
"""
import sys

import duckdb
from peer import fetch_pages, net_change, note_usage

database, dataset, keys, since, folder = sys.argv[1:]
keys = keys.split(",")
newest = fetch_pages(dataset, int(since), folder)

connection = duckdb.connect(database)
connection.execute("SET TimeZone = 'UTC'")
columns = {name: kind for name, kind, *_ in connection.execute(f'DESCRIBE "{dataset}"').fetchall()}
same = " AND ".join(f'net."{name}" = "{dataset}"."{name}"' for name in keys)
connection.execute(f"CREATE TEMP TABLE net AS {net_change(columns, keys, folder)}")
connection.execute("BEGIN")
connection.execute(f'DELETE FROM "{dataset}" USING net WHERE {same}')
connection.execute(f"""INSERT INTO "{dataset}" BY NAME SELECT * EXCLUDE (op) FROM net WHERE op <> 'removed'""")
connection.execute("CREATE TABLE IF NOT EXISTS versions(version BIGINT)")
connection.execute(f"INSERT INTO versions VALUES ({newest})")
connection.execute("COMMIT")
connection.execute("CHECKPOINT")
connection.close()
note_usage()
