"""What the plain script and the dlt pipeline have in common: requests, downloads, pages of changes, and the usage that is noted."""
import json
import os
import re
import resource
import threading
from concurrent.futures import ThreadPoolExecutor

import requests

THREADS = 4
own = threading.local()


def get(path, **parameters):
    if not hasattr(own, "session"):
        own.session = requests.Session()
    # A file lies on another origin, which is not to see the key.
    is_service = path.startswith("/")
    response = own.session.get(
        os.environ["BASE_URL"] + path if is_service else path,
        params=parameters,
        headers={"Authorization": f"Bearer {os.environ['API_KEY']}"} if is_service else {},
        timeout=30,
        stream=not is_service,
    )
    response.raise_for_status()
    return response


def listed(path, field, **parameters):
    cursor = None
    while True:
        page = get(path, limit=200, cursor=cursor, **parameters).json()
        yield from page[field]
        cursor = page["nextCursor"]
        if cursor is None:
            return


def subscription():
    [first] = listed("/v1/subscriptions", "subscriptions")
    return first["id"], first["lastEventId"]


def has_news(subscription_id, position):
    return bool(get(f"/v1/subscriptions/{subscription_id}/events", after=position, limit=200).json()["events"])


def download(entry, folder):
    """Returns the paths of the files of a dataset."""
    paths = []
    for number, file in enumerate(entry["files"]):
        path = f"{folder}/{entry['datasetId']}-{number}.parquet"
        with open(path, "wb") as target:
            for chunk in get(file["url"]).iter_content(1 << 20):
                target.write(chunk)
        paths.append(path)
    return entry["datasetId"], paths


def downloads(subscription_id, folder):
    entries = listed(f"/v1/subscriptions/{subscription_id}/manifest", "datasets")
    with ThreadPoolExecutor(THREADS) as pool:
        yield from pool.map(lambda entry: download(entry, folder), list(entries))


def fetch_pages(dataset, since, folder):
    """Writes the pages of all newer versions into files. Returns the newest version."""
    path = f"/v1/datasets/{dataset}"
    records = listed(f"{path}/versions", "versions")
    versions = [record["version"] for record in records if record["version"] > since]

    def fetch(version):
        cursor, number = None, 0
        while number == 0 or cursor is not None:
            body = get(f"{path}/changes", version=version, limit=1000, cursor=cursor).content
            with open(f"{folder}/{version}-{number}.json", "wb") as file:
                file.write(body)
            # To parse the page for its cursor would take most of the time.
            cursor = re.search(rb'"nextCursor":(?:"([^"]*)"|null)\s*}\s*$', body[-1000:]).group(1)
            number += 1

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(fetch, versions))
    return max(versions)


def net_change(columns, keys, folder):
    """SQL of the last change of each key. `columns`: names and types of the table."""
    geometries = [name for name, kind in columns.items() if kind.startswith("GEOMETRY")]
    types = {name: "JSON" if name in geometries else kind for name, kind in columns.items()}

    def struct(names):
        return "STRUCT(" + ", ".join(f'"{name}" {types[name]}' for name in names) + ")"

    def geometry(name):
        coordinates = rf"""regexp_replace("{name}"->>'coordinates', '\[([^],[]+),([^],[]+)\]', '\1 \2', 'g')"""
        return f"""(upper("{name}"->>'type') || ' ' || translate({coordinates}, '[]', '()'))::GEOMETRY AS "{name}" """

    change = f'STRUCT(op VARCHAR, "row" {struct(types)}, "key" {struct(keys)})[]'
    key_of = [f"""coalesce(change."row"."{name}", change."key"."{name}")""" for name in keys]
    key = [f"""coalesce("{name}", "key"."{name}") AS "{name}" """ for name in keys]
    return f"""SELECT * EXCLUDE ("key") REPLACE ({", ".join([*key, *map(geometry, geometries)])}) FROM (
        SELECT last.op AS op, last."key" AS "key", unnest(last."row") FROM (
            SELECT arg_max(change, version) AS last FROM (
                SELECT version, unnest(changes) AS change FROM read_json('{folder}/*.json',
                    maximum_object_size = 67108864, columns = {{version: 'BIGINT', changes: '{change}'}}))
            GROUP BY {", ".join(key_of)}))"""


def note_usage():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    with open(os.environ["BENCH_USAGE_FILE"], "w") as file:
        noted = {"cpuMicroseconds": (usage.ru_utime + usage.ru_stime) * 1e6, "peakKilobytes": usage.ru_maxrss}
        json.dump(noted, file)
