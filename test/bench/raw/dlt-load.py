"""The same as load.py with a dlt pipeline, used well: files are imported as they are, and the position is in the pipeline's
state. A run that is ended in the middle leaves a load that dlt ends at its next run.
"""
import sys

import dlt
from dlt_pipeline import hints, pipeline_in
from peer import downloads, has_news, note_usage, subscription
from pyarrow import parquet

database, folder = sys.argv[1:]


@dlt.source(name="feed")
def feed():
    state = dlt.current.source_state()
    subscription_id, newest = subscription()
    if "position" in state:
        if has_news(subscription_id, state["position"]):
            raise SystemExit("There is news, of which the bench does not know.")
        return

    def imported(paths):
        for path in paths:
            rows = parquet.read_metadata(path).num_rows
            yield dlt.mark.with_file_import(path, "parquet", rows, hints(path))

    for dataset, paths in downloads(subscription_id, folder):
        yield dlt.resource(imported(paths), name=dataset, write_disposition="replace")

    # dlt stores only what a resource writes into the state.
    def position():
        dlt.current.source_state()["position"] = newest
        yield {"event": newest}

    yield dlt.resource(position, name="positions", write_disposition="replace")


pipeline_in(database).run(feed(), loader_file_format="parquet")
note_usage()
