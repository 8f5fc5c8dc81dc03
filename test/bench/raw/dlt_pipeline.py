"""What the dlt scripts have in common: the pipeline beside its database, and the types of columns."""
import os

import dlt
import duckdb
from pyarrow import parquet


def pipeline_in(database):
    # Files are inserted as they are: dlt declares a geometry as bytes, and DuckDB would read a GEOMETRY.
    connection = duckdb.connect(database)
    connection.execute("SET GLOBAL enable_geoparquet_conversion = false")
    return dlt.pipeline(
        "feed",
        pipelines_dir=os.path.join(os.path.dirname(database), "pipelines"),
        destination=dlt.destinations.duckdb(connection),
        dataset_name="main",
    )


TYPES = {
    "string": "text",
    "int64": "bigint",
    "double": "double",
    "bool": "bool",
    "date32[day]": "date",
    "binary": "binary",
}


def hints(path):
    """The columns as dlt calls their types. A timestamp of Arrow says its unit and its zone, and JSON is an extension."""
    columns = {}
    for field in parquet.read_schema(path):
        kind = str(field.type)
        timestamp = "timestamp" if kind.startswith("timestamp") else "json"
        columns[field.name] = {"data_type": TYPES.get(kind, timestamp)}
    return dlt.mark.make_hints(columns=columns)
